"""Session files from elsewhere: looked at before anything is stored, given another id if theirs is taken."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from antiphon.session_log.catalog import first_header
from antiphon.session_log.entries import Header, header_from_line
from antiphon.session_log.line import BYTE_ORDER_MARK, changed
from antiphon.session_log.refusals import FolderMissing, NotASession


def arrival(source: Path, cwd: str | None) -> tuple[Header, bytes]:
    """The header and the bytes of a file that shall become a session. `cwd`: where it shall work.

    Raises:
        NotASession: no such file, or it is none.
        FolderMissing: its working folder is gone and no other was given.
    """
    try:
        data = source.read_bytes().removeprefix(BYTE_ORDER_MARK)
    except OSError:
        raise NotASession(source) from None
    header = first_header(data)
    if header is None:
        raise NotASession(source)
    require_folder(header, source, cwd)
    return header, data


def require_folder(header: Header, place: Path, cwd: str | None) -> None:
    """Refuse to go on where the session worked if that folder is gone, unless another one (`cwd`) was chosen."""
    if cwd is None and header.cwd is not UNSET and not Path(header.cwd).is_dir():
        raise FolderMissing(place, header.cwd)


def with_id(data: bytes, session_id: str) -> bytes:
    """The bytes of a session file under another id; everything else stays as it is."""
    lines = data.split(b"\n")
    at = next(at for at, line in enumerate(lines) if header_from_line(line) is not None)
    lines[at] = changed(lines[at], {"id": session_id})
    return b"\n".join(lines)
