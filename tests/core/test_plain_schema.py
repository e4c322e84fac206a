"""A yes without the library is a yes of the library; for plain schemas a no is one as well."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.chance_schemas import Chance

from antiphon.core.plain_schema import PlainSchema, simple_pattern
from antiphon.core.schema import SchemaDocument


def verdicts(seed: int) -> list[tuple[bool, bool, bool]]:
    """(our yes, is our no certain, the library's answer) for values and one schema."""
    chance = Chance(seed)
    schema = chance.document()
    try:
        validator = jsonschema_rs.validator_for(schema, validate_formats=True)
        test = (plain := PlainSchema(SchemaDocument(schema))).test("", schema)
        instances = chance.some(lambda: chance.value(3), 8, 8)
        return [(test(each), plain.is_plain(""), validator.is_valid(each)) for each in instances]
    except (ValueError, RecursionError):  # a schema that refers to nothing but itself
        return []


@settings(max_examples=1_500, deadline=None)
@given(st.integers(0, 2**40))
def test_it_never_contradicts_the_library(seed: int) -> None:
    for fits, certain, valid in verdicts(seed):
        assert valid if fits else not (certain and valid)


def test_the_comparison_has_something_to_compare() -> None:
    seen = {verdict for seed in range(400) for verdict in verdicts(seed)}

    assert {(True, True, True), (True, False, True), (False, True, False), (False, False, True)} <= seen


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "strin"},
        {"type": []},
        {"type": 5},
        {"enum": "a"},
        {"minimum": "1"},
        {"multipleOf": 0},
        {"minLength": -1},
        {"maxLength": "3"},
        {"pattern": "(a+)+$"},
        {"pattern": "a*a*a*a*a*"},
        {"pattern": "[b-a]"},
        {"pattern": 3},
        {"items": [{}]},
        {"prefixItems": {}},
        {"contains": {}, "minContains": "x"},
        {"uniqueItems": 1},
        {"properties": []},
        {"patternProperties": {"(a|b)": {}}},
        {"required": "a"},
        {"required": [1]},
        {"dependentRequired": []},
        {"dependentRequired": {"a": "b"}},
        {"allOf": {}},
        {"anyOf": []},
        {"oneOf": 1},
        {"$ref": 1},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"format": "date"},
        {"unheardOf": 1},
        "no schema",
        {"properties": {"a": 5}},
    ],
)
def test_what_is_unusual_or_malformed_is_left_to_the_library(schema: Any) -> None:
    plain = PlainSchema(SchemaDocument(schema))
    test = plain.test("", schema)

    assert not plain.is_plain("")
    assert not all(test(value) for value in ({"a": 1}, "a", 1, [1], None))


def test_a_count_without_contains_and_branches_without_if_mean_nothing() -> None:
    schema = {"minContains": 9, "then": False, "uniqueItems": False}

    assert PlainSchema(SchemaDocument(schema)).test("", schema)([1, 1])


def test_all_keywords_of_a_schema_count_however_many_there_are() -> None:
    schema = {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a", "enum": ["a", "ab", "b", "abcd"]}
    fits = PlainSchema(SchemaDocument(schema)).test("", schema)

    assert [fits(value) for value in ("a", "ab", "b", "abcd", "", 1)] == [True, True, False, False, False, False]


def test_schemas_may_refer_to_each_other_in_circles() -> None:
    """What can't be understood in one part of a circle is felt in all of it."""
    tree = {"properties": {"name": {"type": "string"}, "below": {"items": {"$ref": "#"}}}, "required": ["name"]}
    plain = PlainSchema(SchemaDocument(tree))
    fits = plain.test("", tree)

    assert fits({"name": "a", "below": [{"name": "b", "below": []}]})
    assert not fits({"name": "a", "below": [{"name": "b", "below": [{}]}]})
    assert plain.is_plain("")

    odd = {"properties": {"a": {"items": {"$ref": "#"}}, "b": {"format": "date"}}}
    plain = PlainSchema(SchemaDocument(odd))
    plain.test("", odd)
    assert not plain.is_plain("/properties/a")
    assert plain.is_plain("/properties/a/items") is False


def test_a_reference_that_names_nothing_fits_nothing() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/none"}}}
    plain = PlainSchema(SchemaDocument(schema))

    assert plain.test("", schema)({"b": 1})
    assert not plain.test("", schema)({"a": 1})
    assert plain.is_plain("")


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\d{2}$", "12", True),
        (r"^\d{2}$", "١٢", False),
        (r"^\w+$", "é", False),
        ("a$", "a\n", False),
        ("b+", "abc", True),
        ("^n_", "n_a", True),
    ],
)
def test_simple_patterns_mean_what_they_mean_to_javascript(pattern: str, text: str, found: bool) -> None:
    simple = simple_pattern(pattern)

    assert simple is not None
    assert (simple.search(text) is not None) is found
