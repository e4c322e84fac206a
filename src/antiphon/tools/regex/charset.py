"""Sets of characters, by code point. Pure.

A set knows its ASCII part at once and works out the rest when somebody asks: most files are ASCII, and the full set of
word characters costs 20 ms. Surrogates stand for bytes that are not UTF-8; no set contains one.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
_ASCII_MASK = (1 << 128) - 1
_ALL: Ranges = ((0, 0xD7FF), (0xE000, LAST))


class CharSet:
    """An immutable set of characters."""

    __slots__ = ("_make", "_ranges", "_starts", "ascii")

    def __init__(self, ascii_bits: int, make: Callable[[], Ranges]) -> None:
        self.ascii = ascii_bits
        self._make = make
        self._ranges: Ranges | None = None
        self._starts: list[int] = []

    @property
    def ranges(self) -> Ranges:
        """The whole set as ascending ranges, both ends included, that do not touch."""
        if self._ranges is None:
            self._ranges = self._make()
            self._starts = [first for first, _ in self._ranges]
        return self._ranges

    def __contains__(self, code: int) -> bool:
        if code < 128:
            return bool(self.ascii >> code & 1)
        ranges = self.ranges
        index = bisect_right(self._starts, code) - 1
        return index >= 0 and code <= ranges[index][1]

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet(self.ascii | other.ascii, lambda: united((*self.ranges, *other.ranges)))

    def __and__(self, other: CharSet) -> CharSet:
        return CharSet(self.ascii & other.ascii, lambda: _common(self.ranges, other.ranges))

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    def __xor__(self, other: CharSet) -> CharSet:
        return (self | other) - (self & other)

    def __invert__(self) -> CharSet:
        return CharSet(~self.ascii & _ASCII_MASK, lambda: _rest(self.ranges))

    def folded(self) -> CharSet:
        """With every character that differs from a member in case only."""
        return CharSet(_folded_ascii(self), lambda: _folded(self.ranges))

    def expression(self, *, only_ascii: bool) -> str:
        """The set for the `re` module, for texts of ASCII characters alone or for all texts."""
        ranges = _bits_to_ranges(self.ascii) if only_ascii else self.ranges
        if not ranges:
            return "(?!)"
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return re.escape(chr(ranges[0][0]))
        return f"[{''.join(map(_range_text, ranges))}]"


def _range_text(ends: tuple[int, int]) -> str:
    first, last = map(_char_text, ends)
    return first if first == last else f"{first}-{last}"


def _char_text(code: int) -> str:
    """A character as it stands between brackets. Only ASCII is escaped: that is many times faster to compile."""
    return f"\\x{code:02x}" if code < 128 else chr(code)


def of_ranges(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """The set of the characters in these ranges."""
    whole = _common(united(ranges), _ALL)
    return CharSet(_ascii_bits(whole), lambda: whole)


def of_chars(chars: str) -> CharSet:
    """The set of these characters."""
    return of_ranges((ord(char), ord(char)) for char in chars)


def of_test(test: Callable[[int], bool]) -> CharSet:
    """The set of the characters for which a test holds; beyond ASCII it is asked only when needed."""
    bits = sum(1 << code for code in range(128) if test(code))
    return CharSet(bits, lambda: _tested(test))


def _tested(test: Callable[[int], bool]) -> Ranges:
    out: list[tuple[int, int]] = []
    first: int | None = None
    for code in _assignable():
        if test(code):
            first = code if first is None else first
        elif first is not None:
            out.append((first, code - 1))
            first = None
    if first is not None:
        out.append((first, LAST))
    return _common(united(out), _ALL)


def _assignable() -> Iterable[int]:
    """Planes 0 to 3, tags, and the last planes by their first and last members: the rest is empty or uniform."""
    yield from range(0x33480)
    yield from range(0xE0000, 0xE0200)
    yield from (0xF0000, 0xFFFFE, 0x100000, 0x10FFFE)


def united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Ascending, and ranges that overlap or touch joined."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], last))
        else:
            out.append((first, last))
    return tuple(out)


def _common(left: Ranges, right: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            out.append((first, last))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(out)


def _rest(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    start = 0
    for first, last in ranges:
        out.append((start, first - 1))
        start = last + 1
    out.append((start, LAST))
    return _common(tuple(pair for pair in out if pair[0] <= pair[1]), _ALL)


def _ascii_bits(ranges: Ranges) -> int:
    return sum((1 << min(last, 127) + 1) - (1 << first) for first, last in ranges if first < 128)


def _bits_to_ranges(bits: int) -> Ranges:
    return united((code, code) for code in range(128) if bits >> code & 1)


# Case. Two characters are the same but for case if their simple case foldings are equal.

_UPPER_BITS = sum(1 << code for code in range(ord("A"), ord("Z") + 1))
_LOWER_BITS = _UPPER_BITS << 32
_LONG_S, _KELVIN = 0x17F, 0x212A


def fold_key(char: str) -> str:
    """What a character has in common with those that differ from it in case only."""
    folded = char.casefold()
    if len(folded) == 1:
        return folded
    lowered = char.lower()
    return lowered if len(lowered) == 1 else char


@cache
def _families() -> dict[str, tuple[int, ...]]:
    """The characters of each key that has more than one."""
    found: dict[str, list[int]] = {}
    for code in range(0x1E944):
        char = chr(code)
        if char.lower() != char or char.upper() != char or char.casefold() != char:
            key = fold_key(char)
            found.setdefault(key, [ord(key)] if key != char else []).append(code)
    return {key: tuple(set(codes)) for key, codes in found.items() if len(set(codes)) > 1}


def _folded_ascii(members: CharSet) -> int:
    bits = members.ascii
    if _LONG_S in members:
        bits |= 1 << ord("s")
    if _KELVIN in members:
        bits |= 1 << ord("k")
    return bits | (bits & _UPPER_BITS) << 32 | (bits & _LOWER_BITS) >> 32


def _folded(ranges: Ranges) -> Ranges:
    return united((*ranges, *((code, code) for code in _variants(ranges))))


def _variants(ranges: Ranges) -> Iterable[int]:
    if ranges and ranges[-1][1] < 128:  # plain letters: no need for the table of all scripts
        for first, last in ranges:
            for code in range(first, last + 1):
                if chr(code).isalpha():
                    yield code ^ 0x20
        lowered = {chr(code).lower() for first, last in ranges for code in range(first, last + 1)}
        yield from (code for char, code in (("s", _LONG_S), ("k", _KELVIN)) if char in lowered)
        return
    members = of_ranges(ranges)
    for codes in _families().values():
        if any(code in members for code in codes):
            yield from codes


# The classes that have a letter of their own.

_JOINERS = (0x200C, 0x200D)
_LETTERS_IN_CIRCLES = ((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189))
_WORD_CATEGORIES = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"})


def _is_word(code: int) -> bool:
    return (
        unicodedata.category(chr(code)) in _WORD_CATEGORIES
        or code in _JOINERS
        or (code >= 0x24B6 and any(first <= code <= last for first, last in _LETTERS_IN_CIRCLES))
    )


def in_categories(*names: str) -> CharSet:
    """The characters of general categories, each given by its two letters or by the first alone."""
    return of_test(lambda code: unicodedata.category(chr(code)).startswith(names))


EMPTY = of_ranges(())
ANY = of_ranges(_ALL)
NEWLINE = of_chars("\n")
WORD = of_test(_is_word)
DIGIT = in_categories("Nd")
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
SPACE = of_chars(_SPACES + "\u2028\u2029\u202f\u205f\u3000")
