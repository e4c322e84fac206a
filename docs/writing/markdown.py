"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar inside of a cell is escaped."""
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def code(text: object) -> str:
    """Text in code marks."""
    return f"`{text}`"


def fence(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def sentence(docstring: str | None) -> str:
    """The first paragraph of a docstring on one line."""
    return " ".join((docstring or "").strip().split("\n\n")[0].split())


def paragraphs(docstring: str | None) -> str:
    """A docstring as running text: each paragraph on one line."""
    parts = (docstring or "").strip().split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)
