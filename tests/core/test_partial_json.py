"""Arguments can be looked at while they stream: tolerant, cheap, and without a change to what was shown before."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from antiphon.core import partial_json
from antiphon.core.partial_json import LONGEST_WORD, NOTHING, PartialReader, read_arguments

FRAGMENTS = [
    '{"',
    '"',
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\\",
    "\\u",
    "\\ud83d",
    "\\ude00",
    "\\n",
    "\\x",
    "00e9",
    " ",
    "\n",
]
FRAGMENTS += ["tru", "true", "nul", "12", "-", ".5", "e", "e3", "a", "x", "\ud83d", "\ude00", "é", "\t", '"a":', '":"']
texts = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def read(*pieces: str) -> Any:
    reader = PartialReader()
    for piece in pieces:
        reader.feed(piece)
    return reader.value


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[a:b] for a, b in zip(ends, ends[1:], strict=False)]


# -- any cut, any text -----------------------------------------------------------------------------------------------


@given(texts, st.lists(st.integers(0, 80), max_size=12))
def test_it_does_not_matter_how_the_text_is_cut_or_how_often_it_is_read(text: str, places: list[int]) -> None:
    reader = PartialReader()
    for number, piece in enumerate(pieces := cut(text, places), 1):
        reader.feed(piece)
        assert repr(reader.value) == repr(read("".join(pieces[:number])))
    assert reader.text == text


@given(texts)
def test_a_snapshot_never_changes(text: str) -> None:
    reader, taken = PartialReader(), []
    for character in text:
        reader.feed(character)
        taken.append((reader.snapshot(), copy.deepcopy(reader.value)))
        taken.append((reader.arguments_now(), copy.deepcopy(reader.arguments)))

    assert all(repr(snapshot) == repr(then) for snapshot, then in taken)


@given(json_values)
def test_a_complete_text_is_read_as_it_stands(value: Any) -> None:
    for spelled in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        shown = PartialReader()
        for character in spelled:
            shown.feed(character)
            assert shown.value is not ...
        assert shown.value == value


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_the_strict_reading_agrees_on_what_is_json(arguments: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(arguments)) == (arguments, UNSET)


# -- single rules ----------------------------------------------------------------------------------------------------


def test_nothing_has_begun() -> None:
    assert PartialReader().value is NOTHING
    assert PartialReader().snapshot() is NOTHING
    assert PartialReader().arguments == {}
    assert read("  ", "-") is NOTHING


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"x\\', {"a": "x"}),
        ('{"a":"x\\u00', {"a": "x"}),
        ('{"a":"x\\u00zz', {"a": "x\\u00zz"}),
        ('{"a":"\\q\\n', {"a": "\\q\n"}),
        ('{"a":1 "b" 2', {"a": 1, "b": 2}),
        ('{"a":1 2 {"x":3} [4] "b":5', {"a": 1, "b": 5}),
        ('{"a":1 {"x":3', {"a": 1}),
        ('{"a":[1}, "b":tr', {"a": [1], "b": True}),
        ('{"a":nope,"b":1', {"b": 1}),
        ('{nope:1,"b":1', {"b": 1}),
        ('{"a":1,"a":"', {"a": ""}),
        ("]}, x [1, 2e", [1, 2]),
        ("1 2", 1),
        ('"x" "y"', "x"),
        ("[1.5e3, -0.25, 12345678901234567890", [1500.0, -0.25, 12345678901234567890]),
    ],
)
def test_tolerance(text: str, value: Any) -> None:
    assert read(text) == value
    assert read(*text) == value


def test_an_open_number_that_turns_out_to_be_none_gives_back_what_it_replaced() -> None:
    reader = PartialReader()
    seen = []
    for piece in ('{"a":1,"b":0,"a":2', "2", "x", ',"c":3', "-", "}"):
        reader.feed(piece)
        seen.append(reader.snapshot())

    assert seen == [
        {"a": 2, "b": 0},
        {"a": 22, "b": 0},
        {"a": 1, "b": 0},
        {"a": 1, "b": 0, "c": 3},
        {"a": 1, "b": 0},
        {"a": 1, "b": 0},
    ]
    assert list(seen[0]) == ["a", "b"]


def test_halves_of_a_surrogate_pair_join_wherever_they_were_cut() -> None:
    assert read('{"a":"\ud83d', '\ude00"}') == {"a": "😀"}
    assert read('{"a":"\\ud83d', '\\ude00"}') == {"a": "😀"}
    assert read('{"a":"x\ud83d', '\\ude00"}') == {"a": "x😀"}
    assert read('{"\ud83d', '\ude00":1}') == {"😀": 1}
    assert read('["\\ude00', '\\ud83d"]') == ["\ude00\ud83d"]
    assert read_arguments('{"k\ud83d\ude00":["\ud83d\\ude00",1]}') == ({"k😀": ["😀", 1]}, UNSET)


def test_only_an_object_is_arguments() -> None:
    reader = PartialReader()
    reader.feed('["a"]')
    assert reader.arguments == {}
    reader = PartialReader()
    reader.feed('{"a":')
    assert reader.arguments == {}
    reader.feed("1")
    assert reader.arguments == {"a": 1}


def test_the_live_value_grows_and_a_snapshot_shares_what_is_closed() -> None:
    reader = PartialReader()
    reader.feed('{"done":[1],"open":["x')
    live, kept = reader.value, reader.snapshot()

    reader.feed('y",2')

    assert reader.value is live
    assert live == {"done": [1], "open": ["xy", 2]}
    assert kept == {"done": [1], "open": ["x"]}
    assert kept["done"] is live["done"]


def test_deep_nesting_is_no_recursion() -> None:
    value = read('{"a":[' * 50_000)
    for _ in range(49_999):
        (value,) = value["a"]
    assert value == {"a": []}
    assert read_arguments('{"a":' * 50_000)[1] is not UNSET
    assert "nested too deeply" in str(read_arguments("[" * 50_000 + "]" * 50_000)[1])


# -- work ------------------------------------------------------------------------------------------------------------


def test_each_character_is_looked_at_once_however_often_the_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The string reader and the tokens together see each piece once; what is carried over is bounded."""
    looked = 0
    scan = PartialReader._scan

    def counting(self: PartialReader, text: str) -> None:
        nonlocal looked
        looked += len(text)
        scan(self, text)

    monkeypatch.setattr(PartialReader, "_scan", counting)
    body = json.dumps({"content": 'a "line" of é text\n' * 20_000, "numbers": list(range(20_000)), "words": "x" * 9})
    reader = PartialReader()
    for start in range(0, len(body), 10):
        reader.feed(body[start : start + 10])
        assert reader.arguments is not None

    assert reader.value == json.loads(body)
    assert looked < 1.5 * len(body)


