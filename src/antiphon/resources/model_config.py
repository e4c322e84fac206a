"""`models.json`: the providers and models that a person adds. A broken file is a diagnosis, never the end."""

from __future__ import annotations

from pathlib import Path

import msgspec

from antiphon.core.wire import JsonObject, decode


def read_model_config(path: Path) -> tuple[JsonObject, tuple[str, ...]]:
    """The file as a JSON object, and what is wrong with it, one line each. A missing file is an empty object."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}, ()
    except OSError as error:
        return {}, (f"{path} cannot be read: {error.strerror}",)
    try:
        value = decode(data)
    except msgspec.DecodeError as error:
        return {}, (f"{path} is not JSON and is ignored: {error}",)
    if not isinstance(value, dict):
        return {}, (f"{path} is ignored: it must hold a JSON object with `providers`",)
    return value, ()
