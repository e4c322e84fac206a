"""Sessions in one SQLite database instead of a folder of files (`sqlite:PATH`). Optional: only this file uses sqlite3.

A row holds one line of what would be the file, newline included, under the offset it would have there. So nothing is
lost on the way into a database and back (`take`, `give`), and everything above the lines is the same as for files.
A session belongs to one owner at a time: the owner of a lock file beside the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, final

import msgspec

from antiphon.session_log.catalog import Hit, Row, found_in, newest_first
from antiphon.session_log.damage import OpenReport
from antiphon.session_log.disk import Disk, LocalDisk
from antiphon.session_log.entries import CURRENT_VERSION, Header, header_from_line, version_of
from antiphon.session_log.file import locked
from antiphon.session_log.line import write_value
from antiphon.session_log.lines import SPEAKERS, Durability
from antiphon.session_log.listing import Facts, Gathering
from antiphon.session_log.log import SessionLog
from antiphon.session_log.opening import Terms, log_of, memory_log, new_log, scanned
from antiphon.session_log.refusals import (
    NotASession,
    SessionExists,
    SessionReadOnly,
    SessionUnreadable,
    SessionWriteFailed,
)
from antiphon.session_log.scan import Scan
from antiphon.session_log.stamps import Sources
from antiphon.session_log.upgrade import needs_upgrade, upgraded

_facts = msgspec.msgpack.Decoder(Facts)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, changed INTEGER NOT NULL);
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
            self._store([(address, data)], sync=self._is_due(speaker))
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
        if self._free is not None:
            self._store([(self._size, b"\n")], sync=False)
            self._size += 1

    def replace_with(self, data: bytes) -> None:
        """Put other lines in place of all."""
        try:
            store_rows(self._database, self.session_id, placed(data), replace=True)
        except sqlite3.Error as error:
            raise SessionWriteFailed(f"session {self.session_id} cannot be written: {error}") from error
        self._size = len(data)

    def _is_due(self, speaker: str) -> bool:
        return self._durability == "sync" or (self._durability == "turn" and speaker == "user")

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


@final
class SqliteStore:
    """The sessions of one database. The same verbs as for a folder; a session is named by its id."""

    def __init__(
        self,
        path: Path | str,
        *,
        cwd: str,
        durability: Durability = "turn",
        seals: bool = True,
        sources: Sources | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.path = Path(path)
        self.terms = Terms(cwd, sources or Sources(), durability, seals, disk or LocalDisk())
        self._database = connected(self.path)

    def close(self) -> None:
        """Give the database free. Logs of it must be closed before."""
        self._database.close()

    # -- making and opening

    def create(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> SessionLog:
        """A new session, stored when somebody says something."""
        return self._new(self.terms.new_header(cwd=cwd, session_id=session_id, parent_session=parent_session))

    def in_memory(self, lines: Iterable[bytes] = (), *, cwd: str | None = None) -> SessionLog:
        """A session without a place: new, or with given lines that begin with a header."""
        return memory_log(self.terms, list(lines) or [write_value(self.terms.new_header(cwd=cwd))], (), cwd)

    def open(
        self, session_id: Path | str, *, access: Literal["write", "read"] = "write", cwd: str | None = None
    ) -> SessionLog:
        """The session with this id. An older version is upgraded.

        Raises:
            NotASession: there is none.
            SessionInUse: another owner is alive; open it for reading, or fork it.
        """
        name = str(session_id)
        free = self._owned(name) if access == "write" else None
        try:
            return self._opened(SqliteLines(self._database, name, self.terms.durability, free), cwd)
        except BaseException:
            if free is not None:
                free()
            raise

    def _opened(self, lines: SqliteLines, cwd: str | None) -> SessionLog:
        scan = scanned(lines.blocks())
        if scan.header is None:
            raise NotASession(self._place(lines.session_id))
        if needs_upgrade(scan.header):
            return self._upgraded(lines, scan, cwd)
        if scan.unterminated:
            lines.end_last_line()
        return log_of(self.terms, lines, scan, OpenReport(tuple(scan.damages)), cwd)

    def _upgraded(self, lines: SqliteLines, scan: Scan, cwd: str | None) -> SessionLog:
        """Store an older version as what it is today; a reader gets it in memory only."""
        assert scan.header is not None
        old = b"".join(lines.blocks()).split(b"\n")
        if not lines.writable:
            return memory_log(self.terms, [line for line in old if line], (), cwd)
        data = b"".join(line + b"\n" for line in upgraded(old, scan.header, self.terms.sources.entry_id))
        lines.replace_with(data)
        changes = (f"it was upgraded from version {version_of(scan.header):g}",)
        return log_of(self.terms, lines, scanned([data]), OpenReport(tuple(scan.damages), changes), cwd)

    def continue_recent(self, *, cwd: str | None = None) -> SessionLog | None:
        """The session that was written last (of this working folder, if one is given); nothing if there is none."""
        for session_id in self._ids():
            header = self._header_of(session_id)
            if header is not None and (cwd is None or header.cwd == cwd):
                return self.open(session_id)
        return None

    def fork(self, log: SessionLog, leaf_id: str | None) -> SessionLog:
        """A new session that begins with the path to an entry; the old one stays as it is."""
        body = log.fork_lines(leaf_id)
        header = self.terms.new_header(cwd=log.cwd, parent_session=self._place(log.session_id))
        return self._new(header, body, at_once=log.has_talk(leaf_id))

    def export(self, log: SessionLog) -> bytes:
        """The active path as a session file, under the same session id."""
        now = self.terms.sources.now_iso()
        header = msgspec.structs.replace(log.header, timestamp=now, version=CURRENT_VERSION)
        return self.terms.first_lines(header, log.export_lines())

    # -- from and to files

    def take(self, data: bytes) -> str:
        """Store a session file as it is, byte for byte; its session id.

        Raises:
            NotASession: it is none.
            SessionExists: a session with its id is here already.
        """
        header = scanned([data]).header
        if header is None:
            raise NotASession("what was given")
        if self._database.execute("SELECT 1 FROM sessions WHERE id = ?", (header.id,)).fetchone():
            raise SessionExists(f"{self._place(header.id)} exists already")
        store_rows(self._database, header.id, placed(data))
        return header.id

    def give(self, session_id: str) -> bytes:
        """The session as a file, byte for byte.

        Raises:
            NotASession: there is none.
        """
        data = b"".join(SqliteLines(self._database, session_id, "fast", None).blocks())
        if not data:
            raise NotASession(self._place(session_id))
        return data

    # -- finding

    def listing(self, progress: Callable[[list[Row]], None] | None = None) -> list[Row]:
        """Every session, the one in which somebody spoke last first."""
        query = """
            SELECT s.id, s.changed, f.facts FROM sessions s
            LEFT JOIN facts f ON f.session = s.id AND f.changed = s.changed
        """
        rows: list[Row] = []
        for session_id, changed, known in self._database.execute(query).fetchall():
            facts = _facts.decode(known) if known else self._remembered(session_id, changed)
            if facts is not None:
                rows.append(Row(Path(session_id), facts))
        if progress is not None:
            progress(newest_first(rows))
        return newest_first(rows)

    def _remembered(self, session_id: str, changed: int) -> Facts | None:
        """Facts of a session that were not known, remembered for the next list."""
        facts = self._gathered(session_id, words=False).facts(0)
        if facts is not None:
            with suppress(sqlite3.Error, UnicodeEncodeError):
                row = (session_id, changed, msgspec.msgpack.encode(facts))
                self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", row)
        return facts

    def words_of(self, session_id: Path | str) -> list[str]:
        """What users and models said, text by text."""
        return self._gathered(str(session_id), words=True).texts

    def search(self, query: str) -> Iterator[Hit]:
        """Sessions, newest first, in which every word of the query was said or is part of the name."""
        words = query.casefold().split()
        for row in self.listing():
            snippet = found_in([row.facts.name or "", *self.words_of(row.path)], words)
            if snippet is not None:
                yield Hit(row, snippet)

    # -- inside

    def _new(self, header: Header, body: Iterable[bytes] = (), *, at_once: bool = False) -> SessionLog:
        if self._database.execute("SELECT 1 FROM sessions WHERE id = ?", (header.id,)).fetchone():
            raise SessionExists(f"{self._place(header.id)} exists already; give the session another id")
        data = self.terms.first_lines(header, body)
        free = self._owned(header.id)
        lines = SqliteLines.pending(self._database, header.id, data, self.terms.durability, free)
        if at_once:
            lines.begin()
        return new_log(self.terms, lines)

    def _owned(self, session_id: str) -> Callable[[], None]:
        """Become the owner of a session; what gives it free again.

        Raises:
            SessionInUse: another owner is alive.
        """
        disk, path = self.terms.disk, self.path.with_name(f".{self.path.name}.{session_id}.lock")
        fd = locked(disk, path, create=True)

        def free() -> None:
            with suppress(OSError):
                disk.remove(path)
            with suppress(OSError):
                disk.close(fd)

        return free

    def _ids(self) -> list[str]:
        rows = self._database.execute("SELECT id FROM sessions ORDER BY changed DESC")
        return [str(row[0]) for row in rows]

    def _header_of(self, session_id: str) -> Header | None:
        query = "SELECT data FROM lines WHERE session = ? ORDER BY start LIMIT 1"
        row = self._database.execute(query, (session_id,)).fetchone()
        return None if row is None else header_from_line(bytes(row[0]).strip())

    def _gathered(self, session_id: str, *, words: bool) -> Gathering:
        gathering = Gathering(words=words)
        gathering.feed(block.rstrip(b"\n") for block in SqliteLines(self._database, session_id, "fast", None).blocks())
        return gathering

    def _place(self, session_id: str) -> str:
        return f"sqlite:{self.path}#{session_id}"
