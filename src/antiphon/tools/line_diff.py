"""Differences between two texts, line by line. Pure.

The shortest edit script of Myers is searched only around the places that changed, so the cost follows the change and
not the file. Source: tools specification, 4; pinned by conformance/tools/edit.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

CONTEXT_LINES = 4
MARGIN_LINES = 32
MOST_STEPS = 1_000  # beyond so many differing lines in one place, the whole place counts as changed


class Region(Struct, frozen=True):
    """Lines `old_start` to `old_end` became lines `new_start` to `new_end`; from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def split_lines(text: str) -> list[str]:
    """Lines with their LF; no empty one behind a final LF."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


def changes(old: Sequence[str], new: Sequence[str], touched: Sequence[Region]) -> list[Region]:
    """The differing places in order, given regions outside of which both texts are equal line by line."""
    found: list[Region] = []
    for window in _windows(touched, len(old), len(new)):
        before = old[window.old_start : window.old_end]
        after = new[window.new_start : window.new_end]
        found += [
            Region(a + window.old_start, b + window.old_start, c + window.new_start, d + window.new_start)
            for a, b, c, d in _differences(before, after)
        ]
    return found


def _windows(touched: Sequence[Region], old_lines: int, new_lines: int) -> Iterator[Region]:
    """The regions with a margin around them; those that meet become one."""
    current: Region | None = None
    for one in touched:
        margin = min(MARGIN_LINES, one.old_start, one.new_start)
        behind = min(MARGIN_LINES, old_lines - one.old_end, new_lines - one.new_end)
        wide = Region(one.old_start - margin, one.old_end + behind, one.new_start - margin, one.new_end + behind)
        if current is not None and wide.old_start <= current.old_end:
            current = Region(current.old_start, wide.old_end, current.new_start, wide.new_end)
            continue
        if current is not None:
            yield current
        current = wide
    if current is not None:
        yield current


def _differences(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Differing runs as (old start, old end, new start, new end)."""
    head, tail = _equal_ends(old, new)
    whole = (head, len(old) - tail, head, len(new) - tail)
    if whole[0] == whole[1] or whole[2] == whole[3]:  # lines were only added, or only removed
        return [whole] if len(old) != len(new) else []
    script = _shortest_script(old[head:], new[head:])
    if script is None:
        return [whole]
    runs: list[tuple[int, int, int, int]] = []
    at_old = at_new = head
    for equal, removed, added in script:
        at_old, at_new = at_old + equal, at_new + equal
        if removed or added:
            runs.append((at_old, at_old + removed, at_new, at_new + added))
        at_old, at_new = at_old + removed, at_new + added
    return runs


def _equal_ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are equal at the start, and how many of the others at the end."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[len(old) - 1 - tail] == new[len(new) - 1 - tail]:
        tail += 1
    return head, tail


_Way: TypeAlias = "tuple[str, int, _Way | None]"  # a step (`=`, `-`, `+`), how often, and the steps before it


