"""Tools whose arguments the provider samples under constraint: strict schemas and grammars.

Source: providers specification 7.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.wire import JsonObject

_NEVER = frozenset(
    (
        *("$ref", "$defs", "definitions", "allOf", "oneOf", "patternProperties", "dependentSchemas", "dependencies"),
        *("unevaluatedProperties", "propertyNames", "contains", "prefixItems", "not", "if", "then", "else"),
    )
)


class StrictRules(Struct, frozen=True):
    """What one provider refuses besides. `formats`: string formats it knows, None if it knows all."""

    refused: frozenset[str] = frozenset()
    formats: frozenset[str] | None = None
    min_items: frozenset[int] | None = None


OPENAI_RULES = StrictRules()
ANTHROPIC_RULES = StrictRules(
    refused=frozenset(
        (
            *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxItems", "uniqueItems"),
            *("minContains", "maxContains", "minProperties", "maxProperties"),
        )
    ),
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")),
    min_items=frozenset((0, 1)),
)


class NotConvertible(ValueError):
    """The schema cannot be made strict; the text says why."""


def strict_schema(schema: JsonObject, rules: StrictRules = OPENAI_RULES) -> JsonObject:
    """A strict copy: no further properties, all required, optional ones nullable.

    Raises:
        NotConvertible: strict sampling cannot express the schema.
    """
    if schema.get("type") != "object":
        raise NotConvertible("the root is not an object")
    return _strict(schema, rules)


def _strict(schema: Any, rules: StrictRules) -> JsonObject:
    if not isinstance(schema, dict):
        raise NotConvertible("a boolean schema")
    node = cast("JsonObject", schema)
    _check_node(node, rules)
    out = dict(node)
    if "anyOf" in node:
        out["anyOf"] = _branches(node["anyOf"], rules)
    if "items" in node:
        out["items"] = _strict(node["items"], rules)
    if _has_type(node, "object") or "properties" in node:
        _close_object(node, out, rules)
    return out


def _check_node(node: JsonObject, rules: StrictRules) -> None:
    for name in node:
        if name in _NEVER or name in rules.refused:
            raise NotConvertible(f"keyword {name}")
    if "type" not in node and "anyOf" not in node and "enum" not in node:
        raise NotConvertible("a node with neither type, anyOf nor enum")
    types = node.get("type")
    if isinstance(types, list) and {"object", "array"} & set(cast("list[str]", types)):
        raise NotConvertible("a union with object or array members")
    if isinstance(node.get("items"), list):
        raise NotConvertible("tuple items")
    if "properties" in node and not _has_type(node, "object"):
        raise NotConvertible("properties on something that is no object")
    if rules.formats is not None and "format" in node and node["format"] not in rules.formats:
        raise NotConvertible(f"format {node['format']}")
    if rules.min_items is not None and "minItems" in node and node["minItems"] not in rules.min_items:
        raise NotConvertible(f"minItems {node['minItems']}")


def _branches(given: Any, rules: StrictRules) -> list[JsonObject]:
    branches = given if isinstance(given, list) else []
    if not branches:
        raise NotConvertible("an empty anyOf")
    return [_strict(branch, rules) for branch in branches]


def _has_type(node: JsonObject, name: str) -> bool:
    types = node.get("type")
    return types == name or (isinstance(types, list) and name in types)


def _close_object(node: JsonObject, out: JsonObject, rules: StrictRules) -> None:
    if node.get("additionalProperties", False) is not False:
        raise NotConvertible("additionalProperties")
    properties = cast("JsonObject", node.get("properties") or {})
    required = cast("list[str]", node.get("required") or [])
    unknown = [name for name in required if name not in properties]
    if unknown:
        raise NotConvertible(f"required names unknown property {unknown[0]}")
    strict = {name: _strict(schema, rules) for name, schema in properties.items()}
    out["properties"] = {
        name: schema if name in required or _allows_null(schema) else {"anyOf": [schema, {"type": "null"}]}
        for name, schema in strict.items()
    }
    out["required"] = list(properties)
    out["additionalProperties"] = False


def _allows_null(schema: JsonObject) -> bool:
    if "enum" in schema:
        return None in schema["enum"] and (_has_type(schema, "null") or "type" not in schema)
    return _has_type(schema, "null") or any(_allows_null(branch) for branch in schema.get("anyOf", ()))


def wants_strict(tool: ToolDeclaration) -> str | None:
    """`prefer` or `require` if the tool asks for schema-constrained sampling."""
    sampling = tool.constrained_sampling
    if not isinstance(sampling, dict) or sampling.get("type") != "json_schema":
        return None
    strict = sampling.get("strict")
    return strict if strict in ("prefer", "require") else None


def strict_parameters(tool: ToolDeclaration, rules: StrictRules) -> JsonObject | None:
    """The strict schema of a tool that asks for one; None if it does not, or does not insist and cannot have it.

    Raises:
        NotConvertible: it insists (`require`); the text names tool and reason.
    """
    wish = wants_strict(tool)
    if wish is None:
        return None
    try:
        return strict_schema(tool.parameters, rules)
    except NotConvertible as reason:
        if wish == "require":
            raise NotConvertible(f"tool {tool.name} requires strict sampling, but its schema has {reason}") from None
        return None


class Grammar(Struct, frozen=True):
    """A grammar for the single string argument `argument` of a tool."""

    syntax: str
    definition: str
    argument: str


def grammar_of(tool: ToolDeclaration) -> Grammar | None:
    """The grammar that a tool asks for, Lark before regular expression; None if it asks for none.

    Raises:
        NotConvertible: it asks for one but is not a tool of exactly one required string.
    """
    sampling = tool.constrained_sampling
    if not isinstance(sampling, dict) or sampling.get("type") != "grammar":
        return None
    variants = cast("JsonObject", sampling.get("variants") or {})
    for name, syntax in (("openai_lark", "lark"), ("openai_regex", "regex")):
        definition = variants.get(name)
        if isinstance(definition, str) and definition.strip():
            return Grammar(syntax, definition, _only_string(tool))
    raise NotConvertible(f"tool {tool.name} asks for a grammar but brings none")


def _only_string(tool: ToolDeclaration) -> str:
    properties = tool.parameters.get("properties")
    names = list(cast("JsonObject", properties)) if isinstance(properties, dict) else []
    required = tool.parameters.get("required")
    if tool.parameters.get("type") == "object" and len(names) == 1 and required == names:
        schema = cast("JsonObject", properties)[names[0]]
        if isinstance(schema, dict) and cast("JsonObject", schema).get("type") == "string":
            return names[0]
    raise NotConvertible(f"tool {tool.name} asks for a grammar, so it must have exactly one required string argument")
