"""Putting the definitions of a JSON schema where they are used: not every provider understands references. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from antiphon.core.wire import JsonObject


def inlined(schema: JsonObject, shared: Mapping[str, JsonObject]) -> JsonObject:
    """The schema with every definition put in its place, except those that contain themselves."""
    inliner = _Inliner()
    out = cast("JsonObject", inliner.put(schema, (), shared))
    if inliner.kept:
        out["$defs"] = inliner.kept
    return out


class _Inliner:
    """A walk through a schema; `kept` collects the definitions that must stay references."""

    def __init__(self) -> None:
        self.kept: JsonObject = {}

    def put(self, value: Any, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if isinstance(value, list):
            return [self.put(item, inside, shared) for item in value]
        if not isinstance(value, dict):
            return value
        node = cast("JsonObject", value)
        shared = {**shared, **node.get("$defs", {})}  # a pydantic model brings its own
        reference = node.get("$ref")
        if isinstance(reference, str) and (name := reference.rpartition("/")[2]) in shared:
            return self._definition(name, {k: v for k, v in node.items() if k != "$ref"}, inside, shared)
        return _with_type(
            {key: self._member(key, item, inside, shared) for key, item in node.items() if _is_kept(key, item)}
        )

    def _definition(self, name: str, beside: JsonObject, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if name not in inside and not _reaches(shared[name], name, shared):
            return {**self.put(shared[name], (*inside, name), shared), **beside}
        if name not in self.kept:
            self.kept[name] = {}  # so that the walk below does not begin again
            self.kept[name] = self.put(shared[name], (*inside, name), shared)
        return {"$ref": f"#/$defs/{name}", **beside}

    def _member(self, key: str, value: Any, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if key in _NAME_MAPS and isinstance(value, dict):
            named = cast("JsonObject", value)
            return {name: self.put(item, inside, shared) for name, item in named.items()}
        return value if key in _LITERAL_KEYS else self.put(value, inside, shared)


_LITERAL_KEYS = ("enum", "const", "default", "examples")
_NAME_MAPS = ("properties", "patternProperties", "dependentSchemas")


def _is_kept(key: str, value: Any) -> bool:
    """Definitions go where they are used; titles repeat names."""
    return key != "$defs" and not (key == "title" and isinstance(value, str))


def _with_type(node: JsonObject) -> JsonObject:
    """An enumeration of texts says that it is text: some providers insist."""
    values = node.get("enum")
    if isinstance(values, list) and "type" not in node and all(isinstance(value, str) for value in values):
        node["type"] = "string"
    return node


def _reaches(schema: Any, name: str, shared: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Does a definition lead back to `name`?"""
    if isinstance(schema, list):
        return any(_reaches(item, name, shared, seen) for item in schema)
    if not isinstance(schema, dict):
        return False
    node = cast("JsonObject", schema)
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = reference.rpartition("/")[2]
        if target == name:
            return True
        if target in seen or target not in shared:
            return False
        return _reaches(shared[target], name, shared, seen | {target})
    return any(_reaches(item, name, shared, seen) for item in node.values())
