"""What to tell a model whose text is not in a file: what was looked for, what is nearest, how it differs. Pure."""

from __future__ import annotations

import heapq
import re
from difflib import SequenceMatcher

from antiphon.tools.edit_match import loose_line
from antiphon.tools.output import cut_line

MOST_LINES_COMPARED = 50_000
MOST_LINES_SHOWN = 12
CANDIDATES = 2
_FINALISTS = 40
_ENOUGH = 0.5

_WORD = re.compile(r"\w+")


def explain_missing(text: str, old: str) -> str:
    """Paragraphs to put behind the refusal; `text` and `old` with LF line ends."""
    wanted = old.strip("\n").split("\n")
    parts = [f"Looked for ({_count(old)}):\n{_shown(wanted, None)}"]
    lines = text.split("\n")[:MOST_LINES_COMPARED]
    places = nearest(lines, wanted)
    if not places:
        parts.append("Nothing in the file is similar. Read the file again before editing it.")
    for start, end in places:
        where = f"line {start + 1}" if end == start + 1 else f"lines {start + 1}-{end}"
        difference = how_it_differs(lines[start:end], wanted)
        parts.append(f"Nearest, {where}{difference}:\n{_shown(lines[start:end], start + 1)}")
    return "\n\n".join(parts)


def _count(old: str) -> str:
    lines = old.count("\n") + (0 if old.endswith("\n") else 1)
    return f"{lines} line{'s' if lines != 1 else ''}"


def _shown(lines: list[str], first: int | None) -> str:
    """Lines with their numbers; tabs are made visible because they are what is overlooked most."""
    out = []
    for index, line in enumerate(lines[:MOST_LINES_SHOWN]):
        visible = cut_line(line.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), 200)[0]
        visible = visible.replace("\t", "→\t")
        out.append(f"{'' if first is None else first + index:>6} | {visible}")
    if len(lines) > MOST_LINES_SHOWN:
        out.append(f"       ({len(lines) - MOST_LINES_SHOWN} more lines)")
    return "\n".join(out)


def nearest(lines: list[str], wanted: list[str]) -> list[tuple[int, int]]:
    """Up to `CANDIDATES` ranges of lines that resemble the wanted ones, best first.

    Words in common choose the finalists, since that is cheap; only these are compared character by character.
    """
    key = max(range(len(wanted)), key=lambda index: len(wanted[index].strip()))
    if not wanted[key].strip():
        return []
    words = set(_WORD.findall(wanted[key].lower()))
    if not words:
        return []
    scored = ((_shared(words, line), -number) for number, line in enumerate(lines))
    finalists = [-number for score, number in heapq.nlargest(_FINALISTS, scored) if score > 0]
    ranked = sorted(((_likeness(lines, number - key, wanted), -number) for number in finalists), reverse=True)
    found: list[tuple[int, int]] = []
    for likeness, number in ranked:
        start = max(-number - key, 0)
        if likeness >= _ENOUGH and len(found) < CANDIDATES and all(abs(start - other) > 1 for other, _ in found):
            found.append((start, min(start + len(wanted), len(lines))))
    return found


def _shared(words: set[str], line: str) -> float:
    own = set(_WORD.findall(line[:1_000].lower()))
    return len(words & own) / (len(words | own) or 1)


def _likeness(lines: list[str], start: int, wanted: list[str]) -> float:
    part = "\n".join(lines[max(start, 0) : max(start, 0) + len(wanted)])[:2_000]
    return SequenceMatcher(None, part, "\n".join(wanted)[:2_000], autojunk=False).ratio()


def how_it_differs(found: list[str], wanted: list[str]) -> str:
    """The kind of difference in words, if it is one of the usual ones."""
    if len(found) != len(wanted):
        return ""
    if _same(found, wanted, lambda line: " ".join(line.split())):
        return " (differs in blanks or tabs only)"
    if _same(found, wanted, lambda line: loose_line(line).casefold()):
        return " (differs in upper and lower case only)"
    if _same(found, wanted, lambda line: "".join(line.split()).casefold()):
        return " (differs in blanks and case only)"
    different = sum(a != b for a, b in zip(found, wanted, strict=True))
    return f" ({different} of {len(wanted)} lines differ)" if len(wanted) > 1 else ""


def _same(found: list[str], wanted: list[str], form: object) -> bool:
    return callable(form) and list(map(form, found)) == list(map(form, wanted))
