"""What an edit did, for displays and hosts. Pure; only lines near the changes are looked at one by one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import overload

from antiphon.core.wire import JsonObject
from antiphon.tools.edit_match import Replacement
from antiphon.tools.line_diff import Region, changes, display_diff, unified_patch


def describe(old_text: str, replacements: Sequence[Replacement], name: str) -> JsonObject:
    """A diff to look at, a patch, and the first changed line of the new text."""
    new_text = _apply(old_text, replacements)
    old, new = TextLines(old_text), TextLines(new_text)
    found = changes(old, new, _regions(old, new, replacements))
    width = len(str(max(old.newlines, new.newlines) + 1))
    details: JsonObject = {
        "diff": display_diff(old, new, found, width),
        "patch": unified_patch(old, new, found, name),
    }
    if found:
        details["firstChangedLine"] = found[0].new_start + 1
    return details


def printable(text: str) -> str:
    """Bytes that are no UTF-8, kept in a text as lone surrogates, as U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class TextLines(Sequence[str]):
    """The lines of a text with their LFs, cut out when asked for. Near a known place that takes no walk from the start.

    A slice stays cut out, so that its lines can then be had one by one.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.newlines = text.count("\n")
        self._length = self.newlines + (1 if text and not text.endswith("\n") else 0)
        self._known = [(0, 0)]  # (line, where it starts), ascending
        self._cut: dict[int, str] = {}

    def know(self, line: int, position: int) -> None:
        """`position` is inside of `line`. To be called in ascending order."""
        start = self.text.rfind("\n", 0, position) + 1
        if line > self._known[-1][0]:
            self._known.append((line, start))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            first, last, _ = index.indices(self._length)
            return self._lines(first, last)
        if not 0 <= index < self._length:
            raise IndexError(index)
        if index not in self._cut:
            self._lines(index, index + 1)
        return self._cut[index]

    def _lines(self, first: int, last: int) -> list[str]:
        out: list[str] = []
        start = self._start(first) if last > first else 0
        for line in range(first, last):
            end = self.text.find("\n", start) + 1 or len(self.text)
            cut = printable(self.text[start:end])
            out.append(cut)
            self._cut[line] = cut
            start = end
        return out

    def _start(self, line: int) -> int:
        """Where a line starts, walking from the nearest known place."""
        after = bisect_right(self._known, (line, len(self.text)))
        at, start = self._known[after - 1]
        if after < len(self._known) and self._known[after][0] - line < line - at:
            at, start = self._known[after]
        while at < line:
            start, at = self.text.index("\n", start) + 1, at + 1
        while at > line:
            start, at = self.text.rfind("\n", 0, start - 1) + 1, at - 1
        return start


def _apply(text: str, replacements: Sequence[Replacement]) -> str:
    pieces: list[str] = []
    at = 0
    for one in replacements:
        pieces += (text[at : one.start], one.new)
        at = one.end
    return "".join([*pieces, text[at:]])


def _regions(old: TextLines, new: TextLines, replacements: Sequence[Replacement]) -> list[Region]:
    """The lines that each replacement touches, before and after; counted once through the text."""
    regions: list[Region] = []
    text = old.text
    at = old_line = lines_more = units_more = 0
    for one in replacements:
        first = old_line + text.count("\n", at, one.start)
        last = first + text.count("\n", one.start, one.end)
        added = one.new.count("\n")
        start = first + lines_more
        old.know(first, one.start)
        new.know(start, one.start + units_more)
        regions.append(
            Region(
                min(first, len(old)),
                min(last + 1, len(old)),
                min(start, len(new)),
                min(start + added + 1, len(new)),
            )
        )
        lines_more += added - (last - first)
        units_more += len(one.new) - (one.end - one.start)
        at, old_line = one.end, last
    return regions
