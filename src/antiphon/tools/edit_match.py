"""Finding and replacing texts in a file. Pure: bytes in, bytes out.

A file is looked at with every line end as LF; what is not touched keeps its bytes, line ends and bytes that are no
UTF-8 included. A text that is not there exactly is looked for in a loose form, in which kinds of quotes, dashes, spaces
and compatibility characters do not matter, nor blanks at line ends; the match is then mapped back, so that only the
matched range changes. Source: tools specification, 4; pinned by conformance/tools/edit.json.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec import Struct

BOM = b"\xef\xbb\xbf"


class Edit(Struct, frozen=True):
    """Replace the one place where `old` stands by `new`."""

    old: str
    new: str


class Replacement(Struct, frozen=True):
    """`start` to `end` of the text with LFs become `new`; `index` says which edit it was."""

    start: int
    end: int
    new: str
    index: int


class EditRefused(ValueError):
    """Why edits cannot be made. `missing`: the place is not in the file (as opposed to ambiguous, overlapping …)."""

    def __init__(self, text: str, *, missing: Edit | None = None) -> None:
        super().__init__(text)
        self.missing = missing


class Original:
    """A file's content, seen with LF line ends."""

    def __init__(self, content: bytes) -> None:
        self.bom = BOM if content.startswith(BOM) else b""
        self._text = content[len(self.bom) :].decode("utf-8", "surrogateescape")
        self.text = unify(self._text)
        self._loose: Loose | None = None
        self._wide_ends = _crlf_positions(self._text) if "\r\n" in self._text else []
        self._has_lf = "\n" in self._text

    @property
    def loose(self) -> Loose:
        if self._loose is None:
            self._loose = Loose(self.text)
        return self._loose

    def replaced(self, replacements: Sequence[Replacement]) -> bytes:
        """The content with these replacements, which are in order and do not overlap."""
        pieces: list[str] = []
        at = 0
        for one in replacements:
            start, end = self._position(one.start), self._position(one.end)
            pieces += (self._text[at:start], one.new.replace("\n", self._line_end(start)))
            at = end
        pieces.append(self._text[at:])
        return self.bom + _joined(pieces).encode("utf-8", "surrogateescape")

    def _position(self, index: int) -> int:
        """Where a position of the text with LFs is in the real one: each CRLF before it adds one."""
        return index + bisect_left(self._wide_ends, index)

    def _line_end(self, start: int) -> str:
        """The ending of the line where a range starts; of an unterminated last line, that of the line before."""
        match = _LINE_END.search(self._text, start)
        if match is None:
            cut = max(self._text.rfind("\n", 0, start), self._text.rfind("\r", 0, start))
            if cut < 0:
                return "\n"
            end = "\r\n" if self._text[max(cut - 1, 0) : cut + 1] == "\r\n" else self._text[cut]
        else:
            end = match[0]
        return "\n" if end == "\r" and self._has_lf else end


_LINE_END = re.compile(r"\r\n|\n|\r")


def unify(text: str) -> str:
    """CRLF and CR as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _crlf_positions(text: str) -> list[int]:
    """Where each CRLF is a LF in the text with LFs; ascending."""
    return [match.start() - count for count, match in enumerate(re.finditer("\r\n", text))]


def _joined(pieces: Sequence[str]) -> str:
    """The pieces as one text in which a CR at the end of one and a LF at the start of the next stay two line ends."""
    out: list[str] = []
    for piece in filter(None, pieces):
        if out and out[-1].endswith("\r") and piece.startswith("\n"):
            out.append("\r")
        out.append(piece)
    return "".join(out)


_KINDS = str.maketrans(
    {
        **dict.fromkeys(map(chr, range(0x2018, 0x201C)), "'"),
        **dict.fromkeys(map(chr, range(0x201C, 0x2020)), '"'),
        **dict.fromkeys(map(chr, [*range(0x2010, 0x2016), 0x2212]), "-"),
        **dict.fromkeys(map(chr, [0xA0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000]), " "),
    }
)
_BLANKS = "\t\v\f \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))


def loose_line(line: str) -> str:
    """A line in the form in which looks do not matter."""
    if line.isascii():
        return line.rstrip(_BLANKS)
    return unicodedata.normalize("NFKC", line).rstrip(_BLANKS).translate(_KINDS)


def loose_text(text: str) -> str:
    return "\n".join(map(loose_line, text.split("\n")))


class LooseRange(Struct, frozen=True):
    """A match in the strict text. `before` and `after`: parts of characters at its borders that were not matched."""

    start: int
    end: int
    before: str
    after: str


class Loose:
    """A text in its loose form, and the way back."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        loose = [loose_line(line) for line in self._lines]
        self.text = "\n".join(loose)
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
        self._loose_starts = [0, *accumulate(len(line) + 1 for line in loose)]

    def back(self, start: int, end: int) -> LooseRange:
        """The strict range of a match. One that reaches the end of a line takes the blanks there with it."""
        first, before = self._strict(start, at_end=False)
        last, after = self._strict(end, at_end=True)
        return LooseRange(first, last, before, after)

    def _strict(self, position: int, *, at_end: bool) -> tuple[int, str]:
        line = bisect_right(self._loose_starts, position) - 1
        inside = position - self._loose_starts[line]
        strict, start = self._lines[line], self._starts[line]
        length = self._loose_starts[line + 1] - self._loose_starts[line] - 1
        if inside >= length:
            return start + len(strict), ""
        if inside == 0 or strict.isascii():
            return start + inside, ""
        at = loose_at = 0
        for piece in _pieces(strict):
            form = unicodedata.normalize("NFKC", piece).translate(_KINDS)
            if loose_at + len(form) > inside:
                cut = inside - loose_at
                if not cut:
                    return start + at, ""
                return (start + at + len(piece), form[cut:]) if at_end else (start + at, form[:cut])
            at, loose_at = at + len(piece), loose_at + len(form)
        return start + at, ""


