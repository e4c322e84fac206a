"""References find their place inside the document, and nowhere else."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest

from antiphon.core.schema import SchemaDocument, below, copy_json, equal_json, hashable_json

DOCUMENT = SchemaDocument(
    {
        "$id": "https://example.com/tool.json",
        "properties": {"a/b": {"type": "integer"}, "c~d": True, "é x": {"items": [{"title": "first"}]}},
        "$defs": {
            "anchored": {"$anchor": "here"},
            "old": {"$id": "#older"},
            "dynamic": {"$dynamicAnchor": "moving"},
            "n": 1,
        },
    }
)


@pytest.mark.parametrize(
    ("ref", "pointer"),
    [
        ("#", ""),
        ("https://example.com/tool.json", ""),
        ("https://example.com/tool.json#/properties/c~0d", "/properties/c~0d"),
        ("#/properties/a~1b", "/properties/a~1b"),
        ("#/properties/%C3%A9%20x", "/properties/é x"),
        ("#/properties/é x/items/0", "/properties/é x/items/0"),
        ("#here", "/$defs/anchored"),
        ("#older", "/$defs/old"),
        ("#moving", "/$defs/dynamic"),
    ],
)
def test_found(ref: str, pointer: str) -> None:
    found = DOCUMENT.find(ref)

    assert found is not None
    assert found[0] == pointer


NOT_THERE = ["#/properties/none", "#nowhere", "other.json", "#/$defs/n", "#/properties/é x/items/7", "#/$defs/n/x"]


@pytest.mark.parametrize("ref", NOT_THERE)
def test_what_names_nothing_or_no_schema(ref: str) -> None:
    assert DOCUMENT.find(ref) is None


def test_a_document_may_be_a_boolean() -> None:
    assert SchemaDocument(True).find("#") == ("", True)
    assert SchemaDocument(True).find("#/x") is None


def test_places() -> None:
    assert below("", "a/b~c", 3, "d") == "/a~1b~0c/3/d"


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ([1, {"a": 1, "b": 2}], [1.0, {"b": 2, "a": 1}], True),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"b": 1}, False),
        ([], {}, False),
        ("1", 1, False),
        (None, None, True),
    ],
)
def test_equality_of_json(a: Any, b: Any, same: bool) -> None:
    assert equal_json(a, b) is same
    assert (hashable_json(a) == hashable_json(b)) is same


def test_a_copy_shares_nothing_that_can_change() -> None:
    given = {"a": [1, {"b": "x"}], "c": OrderedDict(d=[]), "t": (1, [2])}

    copied = copy_json(given)
    copied["a"][1]["b"] = "changed"
    copied["c"]["d"].append(1)
    copied["t"][1].append(3)

    assert given == {"a": [1, {"b": "x"}], "c": {"d": []}, "t": (1, [2])}
    assert copied["t"] == [1, [2, 3]]
    assert copy_json("text") == "text"
