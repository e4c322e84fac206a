"""From the bytes of a session file to its header, its table and a list of what is wrong with it. No I/O.

Every line is looked at, none is read whole: the decoder skips what the table does not need. What cannot be read is
skipped and reported, never removed. A parent that is nowhere is normally how another program wrote it, and its child a
root. But if a line was lost (one is unreadable, or the child carries our seal and we never write such a thing), the
child is linked to where the lost entry most likely stood, so that the history above it is not cut off.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import final

import msgspec
from msgspec import Struct, field

from antiphon.core.wire import JsonObject
from antiphon.session_log.damage import Damage, DamageKind
from antiphon.session_log.entries import Header, header_from_line
from antiphon.session_log.line import (
    BYTE_ORDER_MARK,
    glued_entry,
    is_skipped,
    read_object,
    read_value,
    salvaged_ids,
    seal_of,
)
from antiphon.session_log.tree import ROOT, Head, MessageHead, Table

_heads = msgspec.json.Decoder(Head)
_SPACE = b" \t\r\n\x0b\x0c"


@final
class Lost(Struct, frozen=True):
    """An unreadable line: what its beginning says it was, and the last entry read before it."""

    line: int
    entry_id: str | None
    parent_id: str | None
    before: int


@final
class Scan(Struct):
    """What was read so far. Feed it blocks of the file in order, then `finish`.

    To read what was added to a known file, give it header, table, the number of the `first` new entry and the size.
    """

    header: Header | None = None
    table: Table = field(default_factory=Table)
    first: int = 0
    damages: list[Damage] = field(default_factory=list[Damage])
    size: int = 0
    lines: int = 0
    unterminated: bool = False
    refused: bool = False
    has_unreadable: bool = False
    _rest: list[bytes] = field(default_factory=list[bytes])
    _parents: list[str | None] = field(default_factory=list[str | None])
    _lines: list[int] = field(default_factory=list[int])
    _sealed: bytearray = field(default_factory=bytearray)
    _lost: list[Lost] = field(default_factory=list[Lost])
    _lost_ids: dict[str, Lost] = field(default_factory=dict[str, Lost])

    def feed(self, block: bytes) -> None:
        """The next bytes of the file. After `refused` nothing more is read."""
        lines = block.split(b"\n")
        self._rest.append(lines[0])
        if len(lines) == 1:
            return
        lines[0] = b"".join(self._rest)
        self._rest = [lines.pop()]
        for line in lines:
            self._line(line, last=False)

    def finish(self) -> None:
        """No more bytes: a rest without newline is the last line; then parents are looked up."""
        rest = b"".join(self._rest)
        self._rest = []
        if rest:
            self.unterminated = True
            self._line(rest, last=True)
        if self.header is None and self.size:
            self.refused = True
        if not self.refused:
            self._link()

    def _line(self, line: bytes, *, last: bool) -> None:
        address = self.size
        self.size += len(line) if last else len(line) + 1
        self.lines += 1
        if line[-1:] == b"\r":
            line = line[:-1]
        if self.refused:
            return
        if self.header is None:
            self._before_header(line)
            return
        try:
            head = _heads.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self._difficult(line, address, last=last)
            return
        self._entry(head, line, address)

    def _before_header(self, line: bytes) -> None:
        if self.lines == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        readable, value = read_value(line)
        if not readable:
            if line.strip(_SPACE):
                self._report("unreadable line", "skipped")
                self.has_unreadable = True
            return
        if is_skipped(value):
            return
        self.header = header_from_line(line)
        self.refused = self.header is None
        self._check(line, None)

    def _entry(self, head: Head, line: bytes, address: int) -> None:
        if head.type == "session":
            self._check(line, None)
            return
        if head.id in self.table.by_id:
            self._report("repeated id", "the later entry counts", head.id)
        self.table.add(head, ROOT, address, len(line))
        self._parents.append(head.parent_id)
        self._lines.append(self.lines)
        self._sealed.append(self._check(line, head.id))

    def _check(self, line: bytes, entry_id: str | None) -> bool:
        """Is the line sealed? Reports a seal that does not fit."""
        seal = seal_of(line)
        if seal == "broken":
            self._report("altered line", "used as it is, although it is not what was written", entry_id)
        return seal != "none"

    def _difficult(self, line: bytes, address: int, *, last: bool) -> None:
        """A line that is not a plain entry: blank, not JSON, not an object, or with members of odd types."""
        if not line.strip(_SPACE):
            return
        readable, value = read_value(line)
        if not readable:
            self._unreadable(line, address, last=last)
        elif isinstance(value, dict):
            self._odd_object(value, line, address)
        elif not is_skipped(value):
            self._report("unreadable line", "skipped: not an entry but a bare value")

    def _odd_object(self, data: JsonObject, line: bytes, address: int) -> None:
        if data.get("type") == "session":
            return
        if not isinstance(data.get("id"), str):
            self._report("no id", "skipped")
            self.has_unreadable = True
            return
        self._entry(lenient_head(data), line, address)

    def _unreadable(self, line: bytes, address: int, *, last: bool) -> None:
        glued = glued_entry(line)
        if glued is not None:
            self._glued(line, address, glued)
            return
        self._lose(line)
        self._report("half line" if last else "unreadable line", "skipped, left in the file", self._lost[-1].entry_id)

    def _lose(self, line: bytes) -> None:
        self.has_unreadable = True
        self._lost.append(Lost(self.lines, *salvaged_ids(line), len(self.table) - 1))

    def _glued(self, line: bytes, address: int, at: int) -> None:
        """Two lines without a newline between them: read the second, and the first if it is whole."""
        before, behind = line[:at], line[at:]
        first = read_object(before)
        if first is not None and isinstance(first.get("id"), str):
            self._entry(lenient_head(first), before, address)
        else:
            self._lose(before)
        second = read_object(behind)
        assert second is not None
        self._report("glued line", "the entry in it was read although a newline is missing", second["id"])
        self._entry(lenient_head(second), behind, address + at)

    def _report(self, kind: DamageKind, done: str, entry_id: str | None = None) -> None:
        self.damages.append(Damage(kind, self.lines, done, entry_id))

    def report_entry(self, kind: DamageKind, number: int, done: str) -> None:
        """A finding about an entry that was read."""
        self.damages.append(Damage(kind, self._lines[number - self.first], done, self.table.ids[number]))

    def _link(self) -> None:
        """Parent ids become numbers; what has no parent, or would go in a circle, becomes a root."""
        table, by_id = self.table, self.table.by_id
        self._lost_ids = {lost.entry_id: lost for lost in reversed(self._lost) if lost.entry_id is not None}
        forward: list[int] = []
        for number, parent_id in enumerate(self._parents, self.first):
            if parent_id is None:
                continue
            parent = by_id.get(parent_id)
            if parent is None:
                parent = self._relinked(number, parent_id)
            elif parent >= number:
                forward.append(number)
                self.report_entry("out of order", number, "its parent does not stand before it")
            table.link(number, parent)
        for number in cycle_members(table, forward):
            table.link(number, ROOT)
            self.report_entry("cycle", number, "it was its own ancestor: it is a root now")
        self._parents, self._lines, self._sealed, self._lost = [], [], bytearray(), []

    def _relinked(self, number: int, parent_id: str) -> int:
        """Where a child of an entry that is nowhere belongs."""
        place = self._lost_place(number, parent_id)
        if place is None:
            self.report_entry("lost parent", number, f"its parent {parent_id} is nowhere: it is a root")
            return ROOT
        where = self.table.ids[place] if place != ROOT else "the beginning"
        self.report_entry("lost parent", number, f"its parent {parent_id} was lost: it was linked to {where}")
        return place

    def _lost_place(self, number: int, parent_id: str) -> int | None:
        """The entry before the lost one; nothing if there is no sign that anything was lost."""
        lost = self._lost_ids.get(parent_id)
        if lost is not None and lost.before < number:
            known = None if lost.parent_id is None else self.table.by_id.get(lost.parent_id)
            return lost.before if known is None or known >= number else known
        behind = bisect_left(self._lost, number, key=lambda lost: lost.before)
        if behind:
            return self._lost[behind - 1].before
        return number - 1 if self._sealed[number - self.first] else None


def cycle_members(table: Table, starts: Iterable[int]) -> list[int]:
    """One entry, the earliest, of every circle of parents that can be reached from `starts`.

    Parents normally stand before their children, so only links that point forward can close a circle.
    """
    ends = bytearray(len(table))
    found: list[int] = []
    for start in starts:
        way: dict[int, None] = {}
        number = start
        while number != ROOT and not ends[number] and number not in way:
            way[number] = None
            number = table.parents[number]
        if number in way:
            members = list(way)
            found.append(min(members[members.index(number) :]))
        for passed in way:
            ends[passed] = 1
    return found


def lenient_head(data: JsonObject) -> Head:
    """The head of an object whose members may have any type."""

    def text(name: str) -> str:
        value = data.get(name)
        return value if isinstance(value, str) else ""

    message = data.get("message")
    role = message.get("role") if isinstance(message, dict) else None
    parent = data.get("parentId")
    return Head(
        id=data["id"],
        type=text("type"),
        parent_id=None if parent is None else parent if isinstance(parent, str) else "",
        timestamp=text("timestamp"),
        message=MessageHead(role if isinstance(role, str) else ""),
        target_id=text("targetId"),
        label=text("label"),
        name=text("name"),
    )
