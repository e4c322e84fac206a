"""Copies of a history: the lines of a fork and of an export. No I/O.

Lines keep their bytes; only links change. A fork drops marks (labels, positions) from the path, because they say
something about a tree that is left behind, and writes the labels that still hold again at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence

from msgspec import UNSET

from antiphon.session_log.entries import CompactionEntry, Entry, LabelEntry, PositionEntry
from antiphon.session_log.line import changed, sealed, write_value
from antiphon.session_log.tree import Mark

Step = tuple[Entry, bytes]
"""An entry and its line."""


def is_mark(entry: Entry) -> bool:
    """Does the entry say something about the tree rather than in it?"""
    return isinstance(entry, LabelEntry | PositionEntry)


def relinked(steps: Iterable[Step]) -> list[bytes]:
    """The lines of a path with each entry's parent the one before it; lines that fit are not touched."""
    out: list[bytes] = []
    parent: str | None = None
    for entry, line in steps:
        out.append(line if entry.parent_id == parent else changed(line, {"parentId": parent}))
        parent = entry.id
    return out


def forked(
    path: Sequence[Step], labels: Mapping[str, Mark], new_id: Callable[[Container[str]], str], *, seals: bool
) -> list[bytes]:
    """The lines of a new session that begins with this path."""
    kept_ids = _kept_after_marks(path)
    body = [(entry, _moved(entry, line, kept_ids)) for entry, line in path if not is_mark(entry)]
    ids = {entry.id: None for entry, _ in body}
    out = relinked(body)
    parent = body[-1][0].id if body else None
    for target, mark in labels.items():
        if target not in ids:
            continue
        entry = LabelEntry(
            id=new_id(ids), parent_id=parent, timestamp=mark.timestamp, target_id=target, label=mark.label
        )
        ids[entry.id] = None
        line = write_value(entry)
        out.append(sealed(line) if seals else line)
        parent = entry.id
    return out


def _kept_after_marks(path: Sequence[Step]) -> dict[str, str]:
    """For every mark on the path the next entry that is none."""
    found: dict[str, str] = {}
    following: str | None = None
    for entry, _ in reversed(path):
        if not is_mark(entry):
            following = entry.id
        elif following is not None:
            found[entry.id] = following
    return found


def _moved(entry: Entry, line: bytes, kept_ids: Mapping[str, str]) -> bytes:
    """A compaction whose kept range began at a mark begins at the next entry."""
    if type(entry) is not CompactionEntry or entry.first_kept_entry_id is UNSET:
        return line
    kept = kept_ids.get(entry.first_kept_entry_id)
    return line if kept is None else changed(line, {"firstKeptEntryId": kept})
