"""What a model reads when its arguments do not fit: where, what is wanted, what came."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.plain_schema import PlainSchema
from antiphon.core.schema import SchemaDocument
from antiphon.core.schema_faults import LONGEST_VALUE, MOST_FAULTS, Fault, explain, shown, told


def why(schema: Any, value: Any) -> list[str]:
    document = SchemaDocument(schema)
    plain = PlainSchema(document)
    assert not plain.test("", schema)(value)
    assert plain.is_plain("")
    return told(explain(document, plain, value)).split("\n")


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"type": "string"}, 5, "must be a text, got 5"),
        ({"type": ["integer", "null"]}, "x", 'must be a whole number or null, got "x"'),
        ({"enum": ["a", 1]}, "b", 'must be one of "a", 1, got "b"'),
        ({"const": {"a": 1}}, 2, 'must be {"a":1}, got 2'),
        ({"minimum": 3}, 1, "must be at least 3, got 1"),
        ({"maximum": 3}, 4, "must be at most 3, got 4"),
        ({"exclusiveMinimum": 3}, 3, "must be more than 3, got 3"),
        ({"exclusiveMaximum": 3}, 3, "must be less than 3, got 3"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2, got 3"),
        ({"minLength": 2}, "a", 'must have at least 2 characters, got "a"'),
        ({"maxLength": 1}, "ab", 'must have at most 1 characters, got "ab"'),
        ({"pattern": "^a"}, "b", 'must match the pattern ^a, got "b"'),
        ({"minItems": 1}, [], "must have at least 1 items, got []"),
        ({"maxItems": 1}, [1, 2], "must have at most 1 items, got [1,2]"),
        ({"uniqueItems": True}, [1, 1], "must not hold the same item twice, got [1,1]"),
        ({"contains": {"type": "null"}}, [], 'must hold the right number of items like {"type":"null"}, got []'),
        ({"minProperties": 1}, {}, "must have at least 1 members, got {}"),
        ({"maxProperties": 0}, {"a": 1}, 'must have at most 0 members, got {"a":1}'),
        ({"not": {"type": "null"}}, None, 'must not be like {"type":"null"}, got null'),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            'lacks a member that goes with another one: {"a":["b"]}, got {"a":1}',
        ),
        (False, 1, "is not allowed, got 1"),
    ],
)
def test_single_faults(schema: Any, value: Any, line: str) -> None:
    (said,) = why(schema, value)

    assert said.startswith(f"- arguments {line}")


def test_places_inside() -> None:
    schema = {
        "$defs": {"n": {"type": "number"}},
        "type": "object",
        "properties": {
            "list": {"prefixItems": [True], "items": {"properties": {"x": {"type": "string"}}, "required": ["x"]}},
            "ref": {"$ref": "#/$defs/n"},
            "gone": {"$ref": "#/$defs/gone"},
            "all": {"allOf": [True, {"type": "null"}]},
        },
        "patternProperties": {"^p_": {"type": "boolean"}},
        "additionalProperties": False,
        "required": ["needed"],
    }
    value = {"list": [1, {"x": 5}, {}], "ref": "x", "gone": 1, "all": 2, "p_1": 3, "extra": 4}

    assert why(schema, value) == [
        "- list[1].x must be a text, got 5",
        "- list[2].x is required and missing",
        '- ref must be a number, got "x"',
        "- gone can't be checked: the tool's schema refers to #/$defs/gone, which it lacks",
        "- all must be null, got 2",
        "- p_1 must be true or false, got 3",
        "- extra is not a known argument",
        "- needed is required and missing",
    ]


def test_members_that_are_not_declared() -> None:
    assert why({"additionalProperties": {"type": "null"}}, {"a": 1}) == ["- a must be null, got 1"]
    assert why({"properties": {"b": {"type": "null"}}}, {"a": 1, "b": 2}) == ["- b must be null, got 2"]
    assert why({"propertyNames": {"maxLength": 1}}, {"a": 1, "bb": 2}) == ["- bb is a name that is not allowed here"]


def test_the_form_that_was_nearly_met_is_explained() -> None:
    one = {"type": "object", "properties": {"kind": {"const": "one"}, "n": {"type": "integer"}}, "required": ["kind"]}
    two = {"type": "object", "properties": {"kind": {"const": "two"}}, "required": ["kind", "t", "u"]}

    assert why({"anyOf": [one, two]}, {"kind": "one", "n": "x"}) == ['- n must be a whole number, got "x"']
    assert why({"anyOf": [{"type": "string"}, {"type": "array"}]}, 5) == [
        "- arguments must be a text, or a list, got 5"
    ]
    assert why({"oneOf": [{"type": "string"}, {"type": "null"}]}, 5) == ["- arguments must be a text, or null, got 5"]
    assert why({"oneOf": [True, True]}, 5) == [
        "- arguments fits more than one of the forms of which it must fit exactly one, got 5"
    ]
    assert why({"anyOf": [{"anyOf": [{"required": ["a"]}, {"type": "null"}]}]}, {}) == ["- a is required and missing"]


def test_conditions() -> None:
    schema = {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}

    assert why(schema, {"a": 1}) == ["- b is required and missing"]
    assert why(schema, {}) == ["- c is required and missing"]


def test_nothing_that_a_model_reads_is_long() -> None:
    huge = {"a": ["x" * 10_000] * 1_000, "lone": "\ud83d"}
    faults = [Fault((), f"is wrong ({n})", huge) for n in range(100)]

    text = told(faults)

    assert len(text) < (MOST_FAULTS + 1) * (LONGEST_VALUE + 60)
    assert text.endswith("- and more")
    assert len(shown(huge)) == LONGEST_VALUE + 1


def test_the_same_is_said_once_and_a_fault_without_value_stays_short() -> None:
    assert told([Fault(("a",), "is wrong"), Fault(("a",), "is wrong")]) == "- a is wrong"
