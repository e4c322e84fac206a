"""The two streams of a process: records and answers on one, words for a person on the other.

Everything is written whole and in order. A reader that has gone away ends the program quietly.
"""

from __future__ import annotations

import os
import sys
from typing import final


class ReaderGone(Exception):  # noqa: N818 - not an error of ours
    """Nobody reads standard output any more."""


@final
class Output:
    """Standard output and standard error as bytes. Text may hold anything, also halves of characters."""

    def __init__(self, out: int = 1, err: int = 2) -> None:
        self._out = out
        self._err = err
        self.out_is_terminal = os.isatty(out)
        self.err_is_terminal = os.isatty(err)

    def write(self, data: bytes) -> None:
        """To standard output.

        Raises:
            ReaderGone: the pipe is closed.
        """
        try:
            _write_all(self._out, data)
        except BrokenPipeError:
            raise ReaderGone from None

    def text(self, text: str) -> None:
        """Text to standard output."""
        self.write(as_bytes(text))

    def say(self, text: str) -> None:
        """Words for a person, to standard error; if even that is gone, nowhere."""
        try:
            _write_all(self._err, as_bytes(text))
        except OSError:
            return

    def error(self, text: str) -> None:
        """One line that says what went wrong."""
        self.say(f"Error: {one_line(text)}\n")

    def warning(self, text: str) -> None:
        self.say(f"Warning: {one_line(text)}\n")


def one_line(text: str) -> str:
    """The text without line breaks, so that a report stays one line."""
    return " ".join(text.split())


def as_bytes(text: str) -> bytes:
    """UTF-8; what cannot be encoded becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            _wait_writable(descriptor)


def _wait_writable(descriptor: int) -> None:
    import select

    select.select([], [descriptor], [])


def stdin_is_terminal() -> bool:
    try:
        return sys.stdin is None or os.isatty(0)
    except OSError:
        return True
