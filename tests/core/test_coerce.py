"""Arguments are brought into the shape that the schema asks for, on a copy and without guessing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.chance_schemas import Chance

from antiphon.core.coerce import Coercion
from antiphon.core.plain_schema import PlainSchema
from antiphon.core.schema import SchemaDocument


class Askable:
    """Answers for schemas with a keyword that only a library knows, and counts how often it is asked."""

    def __init__(self, accepted: Any = None) -> None:
        self.accepted = accepted
        self.asked: list[tuple[str, Any]] = []

    def accepts(self, pointer: str, value: Any) -> bool:
        self.asked.append((pointer, value))
        return bool(value == self.accepted)

    def matches(self, pattern: str, text: str) -> bool:
        self.asked.append((pattern, text))
        return text.startswith("é")


def convert(schema: Any, value: Any, oracle: Askable | None = None) -> Any:
    document = SchemaDocument(schema)
    before = copy.deepcopy(value)
    converted = Coercion(document, PlainSchema(document), oracle or Askable()).convert(value)
    assert value == before
    return converted


def member(schema: Any, value: Any) -> Any:
    """The conversion of one required member."""
    return convert({"type": "object", "properties": {"v": schema}, "required": ["v"]}, {"v": value})["v"]


@pytest.mark.parametrize(
    ("kind", "value", "converted"),
    [
        ("string", 5, "5"),
        ("string", 1e21, "1e+21"),
        ("string", True, "true"),
        ("string", False, "false"),
        ("string", None, "null"),
        ("string", [1], [1]),
        ("number", " 7 ", 7),
        ("number", "TRUE", 1),
        ("number", "false", 0),
        ("number", "-12n", -12),
        ("number", "xn", "xn"),
        ("number", True, 1),
        ("number", None, 0),
        ("number", {}, {}),
        ("integer", "-3.9", -3),
        ("integer", 3.0, 3),
        ("integer", "x", "x"),
        ("integer", float("inf"), float("inf")),
        ("boolean", "True", True),
        ("boolean", "0", False),
        ("boolean", "no", "no"),
        ("boolean", 1, True),
        ("boolean", 0.0, False),
        ("boolean", 2, 2),
        ("boolean", None, False),
        ("boolean", [], []),
        ("null", "Undefined", None),
        ("null", "x", "x"),
        ("null", 0, None),
        ("null", False, None),
        ("null", 1, 1),
        ("array", "a", ["a"]),
        ("object", "a", "a"),
        ("no such type", "1", "1"),
    ],
)
def test_single_types(kind: str, value: Any, converted: Any) -> None:
    got = member({"type": kind}, value)

    assert got == converted
    assert type(got) is type(converted)


@pytest.mark.parametrize(
    ("kinds", "value", "converted"),
    [
        (["integer", "null"], "5", 5),
        (["integer", "null"], "5.5", "5.5"),
        (["integer", "null"], "", None),
        (["integer", "null"], " ", " "),
        (["integer", "null"], 3.0, 3),
        (["integer", "boolean"], None, 0),
        (["number", "string"], True, 1),
        (["number", "string"], 2.0, 2.0),
        (["number", "null"], "x", "x"),
        (["boolean", "string"], 1, True),
        (["boolean", "string"], 0, False),
        (["boolean", "null"], "true", True),
        (["boolean", "null"], "false", False),
        (["boolean", "null"], "1", "1"),
        (["boolean", "array"], None, False),
        (["string", "number"], None, ""),
        (["array", "string"], 5, "5"),
        (["array", "null"], 0, None),
        (["array", "null"], False, None),
        (["array", "null"], 7, 7),
        (["array", 5], {}, {}),
    ],
)
def test_lists_of_types(kinds: list[Any], value: Any, converted: Any) -> None:
    got = member({"type": kinds}, value)

    assert got == converted
    assert type(got) is type(converted)


@pytest.mark.parametrize(
    ("schema", "value", "converted"),
    [
        ({"enum": [1, "1", True, None]}, "1", "1"),
        ({"enum": [1, "1", True, None]}, "true", 1),
        ({"enum": [2.5, [1]]}, "2.5", 2.5),
        ({"enum": [True]}, "1", True),
        ({"const": None}, "null", "null"),
        ({"const": "5"}, 5, "5"),
        ({"enum": "no list", "type": "string"}, 5, "5"),
    ],
)
def test_members_of_an_enumeration(schema: Any, value: Any, converted: Any) -> None:
    assert member(schema, value) == converted


def test_unions_keep_what_a_branch_accepts_and_else_take_the_first_that_fits() -> None:
    number_or_list = {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "array", "items": {"type": "integer"}}]}

    assert member(number_or_list, 7) == 7
    assert member(number_or_list, "7") == 7
    assert member(number_or_list, "1") == [1]
    assert member(number_or_list, "x") == "x"
    assert member({"anyOf": [True]}, "x") == "x"
    assert member({"oneOf": [{"type": "number", "minimum": 5}, {"type": "number", "maximum": 10}]}, "7") == "7"


def test_unions_try_lists_of_types_last() -> None:
    either = {"anyOf": [{"type": ["string", "number"]}, {"type": "boolean"}]}
    nested = {"anyOf": [{"type": "array", "items": {"type": ["number", "null"]}}, {"type": "boolean"}]}

    assert member(either, None) is False
    assert member(nested, "1") is True
    assert member(nested, "5") == [5]


def test_a_library_is_asked_where_the_plain_test_is_not_certain() -> None:
    oracle = Askable(accepted="x@y")
    schema = {"properties": {"v": {"anyOf": [{"format": "email"}, {"type": "integer"}]}}, "required": ["v"]}

    assert convert(schema, {"v": "x@y"}, oracle) == {"v": "x@y"}
    assert oracle.asked == [("/properties/v/anyOf/0", "x@y")]


def test_all_of_converts_in_steps_and_a_reference_alone() -> None:
    schema = {
        "$defs": {"n": {"type": "integer"}},
        "properties": {
            "all": {"allOf": [{"type": "integer"}, {"type": "string"}, True]},
            "ref": {"$ref": "#/$defs/n", "type": "string"},
            "none": {"$ref": "#/$defs/none"},
            "odd": {"$ref": 5},
        },
    }
    given = {"all": "3.9", "ref": "4", "none": "5", "odd": "6"}

    assert convert(schema, given) == {"all": "3", "ref": 4, "none": "5", "odd": "6"}


def test_recursive_schemas() -> None:
    tree = {"properties": {"n": {"type": "integer"}, "below": {"type": "array", "items": {"$ref": "#"}}}}

    assert convert(tree, {"n": "1", "below": {"n": "2", "below": [{"n": "3"}]}}) == {
        "n": 1,
        "below": [{"n": 2, "below": [{"n": 3}]}],
    }


def test_a_null_in_an_optional_property_is_dropped_if_it_would_be_rejected() -> None:
    schema = {
        "$defs": {"s": {"type": "string"}},
        "properties": {
            "must": {"type": "string"},
            "text": {"type": "string"},
            "maybe": {"type": ["string", "null"]},
            "ref": {"$ref": "#/$defs/s"},
            "inner": {"properties": {"x": {"type": "number"}}},
            "asked": {"format": "date"},
        },
        "required": ["must"],
    }
    nulls = dict.fromkeys(["must", "text", "maybe", "ref", "asked", "undeclared"])
    oracle = Askable(accepted=None)

    converted = convert(schema, nulls | {"inner": {"x": None, "y": None}}, oracle)

    assert converted == {
        "must": "null",
        "maybe": None,
        "ref": "null",
        "asked": None,
        "undeclared": None,
        "inner": {"y": None},
    }
    two = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    assert convert(two, {"a": 1, "b": None}) == {"a": "1"}


@pytest.mark.parametrize("beside", ["anyOf", "oneOf", "allOf"])
def test_such_a_null_is_dropped_beside_a_union_too(beside: str) -> None:
    """The union then judges what is left."""
    inner = {"type": "object", "properties": {"e": {"type": "number"}}}
    listed = {"type": "array", "items": {"$ref": "#/$defs/o"}}
    schema = {
        "$defs": {"o": inner},
        "properties": {"n": {"type": "integer"}, "o": inner, "l": listed, "ref": {"$ref": "#/$defs/o"}},
        beside: [{"required": ["m"]}],
    }

    assert convert(schema, {"n": None, "m": None, "o": {"e": None}, "l": [{"e": None}]}) == {
        "m": None,
        "o": {},
        "l": [{}],
    }
    assert convert(schema, {"n": "1", "ref": None}) == {"n": "1", "ref": None}


def test_whether_a_property_accepts_null_is_asked_once() -> None:
    document, oracle = SchemaDocument({"properties": {"a": {"format": "date"}}}), Askable(accepted="never")
    coercion = Coercion(document, PlainSchema(document), oracle)

    assert [coercion.convert({"a": None}), coercion.convert({"a": None})] == [{}, {}]
    assert oracle.asked == [("/properties/a", None)]


def test_members_by_name_by_pattern_and_the_rest() -> None:
    schema = {
        "properties": {"n_a": {"type": "string"}, "plain": True},
        "patternProperties": {"^n_": {"type": "number"}, "^(é|è)": {"type": "boolean"}, "^p": True},
        "additionalProperties": {"type": "integer"},
    }
    given = {"n_a": 1, "n_b": "2", "éa": "true", "plain": "3", "other": "4"}

    assert convert(schema, given) == {"n_a": 1, "n_b": 2, "éa": True, "plain": "3", "other": 4}


def test_lists_by_place_and_the_rest() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "string"}, True], "items": {"type": "boolean"}}
    older = {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}

    assert member(pair, [1, 2, "true"]) == ["1", 2, True]
    assert member(pair, [1]) == ["1"]
    assert member(pair, "a") == "a"
    assert member(older, [1, "2"]) == ["1", 2]
    assert member({"items": {"type": "integer"}}, "5") == "5"
    assert member({"items": {"type": "integer"}}, ["5"]) == [5]
    assert member({"type": "array", "items": {"type": "integer"}}, "5") == [5]


def test_malformed_parts_of_a_schema_convert_nothing() -> None:
    schema = {"properties": [], "patternProperties": 1, "required": "a", "items": 5, "anyOf": 1, "allOf": 2}

    assert convert(schema, {"a": "1"}) == {"a": "1"}
    assert convert(True, "1") == "1"
    assert convert({"properties": {"a": True}, "required": "a"}, {"a": None}) == {"a": None}


def test_what_fits_is_given_back_as_it_is() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    given = {"a": [1, 2]}

    assert convert(schema, given) is given


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**40))
def test_conversion_is_for_what_does_not_fit(seed: int) -> None:
    """A value that fits keeps its value, apart from how a whole number is written."""
    chance = Chance(seed)
    schema = chance.document()
    document = SchemaDocument(schema)
    plain = PlainSchema(document)
    for value in chance.some(lambda: chance.value(3), 5, 5):
        try:
            fits = plain.test("", schema)(value)
            converted = convert(schema, value)
        except RecursionError:
            return
        assert not fits or converted == value
