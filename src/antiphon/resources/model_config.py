"""`models.json`: the providers and models that a person adds. A broken file is a diagnosis, never the end."""

from __future__ import annotations

from pathlib import Path

from antiphon.core.wire import JsonObject
from antiphon.resources.stored import read_json


def read_model_config(path: Path) -> tuple[JsonObject, tuple[str, ...]]:
    """The file as a JSON object, and what is wrong with it, one line each. A missing file is an empty object.

    What the object means is the business of the model catalogue, which says what it cannot use.
    """
    file = read_json(path)
    return file.values, () if file.fault is None else (file.fault,)
