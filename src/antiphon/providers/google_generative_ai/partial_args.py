"""Arguments of one call that arrive in pieces: a JSON path and a value each.

    {"jsonPath": "$.items[0].name", "stringValue": "Ap", "willContinue": true}
    {"jsonPath": "$.items[0].name", "stringValue": "ple"}

Pieces are kept in a tree and joined once at the end, so the work is linear in what arrived. Elements of a list come in
the order of their numbers; a number that was left out leaves no hole (a list of a billion holes is not a list of one).
Source: provider specification, 12, row 19.
"""

from __future__ import annotations

import re
from typing import Any, cast, final

from antiphon.core.wire import JsonObject, JsonValue

MAX_DEPTH = 100

_STEP = re.compile(
    r"""\.([^.\[\]]+)|\[([0-9]+)\]|\[\s*'((?:[^'\\]|\\.)*)'\s*\]|\[\s*"((?:[^"\\]|\\.)*)"\s*\]""", re.ASCII
)


def path_steps(path: str) -> list[str | int] | None:
    """`$.a[0]["b c"]` as `["a", 0, "b c"]`; None if it is no such path or too deep."""
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    position = 1
    while position < len(path) and len(steps) <= MAX_DEPTH:
        found = _STEP.match(path, position)
        if found is None:
            return None
        member, number, single, double = found.groups()
        quoted = single if single is not None else double
        if number is not None:
            steps.append(int(number[:9]))
        else:
            steps.append(member if member is not None else re.sub(r"\\(.)", r"\1", cast("str", quoted)))
        position = found.end()
    return steps if 0 < len(steps) <= MAX_DEPTH else None


@final
class _Node:
    """A place in the tree: a finished value, a string in pieces, or a container."""

    __slots__ = ("children", "growing", "pieces", "value")

    def __init__(self) -> None:
        self.children: dict[str | int, _Node] = {}
        self.pieces: list[str] | None = None
        self.growing = False
        self.value: JsonValue = None

    def build(self) -> JsonValue:
        if self.children:
            if all(type(key) is int for key in self.children):
                return [self.children[key].build() for key in sorted(cast("dict[int, Any]", self.children))]
            return {str(key): child.build() for key, child in self.children.items()}
        return self.value if self.pieces is None else "".join(self.pieces)


@final
class PartialArguments:
    """The arguments of one call while they arrive."""

    def __init__(self) -> None:
        self._root = _Node()

    def merge(self, arguments: JsonObject) -> None:
        """Members that came whole."""
        for name, value in arguments.items():
            node = self._root.children[name] = _Node()
            node.value = value

    def add(self, piece: Any) -> None:
        """One piece. What does not say where it belongs or what it is, is left out."""
        if not isinstance(piece, dict):
            return
        given = cast("JsonObject", piece)
        path = given.get("jsonPath")
        steps = path_steps(path) if isinstance(path, str) else None
        if steps is None or type(steps[0]) is int:
            return
        node = self._root
        for step in steps:
            node = node.children.setdefault(step, _Node())
        _set(node, given)

    def build(self) -> JsonObject:
        """What has arrived, as an object."""
        return {str(name): node.build() for name, node in self._root.children.items()}


def _set(node: _Node, given: JsonObject) -> None:
    text = given.get("stringValue")
    if isinstance(text, str):
        if not node.growing or node.pieces is None:
            node.pieces = []
        node.pieces.append(text)
        node.growing = given.get("willContinue") is True
        return
    for name in ("numberValue", "boolValue"):
        if name in given:
            node.pieces, node.value = None, given[name]
            return
    if "nullValue" in given:
        node.pieces, node.value = None, None
