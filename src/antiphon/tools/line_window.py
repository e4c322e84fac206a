"""A range of the lines of a file, taken from a stream of any length at constant memory. Pure.

A text has one line more than it has LFs, so one that ends in LF has an empty last line. What does not fit the limits is
counted, not kept. Source: tools specification, 2; pinned by conformance/tools/read.json.
"""

from __future__ import annotations

import codecs
from typing import Literal

from msgspec import Struct

from antiphon.tools.output import DEFAULT_LIMITS, CutBy, Limits, Truncation, head_end


class Selection(Struct, frozen=True):
    """The range as it may be shown. `first`: number of its first line, from 1; `file_lines`: of the whole text.

    `lines_behind`: how many lines follow a range that ended before the text did.
    """

    truncation: Truncation
    first: int
    file_lines: int
    first_line_bytes: int
    lines_behind: int


class LineWindow:
    """Feed the bytes of a text in order, then ask for the `selection`. `count` None: to the end."""

    def __init__(self, first: int = 1, count: int | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._first = first
        self._count = count
        self._limits = limits
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._where: Literal["before", "inside", "behind"] = "before"
        self._line = 1  # number of the line that the next byte belongs to
        self._missing = count or 0  # lines of the range that have not ended yet
        self._kept = bytearray()  # the beginning of the range, one byte more than may be shown
        self._bytes = 0
        self._newlines = 0
        self._open = False  # the range does not end in LF
        self._first_line_bytes: int | None = None
        self._behind_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._take(chunk, final=False)

    def selection(self) -> Selection:
        """The range. Nothing may be fed afterwards. Meaningless if the text has no line `first`."""
        self._take(b"", final=True)
        behind = 0
        if self._where == "behind" and self._count and not self._behind_bytes:
            self._keep(b"\n")  # only the empty line behind the final LF is left: the range is all there is
        elif self._where == "behind":
            behind = self._line - (self._first - 1 + (self._count or 0))
        return Selection(
            truncation=self._truncation(),
            first=self._first,
            file_lines=self._line,
            first_line_bytes=self._bytes if self._first_line_bytes is None else self._first_line_bytes,
            lines_behind=behind,
        )

    def _take(self, data: bytes, *, final: bool) -> None:
        """Outside of the range lines are only counted; in it broken bytes become U+FFFD."""
        if self._where == "before":
            data = self._skip(data)
        if self._where == "inside":
            data = self._range(self._decoder.decode(data, final).encode())
        if self._where == "behind":
            self._line += data.count(b"\n")
            self._behind_bytes += len(data) + len(self._decoder.getstate()[0])

    def _skip(self, data: bytes) -> bytes:
        """What is left of `data` from the first wanted line on."""
        ahead = data.count(b"\n")
        if self._line + ahead < self._first:
            self._line += ahead
            return b""
        start = 0
        while self._line < self._first:
            start = data.index(b"\n", start) + 1
            self._line += 1
        self._where = "behind" if self._count == 0 else "inside"
        return data[start:]

    def _range(self, data: bytes) -> bytes:
        """What is left of `data` behind the range. The LF that ends its last line does not belong to it."""
        end = 0
        while self._missing and (found := data.find(b"\n", end)) >= 0:
            end, self._missing = found + 1, self._missing - 1
        if self._count is None or self._missing:
            self._keep(data)
            self._line += data.count(b"\n")
            return b""
        self._keep(data[: end - 1])
        self._line += data.count(b"\n", 0, end)
        self._where = "behind"
        return data[end:]

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        if self._first_line_bytes is None and (end := data.find(b"\n")) >= 0:
            self._first_line_bytes = self._bytes + end
        self._bytes += len(data)
        self._newlines += data.count(b"\n")
        self._open = not data.endswith(b"\n")
        room = self._limits.max_bytes + 1 - len(self._kept)
        if room > 0:
            self._kept += data[:room]

    def _truncation(self) -> Truncation:
        lines = self._newlines + self._open
        fits = self._bytes <= self._limits.max_bytes and lines <= self._limits.max_lines
        end, kept = (self._bytes, lines) if fits else head_end(bytes(self._kept), self._limits)
        cut_by: CutBy | None = None if fits else "lines" if kept == self._limits.max_lines < lines else "bytes"
        return Truncation(
            content=self._kept[:end].decode(),
            cut_by=cut_by,
            total_lines=lines,
            total_bytes=self._bytes,
            output_lines=kept,
            output_bytes=end,
            first_line_exceeds=not fits and kept == 0,
            limits=self._limits,
        )
