"""A folder of sessions: making, opening and finding them.

Opening says how it went in `log.report`. A file is changed at opening only to make it fit for writing: an empty one
gets a header, a last line without newline gets one, an older version is replaced as a whole by what it is today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias, final

import msgspec
from msgspec import UNSET

from antiphon.core.wire import encode
from antiphon.session_log.damage import Damage, OpenReport
from antiphon.session_log.disk import Disk, LocalDisk
from antiphon.session_log.entries import CURRENT_VERSION, Header, header_from_line, version_of
from antiphon.session_log.file import BLOCK_BYTES, Durability, FileLines, Lines, MemoryLines
from antiphon.session_log.line import read_value, sealed
from antiphon.session_log.listing import Facts, Gathering, lines_of
from antiphon.session_log.log import SessionLog
from antiphon.session_log.refusals import NotASession
from antiphon.session_log.scan import BYTE_ORDER_MARK, Scan
from antiphon.session_log.stamps import Sources, checked_session_id, file_stamp
from antiphon.session_log.upgrade import needs_upgrade, upgraded

Access: TypeAlias = Literal["write", "read"]
DISCOVERY_BYTES = 1 << 20
"""How much of a file is read to find its header."""


def folder_for(sessions: Path, cwd: str) -> Path:
    """Where the sessions of a working folder live, below the folder of all sessions."""
    name = cwd.lstrip("/\\")
    for separator in "/\\:":
        name = name.replace(separator, "-")
    return sessions / f"--{name}--"


@final
class SessionStore:
    """The sessions of one folder. `cwd` is the working folder of new sessions and of files that name none.

    `seals`: write a check into every line, so that later changes of it are noticed.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        cwd: str,
        sources: Sources | None = None,
        durability: Durability = "turn",
        seals: bool = True,
        disk: Disk | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.cwd = cwd
        self.durability: Durability = durability
        self.seals = seals
        self.sources = sources or Sources()
        self.disk: Disk = disk or LocalDisk()

    # -- making

    def create(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> SessionLog:
        """A new session. Its file appears when somebody says something.

        Raises:
            ConfigurationError: the chosen id cannot stand in a file name.
        """
        header = self.new_header(cwd=cwd, session_id=session_id, parent_session=parent_session)
        return self._pending(self.path_for(header), header)

    def in_memory(
        self, lines: Iterable[bytes] = (), *, cwd: str | None = None, session_id: str | None = None
    ) -> SessionLog:
        """A session without a file: new, or with given lines. A header among them is kept, older versions upgraded."""
        given = list(lines)
        if header_from_line(given[0]) is None if given else True:
            given.insert(0, encode(self.new_header(cwd=cwd, session_id=session_id)))
        scan = scanned([b"\n".join(given)])
        if scan.header is not None and needs_upgrade(scan.header):
            given = upgraded(given, scan.header, self.sources.entry_id)
        return self._memory_log(given, (), cwd)

    def new_header(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> Header:
        """The header of a session that begins now."""
        chosen = self.sources.session_id() if session_id is None else checked_session_id(session_id)
        return Header(
            version=CURRENT_VERSION,
            id=chosen,
            timestamp=self.sources.now_iso(),
            cwd=self.cwd if cwd is None else cwd,
            parent_session=UNSET if parent_session is None else parent_session,
        )

    def path_for(self, header: Header) -> Path:
        """The file of a session in this folder."""
        return self.folder / f"{file_stamp(header.timestamp)}_{header.id}.jsonl"

    # -- opening

    def open(self, path: Path | str, *, access: Access = "write", cwd: str | None = None) -> SessionLog:
        """The session in this file. A name without a file is a new session under that name.

        `access` read: nothing is locked or written. `cwd`: work in another folder than the header says.

        Raises:
            NotASession: no header; the file is left alone.
            SessionInUse: another owner is alive; open it for reading, or fork it.
        """
        path = Path(path)
        state = self.disk.state_of(path)
        if state is None:
            return self._pending(path, self.new_header(cwd=cwd))
        lines = FileLines.opened(self.disk, path, self.durability, write=access == "write")
        try:
            return self._opened(lines, write=access == "write", cwd=cwd)
        except BaseException:
            lines.close()
            raise

    # -- copying

    def fork(self, log: SessionLog, leaf_id: str | None) -> SessionLog:
        """A new session that begins with the path to an entry; the old one stays as it is.

        Its file appears at once if somebody spoke on that path. A session in memory is forked in memory.

        Raises:
            NoSuchEntry: no such entry.
        """
        body = log.fork_lines(leaf_id)
        if log.path is None:
            return self.in_memory([encode(self.new_header(cwd=log.cwd)), *body])
        header = self.new_header(cwd=log.cwd, parent_session=str(log.path))
        return self._new_file(self.path_for(header), header, body, at_once=log.has_talk(leaf_id))

    def copy(self, source: Path | str, *, cwd: str | None = None, session_id: str | None = None) -> SessionLog:
        """A new session in this folder with all branches of another file, for another working folder.

        Raises:
            NotASession: the source is missing, empty or has no header.
        """
        source = Path(source)
        if self.header_of(source) is None:
            raise NotASession(source)
        with self.open(source, access="read") as old:
            header = self.new_header(cwd=cwd, session_id=session_id, parent_session=str(source))
            return self._new_file(self.path_for(header), header, old.raw_lines(), at_once=True)

    def export(self, log: SessionLog) -> bytes:
        """The active path as a session file of its own, under the same session id."""
        header = msgspec.structs.replace(log.header, timestamp=self.sources.now_iso(), version=CURRENT_VERSION)
        return b"".join(line + b"\n" for line in (self._framed(encode(header)), *log.export_lines()))

    # -- finding

    def continue_recent(self, *, cwd: str | None = None) -> SessionLog | None:
        """The session that was written last (of this working folder, if one is given); nothing if there is none."""
        path = self.most_recent(cwd=cwd)
        return None if path is None else self.open(path)

    def most_recent(self, *, cwd: str | None = None) -> Path | None:
        """The file with the newest modification time whose header can be read."""
        for _, path in sorted(self._dated_files(), reverse=True):
            header = self.header_of(path)
            if header is not None and (cwd is None or header.cwd == cwd):
                return path
        return None

    def header_of(self, path: Path) -> Header | None:
        """The header of a file, from its first bytes; nothing if it is no session."""
        try:
            with path.open("rb") as file:
                start = file.read(DISCOVERY_BYTES)
        except OSError:
            return None
        return first_header(start.removeprefix(BYTE_ORDER_MARK).split(b"\n"))

    def listing(self) -> list[tuple[Path, Facts]]:
        """File and facts of every session, the one that somebody spoke in last first."""
        rows = [(path, self.facts_of(path)) for _, path in self._dated_files()]
        found = [(path, facts) for path, facts in rows if facts is not None]
        return sorted(found, key=lambda row: row[1].modified_ms, reverse=True)

    def facts_of(self, path: Path) -> Facts | None:
        """What a list shows of a file; nothing if it is no session."""
        gathering = self._gathered(path, words=False)
        state = self.disk.state_of(path)
        return None if state is None else gathering.facts(state.mtime_ns // 1_000_000)

    def words_of(self, path: Path) -> list[str]:
        """What users and models said in a file, for searching."""
        return self._gathered(path, words=True).texts

    def _gathered(self, path: Path, *, words: bool) -> Gathering:
        gathering = Gathering(words=words)
        with suppress(OSError), path.open("rb") as file:
            gathering.feed(lines_of(iter(partial(file.read, BLOCK_BYTES), b"")))
        return gathering

    def files(self) -> list[Path]:
        """All session files by name."""
        return sorted(path for _, path in self._dated_files())

    def _dated_files(self) -> Iterator[tuple[int, Path]]:
        try:
            found = list(self.folder.iterdir())
        except FileNotFoundError:
            return
        for path in found:
            if path.name.endswith(".jsonl") and not path.name.startswith("."):
                state = self.disk.state_of(path)
                if state is not None:
                    yield state.mtime_ns, path

    # -- inside

    def _opened(self, lines: FileLines, *, write: bool, cwd: str | None) -> SessionLog:
        if lines.size == 0:
            return self._opened_empty(lines, write=write, cwd=cwd)
        scan = scanned(lines.blocks())
        if scan.header is None or scan.refused:
            raise NotASession(lines.path)
        if needs_upgrade(scan.header):
            return self._upgraded(lines, scan, write=write, cwd=cwd)
        changes: tuple[str, ...] = ()
        if scan.unterminated and write:
            lines.end_last_line()
            changes = ("its last line got a newline",)
        return self._log(lines, scan, OpenReport(tuple(scan.damages), changes), cwd)

    def _opened_empty(self, lines: FileLines, *, write: bool, cwd: str | None) -> SessionLog:
        """A file of zero bytes becomes a session at once."""
        header = self._framed(encode(self.new_header(cwd=cwd)))
        if not write:
            lines.close()
            return self._memory_log([header], (), cwd)
        lines.replace_with([header + b"\n"], keep=None)
        return self._log(lines, scanned([header]), OpenReport((), ("it was empty: a header was written",)), cwd)

    def _upgraded(self, lines: FileLines, scan: Scan, *, write: bool, cwd: str | None) -> SessionLog:
        """Rewrite an older version; a reader gets the new lines in memory only."""
        assert scan.header is not None
        old = b"".join(lines.blocks()).removeprefix(BYTE_ORDER_MARK).split(b"\n")
        new = upgraded(old, scan.header, self.sources.entry_id)
        if not write:
            lines.close()
            return self._memory_log(new, scan.damages, cwd)
        keep = self._backup_name(lines.path) if scan.has_unreadable else None
        lines.replace_with((line + b"\n" for line in new), keep)
        changes = [f"it was upgraded from version {version_of(scan.header):g}"]
        if keep is not None:
            changes.append(f"the old file was kept as {keep.name}, because it has unreadable lines")
        return self._log(lines, scanned(lines.blocks()), OpenReport(tuple(scan.damages), tuple(changes)), cwd)

    def _backup_name(self, path: Path) -> Path:
        """A name for the old file that is not taken."""
        names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
        return next(name for name in names if self.disk.state_of(name) is None)

    def _memory_log(self, lines: Sequence[bytes], damages: Iterable[Damage], cwd: str | None) -> SessionLog:
        data = b"".join(line + b"\n" for line in lines)
        return self._log(MemoryLines(data), scanned([data]), OpenReport(tuple(damages)), cwd)

    def _pending(self, path: Path, header: Header, cwd: str | None = None) -> SessionLog:
        return self._new_file(path, header, (), cwd=cwd, at_once=False)

    def _new_file(
        self, path: Path, header: Header, body: Iterable[bytes], *, cwd: str | None = None, at_once: bool
    ) -> SessionLog:
        """A session that is not stored yet, or (`at_once`) now."""
        data = b"".join(line + b"\n" for line in (self._framed(encode(header)), *body))
        lines = FileLines.pending(self.disk, path, data, self.durability)
        if at_once:
            lines.begin()
        return self._log(lines, scanned([data]), OpenReport(), cwd)

    def _log(self, lines: Lines, scan: Scan, report: OpenReport, cwd: str | None) -> SessionLog:
        assert scan.header is not None
        own = self.cwd if scan.header.cwd is UNSET else scan.header.cwd
        return SessionLog(
            header=scan.header,
            cwd=own if cwd is None else cwd,
            lines=lines,
            table=scan.table,
            sources=self.sources,
            report=report,
            seals=self.seals,
        )

    def _framed(self, line: bytes) -> bytes:
        return sealed(line) if self.seals else line


def scanned(blocks: Iterable[bytes]) -> Scan:
    """A whole file, looked through."""
    scan = Scan()
    for block in blocks:
        scan.feed(block)
    scan.finish()
    return scan


def first_header(lines: Iterable[bytes]) -> Header | None:
    """The first readable line, if it is a header."""
    for line in lines:
        readable, value = read_value(line)
        if readable and value:
            return header_from_line(line)
    return None
