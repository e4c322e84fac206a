"""The lines of one session in a SQLite database.

A row holds one line of what would be the file, newline included, under the offset it would have there: an address
means the same in both, and nothing is lost on the way into a database and back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, final

from antiphon.session_log.lines import SPEAKERS, Durability, is_due
from antiphon.session_log.refusals import SessionReadOnly, SessionUnreadable, SessionWriteFailed

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, changed INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS sessions_by_change ON sessions (changed);
CREATE TABLE IF NOT EXISTS facts (session TEXT PRIMARY KEY, changed INTEGER NOT NULL, facts BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS lines (
    session TEXT NOT NULL, start INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, start)
) WITHOUT ROWID;
"""


def connected(path: Path) -> sqlite3.Connection:
    """A database for sessions, made if it is not there.

    Raises:
        SessionUnreadable: it cannot be opened, or is none.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA busy_timeout = 5000")
        database.executescript(_SCHEMA)
    except (OSError, sqlite3.Error) as error:
        raise SessionUnreadable(f"{path} cannot be used as a database of sessions: {error}") from error
    return database


@final
class SqliteLines:
    """The lines of one session in a database."""

    def __init__(
        self, database: sqlite3.Connection, session_id: str, durability: Durability, owner: Callable[[], None] | None
    ) -> None:
        self._database = database
        self.session_id = session_id
        self._durability: Durability = durability
        self._free = owner
        self._waiting: bytearray | None = None
        self._size = self._stored_size()

    @classmethod
    def pending(
        cls,
        database: sqlite3.Connection,
        session_id: str,
        data: bytes,
        durability: Durability,
        owner: Callable[[], None],
    ) -> SqliteLines:
        """A session that will be stored when somebody says something."""
        lines = cls(database, session_id, durability, owner)
        lines._waiting = bytearray(data)
        return lines

    def _stored_size(self) -> int:
        row = self._ask("SELECT start + length(data) FROM lines WHERE session = ? ORDER BY start DESC LIMIT 1")
        return int(row[0]) if row else 0

    def _ask(self, query: str, *values: Any) -> Any:
        try:
            return self._database.execute(query, (self.session_id, *values)).fetchone()
        except sqlite3.Error as error:
            raise SessionUnreadable(f"session {self.session_id} cannot be read: {error}") from error

    @property
    def saved(self) -> bool:
        return self._waiting is None

    @property
    def writable(self) -> bool:
        return self._free is not None

    def read(self, address: int, length: int) -> bytes:
        if self._waiting is not None:
            return bytes(self._waiting[address : address + length])
        row = self._ask(
            "SELECT start, data FROM lines WHERE session = ? AND start <= ? ORDER BY start DESC LIMIT 1", address
        )
        data = b"" if row is None else row[1][address - row[0] :][:length]
        if len(data) < length:
            raise SessionUnreadable(f"session {self.session_id} has no line at {address}")
        return bytes(data)

    def blocks(self) -> Iterator[bytes]:
        if self._waiting is not None:
            yield bytes(self._waiting)
            return
        query = "SELECT data FROM lines WHERE session = ? ORDER BY start"
        try:
            for row in self._database.execute(query, (self.session_id,)):
                yield bytes(row[0])
        except sqlite3.Error as error:
            raise SessionUnreadable(f"session {self.session_id} cannot be read: {error}") from error

    def append(self, line: bytes, speaker: str) -> int:
        if self._free is None:
            raise SessionReadOnly(f"session {self.session_id} is not open for writing")
        data = line + b"\n"
        if self._waiting is None:
            address = self._size
            self._store([(address, data)], sync=is_due(self._durability, speaker))
            self._size += len(data)
            return address
        address = len(self._waiting)
        if speaker in SPEAKERS:
            self._store(list(placed(bytes(self._waiting) + data)), sync=self._durability != "fast")
            self._size, self._waiting = address + len(data), None
        else:
            self._waiting += data
        return address

    def begin(self) -> None:
        """Store what waits, whether or not anybody said something."""
        if self._waiting is not None:
            self._store(list(placed(bytes(self._waiting))), sync=self._durability != "fast")
            self._size, self._waiting = len(self._waiting), None

    def end_last_line(self) -> None:
        """Put a newline behind a last line that has none: as a line of its own, since stored ones are not touched."""
        self._store([(self._size, b"\n")], sync=False)
        self._size += 1

    def replace_with(self, data: bytes) -> None:
        """Put other lines in place of all."""
        try:
            store_rows(self._database, self.session_id, placed(data), replace=True)
        except sqlite3.Error as error:
            raise SessionWriteFailed(f"session {self.session_id} cannot be written: {error}") from error
        self._size = len(data)

    def _store(self, rows: list[tuple[int, bytes]], *, sync: bool) -> None:
        try:
            self._database.execute(f"PRAGMA synchronous = {'FULL' if sync else 'NORMAL'}")
            store_rows(self._database, self.session_id, rows)
        except sqlite3.Error as error:
            raise SessionWriteFailed(f"session {self.session_id} cannot be written: {error}") from error

    def news(self) -> tuple[int, bytes] | None:
        return None

    def flush(self) -> None:
        if self._free is None or self._waiting is not None:
            return
        try:
            self._database.execute("PRAGMA wal_checkpoint(FULL)")
        except sqlite3.Error as error:
            raise SessionWriteFailed(f"session {self.session_id} cannot be made safe: {error}") from error

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            free()


def store_rows(
    database: sqlite3.Connection, session_id: str, rows: Iterable[tuple[int, bytes]], *, replace: bool = False
) -> None:
    """Store lines, all or none; `replace`: in place of those that are there.

    Raises:
        sqlite3.Error: none is stored.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        if replace:
            database.execute("DELETE FROM lines WHERE session = ?", (session_id,))
        database.executemany("INSERT INTO lines VALUES (?, ?, ?)", [(session_id, *row) for row in rows])
        database.execute(
            "INSERT INTO sessions VALUES (?, 1 + (SELECT coalesce(max(changed), 0) FROM sessions)) "
            "ON CONFLICT (id) DO UPDATE SET changed = excluded.changed",
            (session_id,),
        )
        database.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def placed(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, newlines included, each with its offset."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield start, data[start:end]
        start = end
