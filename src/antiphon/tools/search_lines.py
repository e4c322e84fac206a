"""Matching lines of one file, with the lines around them; of files of any size, at constant memory.

A file is read in pieces of whole lines. A line too long for that is fed to the pattern's machine bit by bit, and only
its beginning is kept to be shown.
"""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from antiphon.tools.port import ByteReader
from antiphon.tools.regex import Pattern

FIRST_BYTES = 64 * 1024
"""So much is looked at for a zero byte, which tells that a file is no text."""

PIECE_BYTES = 1024 * 1024
LONG_LINE_BYTES = 4 * 1024 * 1024
KEPT_CHARACTERS = 4_096

_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class Line(Struct, frozen=True):
    """A line to show; broken bytes are surrogates."""

    number: int
    text: str
    is_match: bool


class Budget(Struct):
    """How many matches are still wanted, over all files. `more`: at least one beyond them was seen."""

    left: int
    more: bool = False


class _LongLine(Struct, frozen=True):
    """The beginning of a line that is too long to hold, and whether it matches."""

    text: str
    matches: bool


def search_lines(
    reader: ByteReader,
    pattern: Pattern,
    budget: Budget,
    stopped: Callable[[], bool],
    *,
    context: int = 0,
    any_bytes: bool = False,
) -> Iterable[Line]:
    """Lines to show, in order. `any_bytes`: search the file even if it is no text.

    The search ends when the budget is spent, one more match was seen, and the last match has its context.
    """
    head = reader.read(FIRST_BYTES)
    is_whole = len(head) < FIRST_BYTES and reader.info.kind == "file"
    if is_whole and head[:2] not in _UTF16 and not pattern.may_match(head):  # most files
        return ()
    return _lines(reader, head, _Search(pattern, budget, stopped, context), any_bytes)


def _lines(reader: ByteReader, head: bytes, search: _Search, any_bytes: bool) -> Iterator[Line]:
    for piece in _pieces(reader, head, search.pattern, search.stopped, any_bytes):
        if isinstance(piece, _LongLine):
            yield from search.long_line(piece)
        else:
            yield from search.piece(piece)
        if search.is_done or search.stopped():
            return


class _Search(Struct):
    pattern: Pattern
    budget: Budget
    stopped: Callable[[], bool]
    context: int
    first: int = 1  # number of the first line of the next piece
    shown: int = 0  # number of the last line shown
    show_until: int = 0  # lines up to this number belong to the context of a match
    earlier: deque[tuple[int, str]] = field(default_factory=deque[tuple[int, str]])  # the lines before the next piece

    @property
    def is_done(self) -> bool:
        return self.budget.more and self.first > self.show_until

    def piece(self, data: bytes | str) -> Iterator[Line]:
        """Search whole lines."""
        if isinstance(data, bytes):
            if not self.show_until >= self.first and not self.pattern.may_match(data):
                self._skip(data)
                return
            data = data.decode("utf-8", "surrogateescape")
        count = data.count("\n") + (not data.endswith("\n"))
        yield from self._show(data, count)
        self.first += count

    def long_line(self, line: _LongLine) -> Iterator[Line]:
        """A line that has been searched already."""
        matches = line.matches and self._spend()
        if matches:
            yield from self._around(self.first, {}, line.text)
        elif self.first <= self.show_until:
            yield Line(self.first, line.text, is_match=False)
            self.shown = self.first
        self._remember([line.text], self.first)
        self.first += 1

    def _show(self, text: str, count: int) -> Iterator[Line]:
        number, place = self.first, 0
        lines: dict[int, str] = {}
        if self.context:
            lines = dict(enumerate(text.removesuffix("\n").split("\n"), self.first))
        if not self.budget.more:
            for start, end in self.pattern.matching_lines(text, self.stopped):
                number += text.count("\n", place, start)
                place = start
                if not self._spend():
                    break
                yield from self._around(number, lines, text[start:end])
        yield from self._fill(self.first + count - 1, lines)
        if self.context:
            self._remember(
                [lines[n] for n in range(max(self.first, self.first + count - self.context), self.first + count)],
                max(self.first, self.first + count - self.context),
            )

    def _spend(self) -> bool:
        if self.budget.left == 0:
            self.budget.more = True
            return False
        self.budget.left -= 1
        return True

    def _around(self, number: int, lines: dict[int, str], text: str) -> Iterator[Line]:
        """What is left of the context of the match before, the context before this match, and the match."""
        yield from self._fill(number - 1, lines)
        before = dict(self.earlier)
        for near in range(max(self.shown + 1, number - self.context), number):
            near_text = lines.get(near, before.get(near))
            if near_text is not None:
                yield Line(near, near_text, is_match=False)
        yield Line(number, text, is_match=True)
        self.shown = number
        self.show_until = number + self.context

    def _fill(self, last: int, lines: dict[int, str]) -> Iterator[Line]:
        for number in range(max(self.shown + 1, self.first), min(self.show_until, last) + 1):
            yield Line(number, lines[number], is_match=False)
            self.shown = number

    def _remember(self, texts: list[str], first: int) -> None:
        self.earlier.extend(enumerate(texts, first))
        while len(self.earlier) > self.context:
            self.earlier.popleft()

    def _skip(self, data: bytes) -> None:
        """Lines without a match: count them, and keep the last for the context of what follows."""
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        if self.context:
            last = data.removesuffix(b"\n").rsplit(b"\n", self.context)[-self.context :]
            self._remember([line.decode("utf-8", "surrogateescape") for line in last], self.first + count - len(last))
        self.first += count


