"""Rows of the specification and tests point at each other, in both directions."""

from __future__ import annotations

import ast

import pytest

from tests.requirements import ROWS, TESTS, WITHOUT_TEST, _marked, marks

MARKS = marks()


def test_every_mark_names_a_row() -> None:
    unknown = {row: tests for row, tests in MARKS.items() if row not in ROWS}

    assert unknown == {}


def test_every_row_has_a_test_or_a_written_reason() -> None:
    neither = sorted(row for row in ROWS if row not in MARKS and row not in WITHOUT_TEST)

    assert neither == []


def test_no_row_has_both_a_test_and_a_reason_to_have_none() -> None:
    assert sorted(set(MARKS) & set(WITHOUT_TEST)) == []
    assert sorted(set(WITHOUT_TEST) - set(ROWS)) == []
    assert all(WITHOUT_TEST.values())


def test_the_rows_are_all_there() -> None:
    wanted = {*(f"S0-{n}" for n in range(1, 68)), *(f"S1-{n}" for n in range(1, 26))}
    wanted |= {*(f"S3-{n}" for n in range(1, 123)), *(f"X{n}" for n in range(1, 17)), "X1b"}

    assert set(ROWS) == wanted


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        ("@requirement('X1', 'X2')\ndef test_a(): ...", ["X1", "X2"]),
        ("@pytest.mark.requirement('X1')\nasync def test_a(): ...", ["X1"]),
        ("pytestmark = [pytest.mark.slow, pytest.mark.requirement('X3')]\ndef test_a(): ...", ["X3"]),
        ("@requirement('X1')\ndef made(): ...", []),
    ],
)
def test_marks_are_read_wherever_they_stand(source: str, rows: list[str]) -> None:
    assert [row for _, row in _marked(ast.parse(source))] == rows


def test_the_tests_are_where_they_are_looked_for() -> None:
    assert (TESTS / "test_requirements.py").is_file()
