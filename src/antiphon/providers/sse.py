"""Server-sent events as a pure parser: bytes in, events out.

The result does not depend on how the bytes are cut. Line ends are LF, CR and CRLF, and a CRLF may straddle two reads;
nothing else ends a line (U+2028 does not). The data stays bytes: the JSON reader takes bytes, and a character cut
between two reads needs no care here.
"""

from __future__ import annotations

from typing import Final, final

from msgspec import Struct

MAX_EVENT_BYTES: Final = 256 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event grows beyond all reason; the stream should be given up."""


class SseEvent(Struct, frozen=True):
    """`name` of the `event:` line, or empty; `data` lines joined by LF."""

    name: str
    data: bytes


@final
class SseParser:
    """Feed it what was read; it gives back the events that are complete. Linear in the bytes."""

    __slots__ = ("_after_cr", "_at_start", "_data", "_limit", "_name", "_pieces", "_size")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._pieces: list[bytes] = []  # of a line whose end has not come
        self._size = 0  # bytes held in pieces and data
        self._data: list[bytes] = []
        self._name = b""
        self._after_cr = False
        self._at_start = True
        self._limit = max_event_bytes

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Events that these bytes complete.

        Raises:
            EventTooLarge: a single event is larger than the limit.
        """
        if not piece:
            return []
        piece = self._one_kind_of_line_end(piece)
        *lines, rest = piece.split(b"\n")
        if lines:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces.clear()
        if rest:
            self._pieces.append(rest)
        events = self._take(lines)
        self._size += len(rest)
        if self._size > self._limit:
            raise EventTooLarge(f"an event of the stream is larger than {self._limit} bytes")
        return events

    def close(self) -> list[SseEvent]:
        """What stands at the end without a blank line behind it. It may be cut: reading its data will tell."""
        last = b"".join(self._pieces)
        self._pieces.clear()
        events = self._take([last] if last else [])
        if self._data or self._name:
            events.append(self._event())
        return events

    def _one_kind_of_line_end(self, piece: bytes) -> bytes:
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            if not piece:
                self._after_cr = False
                return piece
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _take(self, lines: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append(self._event())
                self._name = b""
                self._size = 0
                continue
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BOM)
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                self._data.append(value)
                self._size += len(value)
            elif line.startswith(b"event:"):
                self._name = line[6:].strip()
            elif line == b"data":
                self._data.append(b"")
        return events

    def _event(self) -> SseEvent:
        event = SseEvent(self._name.decode("utf-8", "replace"), b"\n".join(self._data))
        self._data.clear()
        self._name = b""
        return event