def _pieces(
    reader: ByteReader, data: bytes, pattern: Pattern, stopped: Callable[[], bool], any_bytes: bool
) -> Iterator[bytes | str | _LongLine]:
    """The file in pieces of whole lines: bytes in UTF-8, or text if it was in another encoding. `data`: its beginning.

    A file with a zero byte in the first piece is no text and gives nothing; one that comes later ends the search.
    """
    if data[:2] in _UTF16:
        yield from _utf16_pieces(reader, data, any_bytes)
        return
    is_whole = len(data) < FIRST_BYTES and reader.info.kind == "file"
    data = data.removeprefix(_UTF8_BOM)
    if is_whole:  # most files: nothing more can come
        if data and (any_bytes or b"\0" not in data):
            yield data
        return
    rest = b""
    while data and not stopped():
        if not any_bytes and b"\0" in data:
            return
        cut = data.rfind(b"\n") + 1
        if cut:
            yield rest + data[:cut]
            rest = data[cut:]
        else:
            rest += data
        if len(rest) > LONG_LINE_BYTES:
            line, rest = _read_long_line(reader, rest, pattern, stopped)
            yield line
        data = reader.read(PIECE_BYTES)
    if rest:
        yield rest


def _read_long_line(
    reader: ByteReader, data: bytes, pattern: Pattern, stopped: Callable[[], bool]
) -> tuple[_LongLine, bytes]:
    """Read on to the end of the line; and what has been read beyond it."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    machine = pattern.machine
    state = machine.begin
    kept = ""
    rest = b""
    while True:
        end = data.find(b"\n")
        if end >= 0:
            data, rest = data[:end], data[end + 1 :]
        text = decoder.decode(data)
        kept = kept or text[:KEPT_CHARACTERS]
        state = machine.feed(state, text, stopped)
        if end >= 0 or stopped():
            break
        data = reader.read(PIECE_BYTES)
        if not data:
            break
    state = machine.feed(state, decoder.decode(b"", True), stopped)
    return _LongLine(kept, machine.ends_matched(state)), rest


def _utf16_pieces(reader: ByteReader, data: bytes, any_bytes: bool) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(_UTF16[data[:2]])("replace")
    data = data[2:]
    rest = ""
    while data:
        text = decoder.decode(data)
        if not any_bytes and "\0" in text:
            return
        rest += text
        cut = rest.rfind("\n") + 1
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
        data = reader.read(PIECE_BYTES)
    rest += decoder.decode(b"", True)
    if rest:
        yield rest
