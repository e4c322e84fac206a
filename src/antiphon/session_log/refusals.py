"""Why a session cannot be used as asked. All are `SessionError`: one clear line for a person.

SessionError
├── NotASession        no header: the file is left alone
├── SessionInUse       another process owns it: open it read-only, or fork it
├── SessionReadOnly    this log was opened for reading
├── SessionExists      the name is taken
├── SessionWriteFailed the disk refused; memory and file are as before
├── SessionChanged     somebody else cut or replaced the file while it was open
├── NoSuchEntry        an id that is not in this session
├── EntryRefused       an operation that the entry does not allow
└── FolderMissing      the working folder of the session is gone: continue here, or fork here
"""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import SessionError


class NotASession(SessionError):
    """The first readable line is no header with an id."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is not a session: its first readable line is not a session header with an id")


class SessionInUse(SessionError):
    """Another process, or another log in this one, may write to the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is open elsewhere; open it read-only, or fork it into a new session")


class SessionReadOnly(SessionError):
    """A change was asked of a log that was opened for reading."""


class SessionExists(SessionError):
    """A file with the name of a new session is there already."""


class SessionUnreadable(SessionError):
    """The file cannot be opened or read. `__cause__` is what the system said."""


class SessionWriteFailed(SessionError):
    """An entry could not be stored. `__cause__` is what the system said."""


class SessionChanged(SessionError):
    """The file is no longer the one that was opened. Nothing more is written to it."""


class NoSuchEntry(SessionError):
    """An id that is not in this session."""

    def __init__(self, entry_id: object) -> None:
        super().__init__(f"there is no entry {entry_id!r} in this session")


class EntryRefused(SessionError):
    """The entry is not of a kind, or not at a place, that the operation allows."""


class FolderMissing(SessionError):
    """The folder in which the session worked does not exist (any more)."""

    def __init__(self, path: Path, cwd: str) -> None:
        super().__init__(f"{path} was made in {cwd}, which does not exist; give another folder, or fork it here")
        self.cwd = cwd
