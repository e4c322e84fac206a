"""The examples as modules: they are programs in a folder of their own and import each other by bare names."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> Any:
    """An example as a module."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return import_module(name)
