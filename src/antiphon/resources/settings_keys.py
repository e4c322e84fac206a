"""The definition of settings read as data: every key with its type in words, its default, its line of explanation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.wire import JsonObject, JsonValue, to_wire
from antiphon.resources.settings import ONLY_GLOBAL, RESOURCE_LISTS, Settings
from antiphon.resources.type_words import words_for


class Key(Struct, frozen=True):
    """One setting. `path`: dotted, as in the file. `kind`: what it takes, in words. `default` UNSET: none."""

    path: str
    type: Any
    kind: str
    default: Any
    about: str

    @property
    def only_global(self) -> bool:
        return self.path in ONLY_GLOBAL

    def checked(self, value: JsonValue) -> Any:
        """The value as the program uses it.

        Raises:
            msgspec.ValidationError: it is of another type.
        """
        return msgspec.convert(_whole_numbers(value), self.type)


def _whole_numbers(value: JsonValue) -> JsonValue:
    """`3.0` is 3: some programs write whole numbers so."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole_numbers(item) for name, item in cast("JsonObject", value).items()}
    return value


@cache
def keys() -> dict[str, Key]:
    """Every key by its path, in the order of the definition."""
    return {key.path: key for key in _keys(Settings, "")}


@cache
def groups() -> frozenset[str]:
    """Paths that hold further keys, such as `retry`."""
    return frozenset(path[:at] for path in keys() for at, letter in enumerate(path) if letter == ".")


def _keys(group: type[Struct], prefix: str) -> Iterator[Key]:
    for info in msgspec.structs.fields(group):
        path = prefix + info.encode_name
        if isinstance(info.type, type) and issubclass(info.type, Struct):
            yield from _keys(info.type, path + ".")
            continue
        default = UNSET if info.default is msgspec.NODEFAULT else info.default
        if info.default_factory is not msgspec.NODEFAULT:
            default = info.default_factory()
        shape = msgspec.inspect.type_info(info.type)
        yield Key(path, info.type, words_for(shape), default, _about(shape))


def _about(shape: Any) -> str:
    """The description in a type's annotation."""
    if isinstance(shape, msgspec.inspect.Metadata):
        return str((shape.extra_json_schema or {}).get("description", ""))
    if isinstance(shape, msgspec.inspect.UnionType):
        return next((text for text in map(_about, shape.types) if text), "")
    return ""


def schema() -> JsonObject:
    """A JSON Schema of the settings file."""
    _, parts = msgspec.json.schema_components([Settings], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **parts.pop("Settings"),
        "title": "antiphon settings",
        "$defs": parts,
    }


def table() -> str:
    """The settings as a Markdown table."""
    rows = ["| key | takes | default | meaning |", "|---|---|---|---|"]
    for key in keys().values():
        default = "" if key.default is UNSET else f"`{msgspec.json.encode(to_wire(key.default)).decode()}`"
        scope = " (global file only)" if key.only_global else ""
        scope += " (entries of both files count)" if key.path in RESOURCE_LISTS else ""
        rows.append(f"| `{key.path}` | {key.kind} | {default} | {key.about}{scope} |")
    return "\n".join(rows) + "\n"
