"""Child processes that run a piece of Python with this checkout."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import antiphon

SOURCE = str(Path(next(iter(antiphon.__path__))).parent)


def command(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE}
