"""The table of a large session, kept beside its file so that opening need not read the whole file.

An index is believed only if the session file is exactly as it was when the index was written: same size, same time of
change, same identity. In every other case (a crash, another program) the file itself is read. So an index can be
missing, old or damaged without harm, and removing it costs one slow opening.
"""

from __future__ import annotations

import zlib
from array import array
from contextlib import suppress
from pathlib import Path
from typing import final

import msgspec
from msgspec import Struct

from antiphon.session_log.damage import Damage
from antiphon.session_log.disk import Disk, FileState
from antiphon.session_log.tree import Mark, Table

FORMAT = 1
INDEXED_FROM = 2_000
"""Sessions with so many entries get an index when they are closed; smaller ones are read faster than that."""
_MOST_BYTES = 1 << 30
_CHECK_BYTES = 4


@final
class Index(Struct, frozen=True, gc=False, array_like=True):
    """What is stored: of which state of which file, its header line, the columns, and what was found wrong."""

    format: int
    file: FileState
    header: bytes
    ids: list[str]
    kinds: bytes
    parents: bytes
    addresses: bytes
    lengths: bytes
    labels: dict[str, Mark]
    name: str | None
    damages: list[Damage]

    def table(self) -> Table:
        """The table that was stored."""
        return Table(
            ids=self.ids,
            kinds=bytearray(self.kinds),
            parents=array("l", self.parents),
            addresses=array("q", self.addresses),
            lengths=array("q", self.lengths),
            by_id={entry_id: number for number, entry_id in enumerate(self.ids)},
            labels=self.labels,
            name=self.name,
        )

    @property
    def consistent(self) -> bool:
        """Do all columns have the same length?"""
        count = len(self.ids)
        cells = (len(self.kinds), *(len(column) // 8 for column in (self.parents, self.addresses, self.lengths)))
        return self.format == FORMAT and all(length == count for length in cells)


_decoder = msgspec.msgpack.Decoder(Index)


def index_path(path: Path) -> Path:
    """Where the index of a session file lies."""
    return path.with_name(f".{path.name}.index")


def index_of(table: Table, header: bytes, file: FileState, damages: list[Damage]) -> Index:
    """The index of a table, for a file in this state."""
    return Index(
        FORMAT,
        file,
        header,
        table.ids,
        bytes(table.kinds),
        table.parents.tobytes(),
        table.addresses.tobytes(),
        table.lengths.tobytes(),
        table.labels,
        table.name,
        damages,
    )


def read_index(disk: Disk, path: Path, file: FileState) -> Index | None:
    """The index of a session file that is in this state; nothing if there is none that can be believed."""
    try:
        fd = disk.open(index_path(path), write=False)
    except OSError:
        return None
    try:
        data = disk.read(fd, 0, min(disk.state(fd).size, _MOST_BYTES))
        if zlib.crc32(data[_CHECK_BYTES:]).to_bytes(_CHECK_BYTES, "big") != data[:_CHECK_BYTES]:
            return None
        found = _decoder.decode(data[_CHECK_BYTES:])
    except (OSError, msgspec.MsgspecError):
        return None
    finally:
        with suppress(OSError):
            disk.close(fd)
    return found if found.consistent and found.file == file else None


def write_index(disk: Disk, path: Path, index: Index) -> None:
    """Store an index; if that fails, or an id is no text that can be stored, there is none."""
    try:
        payload = msgspec.msgpack.encode(index)
    except UnicodeEncodeError:
        return
    data = zlib.crc32(payload).to_bytes(_CHECK_BYTES, "big") + payload
    write_cache(disk, index_path(path), data)


def write_cache(disk: Disk, path: Path, data: bytes) -> None:
    """Put a file that may be missing in place of another one. Failures are of no consequence."""
    beside = path.with_name(f"{path.name}.new")
    with suppress(OSError):
        if disk.state_of(beside) is not None:
            disk.remove(beside)
        fd = disk.create(beside)
        try:
            written = disk.write(fd, data)
        finally:
            disk.close(fd)
        if written == len(data):
            disk.rename(beside, path)
        else:
            disk.remove(beside)
