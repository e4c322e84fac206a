"""Older versions: from the lines of a version 1 or 2 file to those of version 3. No I/O.

Lines that cannot be read are kept where they stand; members that do not change keep their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from msgspec import Raw

from antiphon.core.wire import JsonValue
from antiphon.session_log.entries import CURRENT_VERSION, Header, version_of
from antiphon.session_log.line import is_skipped, members, read_object, read_value, write_object

NewId = Callable[[Container[str]], str]


def needs_upgrade(header: Header) -> bool:
    """Is this an older version? Higher ones than ours are taken as they are."""
    return version_of(header) < CURRENT_VERSION


def upgraded(lines: Sequence[bytes], header: Header, new_id: NewId) -> list[bytes]:
    """The lines of the file in version 3, without newlines. `lines` are all lines of the old one, blank ones too.

    Version 1 gives every entry a fresh id and the entry before it as parent, and an index of kept lines becomes an id;
    version 2 renames a role. `new_id` is asked with the ids that are taken.
    """
    kept = [line for line in (line.strip(b" \t\r") for line in lines) if line]
    if version_of(header) < 2:
        kept = _linked(kept, new_id)
    out = [_renamed(line) for line in kept]
    at = next(at for at, line in enumerate(out) if read_object(line) is not None)
    found = members(out[at])
    found["version"] = CURRENT_VERSION
    out[at] = write_object(found)
    return out


def _linked(lines: list[bytes], new_id: NewId) -> list[bytes]:
    """Version 1 to 2, in one pass. Positions count what the old writer could read, the header being 0."""
    values = [read_value(line)[1] for line in lines]
    by_position = [_old_id(value) for value in values if not is_skipped(value)]
    taken: dict[str, None] = {}
    parent: str | None = None
    position = -1
    out: list[bytes] = []
    for line, value in zip(lines, values, strict=True):
        position += not is_skipped(value)
        if not isinstance(value, dict) or value.get("type") == "session":
            out.append(line)
            continue
        entry_id = new_id(taken)
        taken[entry_id] = None
        by_position[position] = entry_id
        out.append(_with_kept_id(_relinked(line, entry_id, parent), by_position))
        parent = entry_id
    return out


def _old_id(value: JsonValue) -> str | None:
    """The id an entry has before it is reached; a header has none that could be kept."""
    given = value.get("id") if isinstance(value, dict) and value.get("type") != "session" else None
    return given if isinstance(given, str) else None


def _relinked(line: bytes, entry_id: str, parent_id: str | None) -> bytes:
    found = members(line)
    found["id"], found["parentId"] = entry_id, parent_id
    return write_object(found)


def _with_kept_id(line: bytes, by_position: Sequence[str | None]) -> bytes:
    if b'"firstKeptEntryIndex"' not in line:
        return line
    data = read_object(line)
    if data is None or data.get("type") != "compaction" or "firstKeptEntryIndex" not in data:
        return line
    found = members(line)
    index = data["firstKeptEntryIndex"]
    del found["firstKeptEntryIndex"]
    known = isinstance(index, int) and 0 <= index < len(by_position)
    kept = by_position[index] if known else None
    if kept is not None:
        found["firstKeptEntryId"] = kept
    return write_object(found)


def _renamed(line: bytes) -> bytes:
    """Version 2 to 3: the role `hookMessage` is `custom`."""
    data = read_object(line) if b'"hookMessage"' in line else None
    message = data.get("message") if data is not None and data.get("type") == "message" else None
    if not isinstance(message, dict) or message.get("role") != "hookMessage":
        return line
    found = members(line)
    given = found["message"]
    inner = members(bytes(given)) if isinstance(given, Raw) else dict(given)
    inner["role"] = "custom"
    found["message"] = Raw(write_object(inner))
    return write_object(found)