GROWING = """
from antiphon.core.partial_json import PartialReader
reader, moves, address = PartialReader(), 0, 0
reader.feed('{"content":"')
for _ in range(20_000):
    reader.feed("x" * 20)
    now = id(reader.arguments["content"])
    moves, address = moves + (now != address), now
print(moves)
"""


def test_a_growing_string_is_not_copied_at_each_read() -> None:
    """In place, the text keeps its address most of the time; copying would move it at every piece.

    In a process of its own, since an interpreter that is traced (for coverage) always copies.
    """
    source = str(Path(partial_json.__file__).parents[2])
    moves = subprocess.run([sys.executable, "-c", GROWING], env={"PYTHONPATH": source}, capture_output=True, check=True)

    assert int(moves.stdout) < 4_000


def test_a_word_without_end_stays_bounded() -> None:
    reader = PartialReader()
    for _ in range(1_000):
        reader.feed("9" * 100)
        assert reader.value is NOTHING or len(str(reader.value)) <= LONGEST_WORD
    reader.feed(' {"a":1}')

    assert reader.value == {"a": 1}


# -- the strict reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n\u00a0\ufeff", {}),
        ('{"a":"x\ty\nz"}', {"a": "x\ty\nz"}),
        ('{"p":"C:\\Users\\new\\\\old"}', {"p": "C:\\Users\new\\old"}),
        ('{"a":"\\u00zz\\\\","b\\c":"\\u00e9"}', {"a": "\\u00zz\\", "b\\c": "é"}),
        ('{"a":1e400}', {"a": float("inf")}),
        ('{"a":"\\ud83d"}', {"a": "\ud83d"}),
        ('{"a":123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_what_is_read_in_the_end(text: str, arguments: dict[str, Any]) -> None:
    assert read_arguments(text) == (arguments, UNSET)


@pytest.mark.parametrize(
    "text", ["[1]", "\x1f", "\x85", "null", "12", "true", '"x"', '{"a":1', '{"a":1} x', '{"a":NaN}', '{"a":"C:\\"}']
)
def test_the_error_contains_the_whole_text(text: str) -> None:
    arguments, error = read_arguments(text)

    assert arguments == {}
    assert text in str(error)


def test_the_module_reads_no_more_than_json_has() -> None:
    assert partial_json.read_arguments('{"a":-Infinity}')[1] is not UNSET
