"""A pattern ready to search texts for matching lines.

Two machines do the same work: the `re` module, fast but with bad cases in which its time explodes and nobody can stop
it, and the line machine (`automaton.py`), slower but steady. `re` gets a line only where its worst case is harmless:
that is estimated from the pattern's loops and the line's length. A text that every match must contain is looked for
first, which spares both machines most of the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TypeAlias

from antiphon.tools.regex.automaton import LineMachine
from antiphon.tools.regex.charset import WORD
from antiphon.tools.regex.outline import needed_text, outline, trimmed
from antiphon.tools.regex.parser import parse, parse_literal
from antiphon.tools.regex.syntax import Choice, Look, LookKind, Node, One, Repeat, Sequence

WORST_STEPS = 2_000_000
"""What `re` may be asked for at worst with one line: some 10 ms, during which nothing else runs."""

_SLICE = 16 * 1024

Span: TypeAlias = tuple[int, int]


class Pattern:
    """What to look for in lines. `source` is the pattern as it was given.

    Raises:
        BadPattern: the pattern means nothing or asks for more than this engine does.
    """

    def __init__(self, source: str, *, literal: bool = False, ignore_case: bool = False) -> None:
        self.source = source
        self._node = trimmed((parse_literal if literal else parse)(source, ignore_case=ignore_case))
        self._outline = outline(self._node)
        self._longest_for_re = self._outline.longest(WORST_STEPS)
        self.needed = needed_text(self._node)

    @cached_property
    def machine(self) -> LineMachine:
        """Decides about lines of any length."""
        return LineMachine(self._node)

    @cached_property
    def _for_ascii(self) -> re.Pattern[str]:
        return re.compile(_expression(self._node, only_ascii=True), re.MULTILINE)

    @cached_property
    def _for_all(self) -> re.Pattern[str]:
        return re.compile(_expression(self._node, only_ascii=False), re.MULTILINE)

    def may_match(self, content: bytes) -> bool:
        """False if no line of this UTF-8 text can match. Cheap."""
        needed = self.needed
        if needed is None:
            return True
        if not needed.any_case:
            return needed.text.encode() in content
        return not content.isascii() or needed.text.encode() in content.lower()

    def matching_lines(self, text: str, stopped: Callable[[], bool]) -> Iterator[Span]:
        """Where the matching lines of a text begin and end, in order. A final line feed begins no further line.

        `text` may hold lone surrogates for bytes that are not UTF-8; nothing but themselves matches them.
        """
        if not text:
            return
        end = len(text) - text.endswith("\n")
        is_ascii = text.isascii()
        compiled = self._for_ascii if is_ascii else self._for_all
        needed = self.needed
        if needed is not None and (is_ascii or not needed.any_case):
            where = text.lower() if needed.any_case else text
            yield from self._lines_around(needed.text, where, text, end, compiled, stopped)
            return
        for start, stop in _slices(text, end):
            if stopped():
                return
            if _longest_line(text, start, stop) <= self._longest_for_re:
                yield from _lines_of_matches(compiled, text, start, stop)
            else:
                yield from self._lines_one_by_one(text, start, stop, compiled, stopped)

    def _lines_around(
        self, needed: str, where: str, text: str, end: int, compiled: re.Pattern[str], stopped: Callable[[], bool]
    ) -> Iterator[Span]:
        """Look only at lines that contain the needed text; `where` is the text, perhaps in lower case."""
        place = where.find(needed, 0, end)
        while place >= 0 and not stopped():
            line = _line_at(text, place, end)
            if self._outline.is_text or self._matches(text, line, compiled, stopped):
                yield line
            place = where.find(needed, line[1], end)

    def _lines_one_by_one(
        self, text: str, start: int, end: int, compiled: re.Pattern[str], stopped: Callable[[], bool]
    ) -> Iterator[Span]:
        while start <= end and not stopped():
            line = _line_at(text, start, end)
            if self._matches(text, line, compiled, stopped):
                yield line
            start = line[1] + 1

    def _matches(self, text: str, line: Span, compiled: re.Pattern[str], stopped: Callable[[], bool]) -> bool:
        start, end = line
        if end - start <= self._longest_for_re:
            return compiled.search(text, start, end) is not None
        return self.machine.matches(text[start:end], stopped)


def _line_at(text: str, place: int, end: int) -> Span:
    stop = text.find("\n", place, end)
    return text.rfind("\n", 0, place) + 1, end if stop < 0 else stop


def _slices(text: str, end: int) -> Iterator[Span]:
    """Some whole lines at a time: their places without the last line feed."""
    start = 0
    while start <= end:
        stop = text.find("\n", start + _SLICE, end)
        stop = end if stop < 0 else stop
        yield start, stop
        start = stop + 1


def _longest_line(text: str, start: int, end: int) -> int:
    return max(map(len, text[start:end].split("\n")))


def _lines_of_matches(compiled: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Span]:
    """Let `re` run over many lines: no set contains the line feed, so no match leaves its line."""
    while start <= end and (match := compiled.search(text, start, end)) is not None:
        line = _line_at(text, match.start(), end)
        yield line
        start = line[1] + 1


def _expression(node: Node, *, only_ascii: bool) -> str:
    """The pattern for the `re` module."""
    match node:
        case One(members):
            return members.expression(only_ascii=only_ascii)
        case Look(kind):
            return _look(kind, only_ascii=only_ascii)
        case Sequence(items):
            return "".join(_expression(item, only_ascii=only_ascii) for item in items)
        case Choice(items):
            return f"(?:{'|'.join(_expression(item, only_ascii=only_ascii) for item in items)})"
        case Repeat(item, least, most):
            counts = f"{{{least},{'' if most is None else most}}}"
            return f"(?:{_expression(item, only_ascii=only_ascii)}){counts}"


def _look(kind: LookKind, *, only_ascii: bool) -> str:
    word = WORD.expression(only_ascii=only_ascii)
    before, after, no_before, no_after = f"(?<={word})", f"(?={word})", f"(?<!{word})", f"(?!{word})"
    sound_before, sound_after = ("", "") if only_ascii else (r"(?<![\ud800-\udfff])", r"(?![\ud800-\udfff])")
    return {
        "line start": "^",
        "line end": "$",
        "boundary": f"(?:{before}{no_after}|{no_before}{after})",
        "no boundary": f"(?:{before}{after}|{no_before}{no_after}){sound_before}{sound_after}",
        "word start": no_before + after,
        "word end": before + no_after,
        "no word before": no_before + sound_before,
        "no word after": no_after + sound_after,
    }[kind]
