"""Output of any length at constant memory: counts, a tail to show, both ends for programs, the whole in a file.

An `Output` is fed from one thread and looked at from another. What it keeps is bounded by the limits alone. As soon as
a limit is exceeded, every byte goes to a spill file. Source: tools specification, 6; conformance/tools/accumulate.json.
"""

from __future__ import annotations

import codecs
import os
import threading

from msgspec import Struct, structs

from antiphon.core.wire import JsonObject
from antiphon.tools.output import (
    DEFAULT_LIMITS,
    Limits,
    Truncation,
    character_end,
    character_start,
    format_size,
    notice,
    truncate_tail,
)
from antiphon.tools.spill_files import SpillFiles

FULL_MAX_BYTES = 1024 * 1024


class Shown(Struct, frozen=True):
    """What a model sees of an output. `text` ends with a notice if something was left out."""

    text: str
    truncation: Truncation
    full_output_path: str | None

    def details(self) -> JsonObject | None:
        """For the `details` of a result: None if all of the output is shown."""
        if not self.truncation.truncated:
            return None
        out: JsonObject = {"truncation": self.truncation.details()}
        if self.full_output_path is not None:
            out["fullOutputPath"] = self.full_output_path
        return out


class Output:
    """A growing output. `feed` from one thread; everything else from any."""

    def __init__(
        self, spills: SpillFiles, limits: Limits = DEFAULT_LIMITS, *, full_max_bytes: int = FULL_MAX_BYTES
    ) -> None:
        self.limits = limits
        self._spills = spills
        self._lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._raw_bytes = 0
        self._total_bytes = 0
        self._newlines = 0
        self._open_line_bytes = 0  # bytes since the last LF
        self._tail = _Tail(keep=2 * limits.max_bytes, most=4 * limits.max_bytes)
        self._ends = _Ends(full_max_bytes)
        self._file: int | None = None
        self._early: list[bytes] | None = []  # raw chunks until the spill decides; then None
        self._finished = False
        self.full_output_path: str | None = None
        self.spill_error: str | None = None

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the output. The chunk is not kept unless the output is still short."""
        with self._lock:
            self._raw_bytes += len(chunk)
            self._take(self._decoder.decode(chunk))
            if self._early is not None:
                self._early.append(chunk)
                if self._over():
                    self._start_spill()
            elif self._file is not None:
                self._spill(chunk)

    def finish(self) -> None:
        """No more will come: an unfinished character becomes U+FFFD, the file is closed. Idempotent."""
        with self._lock:
            if self._finished:
                return
            self._finished = True
            self._take(self._decoder.decode(b"", True))
            if self._early is not None and self._over():
                self._start_spill()
            self._early = []
            self._close()

    @property
    def total_lines(self) -> int:
        return self._newlines + (1 if self._open_line_bytes else 0)

    @property
    def total_bytes(self) -> int:
        """Bytes of the decoded text so far."""
        return self._total_bytes

    @property
    def last_line_bytes(self) -> int:
        """Bytes of the last line if it has no end yet, else 0."""
        return self._open_line_bytes

    @property
    def truncated(self) -> bool:
        return self._total_bytes > self.limits.max_bytes or self.total_lines > self.limits.max_lines

    @property
    def spilled(self) -> bool:
        return self.full_output_path is not None

    def truncation(self) -> Truncation:
        """The end of the output, as it may be shown now."""
        with self._lock:
            shown = truncate_tail(self._tail.text(), self.limits)
            cut_by = shown.cut_by
            if cut_by is None and self.truncated:  # what is left of the end after one over-long line
                cut_by = "bytes" if self._total_bytes > self.limits.max_bytes else "lines"
            return structs.replace(shown, cut_by=cut_by, total_lines=self.total_lines, total_bytes=self._total_bytes)

    def shown(self) -> Shown:
        """The end of the output with a notice about the rest, as it may be shown now."""
        with self._lock:
            truncation = self.truncation()
            text = truncation.content
            if truncation.truncated:
                text += notice(self._range(truncation), self._whereabouts())
            return Shown(text, truncation, self.full_output_path)

    def full(self) -> tuple[str, bool]:
        """The whole text, or its two halves around a note if it is too long for memory; true if so."""
        with self._lock:
            return self._ends.text(self._total_bytes)

    def _range(self, cut: Truncation) -> str:
        last, size = cut.total_lines, format_size(self.limits.max_bytes)
        if cut.last_line_partial:
            line = format_size(self.last_line_bytes)  # 0B for a line that has ended, as models know it
            return f"Showing last {format_size(cut.output_bytes)} of line {last} (line is {line})"
        first = last - cut.output_lines + 1
        return f"Showing lines {first}-{last} of {last}" + (f" ({size} limit)" if cut.cut_by == "bytes" else "")

    def _whereabouts(self) -> str:
        if self.spill_error is not None:
            return f"The full output could not be kept: {self.spill_error}"
        return f"Full output: {self.full_output_path}"

    def _take(self, text: str) -> None:
        if not text:
            return
        data = text.encode("utf-8")
        self._total_bytes += len(data)
        last = data.rfind(b"\n")
        if last < 0:
            self._open_line_bytes += len(data)
        else:
            self._newlines += data.count(b"\n")
            self._open_line_bytes = len(data) - last - 1
        self._tail.add(data)
        self._ends.add(data)

    def _over(self) -> bool:
        return self._raw_bytes > self.limits.max_bytes or self.truncated

    def _start_spill(self) -> None:
        early, self._early = self._early or [], None
        try:
            self._file, self.full_output_path = self._spills.create()
        except OSError as error:
            self.spill_error = error.strerror or str(error)
            return
        for chunk in early:
            self._spill(chunk)

    def _spill(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        try:
            while self._file is not None and len(view):
                view = view[os.write(self._file, view) :]
        except OSError as error:  # a full disk must not end the command whose output this is
            self.spill_error = error.strerror or str(error)
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _Tail:
    """The last `keep` to `most` bytes of a text, cut at a character border."""

    def __init__(self, keep: int, most: int) -> None:
        self._keep = keep
        self._most = most
        self._data = bytearray()
        self._at_line_start = True

    def add(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > self._most:
            cut = character_start(self._data, len(self._data) - self._keep)
            self._at_line_start = self._data[cut - 1 : cut] == b"\n"
            del self._data[:cut]

    def text(self) -> str:
        """From the first whole line on; all of it if it lies inside one long line."""
        start = 0 if self._at_line_start else self._data.find(b"\n") + 1
        return (self._data[start:] or self._data).decode("utf-8")


class _Ends:
    """The first and the last half of a text, `most` bytes together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._half = most // 2
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._most:
            del self._tail[: len(self._tail) - self._most]

    def text(self, total_bytes: int) -> tuple[str, bool]:
        if total_bytes <= self._most:
            return (self._head + self._tail).decode("utf-8"), False
        joined = self._head + self._tail[:3]  # so that the border is seen from both sides
        head = self._head[: character_end(joined, len(self._head))]
        tail = self._tail[character_start(self._tail, len(self._tail) - self._half) :]
        omitted = total_bytes - len(head) - len(tail)
        return f"{head.decode()}\n\n[... {omitted} bytes omitted ...]\n\n{tail.decode()}", True
