"""Tables for people: columns as wide as what stands in them. Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], gap: str = "  ") -> str:
    """The rows as lines, each with a line end; the last column is not padded."""
    if not rows:
        return ""
    widths = [max(width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "".join(gap.join(padded(c, w) for c, w in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows)


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))


def width(text: str) -> int:
    """Columns that a text takes in a terminal: East Asian wide characters take two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, columns: int) -> str:
    """The text, not wider than this; an ellipsis tells that something is missing."""
    if width(text) <= columns:
        return text
    out, used = "", 0
    for letter in text:
        used += width(letter)
        if used > columns - 1:
            break
        out += letter
    return out + "…"
