"""A tool gets what its schema asks for, or the model is told what to repair; nothing is ever accepted unchecked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.content import ToolCall
from antiphon.core.schema import SchemaDocument
from antiphon.loop import arguments
from antiphon.loop.arguments import MOST_SCHEMAS, ArgumentsRefused, check_arguments, compiled, without_dangling

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def call(**given: Any) -> ToolCall:
    return ToolCall(id="c1", name="read", arguments=given)


def refusal(schema: Any, **given: Any) -> str:
    with pytest.raises(ArgumentsRefused) as refused:
        check_arguments(call(**given), schema)
    return str(refused.value)


def of(schema: Any, **more: Any) -> Any:
    """An object with one required member `v`."""
    return {"type": "object", "properties": {"v": schema}, "required": ["v"]} | more


# -- conversion and copies -------------------------------------------------------------------------------------------


@pytest.mark.requirement("S1-11", "S3-122")
def test_the_tool_gets_a_converted_copy_and_the_call_stays_as_it_is() -> None:
    given = {"v": [{"n": "1", "kept": {"x": 1}}]}
    schema = of({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}})
    asked = ToolCall(id="c1", name="t", arguments=given)

    got = check_arguments(asked, schema)
    got["v"][0]["kept"]["x"] = 2

    assert got["v"][0]["n"] == 1
    assert given == {"v": [{"n": "1", "kept": {"x": 1}}]}


def test_even_arguments_that_fit_are_copied() -> None:
    given = call(path="a", more={"deep": [1]})

    got = check_arguments(given, PATH)
    got["more"]["deep"].append(2)

    assert given.arguments == {"path": "a", "more": {"deep": [1]}}


def test_a_whole_number_that_came_as_a_fraction_becomes_whole() -> None:
    got = check_arguments(call(v=[3.0]), of({"type": "array", "items": {"type": "integer"}}))

    assert repr(got) == "{'v': [3]}"


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_refusal_names_tool_place_wish_and_what_came() -> None:
    assert refusal(of({"type": "integer", "minimum": 1}), v="ten", w=1) == (
        'The arguments of tool read do not fit its schema:\n- v must be a whole number, got "ten"'
    )
    assert refusal(PATH) == "The arguments of tool read do not fit its schema:\n- path is required and missing"


def test_arguments_that_were_no_json_are_refused_with_the_problem() -> None:
    broken = ToolCall(id="c1", name="read", arguments={}, arguments_error="not JSON: " + "x" * 100_000)

    with pytest.raises(ArgumentsRefused, match="not JSON: xxx") as refused:
        check_arguments(broken, {})

    assert len(str(refused.value)) < 3_000


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        ({"type": "string", "format": "ipv4"}, "256.0.0.1", '- v must be a valid ipv4, got "256.0.0.1"'),
        ({"format": "date", "type": "string"}, [], "- v must be a text, got []"),
        ({"pattern": r"^\p{Lu}"}, "é", r'- v must match the pattern ^\p{Lu}, got "é"'),
        ({"format": "x", "type": ["integer"]}, "x", '- v must be a whole number, got "x"'),
        ({"format": "x", "enum": [1, 2]}, "x", '- v must be one of 1, 2, got "x"'),
        ({"format": "x", "minimum": 3}, 1, "- v must be at least 3, got 1"),
        ({"format": "x", "required": ["a"]}, {}, "- v.a is required and missing"),
        (
            {"format": "x", "properties": {"b": {}}, "additionalProperties": False},
            {"a": 1},
            "- v.a is not a known argument",
        ),
        ({"unevaluatedProperties": False}, {"a": 1}, "- v.a is not a known argument"),
        ({"format": "x", "propertyNames": {"maxLength": 1}}, {"aa": 1}, "- v.aa is a name that is not allowed here"),
        ({"format": "x", "items": False}, [1], "- v[0] is not allowed, got 1"),
        (
            {"format": "x", "anyOf": [{"type": "null"}, {"type": "object"}]},
            "x",
            'v must be null, or an object, got "x"',
        ),
        ({"format": "x", "anyOf": [{"properties": {"a": {"type": "null"}}}]}, {"a": 1}, "- v.a must be null, got 1"),
        ({"format": "x", "oneOf": [True, True]}, 1, "- v fits none of the allowed forms, got 1"),
        ({"format": "x", "dependentSchemas": {"a": False}}, {"a": 1}, "- v is not allowed"),
        ({"format": "x", "not": {"type": "null"}}, None, '- v must not be like {"type":"null"}, got null'),
        ({"multipleOf": 0.5}, 0.7, "- v must be a multiple of 0.5, got 0.7"),
    ],
)
def test_what_the_library_finds_is_told_in_the_same_words(schema: Any, value: Any, said: str) -> None:
    assert said in refusal(of(schema), v=value)


def test_a_keyword_without_a_phrase_of_ours_is_told_as_the_library_says_it() -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#"}

    assert "is not valid: " in refusal({**schema, "properties": {"v": {"contentEncoding": "base64"}}}, v="*")


# -- what needs the library ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "converted"),
    [
        ({"anyOf": [{"type": "string", "format": "email"}, {"type": "integer"}]}, "7", 7),
        ({"anyOf": [{"type": "string", "format": "email"}, {"type": "integer"}]}, "a@b.co", "a@b.co"),
        ({"patternProperties": {"^(a|b)$": {"type": "integer"}}}, {"a": "1", "c": "2"}, {"a": 1, "c": "2"}),
        ({"patternProperties": {"^(a|b)$": {"type": "integer"}}}, {"\ud83d": "2"}, {"\ud83d": "2"}),
        ({"type": "string", "format": "no such format"}, 5, "5"),
        ({"items": [{"type": "integer"}], "type": "array"}, ["1", "x"], [1, "x"]),
    ],
)
def test_unusual_schemas(schema: Any, value: Any, converted: Any) -> None:
    assert check_arguments(call(v=value), of(schema)) == {"v": converted}


def test_a_place_that_a_pointer_must_spell_with_care() -> None:
    name = "é %/~ x"
    schema = {"properties": {name: {"anyOf": [{"format": "email", "type": "string"}, {"type": "integer"}]}}}

    assert check_arguments(ToolCall(id="c", name="t", arguments={name: "5"}), schema) == {name: 5}


def test_a_reference_that_names_nothing_rejects_only_values_at_its_place() -> None:
    schema = {
        "properties": {
            "a": {"type": "string", "format": "date"},
            "b": {"$ref": "#/$defs/none"},
            "c": {"$ref": "https://example.com/far.json"},
            "$ref": {"const": {"$ref": "#/x"}},
        }
    }

    assert check_arguments(call(a="2024-01-31"), schema) == {"a": "2024-01-31"}
    assert "- b is not allowed" in refusal(schema, a="x", b=1)
    assert "- c is not allowed" in refusal(schema, a="x", c=1)
    assert check_arguments(call(**{"a": "2024-01-31", "$ref": {"$ref": "#/x"}}), schema)


def test_only_schemas_lose_their_references() -> None:
    kept = {"properties": {"$ref": {"type": "string"}}, "const": {"$ref": "#/x"}, "allOf": [{"$ref": "#"}]}

    assert without_dangling(SchemaDocument(kept)) == kept
    assert without_dangling(SchemaDocument({"allOf": [{"$ref": "#/x"}], "not": 5})) == {"allOf": [False], "not": 5}
    meta = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert without_dangling(SchemaDocument(meta)) == meta


def test_lone_surrogates_can_be_checked() -> None:
    assert check_arguments(call(v="\ud83d"), of({"type": "string", "format": "x"})) == {"v": "\ud83d"}
    assert "got" in refusal(of({"type": "string", "format": "date"}), v="\ud83d")


@pytest.mark.parametrize(
    "schema", [{"type": "strin"}, {"required": "a"}, {"pattern": "("}, {"$schema": "urn:nowhere", "type": "object"}]
)
def test_a_schema_that_is_not_valid_is_said_to_be_so(schema: Any) -> None:
    assert "the tool's schema is not valid" in refusal(schema, v="x")


def test_a_schema_that_is_no_json() -> None:
    assert "is no JSON" in refusal({"const": object()}, v=1)


def test_arguments_that_a_tool_prepared_into_something_else_than_json() -> None:
    assert "they are no JSON" in refusal(of({"type": "string"}), v=object())
    assert "can't be checked" in refusal(of({"format": "date"}), v={1, 2})
    assert "can't be checked" in refusal(of({"format": "x", "anyOf": [{"format": "y", "maximum": 3}]}), v={1: 2})


def test_several_places_are_asked_about() -> None:
    forms = {"anyOf": [{"type": "string", "format": "email"}, {"type": "string", "format": "ipv4"}]}

    assert check_arguments(call(v="127.0.0.1", w="a@b.co"), {"properties": {"v": forms, "w": forms}})
    assert "must be a valid email, or a valid ipv4" in refusal({"properties": {"v": forms}}, v="x")


def test_what_is_nested_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(5_000):
        inner["a"] = inner = {}

    assert "nested too deeply" in refusal(PATH, path="x", deep=deep)
    assert "nested too deeply" in refusal({"$ref": "#"}, v=1)


def test_without_the_library_plain_schemas_still_work_and_others_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    mail = of({"type": "string", "format": "email", "title": "not installed"})

    assert check_arguments(call(path=5), PATH) == {"path": "5"}
    assert "is required" in refusal(PATH)
    assert "antiphon[schema]" in refusal(mail, v="a@b.co")


def test_the_library_is_not_loaded_for_plain_schemas() -> None:
    """In a process of its own: what is plain costs no import."""
    program = (
        "import sys\n"
        "from antiphon.core.content import ToolCall\n"
        "from antiphon.loop.arguments import check_arguments\n"
        f"check_arguments(ToolCall(id='c', name='t', arguments={{'path': 5}}), {PATH!r})\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
    )
    source = str(Path(arguments.__file__).parents[2])

    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": source}, check=True)


# -- compiled once ---------------------------------------------------------------------------------------------------


def test_a_schema_is_compiled_once_for_the_object_and_for_equal_ones() -> None:
    schema = {"type": "object", "title": "compiled once"}

    assert compiled(schema) is compiled(schema)
    assert compiled(schema) is compiled(dict(schema))
    assert compiled(schema) is not compiled({"type": "object", "title": "another one"})


def test_the_cache_is_bounded_and_an_id_used_again_is_no_other_schema() -> None:
    for number in range(MOST_SCHEMAS + 50):
        schema = {"const": number}
        assert check_arguments(ToolCall(id="c", name="t", arguments=number), schema) == number  # type: ignore[arg-type]

    assert len(arguments._by_identity) <= MOST_SCHEMAS
    assert len(arguments._by_content) <= MOST_SCHEMAS
