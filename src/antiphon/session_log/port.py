"""What every store of sessions can do: the port that a folder of files and a database implement alike.

A session's place is the path of its file, or its id in a database: `Row.path` says it, and `open` takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from antiphon.session_log.catalog import Hit, Row
from antiphon.session_log.log import SessionLog

Access: TypeAlias = Literal["write", "read"]


class Store(Protocol):
    """Sessions that are kept. Errors are `SessionError`s (`refusals.py`)."""

    def create(
        self, *, cwd: str | None = None, session_id: str | None = None, parent_session: str | None = None
    ) -> SessionLog:
        """A new session, stored when somebody says something."""
        ...

    def in_memory(
        self, lines: Iterable[bytes] = (), *, cwd: str | None = None, session_id: str | None = None
    ) -> SessionLog:
        """A session without a place: new, or with given lines."""
        ...

    def open(self, place: Path | str, /, *, access: Access = "write", cwd: str | None = None) -> SessionLog:
        """A stored session. `access` read: nothing is locked or changed. `cwd`: work in another folder."""
        ...

    def resume(self, place: Path | str, /, *, cwd: str | None = None) -> SessionLog:
        """A stored session, to go on in its working folder, which must be there, or (`cwd`) in another one."""
        ...

    def continue_recent(self, *, cwd: str | None = None) -> SessionLog | None:
        """The session that was written last (of this working folder, if one is given)."""
        ...

    def fork(self, log: SessionLog, leaf_id: str | None, /) -> SessionLog:
        """A new session that begins with the path to an entry."""
        ...

    def export(self, log: SessionLog, /) -> bytes:
        """The active path as a session file."""
        ...

    def whole(self, place: Path | str, /) -> bytes:
        """A stored session as a file, byte for byte: all branches, unreadable lines too."""
        ...

    def import_file(self, source: Path | str, /, *, cwd: str | None = None, fresh_id: bool = True) -> SessionLog:
        """A file from elsewhere as a session of this store, byte for byte but for an id that is taken."""
        ...

    def listing(self, progress: Callable[[list[Row]], None] | None = None) -> list[Row]:
        """Every session, the one in which somebody spoke last first."""
        ...

    def words_of(self, place: Path, /) -> list[str]:
        """What users and models said, text by text."""
        ...

    def search(self, query: str) -> Iterator[Hit]:
        """Sessions, newest first, in which every word of the query was said or is part of the name."""
        ...
