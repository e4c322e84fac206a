"""What is known of every entry without reading it: a table of columns, and the paths through it.

Entries are numbered in file order. The table holds for each its id, kind, parent's number and where its line stands;
a line itself is read only when somebody asks for that entry. So memory follows the number of entries, not their size,
and a table of 100,000 entries can be stored beside the file and read back at once (`index_file.py`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import final

from msgspec import UNSET, Struct, UnsetType, field

from antiphon.core.json_numbers import JS_SPACE

KINDS = (
    "",  # unknown
    "message",
    "model_change",
    "thinking_level_change",
    "usage",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "context_edit",
    "label",
    "session_info",
    "position",
    "message user",
    "message assistant",
    "message system",
    "message toolResult",
)
"""Column values by code. A message of a role that we know has a code of its own."""
CODES = {kind: code for code, kind in enumerate(KINDS)}
ROLE_CODES = {kind.removeprefix("message "): code for code, kind in enumerate(KINDS) if " " in kind}
UNKNOWN, MESSAGE, MODEL, THINKING = 0, 1, 2, 3
COMPACTION, CUSTOM, EDIT, LABEL, INFO, POSITION = 5, 7, 9, 10, 11, 12
USER, ASSISTANT, SYSTEM, TOOL_RESULT = 13, 14, 15, 16
MESSAGES = frozenset({MESSAGE, USER, ASSISTANT, SYSTEM, TOOL_RESULT})

ROOT = -1


class MessageHead(Struct, gc=False):
    """The one member of a message that the table needs."""

    role: str = ""


class Head(Struct, gc=False, rename="camel"):
    """The members of a line that the table needs; everything else is skipped without being looked at."""

    id: str
    type: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    message: MessageHead | UnsetType = UNSET
    target_id: str | UnsetType = UNSET
    label: str | UnsetType | None = UNSET
    name: str | UnsetType = UNSET


def code_of(head: Head) -> int:
    """The column value of an entry."""
    if head.type == "message" and head.message is not UNSET:
        return ROLE_CODES.get(head.message.role, MESSAGE)
    return CODES.get(head.type, UNKNOWN)


@final
class Mark(Struct, frozen=True, gc=False):
    """A label in force, and when it was set."""

    label: str
    timestamp: str


@final
class Table(Struct):
    """Columns over all entries of a session. Grows at its end; a number, once given, stays."""

    ids: list[str] = field(default_factory=list[str])
    kinds: bytearray = field(default_factory=bytearray)
    parents: array[int] = field(default_factory=lambda: array("l"))
    addresses: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    by_id: dict[str, int] = field(default_factory=dict[str, int])
    labels: dict[str, Mark] = field(default_factory=dict[str, Mark])
    name: str | None = None
    _below: dict[int, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, head: Head, parent: int, address: int, length: int) -> int:
        """The number of a new last entry."""
        number = len(self.ids)
        code = code_of(head)
        self.ids.append(head.id)
        self.kinds.append(code)
        self.parents.append(parent)
        self.addresses.append(address)
        self.lengths.append(length)
        self.by_id[head.id] = number
        if self._below is not None:
            self._below.setdefault(parent, []).append(number)
        if code == LABEL:
            self._label(head)
        elif code == INFO:
            self.name = None if head.name is UNSET else head.name.strip(JS_SPACE) or None
        return number

    def _label(self, head: Head) -> None:
        if head.target_id is UNSET:
            return
        if head.label:
            self.labels[head.target_id] = Mark(head.label, head.timestamp)
        else:
            self.labels.pop(head.target_id, None)

    def number(self, entry_id: str | None) -> int:
        """The number of an entry, `ROOT` for none.

        Raises:
            KeyError: no such entry.
        """
        return ROOT if entry_id is None else self.by_id[entry_id]

    def upward(self, number: int) -> Iterator[int]:
        """The entry and its ancestors, leaf first."""
        parents = self.parents
        while number != ROOT:
            yield number
            number = parents[number]

    def path(self, number: int) -> list[int]:
        """The way from a root to the entry, root first."""
        way = list(self.upward(number))
        way.reverse()
        return way

    def children(self, number: int) -> list[int]:
        """All entries whose parent this is, in file order; of `ROOT`: all roots. Asked again it costs what it gives."""
        if self._below is None:
            self._below = {}
            for child, parent in enumerate(self.parents):
                self._below.setdefault(parent, []).append(child)
        return list(self._below.get(number, ()))

    def link(self, number: int, parent: int) -> None:
        """Give an entry another parent: only who reads a file does."""
        self.parents[number] = parent
        self._below = None


@final
class TreeNode(Struct, frozen=True):
    """An entry in the tree view. `children` is shared between entries with the same id."""

    number: int
    id: str
    kind: str
    label: str | None
    label_time: str | None
    children: list[TreeNode]


def tree_view(table: Table, times_ms: dict[int, int | None]) -> list[TreeNode]:
    """The roots, each with its children nested.

    Siblings are sorted by entry time, stable; a time that cannot be read is equal to every other. `times_ms` needs an
    entry for every sibling of another (see `numbers_with_siblings`). Entries with a repeated id show the same children:
    walk with `walk_tree`, which shows each entry once.
    """
    groups: dict[int, list[TreeNode]] = {ROOT: []}
    by_number = table.by_id
    for number, entry_id in enumerate(table.ids):
        mark = table.labels.get(entry_id)
        node = TreeNode(
            number,
            entry_id,
            KINDS[table.kinds[number]].split(" ")[0],
            mark.label if mark else None,
            mark.timestamp if mark else None,
            groups.setdefault(by_number[entry_id], []),
        )
        groups.setdefault(table.parents[number], []).append(node)
    for siblings in groups.values():
        if len(siblings) > 1:
            _sort(siblings, times_ms)
    return groups[ROOT]


def _sort(siblings: list[TreeNode], times_ms: dict[int, int | None]) -> None:
    """Stable insertion by time. Not a plain sort: unreadable times are equal to all, which is no order by key."""
    if all(times_ms.get(node.number) is not None for node in siblings):
        siblings.sort(key=lambda node: times_ms.get(node.number) or 0)
        return
    done: list[TreeNode] = []
    for node in siblings:
        place = len(done)
        while place and _later(times_ms.get(done[place - 1].number), times_ms.get(node.number)):
            place -= 1
        done.insert(place, node)
    siblings[:] = done


def _later(left: int | None, right: int | None) -> bool:
    return left is not None and right is not None and left > right


def numbers_with_siblings(table: Table) -> list[int]:
    """Entries that share their parent with another one: only their times matter for the order of a view."""
    groups: dict[int, list[int]] = {}
    for number, parent in enumerate(table.parents):
        groups.setdefault(parent, []).append(number)
    return [number for group in groups.values() if len(group) > 1 for number in group]


def walk_tree(roots: list[TreeNode]) -> Iterator[tuple[int, TreeNode]]:
    """Depth and node, parents first, each entry once, however deep the tree is."""
    seen: set[int] = set()
    stack: list[tuple[int, TreeNode]] = [(0, node) for node in reversed(roots)]
    while stack:
        depth, node = stack.pop()
        if node.number in seen:
            continue
        seen.add(node.number)
        yield depth, node
        stack.extend((depth + 1, child) for child in reversed(node.children))
