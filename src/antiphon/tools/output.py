"""How much of a long text a model sees, and how it is told about the rest. Pure.

Texts are measured in UTF-8 bytes and in lines (split at LF only; a final LF does not begin another line). Cuts fall on
character borders. Source: tools specification, 1.2; pinned by conformance/tools/truncate.json.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.core.wire import JsonObject

MAX_LINES = 2_000
MAX_BYTES = 50 * 1024
MAX_LINE_UNITS = 500
NO_LINE_LIMIT = 2**53 - 1  # as many lines as the bytes allow
CUT_MARK = "... [truncated]"

CutBy: TypeAlias = Literal["lines", "bytes"]


class Limits(Struct, frozen=True):
    """What is shown at most, whichever is reached first."""

    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES


DEFAULT_LIMITS = Limits()


class Truncation(Struct, frozen=True, kw_only=True):
    """What was kept of a text, and the size of the whole.

    `last_line_partial`: even the last line alone was too long, so only its end is kept. `first_line_exceeds`: the first
    line alone was too long, so nothing is kept.
    """

    content: str
    cut_by: CutBy | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds: bool = False
    limits: Limits = DEFAULT_LIMITS

    @property
    def truncated(self) -> bool:
        return self.cut_by is not None

    def details(self) -> JsonObject:
        """The wire form for a result's `details`: without the text, which stands in the result anyway."""
        return {
            "truncated": self.truncated,
            "truncatedBy": self.cut_by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "lastLinePartial": self.last_line_partial,
            "firstLineExceedsLimit": self.first_line_exceeds,
            "maxLines": self.limits.max_lines,
            "maxBytes": self.limits.max_bytes,
        }


def truncate_head(text: str, limits: Limits = DEFAULT_LIMITS) -> Truncation:
    """Whole lines from the start while they fit; the text unchanged if all of it fits."""
    data = _encode(text)
    lines = count_lines(data)
    if lines <= limits.max_lines and len(data) <= limits.max_bytes:
        return _whole(text, lines, len(data), limits)
    end, kept = head_end(data, limits)
    return Truncation(
        content=_decode(data[:end]),
        cut_by="lines" if kept == limits.max_lines < lines else "bytes",
        total_lines=lines,
        total_bytes=len(data),
        output_lines=kept,
        output_bytes=end,
        first_line_exceeds=kept == 0 and limits.max_lines > 0,
        limits=limits,
    )


def head_end(data: bytes, limits: Limits) -> tuple[int, int]:
    """Where the last kept line ends (its LF not included), and how many lines that are."""
    end = kept = start = 0
    while kept < limits.max_lines and start < len(data):
        stop = data.find(b"\n", start)
        stop = len(data) if stop < 0 else stop
        if stop > limits.max_bytes:
            break
        end, kept, start = stop, kept + 1, stop + 1
    return end, kept


def truncate_tail(text: str, limits: Limits = DEFAULT_LIMITS) -> Truncation:
    """Whole lines at the end while they fit; if not even the last one does, its end."""
    data = _encode(text)
    lines = count_lines(data)
    if lines <= limits.max_lines and len(data) <= limits.max_bytes:
        return _whole(text, lines, len(data), limits)
    body = data[:-1] if data.endswith(b"\n") else data
    start, kept = _tail_start(body, limits)
    partial = kept == 0 and limits.max_lines > 0
    if partial:
        start, kept = character_start(body, len(body) - limits.max_bytes), 1
    return Truncation(
        content=_decode(body[start:]),
        cut_by="lines" if kept == limits.max_lines < lines and not partial else "bytes",
        total_lines=lines,
        total_bytes=len(data),
        output_lines=kept,
        output_bytes=len(body) - start,
        last_line_partial=partial,
        limits=limits,
    )


def _tail_start(body: bytes, limits: Limits) -> tuple[int, int]:
    """Where the first kept line begins, and how many lines are kept."""
    start, kept = len(body), 0
    stop = len(body)
    while kept < limits.max_lines and stop >= 0:
        begin = body.rfind(b"\n", 0, stop) + 1
        if len(body) - begin > limits.max_bytes:
            break
        start, kept, stop = begin, kept + 1, begin - 1
    return start, kept


def _whole(text: str, lines: int, size: int, limits: Limits) -> Truncation:
    return Truncation(
        content=text,
        cut_by=None,
        total_lines=lines,
        total_bytes=size,
        output_lines=lines,
        output_bytes=size,
        limits=limits,
    )


def count_lines(data: bytes) -> int:
    """Lines of a text in UTF-8; the empty text has none."""
    return data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)


def character_start(data: bytes | bytearray, index: int) -> int:
    """The first position from `index` on that is not inside a UTF-8 character."""
    while 0 < index < len(data) and data[index] & 0xC0 == 0x80:
        index += 1
    return max(index, 0)


def character_end(data: bytes | bytearray, index: int) -> int:
    """The last position up to `index` that is not inside a UTF-8 character."""
    while 0 < index < len(data) and data[index] & 0xC0 == 0x80:
        index -= 1
    return min(index, len(data))


def format_size(size: int) -> str:
    """Bytes as `NB`, `N.NKB` or `N.NMB`, in steps of 1,024."""
    if size < 1024:
        return f"{size}B"
    if size < 1024 * 1024:
        return f"{_one_decimal(size, 1024)}KB"
    return f"{_one_decimal(size, 1024 * 1024)}MB"


def _one_decimal(size: int, unit: int) -> str:
    """One decimal, halves away from zero: whole numbers only, so that no platform's rounding shows."""
    tenths = (size * 20 + unit) // (2 * unit)
    return f"{tenths // 10}.{tenths % 10}"


def head_units(text: str, units: int) -> str:
    """The longest beginning of at most `units` UTF-16 units that splits no character."""
    head = text[: max(units, 0)]  # a character takes one unit or two, so this is long enough
    over = len(head) + _wide(head) - units
    while over > 0 and head:
        over -= 2 if head[-1] > "\uffff" else 1
        head = head[:-1]
    return head


def tail_units(text: str, units: int) -> str:
    """The longest end of at most `units` UTF-16 units that splits no character."""
    return head_units(text[::-1][: max(units, 0)], units)[::-1]


def _wide(text: str) -> int:
    return 0 if text.isascii() else sum(char > "\uffff" for char in text)


def cut_line(line: str, max_units: int = MAX_LINE_UNITS) -> tuple[str, bool]:
    """A line of at most `max_units` UTF-16 units and a mark if more was cut off; true if so."""
    if len(line) * 2 <= max_units or len(line) + _wide(line) <= max_units:
        return line, False
    return head_units(line, max_units) + CUT_MARK, True


def notice(*parts: str) -> str:
    """What is said after a shown text: a blank line, then the parts in one bracket. Empty without parts."""
    return f"\n\n[{'. '.join(parts)}]" if parts else ""


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
