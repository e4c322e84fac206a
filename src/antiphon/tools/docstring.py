"""What a docstring says to a model: its words, and what its `Args:` section says of single arguments. Pure."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises):\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The words for the model, and what an `Args:` section says of single arguments."""
    parts = _SECTION.split(text)
    notes: dict[str, str] = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title in ("Args", "Arguments", "Parameters"):
            notes.update(_entries(inspect.cleandoc("\n" + body)))
    return parts[0].strip(), notes


def _entries(body: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    name = ""
    for line in body.split("\n"):
        match = _ENTRY.match(line)
        if match:
            name = match[1]
            notes[name] = match[2]
        elif name and line.startswith(" "):
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return notes