def _shortest_script(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Steps (equal lines, then removed, then added), or None if the texts differ too much to search.

    The greedy search of Myers: `reached[k]` is the farthest old index on diagonal k = old index - new index, `ways[k]`
    the steps to it. On a tie a removal comes before an addition. One function, because its inside runs 100,000 times.
    """
    if _certain_differences(old, new) > MOST_STEPS:
        return None
    old_lines, new_lines = len(old), len(new)
    most = min(old_lines + new_lines, MOST_STEPS)
    middle = most + 1
    reached = [-1] * (2 * middle + 1)
    ways: list[_Way | None] = [None] * (2 * middle + 1)
    reached[middle + 1] = 0
    for distance in range(most + 1):
        for k in range(-distance, distance + 1, 2):
            at = middle + k
            removed, added = reached[at - 1], reached[at + 1]
            can_remove = 0 <= removed < old_lines
            if added >= 0 and 0 <= added - k <= new_lines and not (can_remove and removed >= added):
                i, way = added, (("+", 1, ways[at + 1]) if distance else None)
            elif can_remove:
                i, way = removed + 1, ("-", 1, ways[at - 1])
            else:
                reached[at] = -1
                continue
            start = i
            while i < old_lines and i - k < new_lines and old[i] == new[i - k]:
                i += 1
            if i > start:
                way = ("=", i - start, way)
            if i >= old_lines and i - k >= new_lines:
                return _collect(way)
            reached[at], ways[at] = i, way
    return None


def _certain_differences(old: Sequence[str], new: Sequence[str]) -> int:
    """Lines that stand on one side more often than on the other: no script can have fewer steps."""
    counts = Counter(old)
    counts.subtract(new)
    return sum(map(abs, counts.values()))


def _collect(way: _Way | None) -> list[tuple[int, int, int]]:
    """Neighbouring removals and additions as one step each."""
    steps: list[tuple[str, int]] = []
    while way is not None:
        kind, count, way = way
        steps.append((kind, count))
    script: list[tuple[int, int, int]] = []
    equal = removed = added = 0
    for kind, count in reversed(steps):
        if kind == "=":
            script.append((equal, removed, added))
            equal, removed, added = count, 0, 0
        elif kind == "-":
            removed += count
        else:
            added += count
    script.append((equal, removed, added))
    return script


def display_diff(old: Sequence[str], new: Sequence[str], found: Sequence[Region], width: int) -> str:
    """For people: sign, line number, text. Unchanged lines have their old numbers; gaps are dots."""
    out: list[str] = []
    gap = " " + " " * width + " ..."
    end = 0
    for index, region in enumerate(found):
        start = region.old_start
        between = start - end
        if index and between <= 2 * CONTEXT_LINES:
            out += _context(old, end, start, width)
        else:
            if index:
                out += _context(old, end, end + CONTEXT_LINES, width)
            if between > (2 if index else 1) * CONTEXT_LINES:
                out.append(gap)
            out += _context(old, max(start - CONTEXT_LINES, end), start, width)
        out += [f"-{n + 1:>{width}} {_bare(old[n])}" for n in range(region.old_start, region.old_end)]
        out += [f"+{n + 1:>{width}} {_bare(new[n])}" for n in range(region.new_start, region.new_end)]
        end = region.old_end
    if found:
        out += _context(old, end, min(end + CONTEXT_LINES, len(old)), width)
        if end + CONTEXT_LINES < len(old):
            out.append(gap)
    return "\n".join(out)


def _context(old: Sequence[str], start: int, end: int, width: int) -> list[str]:
    return [f" {n + 1:>{width}} {_bare(old[n])}" for n in range(start, end)]


def _bare(line: str) -> str:
    return line[:-1] if line.endswith("\n") else line


def unified_patch(old: Sequence[str], new: Sequence[str], found: Sequence[Region], name: str) -> str:
    """For programs: the unified form, with lines of context on both sides."""
    out = [f"--- {name}\n+++ {name}\n"]
    for hunk in _hunks(found):
        old_start = max(hunk[0].old_start - CONTEXT_LINES, 0)
        old_end = min(hunk[-1].old_end + CONTEXT_LINES, len(old))
        new_start = hunk[0].new_start - (hunk[0].old_start - old_start)
        new_end = hunk[-1].new_end + (old_end - hunk[-1].old_end)
        out.append(f"@@ -{_span(old_start, old_end)} +{_span(new_start, new_end)} @@\n")
        at = old_start
        for region in hunk:
            out += [_signed(" ", line) for line in old[at : region.old_start]]
            out += [_signed("-", line) for line in old[region.old_start : region.old_end]]
            out += [_signed("+", line) for line in new[region.new_start : region.new_end]]
            at = region.old_end
        out += [_signed(" ", line) for line in old[at:old_end]]
    return "".join(out)


def _hunks(found: Sequence[Region]) -> Iterator[list[Region]]:
    """Changes whose contexts meet belong together."""
    hunk: list[Region] = []
    for region in found:
        if hunk and region.old_start - hunk[-1].old_end > 2 * CONTEXT_LINES:
            yield hunk
            hunk = []
        hunk.append(region)
    if hunk:
        yield hunk


def _span(start: int, end: int) -> str:
    """First line and number of lines; an empty range names the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _signed(sign: str, line: str) -> str:
    return f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
