"""Sessions in one SQLite database instead of a folder of files (`sqlite:PATH`).

Everything above the lines is the same as for files. A file goes in and comes out byte for byte (`take`, `whole`). A
session belongs to one owner at a time: the owner of a lock file beside the database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

import msgspec

from antiphon.session_log.arrivals import arrival, require_folder, with_id
from antiphon.session_log.catalog import Hit, Row, first_header, found_in, newest_first
from antiphon.session_log.damage import OpenReport
from antiphon.session_log.disk import Disk, LocalDisk, locked
from antiphon.session_log.entries import CURRENT_VERSION, Header, version_of
from antiphon.session_log.line import BYTE_ORDER_MARK
from antiphon.session_log.lines import Durability
from antiphon.session_log.listing import Facts, Gathering
from antiphon.session_log.log import SessionLog
from antiphon.session_log.opening import Terms, log_of, memory_log, memory_session, new_log, scanned
from antiphon.session_log.port import Access
from antiphon.session_log.refusals import (
    NotASession,
    SessionExists,
)
from antiphon.session_log.scan import Scan
from antiphon.session_log.sqlite_lines import SqliteLines, connected, placed, store_rows
from antiphon.session_log.stamps import Sources
from antiphon.session_log.upgrade import needs_upgrade, upgraded

_facts = msgspec.msgpack.Decoder(Facts)


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

    def in_memory(
        self, lines: Iterable[bytes] = (), *, cwd: str | None = None, session_id: str | None = None
    ) -> SessionLog:
        """A session without a place: new, or with given lines."""
        return memory_session(self.terms, lines, cwd, session_id)

    def open(self, session_id: Path | str, *, access: Access = "write", cwd: str | None = None) -> SessionLog:
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
        if scan.header is None or scan.refused:
            raise NotASession(self._place(lines.session_id))
        if needs_upgrade(scan.header):
            return self._upgraded(lines, scan, cwd)
        changes: tuple[str, ...] = ()
        if scan.unterminated and lines.writable:
            lines.end_last_line()
            changes = ("its last line got a newline",)
        return log_of(self.terms, lines, scan, OpenReport(tuple(scan.damages), changes), cwd)

    def _upgraded(self, lines: SqliteLines, scan: Scan, cwd: str | None) -> SessionLog:
        """Store an older version as what it is today; a reader gets it in memory only."""
        assert scan.header is not None
        old = b"".join(lines.blocks()).removeprefix(BYTE_ORDER_MARK).split(b"\n")
        if not lines.writable:
            return memory_log(self.terms, [line for line in old if line], (), cwd)
        data = b"".join(line + b"\n" for line in upgraded(old, scan.header, self.terms.sources.entry_id))
        lines.replace_with(data)
        changes = (f"it was upgraded from version {version_of(scan.header):g}",)
        return log_of(self.terms, lines, scanned([data]), OpenReport(tuple(scan.damages), changes), cwd)

    def resume(self, session_id: Path | str, *, cwd: str | None = None) -> SessionLog:
        """The session with this id, to go on in its working folder, or (`cwd`) in another one.

        Raises:
            NotASession: there is none.
            FolderMissing: its working folder is gone and no other was given.
            SessionInUse: another owner is alive.
        """
        header = self._header_of(str(session_id))
        if header is None:
            raise NotASession(self._place(str(session_id)))
        require_folder(header, Path(self._place(header.id)), cwd)
        return self.open(session_id, cwd=cwd)

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
        scan = scanned([data])
        header = scan.header
        if header is None or scan.refused:
            raise NotASession("what was given")
        if self._is_taken(header.id):
            raise SessionExists(f"{self._place(header.id)} exists already")
        store_rows(self._database, header.id, placed(data))
        return header.id

    def whole(self, session_id: Path | str) -> bytes:
        """The session as a file, byte for byte.

        Raises:
            NotASession: there is none.
        """
        data = b"".join(SqliteLines(self._database, str(session_id), "fast", None).blocks())
        if not data:
            raise NotASession(self._place(str(session_id)))
        return data

    def import_file(self, source: Path | str, *, cwd: str | None = None, fresh_id: bool = True) -> SessionLog:
        """A file from elsewhere as a session of this database. `fresh_id`: an id that is taken is replaced.

        Raises:
            NotASession: no such file, or it is none. Nothing was stored.
            FolderMissing: its working folder is gone and no other was given. Nothing was stored.
            SessionExists: its id is taken and must not be replaced.
        """
        header, data = arrival(Path(source), cwd)
        if fresh_id and self._is_taken(header.id):
            data = with_id(data, self.terms.sources.session_id())
        return self.open(self.take(data), cwd=cwd)

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
        if self._is_taken(header.id):
            raise SessionExists(f"{self._place(header.id)} exists already; give the session another id")
        data = self.terms.first_lines(header, body)
        free = self._owned(header.id)
        lines = SqliteLines.pending(self._database, header.id, data, self.terms.durability, free)
        if at_once:
            lines.begin()
        return new_log(self.terms, lines)

    def _is_taken(self, session_id: str) -> bool:
        return self._database.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is not None

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
        query = "SELECT data FROM lines WHERE session = ? ORDER BY start LIMIT 100"
        rows = self._database.execute(query, (session_id,)).fetchall()
        return first_header(b"".join(bytes(row[0]) for row in rows))

    def _gathered(self, session_id: str, *, words: bool) -> Gathering:
        gathering = Gathering(words=words)
        gathering.feed(block.rstrip(b"\n") for block in SqliteLines(self._database, session_id, "fast", None).blocks())
        return gathering

    def _place(self, session_id: str) -> str:
        return f"sqlite:{self.path}#{session_id}"
