"""Reading our Markdown pages: blocks of code with the note above them, links, headings and their anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "tests" / "README.md", ROOT / "examples" / "README.md"]
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_COMMENT = re.compile(r"<!--((?:(?!-->).)*)-->\s*\Z", re.S)
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.M)


@dataclass(frozen=True)
class Block:
    """A block of code. `note`: the text of the comment right above it, such as `not run: needs a key`."""

    page: Path
    line: int
    language: str
    text: str
    note: str


def name(page: Path) -> str:
    """A page as it is called in this repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of code of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        above = _COMMENT.search(text, 0, found.start())
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start()) + 2,
            language=found[1],
            text=found[2],
            note=above[1].strip() if above else "",
        )


def prose(page: Path) -> str:
    """A page without its blocks of code, and without code in lines."""
    return re.sub(r"`[^`\n]*`", "``", _FENCE.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    """Targets of all links of a page."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and the site make them."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    found: set[str] = set()
    for title in _HEADING.findall(text):
        words = re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower())
        anchor = re.sub(r"\s", "-", words.strip())
        while anchor in found:
            stem, _, count = anchor.rpartition("-")
            anchor = f"{stem}-{int(count) + 1}" if count.isdigit() and stem in found else f"{anchor}-1"
        found.add(anchor)
    return found
