"""Bytes cut into lines at LF, and nowhere else: not at CR, not at the separators of Unicode. Pure.

A line that is too long is told as such and skipped to its end; whoever waits for more bytes never holds more than the
limit. Source: modes specification 8.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

MOST_BYTES = 10 * 1024 * 1024


class TooLong(ValueError):
    """A line has more bytes than a line may have."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the line is longer than {most_bytes} bytes")


@final
class LineCutter:
    """Feed it bytes as they come; it gives whole lines, without LF and without one CR before it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        """Lines that are complete now. A line that is too long is one `TooLong`."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            yield self._take()
            start = end + 1
        self._keep(data[start:])

    def finish(self) -> Iterator[bytes | TooLong]:
        """The last line, if it has no LF behind it."""
        if self._size:
            yield self._take()

    def _keep(self, part: bytes) -> None:
        """Hold a part of a line; of one that is too long only the size is remembered."""
        self._size += len(part)
        if self._size > self._most:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _take(self) -> bytes | TooLong:
        size, self._size = self._size, 0
        line = b"".join(self._parts)
        self._parts.clear()
        return TooLong(self._most) if size > self._most else line.removesuffix(b"\r")
