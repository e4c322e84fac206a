"""JSON as it travels: tolerant in, clean out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers import wire_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_is_read(value: Any) -> None:
    assert wire_json.read(wire_json.encode(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "line\nbreak\ttab"}', {"a": "line\nbreak\ttab"}),
        (r'{"path": "C:\dir\new"}', {"path": "C:\\dir\new"}),
        (r'{"a": "\q \u12 \\ \" \u00e9"}', {"a": '\\q \\u12 \\ " é'}),
        (r'"\ud83d"', "\ud83d"),
        (r'"\ud83d\ude00"', "😀"),
        ("123456789012345678901234567890", 123456789012345678901234567890),
    ],
)
def test_what_careless_writers_write_is_read(text: str, value: Any) -> None:
    assert wire_json.read(text) == value
    assert wire_json.read(text.encode("utf-8")) == value


@pytest.mark.parametrize("text", ["", "{", "{oops", "NaN", "[1,]", "{} {}", "[DONE]", "[" * 200_000, "\ufffe"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        wire_json.read(text)


def test_bytes_that_are_no_utf8_are_read_with_marks() -> None:
    assert wire_json.read(b'{"a": "\xff"}') == {"a": "\ufffd"}


def test_lone_surrogates_are_removed_and_pairs_joined_on_the_way_out() -> None:
    value = {"a\ud83d": ["x\ud83dy", "\ud83d\ude00", {"n": 1}]}

    assert json.loads(wire_json.encode(value)) == {"a": ["xy", "😀", {"n": 1}]}


@given(st.text(st.characters(codec=None)))
def test_a_clean_text_can_be_sent(text: str) -> None:
    assert wire_json.clean(text).encode("utf-8") is not None
