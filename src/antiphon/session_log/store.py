"""A folder of sessions: making, opening, copying and finding them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

import msgspec

from antiphon.session_log.arrivals import arrival, require_folder, with_id
from antiphon.session_log.catalog import Catalog, Hit, Progress, Row
from antiphon.session_log.disk import Disk, LocalDisk
from antiphon.session_log.entries import CURRENT_VERSION, Header
from antiphon.session_log.file import FileLines
from antiphon.session_log.line import write_value
from antiphon.session_log.lines import Durability
from antiphon.session_log.log import SessionLog
from antiphon.session_log.opening import Terms, memory_session, new_log, open_file
from antiphon.session_log.port import Access
from antiphon.session_log.refusals import NotASession, SessionUnreadable
from antiphon.session_log.stamps import Sources, file_stamp

if TYPE_CHECKING:
    from antiphon.session_log.sqlite import SqliteStore


def folder_for(sessions: Path, cwd: str) -> Path:
    """Where the sessions of a working folder live, below the folder of all sessions."""
    name = cwd[1:] if cwd[:1] in ("/", "\\") else cwd
    for separator in "/\\:":
        name = name.replace(separator, "-")
    return sessions / f"--{name}--"


@final
class SessionStore:
    """The sessions of one folder. `cwd` is the working folder of new sessions and of files that name none.

    `durability` says when a line is safe from a power loss. `seals`: write a check into every line, so that later
    changes of it are noticed. `sources` and `disk` are the clock, the dice and the file system.
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        cwd: str,
        durability: Durability = "turn",
        seals: bool = True,
        sources: Sources | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.terms = Terms(cwd, sources or Sources(), durability, seals, disk or LocalDisk())
        self._catalog = Catalog(self.folder, self.terms.disk)

    # -- making

    def create(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> SessionLog:
        """A new session. Its file appears when somebody says something.

        Raises:
            ConfigurationError: the chosen id cannot stand in a file name.
        """
        header = self.terms.new_header(cwd=cwd, session_id=session_id, parent_session=parent_session)
        return self._new(self._path_for(header), header)

    def in_memory(
        self, lines: Iterable[bytes] = (), *, cwd: str | None = None, session_id: str | None = None
    ) -> SessionLog:
        """A session without a file: new, or with given lines. A header among them is kept, older versions upgraded."""
        return memory_session(self.terms, lines, cwd, session_id)

    # -- opening

    def open(self, path: Path | str, *, access: Access = "write", cwd: str | None = None) -> SessionLog:
        """The session in this file. A name without a file is a new session under that name.

        `access` read: nothing is locked or changed. `cwd`: work in another folder than the header says.

        Raises:
            NotASession: no header; the file is left alone.
            SessionInUse: another owner is alive; open it for reading, or fork it.
        """
        path = Path(path)
        try:
            exists = self.terms.disk.state_of(path) is not None
        except OSError as error:
            raise SessionUnreadable(f"{path} cannot be opened: {error}") from error
        if not exists:
            return self._new(path, self.terms.new_header(cwd=cwd))
        return open_file(self.terms, path, write=access == "write", cwd=cwd)

    def resume(self, path: Path | str, *, cwd: str | None = None) -> SessionLog:
        """The session in this file, to go on in its working folder, or (`cwd`) in another one.

        Raises:
            NotASession: no such file, or it is none.
            FolderMissing: its working folder is gone and no other was given.
            SessionInUse: another owner is alive.
        """
        self._check_folder(Path(path), cwd)
        return self.open(path, cwd=cwd)

    def continue_recent(self, *, cwd: str | None = None) -> SessionLog | None:
        """The session that was written last (of this working folder, if one is given); nothing if there is none."""
        path = self.most_recent(cwd=cwd)
        return None if path is None else self.open(path)

    # -- copying

    def fork(self, log: SessionLog, leaf_id: str | None) -> SessionLog:
        """A new session that begins with the path to an entry; the old one stays as it is.

        Its file appears at once if somebody spoke on that path. A session in memory is forked in memory.

        Raises:
            NoSuchEntry: no such entry.
        """
        body = log.fork_lines(leaf_id)
        if log.path is None:
            return self.in_memory([write_value(self.terms.new_header(cwd=log.cwd)), *body])
        header = self.terms.new_header(cwd=log.cwd, parent_session=str(log.path))
        return self._new(self._path_for(header), header, body, at_once=log.has_talk(leaf_id))

    def copy(self, source: Path | str, *, cwd: str | None = None, session_id: str | None = None) -> SessionLog:
        """A new session in this folder with all branches of another file, for another working folder.

        An older version is upgraded on the way; the source stays as it is.

        Raises:
            NotASession: the source is missing, empty or has no header.
        """
        source = Path(source)
        if self._catalog.header_of(source) is None:
            raise NotASession(source)
        with self.open(source, access="read") as old:
            header = self.terms.new_header(cwd=cwd, session_id=session_id, parent_session=str(source))
            return self._new(self._path_for(header), header, old.copy_lines(), at_once=True)

    def export(self, log: SessionLog) -> bytes:
        """The active path as a session file of its own, under the same session id."""
        now = self.terms.sources.now_iso()
        header = msgspec.structs.replace(log.header, timestamp=now, version=CURRENT_VERSION)
        return self.terms.first_lines(header, log.export_lines())

    def import_file(self, source: Path | str, *, cwd: str | None = None, fresh_id: bool = True) -> SessionLog:
        """A file from elsewhere as a session of this folder: copied in, unless it lies there already.

        A taken name gets a number. `fresh_id`: a session id that is taken is replaced.

        Raises:
            NotASession: no such file, or it is none. Nothing was copied.
            FolderMissing: its working folder is gone and no other was given. Nothing was copied.
        """
        source = Path(source)
        header, data = arrival(source, cwd)
        if source.parent.resolve() == self.folder.resolve():
            return self.open(source, cwd=cwd)
        if fresh_id and self._is_taken(header.id):
            data = with_id(data, self.terms.sources.session_id())
        path = self._free_path(source)
        FileLines.pending(self.terms.disk, path, data, self.terms.durability).begin_and_close()
        return self.open(path, cwd=cwd)

    def whole(self, path: Path | str) -> bytes:
        """A session file, byte for byte.

        Raises:
            NotASession: there is none.
        """
        arrival(Path(path), "")
        return Path(path).read_bytes()

    # -- finding

    def most_recent(self, *, cwd: str | None = None) -> Path | None:
        """The file that was written last (of this working folder, if one is given)."""
        return self._catalog.most_recent(cwd)

    def listing(self, progress: Progress | None = None) -> list[Row]:
        """Every session, the one in which somebody spoke last first. Files that did not change are not read again."""
        return self._catalog.listing(progress)

    def words_of(self, path: Path) -> list[str]:
        """What users and models said in a file, text by text."""
        return self._catalog.words_of(path)

    def search(self, query: str) -> Iterator[Hit]:
        """Sessions, newest first, in which every word of the query was said or is part of the name."""
        return self._catalog.search(query)

    # -- inside

    def _path_for(self, header: Header) -> Path:
        return self.folder / f"{file_stamp(header.timestamp)}_{header.id}.jsonl"

    def _new(self, path: Path, header: Header, body: Iterable[bytes] = (), *, at_once: bool = False) -> SessionLog:
        """A session that is not stored yet, or (`at_once`) now."""
        data = self.terms.first_lines(header, body)
        lines = FileLines.pending(self.terms.disk, path, data, self.terms.durability)
        if at_once:
            lines.begin()
        return new_log(self.terms, lines)

    def _check_folder(self, path: Path, cwd: str | None) -> Header:
        header = self._catalog.header_of(path)
        if header is None:
            raise NotASession(path)
        require_folder(header, path, cwd)
        return header

    def _is_taken(self, session_id: str) -> bool:
        headers = (self._catalog.header_of(path) for path in self._catalog.files())
        return any(header is not None and header.id == session_id for header in headers)

    def _free_path(self, source: Path) -> Path:
        """A name in this folder that is not taken."""
        path, number = self.folder / source.name, 0
        while self.terms.disk.state_of(path) is not None:
            number += 1
            path = self.folder / f"{source.stem}-{number}{source.suffix}"
        return path


def open_store(where: str, *, cwd: str, durability: Durability = "turn") -> SessionStore | SqliteStore:
    """The store that a text names: `sqlite:PATH` is a database, anything else a folder."""
    if where.startswith("sqlite:"):
        from antiphon.session_log.sqlite import SqliteStore

        return SqliteStore(where.removeprefix("sqlite:"), cwd=cwd, durability=durability)
    return SessionStore(where, cwd=cwd, durability=durability)
