"""Changing a settings file: only the keys that change, everything else in it stays, two writers wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import UNSET

from antiphon.core.wire import JsonObject, to_wire
from antiphon.errors import ConfigurationError
from antiphon.resources.settings_keys import keys
from antiphon.resources.stored import pretty, read_json, replace_file, sole_writer


def change_settings(path: Path, changes: Mapping[str, Any]) -> None:
    """Set keys by dotted path; UNSET takes one away. A file that cannot be read is never written.

    Raises:
        ConfigurationError: an unknown key, a value of another type, a file that is broken or cannot be written.
    """
    for name, value in changes.items():
        checked(name, value)
    try:
        with sole_writer(path):
            file = read_json(path)
            if file.fault is not None:
                raise ConfigurationError(f"{file.fault}; repair it, then change settings")
            replace_file(path, pretty(changed(file.values, changes)), None if file.exists else 0o644)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error


def checked(name: str, value: Any) -> None:
    """Refuse a key that does not exist, or a value that does not fit it.

    Raises:
        ConfigurationError: says what the key takes.
    """
    path = next((known for known in keys() if name == known or name.startswith(known + ".")), None)
    if path is None:
        raise ConfigurationError(f"there is no setting {name!r}; `antiphon config explain` lists them")
    if value is UNSET:
        return
    key, member = keys()[path], name[len(path) + 1 :]
    try:
        key.checked({member: to_wire(value)} if member else to_wire(value))
    except msgspec.ValidationError:
        raise ConfigurationError(f"{path} must be {key.kind}") from None


def changed(values: JsonObject, changes: Mapping[str, Any]) -> JsonObject:
    """The object with these keys changed. Pure."""
    out = dict(values)
    for name, value in changes.items():
        head, dot, rest = name.partition(".")
        if dot:
            inner = out.get(head)
            out[head] = changed(cast("JsonObject", inner) if isinstance(inner, dict) else {}, {rest: value})
        elif value is UNSET:
            out.pop(head, None)
        else:
            out[head] = to_wire(value)
    return out
