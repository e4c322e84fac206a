"""A JSON Schema document and what its references name.

A place in a document is a JSON Pointer (`/properties/path`). Only references within the document are followed: nothing
is ever fetched.
"""

from __future__ import annotations

import re
from typing import TypeAlias, cast, final

from antiphon.core.wire import JsonObject, JsonValue

Schema: TypeAlias = JsonValue
"""An object or a boolean; anything else is no schema and fits nothing."""

Pointer: TypeAlias = str

_PERCENT = re.compile("(?:%[0-9a-fA-F]{2})+")


@final
class SchemaDocument:
    """One schema with everything inside it. Read only."""

    __slots__ = ("_anchors", "root")

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._anchors: dict[str, Pointer] | None = None

    def find(self, ref: str) -> tuple[Pointer, Schema] | None:
        """Place and schema that a `$ref` names, or nothing if there is no such place in this document."""
        home = self.root.get("$id") if isinstance(self.root, dict) else None
        if isinstance(home, str) and home and ref.startswith(home.removesuffix("#")):
            ref = ref[len(home.removesuffix("#")) :] or "#"
        if not ref.startswith("#"):
            return None
        fragment = _PERCENT.sub(_decoded, ref[1:])
        pointer = fragment if not fragment or fragment.startswith("/") else self._anchor(fragment)
        return None if pointer is None else self._at(pointer)

    def _at(self, pointer: Pointer) -> tuple[Pointer, Schema] | None:
        here = self.root
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and name in here:
                here = here[name]
            elif isinstance(here, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(here):
                here = here[int(name[:9])]
            else:
                return None
        return (pointer, here) if isinstance(here, dict | bool) else None

    def _anchor(self, name: str) -> Pointer | None:
        if self._anchors is None:
            self._anchors = {}
            self._collect_anchors(self.root, "", self._anchors)
        return self._anchors.get(name)

    def _collect_anchors(self, here: JsonValue, pointer: Pointer, found: dict[str, Pointer]) -> None:
        if isinstance(here, dict):
            members = cast("JsonObject", here)
            for key in ("$anchor", "$dynamicAnchor"):
                if isinstance(members.get(key), str):
                    found.setdefault(members[key], pointer)
            identity = members.get("$id")
            if isinstance(identity, str) and identity.startswith("#"):  # the older spelling of an anchor
                found.setdefault(identity[1:], pointer)
            for key, item in members.items():
                self._collect_anchors(item, below(pointer, key), found)
        elif isinstance(here, list):
            for index, item in enumerate(here):
                self._collect_anchors(item, below(pointer, index), found)


def below(pointer: Pointer, *steps: str | int) -> Pointer:
    """The place that these steps lead to."""
    for step in steps:
        pointer = f"{pointer}/{step if isinstance(step, int) else step.replace('~', '~0').replace('/', '~1')}"
    return pointer


def _decoded(escapes: re.Match[str]) -> str:
    return bytes.fromhex(escapes[0].replace("%", "")).decode("utf-8", "replace")


def equal_json(a: JsonValue, b: JsonValue) -> bool:
    """Equality of JSON values: 1 is 1.0, true is not 1, the order of members does not count."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal_json(item, b[key]) for key, item in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal_json, a, b))
    return bool(a == b)


def hashable_json(value: JsonValue) -> object:
    """A key that two JSON values share exactly if they are equal."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, list):
        return ("list", tuple(map(hashable_json, value)))
    if isinstance(value, dict):
        members = cast("JsonObject", value)
        return ("object", frozenset((key, hashable_json(item)) for key, item in members.items()))
    return value


def copy_json(value: JsonValue) -> JsonValue:
    """A copy that shares no list or object with the given value. Tuples become lists."""
    if type(value) is dict:
        copy = value.copy()
        for key, item in copy.items():
            if type(item) not in _SCALARS:
                copy[key] = copy_json(item)
        return copy
    if isinstance(value, list | tuple):
        return [item if type(item) in _SCALARS else copy_json(item) for item in value]
    if isinstance(value, dict):
        return copy_json(dict(cast("JsonObject", value)))
    return value


_SCALARS = frozenset({str, int, float, bool, type(None)})
