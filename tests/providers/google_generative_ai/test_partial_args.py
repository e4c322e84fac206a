"""Arguments that arrive as paths and values."""

from __future__ import annotations

import time
from typing import Any

import pytest

from antiphon.providers.google_generative_ai.partial_args import PartialArguments, path_steps


def built(*pieces: Any) -> dict[str, Any]:
    arguments = PartialArguments()
    for piece in pieces:
        arguments.add(piece)
    return arguments.build()


def text(path: str, words: str, *, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": words, "willContinue": more}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.a", ["a"]),
        ("$.a.b[0][12].c", ["a", "b", 0, 12, "c"]),
        ("$['a b']", ["a b"]),
        ('$["it\'s"]', ["it's"]),
        (r"$['it\'s'].x", ["it's", "x"]),
        ("$.größe", ["größe"]),
        ("$", None),
        ("", None),
        ("a.b", None),
        ("$.", None),
        ("$..a", None),
        ("$.a[", None),
        ("$.a[x]", None),
        ("$.a[-1]", None),
        ("$." + ".".join("a" * 101), None),
    ],
)
def test_paths(path: str, steps: list[str | int] | None) -> None:
    assert path_steps(path) == steps


def test_values_of_every_kind_find_their_place() -> None:
    assert built(
        text("$.s", "a", more=True),
        {"jsonPath": "$.n", "numberValue": 1.5},
        text("$.s", "b"),
        {"jsonPath": "$.t", "boolValue": True},
        {"jsonPath": "$.z", "nullValue": "NULL_VALUE"},
        {"jsonPath": "$.list[1].x", "numberValue": 2},
        {"jsonPath": "$.list[0].x", "numberValue": 1},
    ) == {"s": "ab", "n": 1.5, "t": True, "z": None, "list": [{"x": 1}, {"x": 2}]}


def test_a_text_that_was_complete_is_replaced_and_one_that_goes_on_is_extended() -> None:
    assert built(text("$.s", "old"), text("$.s", "new")) == {"s": "new"}
    assert built(text("$.s", "a", more=True), text("$.s", "")) == {"s": "a"}


def test_members_that_came_whole_stand_beside_pieces() -> None:
    arguments = PartialArguments()
    arguments.merge({"a": {"x": 1}})
    arguments.add(text("$.b", "y"))

    assert arguments.build() == {"a": {"x": 1}, "b": "y"}


@pytest.mark.parametrize(
    "piece",
    [None, 7, [], {}, {"jsonPath": None, "stringValue": "x"}, {"jsonPath": "$", "stringValue": "x"}, text("$[0]", "x")],
)
def test_a_piece_that_says_nothing_is_left_out(piece: Any) -> None:
    assert built(piece) == {}


def test_a_path_through_a_value_makes_it_a_container() -> None:
    assert built(text("$.a", "x"), text("$.a.b", "y")) == {"a": {"b": "y"}}
    assert built(text("$.a[0]", "x"), text("$.a.b", "y")) == {"a": {"0": "x", "b": "y"}}


def test_a_huge_number_leaves_no_holes() -> None:
    assert built(text("$.a[999999999999]", "x")) == {"a": ["x"]}


def test_the_work_is_linear_in_the_pieces() -> None:
    arguments = PartialArguments()
    began = time.perf_counter()
    for _ in range(50_000):
        arguments.add(text("$.a.b[3].c", "some words ", more=True))

    assert len(arguments.build()["a"]["b"][0]["c"]) == 550_000
    assert time.perf_counter() - began < 5
