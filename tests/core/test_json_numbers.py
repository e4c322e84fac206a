"""Numbers are printed and read as JavaScript does it; what Python knows exactly stays exact."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.json_numbers import json_text, number_from_text, number_text, whole_if_exact


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (-0.0, "0"),
        (5.0, "5"),
        (0.1, "0.1"),
        (-1.5, "-1.5"),
        (123456.789, "123456.789"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (10**21, "1e+21"),
        (1.25e300, "1.25e+300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.234e-9, "-1.234e-9"),
        (12345678901234567890, "12345678901234567890"),
        (10**400, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_printing(number: float, text: str) -> None:
    assert number_text(number) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        (" \u00a0\ufeff\n", 0),
        (" 7 ", 7),
        ("+4", 4),
        ("-3.9", -3.9),
        ("1e3", 1000),
        ("5.0", 5),
        (".5", 0.5),
        ("1.", 1),
        ("0x1F", 31),
        ("0B101", 5),
        ("0o17", 15),
        ("9007199254740993", 9007199254740993),
        ("1e300", 1e300),
        ("0x" + "0" * 400 + "f", 15),
    ],
)
def test_reading(text: str, number: float) -> None:
    read = number_from_text(text)

    assert read == number
    assert type(read) is type(number)


NO_NUMBERS = ["abc", "1_000", "1,5", "٣", "-0x1", "NaN", "Infinity", "1e999", ".", "-", "1e", "5s"]
NO_NUMBERS += ["9" * 310, "9" * 500, "0x" + "f" * 257, "0b" + "1" * 1025]


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_what_is_no_finite_number(text: str) -> None:
    assert number_from_text(text) is None


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20))
def test_what_is_printed_is_read_again(number: float) -> None:
    read = number_from_text(number_text(number))

    assert read is not None
    assert float(read) == float(number)


def test_whole_numbers() -> None:
    assert type(whole_if_exact(3.0)) is int
    assert whole_if_exact(1e300) == 1e300
    assert whole_if_exact(math.inf) is None


def test_whole_values_are_written_as_javascript_writes_them() -> None:
    assert json_text({"a": [1.0, 1e21, 1e-7, True, None, math.inf, 10**400], "é": "\u2028\x07", "half": "\ud83d"}) == (
        '{"a":[1,1e+21,1e-7,true,null,null,null],"é":"\u2028\\u0007","half":"\\ud83d"}'
    )
