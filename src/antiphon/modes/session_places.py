"""Where sessions lie, and which one a person means. Source: modes specification 2.2 (`--session`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct

from antiphon.errors import SessionError
from antiphon.resources.paths import Places, expanded, sessions_dir
from antiphon.resources.settings_layers import project_session_dir, read_layers
from antiphon.session_log.catalog import Catalog, Row
from antiphon.session_log.disk import LocalDisk
from antiphon.session_log.lines import Durability
from antiphon.session_log.store import SessionStore, folder_for, open_store

if TYPE_CHECKING:
    from antiphon.session_log.sqlite import SqliteStore

DATABASE = "sqlite:"


class NoSuchSession(SessionError):
    """No session, or more than one, fits what was asked for."""


class SessionPlaces(Struct, frozen=True):
    """`chosen`: a folder or database that somebody chose for all sessions; else each working folder has its own.

    `durability`: when what is written is safe from a power loss.
    """

    where: Places
    chosen: str | None
    durability: Durability = "turn"

    def location(self, cwd: str) -> str:
        """The folder, or `sqlite:` and a file, of a working folder's sessions."""
        return self.chosen or str(folder_for(self.where.agent / "sessions", cwd))

    def store(self, cwd: str | None = None) -> SessionStore | SqliteStore:
        """The sessions of a working folder."""
        folder = str(self.where.cwd) if cwd is None else cwd
        return open_store(self.location(folder), cwd=folder, durability=self.durability)

    @property
    def shared_by(self) -> str | None:
        """Only sessions of this working folder are meant, if several share a place."""
        return str(self.where.cwd) if self.chosen else None

    def rows_here(self) -> list[Row]:
        """Sessions of this working folder, the one spoken in last first."""
        rows = self.store().listing()
        return [row for row in rows if self.shared_by is None or row.facts.cwd in ("", self.shared_by)]

    def rows_everywhere(self) -> list[Row]:
        """Sessions of every working folder."""
        if self.chosen:
            return self.store().listing()
        rows: list[Row] = []
        root = self.where.agent / "sessions"
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if folder.is_dir():
                rows += SessionStore(folder, cwd=str(self.where.cwd)).listing()
        return sorted(rows, key=lambda row: row.facts.modified_ms, reverse=True)


def session_places(where: Places, environ: Mapping[str, str], option: str | None = None) -> SessionPlaces:
    """Where sessions lie: by option, variable, setting of the project, own setting, or below the agent's folder."""
    given = option or environ.get("ANTIPHON_SESSION_DIR")
    own = read_layers(where, trusted=False).settings
    if given and given.startswith(DATABASE):
        database = DATABASE + str(where.cwd / expanded(given[len(DATABASE) :], where.home))
        return SessionPlaces(where, database, own.session_durability)
    setting = project_session_dir(where) or own.session_dir
    chosen = sessions_dir(environ, option, None if setting is UNSET else setting)
    return SessionPlaces(where, None if chosen is None else str(where.cwd / chosen), own.session_durability)


class FoundSession(Struct, frozen=True):
    """A session that was asked for. `path`: its file, or its id in a database; `cwd`: empty if it names none."""

    path: Path
    cwd: str
    here: bool


def find_session(places: SessionPlaces, wanted: str) -> FoundSession:
    """The session that a path, an id, the beginning of an id, or a name means: here first, then everywhere.

    Raises:
        NoSuchSession: nothing, or more than one, fits.
    """
    if is_path(wanted):
        return _file(places, wanted)
    for rows, here in ((places.rows_here(), True), (places.rows_everywhere(), False)):
        exact = [row for row in rows if row.facts.id == wanted]
        found = exact or [row for row in rows if row.facts.id.startswith(wanted)]
        if len(found) > 1:
            names = ", ".join(row.facts.id for row in found[:4]) + (", …" if len(found) > 4 else "")
            raise NoSuchSession(f"several sessions have an id that begins with {wanted!r}: {names}")
        if found:
            row = found[0]
            return FoundSession(row.path, row.facts.cwd, here or row.facts.cwd == str(places.where.cwd))
    named = [row for row in places.rows_here() if row.facts.name == wanted]
    if named:
        return FoundSession(named[0].path, named[0].facts.cwd, True)
    raise NoSuchSession(
        f"no session has the id or name {wanted!r}; `antiphon session list --all` lists them, "
        "a path needs a / or .jsonl"
    )


def is_path(wanted: str) -> bool:
    """Is this a path, not an id?"""
    return os.sep in wanted or wanted.endswith(".jsonl")


def _file(places: SessionPlaces, wanted: str) -> FoundSession:
    path = places.where.cwd / expanded(wanted, places.where.home)
    if not path.exists():
        raise NoSuchSession(f"there is no session file {path}")
    if not path.is_file():  # a pipe would be waited for, a device has no end
        raise NoSuchSession(f"{path} is no regular file, so it is no session")
    header = Catalog(path.parent, LocalDisk()).header_of(path)
    return FoundSession(path, "" if header is None or header.cwd is UNSET else header.cwd, True)
