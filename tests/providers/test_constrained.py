"""Strict schemas and grammars."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from antiphon.core.declarations import ToolDeclaration
from antiphon.providers.constrained import (
    ANTHROPIC_RULES,
    OPENAI_RULES,
    Grammar,
    NotConvertible,
    grammar_of,
    strict_parameters,
    strict_schema,
)


def schema(required: Any = (), **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def test_all_become_required_and_optional_ones_nullable() -> None:
    given = schema(["a"], a={"type": "string"}, b={"type": "integer"}, c={"type": ["string", "null"]})
    before = copy.deepcopy(given)

    strict = strict_schema(given)

    assert strict == {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "c": {"type": ["string", "null"]},
        },
        "required": ["a", "b", "c"],
        "additionalProperties": False,
    }
    assert given == before, "the schema itself is as before"


def test_objects_inside_are_closed_too() -> None:
    inner = schema(["x"], x={"type": "string"})

    strict = strict_schema(schema(["list", "any"], list={"type": "array", "items": inner}, any={"anyOf": [inner]}))

    assert strict["properties"]["list"]["items"]["additionalProperties"] is False
    assert strict["properties"]["any"]["anyOf"][0]["additionalProperties"] is False


@pytest.mark.parametrize(
    "bad",
    [
        {"type": "string"},
        schema(a=True),
        schema(a={}),
        schema(a={"$ref": "#/x"}),
        schema(a={"oneOf": [{"type": "string"}]}),
        schema(a={"anyOf": []}),
        schema(a={"type": ["object", "null"]}),
        schema(a={"type": "array", "items": [{"type": "string"}]}),
        schema(a={"type": "array", "items": True}),
        schema(a={"type": "string", "properties": {}}),
        schema(a={"type": "object", "additionalProperties": True}),
        schema(a={"type": "object", "additionalProperties": {"type": "string"}}),
        schema(["zz"], a={"type": "string"}),
        {**schema(a={"type": "string"}), "$defs": {}},
    ],
)
def test_what_cannot_be_strict_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(NotConvertible):
        strict_schema(bad)


@pytest.mark.parametrize(
    "node",
    [
        {"type": "number", "minimum": 1},
        {"type": "string", "format": "regex"},
        {"type": "array", "items": {"type": "string"}, "minItems": 2},
    ],
)
def test_anthropic_refuses_more(node: dict[str, Any]) -> None:
    assert strict_schema(schema(["a"], a=node), OPENAI_RULES)
    with pytest.raises(NotConvertible):
        strict_schema(schema(["a"], a=node), ANTHROPIC_RULES)
    assert strict_schema(schema(["a"], a={"type": "string", "format": "date"}), ANTHROPIC_RULES)


def tool(parameters: dict[str, Any], sampling: Any) -> ToolDeclaration:
    return ToolDeclaration(name="t", description="d", parameters=parameters, constrained_sampling=sampling)


def test_a_tool_that_insists_is_refused_by_name() -> None:
    loose = schema(a={})

    assert strict_parameters(tool(loose, {"type": "json_schema", "strict": "prefer"}), OPENAI_RULES) is None
    assert strict_parameters(tool(schema(), False), OPENAI_RULES) is None
    with pytest.raises(NotConvertible, match="tool t requires"):
        strict_parameters(tool(loose, {"type": "json_schema", "strict": "require"}), OPENAI_RULES)


def test_lark_comes_before_a_regular_expression() -> None:
    one = schema(["text"], text={"type": "string"})
    both = {"type": "grammar", "variants": {"openai_regex": "a+", "openai_lark": "start: /a/"}}

    assert grammar_of(tool(one, both)) == Grammar("lark", "start: /a/", "text")
    assert grammar_of(
        tool(one, {"type": "grammar", "variants": {"openai_lark": " ", "openai_regex": "a+"}})
    ) == Grammar("regex", "a+", "text")
    assert grammar_of(tool(one, {"type": "json_schema", "strict": "prefer"})) is None


@pytest.mark.parametrize(
    ("parameters", "variants"),
    [
        (schema(["a"], a={"type": "string"}), {}),
        (schema([], a={"type": "string"}), {"openai_lark": "x"}),
        (schema(["a"], a={"type": "integer"}), {"openai_lark": "x"}),
        (schema(["a", "b"], a={"type": "string"}, b={"type": "string"}), {"openai_lark": "x"}),
    ],
)
def test_a_grammar_needs_one_required_string(parameters: dict[str, Any], variants: dict[str, str]) -> None:
    with pytest.raises(NotConvertible):
        grammar_of(tool(parameters, {"type": "grammar", "variants": variants}))
