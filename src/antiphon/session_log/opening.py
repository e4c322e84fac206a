"""How bytes become a log: looking through them, upgrading old ones, making a file fit for writing.

A file is changed at opening only to make it fit: an empty one gets a header, a last line without newline gets one, an
older version is replaced as a whole by what it is today. `log.report` says what was found and done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import final

from msgspec import UNSET, Struct

from antiphon.errors import SessionError
from antiphon.session_log.damage import Damage, OpenReport
from antiphon.session_log.disk import Disk
from antiphon.session_log.entries import CURRENT_VERSION, Header, header_from_line, version_of
from antiphon.session_log.file import FileLines
from antiphon.session_log.index_file import INDEXED_FROM, index_of, read_index, write_index
from antiphon.session_log.line import BYTE_ORDER_MARK, sealed, write_value
from antiphon.session_log.lines import Durability, Lines, MemoryLines
from antiphon.session_log.log import SessionLog
from antiphon.session_log.refusals import NotASession
from antiphon.session_log.scan import Scan
from antiphon.session_log.stamps import Sources, checked_session_id
from antiphon.session_log.upgrade import needs_upgrade, upgraded


@final
class Terms(Struct, frozen=True):
    """What all sessions of a store have in common. `cwd`: for sessions that name no working folder."""

    cwd: str
    sources: Sources
    durability: Durability
    seals: bool
    disk: Disk

    def new_header(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> Header:
        """The header of a session that begins now.

        Raises:
            ConfigurationError: the chosen id cannot stand in a file name.
        """
        return Header(
            version=CURRENT_VERSION,
            id=self.sources.session_id() if session_id is None else checked_session_id(session_id),
            timestamp=self.sources.now_iso(),
            cwd=self.cwd if cwd is None else cwd,
            parent_session=UNSET if parent_session is None else parent_session,
        )

    def first_lines(self, header: Header, body: Iterable[bytes] = ()) -> bytes:
        """The bytes of a new session: a header, and entries if it has some already."""
        line = write_value(header)
        return b"".join(part + b"\n" for part in (sealed(line) if self.seals else line, *body))


def scanned(blocks: Iterable[bytes]) -> Scan:
    """A whole file, looked through."""
    scan = Scan()
    for block in blocks:
        scan.feed(block)
    scan.finish()
    return scan


def log_of(terms: Terms, lines: Lines, scan: Scan, report: OpenReport, cwd: str | None = None) -> SessionLog:
    """The log of lines that were looked through. `cwd`: work in another folder than the header says."""
    assert scan.header is not None
    own = terms.cwd if scan.header.cwd is UNSET else scan.header.cwd
    return SessionLog(
        header=scan.header,
        cwd=own if cwd is None else cwd,
        lines=lines,
        table=scan.table,
        sources=terms.sources,
        report=report,
        seals=terms.seals,
        before_close=lambda log: leave_index(terms.disk, log),
    )


def new_log(terms: Terms, lines: Lines, cwd: str | None = None) -> SessionLog:
    """The log of lines that we made ourselves."""
    return log_of(terms, lines, scanned(lines.blocks()), OpenReport(), cwd)


def memory_log(
    terms: Terms, lines: Sequence[bytes], damages: Iterable[Damage] = (), cwd: str | None = None
) -> SessionLog:
    """A log without a file, of lines that begin with a header. Older versions are upgraded."""
    scan = scanned([b"\n".join(lines)])
    if scan.header is None:
        raise NotASession("what was given")
    if needs_upgrade(scan.header):
        lines = upgraded(lines, scan.header, terms.sources.entry_id)
    data = b"".join(line + b"\n" for line in lines)
    report = OpenReport((*damages, *scan.damages))
    return log_of(terms, MemoryLines(data), scanned([data]), report, cwd)


def memory_session(terms: Terms, lines: Iterable[bytes], cwd: str | None, session_id: str | None) -> SessionLog:
    """A session without a place: new, or with given lines. A header among them is kept, older versions upgraded."""
    given = list(lines)
    if not given or header_from_line(given[0]) is None:
        given.insert(0, write_value(terms.new_header(cwd=cwd, session_id=session_id)))
    return memory_log(terms, given, (), cwd)


def open_file(terms: Terms, path: Path, *, write: bool, cwd: str | None = None) -> SessionLog:
    """The log of an existing file. Without `write` nothing is locked or changed.

    Raises:
        NotASession: no header; the file is left alone.
        SessionInUse: another owner is alive.
    """
    lines = FileLines.opened(terms.disk, path, terms.durability, write=write)
    try:
        if lines.size == 0:
            return _opened_empty(terms, lines, write=write, cwd=cwd)
        return _opened(terms, lines, write=write, cwd=cwd)
    except BaseException:
        lines.close()
        raise


def _opened(terms: Terms, lines: FileLines, *, write: bool, cwd: str | None) -> SessionLog:
    scan = _indexed(terms.disk, lines) or scanned(lines.blocks())
    if scan.header is None or scan.refused:
        raise NotASession(lines.path)
    if needs_upgrade(scan.header):
        return _upgraded(terms, lines, scan, write=write, cwd=cwd)
    changes: tuple[str, ...] = ()
    if scan.unterminated and write:
        lines.end_last_line()
        changes = ("its last line got a newline",)
    return log_of(terms, lines, scan, OpenReport(tuple(scan.damages), changes), cwd)


def _opened_empty(terms: Terms, lines: FileLines, *, write: bool, cwd: str | None) -> SessionLog:
    """A file of zero bytes becomes a session at once."""
    data = terms.first_lines(terms.new_header(cwd=cwd))
    if not write:
        lines.close()
        return memory_log(terms, [data.rstrip(b"\n")], (), cwd)
    lines.replace_with([data])
    return log_of(terms, lines, scanned([data]), OpenReport((), ("it was empty: a header was written",)), cwd)


def _upgraded(terms: Terms, lines: FileLines, scan: Scan, *, write: bool, cwd: str | None) -> SessionLog:
    """Replace an older version; a reader gets the new lines in memory only."""
    assert scan.header is not None
    old = b"".join(lines.blocks()).removeprefix(BYTE_ORDER_MARK).split(b"\n")
    if not write:
        lines.close()
        return memory_log(terms, [line for line in old if line], (), cwd)
    keep = _backup_name(terms.disk, lines.path) if scan.has_unreadable else None
    new = upgraded(old, scan.header, terms.sources.entry_id)
    data = b"".join(line + b"\n" for line in new)
    lines.replace_with([data], keep=keep)
    changes = [f"it was upgraded from version {version_of(scan.header):g}"]
    if keep is not None:
        changes.append(f"the old file was kept as {keep.name}, because it has unreadable lines")
    report = OpenReport(tuple(scan.damages), tuple(changes))
    return log_of(terms, lines, scanned([data]), report, cwd)


def _backup_name(disk: Disk, path: Path) -> Path:
    """A name for the old file that is not taken."""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
    return next(name for name in names if disk.state_of(name) is None)


def _indexed(disk: Disk, lines: FileLines) -> Scan | None:
    """What an index beside the file says, if it can be believed."""
    state = lines.state()
    index = None if state is None else read_index(disk, lines.path, state)
    header = None if index is None else header_from_line(index.header)
    if index is None or header is None:
        return None
    return Scan(header, index.table(), damages=index.damages, size=index.file.size)


def leave_index(disk: Disk, log: SessionLog) -> None:
    """Leave an index beside a large file that has none for its present state."""
    lines = log.lines
    if log.entry_count < INDEXED_FROM or not isinstance(lines, FileLines) or not lines.writable:
        return
    with suppress(SessionError):
        state = lines.state()
        if state is not None and read_index(disk, lines.path, state) is None:
            header = write_value(log.header)
            write_index(disk, lines.path, index_of(log.table, header, state, list(log.report.damages)))
