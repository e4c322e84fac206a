"""A conversation and options -> one request to `POST /models/MODEL:streamGenerateContent`.

Source: provider specification, 4.5.
"""

from __future__ import annotations

from typing import Any, cast

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.model import Model
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers.answer_format import gemini_config
from antiphon.providers.constrained import OPENAI_RULES, NotConvertible, strict_parameters, wants_strict
from antiphon.providers.estimate import output_cap
from antiphon.providers.google_generative_ai.dialect import GeminiDialect, budget_for, gemini_dialect
from antiphon.providers.handoff import RewriteId, plain_id_64
from antiphon.providers.levels import clamp_level, is_switched_off, word_for
from antiphon.providers.options import CallOptions
from antiphon.providers.wire_json import clean

_NAMED_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = (
    "items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties", "unevaluatedProperties",
    "propertyNames", "not", "if", "then", "else",
)  # fmt: skip


def const_as_enum(schema: JsonValue) -> JsonValue:
    """The schema with `const` texts and numbers as one-value `enum`s, which the API knows.

    Only where a schema stands: a property may be called `const`, and examples are data.
    """
    if isinstance(schema, list):
        return [const_as_enum(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: JsonObject = {}
    for name, value in cast("JsonObject", schema).items():
        if name == "const" and isinstance(value, str | int | float) and not isinstance(value, bool):
            out["enum"] = [value]
        elif name in _NAMED_SCHEMAS and isinstance(value, dict):
            out[name] = {key: const_as_enum(item) for key, item in cast("JsonObject", value).items()}
        elif name in _SCHEMAS or name in _SCHEMA_LISTS:
            out[name] = const_as_enum(value)
        else:
            out[name] = value
    return out


def function_declarations(tools: tuple[ToolDeclaration, ...], dialect: GeminiDialect) -> tuple[list[JsonObject], bool]:
    """The tools, and whether one of them is to be sampled strictly.

    Raises:
        NotConvertible: a tool requires strict sampling and cannot have it.
    """
    declarations: list[JsonObject] = []
    any_strict = False
    for tool in tools:
        schema = _strict_schema(tool, dialect)
        any_strict = any_strict or schema is not None
        parameters = const_as_enum(tool.parameters if schema is None else schema)
        declarations.append({"name": tool.name, "description": tool.description, "parametersJsonSchema": parameters})
    return declarations, any_strict


def _strict_schema(tool: ToolDeclaration, dialect: GeminiDialect) -> JsonObject | None:
    if dialect.strict_tools:
        return strict_parameters(tool, OPENAI_RULES)
    if wants_strict(tool) == "require":
        raise NotConvertible(f"tool {tool.name} requires strict sampling, which this model does not have")
    return None


def calling_mode(choice: Any, *, any_strict: bool) -> str | None:
    """The mode of function calling; None leaves it to the server."""
    if choice in ("none", "any"):
        return cast("str", choice).upper()
    if any_strict:
        return "VALIDATED"
    return "AUTO" if choice == "auto" else None


def thinking_config(model: Model, options: CallOptions, dialect: GeminiDialect) -> JsonObject | None:
    """What is asked of the model in the way of thinking; None: nothing is said."""
    if not model.reasoning:
        return None
    if options.is_raw:
        return _raw_thinking(model, options, dialect)
    if options.level is None:
        return _no_thinking(model, dialect)
    if dialect.thinking_levels:
        return {"includeThoughts": True, "thinkingLevel": word_for(model, options.level).upper()}
    custom = options.thinking_budgets.get("high" if options.level in ("xhigh", "max") else options.level)
    budget = budget_for(model, options.level) if custom is None else int(custom)
    return {"includeThoughts": True, "thinkingBudget": budget}


def _no_thinking(model: Model, dialect: GeminiDialect) -> JsonObject:
    """Off; a model that cannot be switched off thinks as little as it can, and keeps its thoughts to itself."""
    if not is_switched_off(model, "off"):
        return {"thinkingBudget": 0}
    least = clamp_level(model, "off")
    if dialect.thinking_levels:
        return {"thinkingLevel": word_for(model, least).upper()}
    return {"thinkingBudget": budget_for(model, least)}


def _raw_thinking(model: Model, options: CallOptions, dialect: GeminiDialect) -> JsonObject | None:
    wish = options.raw_get("thinking")
    if not isinstance(wish, dict):
        return None
    thinking = cast("JsonObject", wish)
    if not thinking.get("enabled"):
        return _no_thinking(model, dialect)
    config: JsonObject = {"includeThoughts": True}
    if thinking.get("level") is not None:
        config["thinkingLevel"] = thinking["level"]
    elif (budget := thinking.get("budgetTokens", thinking.get("budget_tokens"))) is not None:
        config["thinkingBudget"] = budget
    return config


def generation_config(model: Model, options: CallOptions, dialect: GeminiDialect, context_tokens: int) -> JsonObject:
    """Temperature, cap and thinking. The unified entry always sends a cap."""
    config: JsonObject = {}
    if options.temperature is not None:
        config["temperature"] = options.temperature
    if not options.is_raw:
        config["maxOutputTokens"] = output_cap(model, options.max_tokens, context_tokens)
    elif options.max_tokens is not None:
        config["maxOutputTokens"] = options.max_tokens
    thinking = thinking_config(model, options, dialect)
    if thinking is not None:
        config["thinkingConfig"] = thinking
    config.update(gemini_config(options.response_schema))
    return config


def body_fields(
    model: Model,
    options: CallOptions,
    dialect: GeminiDialect,
    *,
    prompt: str,
    tools: tuple[ToolDeclaration, ...],
    context_tokens: int,
) -> JsonObject:
    """The body without `contents`."""
    fields: JsonObject = {"generationConfig": generation_config(model, options, dialect, context_tokens)}
    if text := clean(prompt):
        fields["systemInstruction"] = {"role": "user", "parts": [{"text": text}]}
    if tools:
        declarations, any_strict = function_declarations(tools, dialect)
        fields["tools"] = [{"functionDeclarations": declarations}]
        mode = calling_mode(options.tool_choice, any_strict=any_strict)
        if mode is not None:
            fields["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return fields


def endpoint(model: Model) -> str:
    return f"{model.base_url.rstrip('/')}/models/{model.id}:streamGenerateContent?alt=sse"


def rewriter(model: Model) -> RewriteId | None:
    """What becomes of call ids that other models made; nothing where ids are not sent."""
    return plain_id_64 if gemini_dialect(model).call_ids else None