def _pieces(line: str) -> list[str]:
    """Parts of a line that can be normalised one by one."""
    pieces: list[str] = []
    for char in line:
        if pieces and (unicodedata.combining(char) or _composes(pieces[-1], char)):
            pieces[-1] += char
        else:
            pieces.append(char)
    return pieces


def _composes(piece: str, char: str) -> bool:
    """Does a character without combining class still melt into the one before it, as Hangul letters do?"""
    if char < "\u0900":
        return False
    apart = unicodedata.normalize("NFKC", piece) + unicodedata.normalize("NFKC", char)
    return unicodedata.normalize("NFKC", piece + char) != apart


def plan(original: Original, edits: Sequence[Edit], path: str) -> list[Replacement]:
    """Where each edit goes, in order of position. All are looked for in the same original text.

    Raises:
        EditRefused: an empty old text, a text that is not there or not once, places that overlap.
    """
    several = len(edits) > 1
    for index, edit in enumerate(edits):
        if not edit.old:
            name = f"edits[{index}].oldText" if several else "oldText"
            raise EditRefused(f"{name} must not be empty in {path}.")
    found = sorted(
        (_place(original, edit, index, several, path) for index, edit in enumerate(edits)),
        key=lambda one: (one.start, one.end),
    )
    for one, next_one in pairwise(found):
        if next_one.start < one.end:
            first, second = sorted((one.index, next_one.index))
            raise EditRefused(
                f"edits[{first}] and edits[{second}] overlap in {path}. "
                "Merge them into one edit or target disjoint regions."
            )
    return found


def _place(original: Original, edit: Edit, index: int, several: bool, path: str) -> Replacement:
    old, new = unify(edit.old), unify(edit.new)
    exact = _occurrences(original.text, old)
    if len(exact) == 1:
        return Replacement(exact[0], exact[0] + len(old), new, index)
    loose_old = loose_text(old)
    if exact:
        count = original.loose.text.count(loose_old) if loose_old else original.text.count(old)
        raise _ambiguous(count if count > 1 else len(exact), index, several, path)
    loose = _occurrences(original.loose.text, loose_old) if loose_old else []
    if not loose:
        raise _missing(edit, index, several, path)
    if len(loose) > 1:
        count = original.loose.text.count(loose_old)
        raise _ambiguous(count if count > 1 else len(loose), index, several, path)
    match = original.loose.back(loose[0], loose[0] + len(loose_old))
    return Replacement(match.start, match.end, match.before + new + match.after, index)


def _occurrences(text: str, wanted: str) -> list[int]:
    """The first two places, overlapping ones included; more are not needed to know that it is not unique."""
    first = text.find(wanted)
    second = text.find(wanted, first + 1) if first >= 0 else -1
    return [place for place in (first, second) if place >= 0]


def _missing(edit: Edit, index: int, several: bool, path: str) -> EditRefused:
    what, name = (f"edits[{index}]", "oldText") if several else ("the exact text", "old text")
    return EditRefused(
        f"Could not find {what} in {path}. The {name} must match exactly including all whitespace and newlines.",
        missing=edit,
    )


def _ambiguous(count: int, index: int, several: bool, path: str) -> EditRefused:
    what, name = (f"edits[{index}]", "Each oldText") if several else ("the text", "The text")
    return EditRefused(
        f"Found {count} occurrences of {what} in {path}. {name} must be unique. "
        "Please provide more context to make it unique."
    )
