"""Tool declarations as Anthropic Messages wants them."""

from __future__ import annotations

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.wire import JsonObject
from antiphon.providers import house_texts
from antiphon.providers.constrained import ANTHROPIC_RULES, NotConvertible, strict_parameters, wants_strict
from antiphon.providers.dialects import AnthropicDialect

_ROOT_KEYWORDS = ("additionalProperties", "$defs", "definitions")


def wire_tool(tool: ToolDeclaration, dialect: AnthropicDialect, *, strict: bool) -> JsonObject:
    """One tool. `strict` false: tools that only prefer strict sampling go without it.

    Raises:
        NotConvertible: the tool requires strict sampling and cannot have it.
    """
    schema = _strict_schema(tool, dialect, strict=strict)
    out: JsonObject = {"name": tool.name, "description": tool.description}
    if dialect.supports_eager_tool_input_streaming:
        out["eager_input_streaming"] = True
    if schema is not None:
        return {**out, "strict": True, "input_schema": schema}
    return {**out, "input_schema": plain_schema(tool.parameters)}


def _strict_schema(tool: ToolDeclaration, dialect: AnthropicDialect, *, strict: bool) -> JsonObject | None:
    wish = wants_strict(tool)
    if wish == "require" and not dialect.supports_strict_tools:
        raise NotConvertible(f"tool {tool.name} requires strict sampling, which this server does not have")
    if not dialect.supports_strict_tools or (wish == "prefer" and not strict):
        return None
    return strict_parameters(tool, ANTHROPIC_RULES)


def plain_schema(parameters: JsonObject) -> JsonObject:
    """The keywords of the root that the server knows; whatever else stands there is not sent."""
    schema: JsonObject = {
        "type": "object",
        "properties": parameters.get("properties") or {},
        "required": parameters.get("required") or [],
    }
    schema.update({name: parameters[name] for name in _ROOT_KEYWORDS if name in parameters})
    return schema


def placeholder() -> JsonObject:
    """A tool that is never loaded: it stands for the feature, so that a later change leaves the list as it is."""
    return {
        "name": house_texts.PLACEHOLDER_NAME,
        "description": house_texts.PLACEHOLDER_DESCRIPTION,
        "input_schema": {"type": "object", "properties": {}, "required": []},
        "defer_loading": True,
    }


def tool_list(tools: tuple[ToolDeclaration, ...], dialect: AnthropicDialect, *, strict: bool) -> list[JsonObject]:
    """The tools at the top, without marks."""
    return [wire_tool(tool, dialect, strict=strict) for tool in tools]


def marked_tools(
    tools: list[JsonObject], mark: JsonObject | None, dialect: AnthropicDialect, *, keep_place: bool
) -> list[JsonObject]:
    """The tools with a cache mark. `keep_place`: they change in the conversation, so the placeholder ends the list."""
    out = list(tools)
    if out and mark is not None and dialect.supports_cache_control_on_tools:
        out[-1] = {**out[-1], "cache_control": mark}
    return [*out, placeholder()] if keep_place else out


def prefers_strict(tools: list[JsonObject], declared: tuple[ToolDeclaration, ...]) -> bool:
    """Is there a tool that goes out strict although it only prefers to?"""
    pairs = zip(tools, declared, strict=False)
    return any(tool.get("strict") is True and wants_strict(declaration) == "prefer" for tool, declaration in pairs)
