"""A place in a pattern that is being read, and the flags in force there. Pure."""

from __future__ import annotations

from msgspec import Struct

from antiphon.tools.regex.syntax import BadPattern

MAX_DEPTH = 100


class Flags(Struct, frozen=True):
    """`spaced`: blanks and comments in the pattern mean nothing."""

    ignore_case: bool = False
    spaced: bool = False


class Cursor:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def fault(self, why: str, at: int | None = None) -> BadPattern:
        """What is wrong, and where."""
        place = min(self.at if at is None else at, len(self.text))
        return BadPattern(f"regex parse error at character {place + 1} of '{self.text}': {why}")

    def peek(self, text: str) -> bool:
        """Whether this comes next."""
        return self.text.startswith(text, self.at)

    def take(self, text: str) -> bool:
        """Read this if it comes next."""
        if self.peek(text):
            self.at += len(text)
            return True
        return False

    def next(self, missing: str) -> str:
        """Read one character; `missing` is the fault if there is none."""
        if self.at_end:
            raise self.fault(missing)
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str, missing: str) -> str:
        """Read up to and with `end`; what stands before it."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise self.fault(missing)
        found = self.text[self.at : stop]
        self.at = stop + len(end)
        return found

    def skip_blank(self) -> None:
        """Read blanks and comments."""
        while not self.at_end:
            char = self.text[self.at]
            if char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char.isspace():
                self.at += 1
            else:
                return
