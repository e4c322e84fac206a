"""Both kinds of stores, for tests of what they have in common: whoever uses one must not notice which it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest
from tests.session_log.make import counting_sources

from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.sqlite import SqliteStore

AnyStore: TypeAlias = SessionStore | SqliteStore
both = pytest.mark.parametrize("store", ["files", "database"], indirect=True)


def made(kind: str, folder: Path, **more: Any) -> AnyStore:
    """A store of this kind in a folder."""
    more = {"cwd": "/proj", "sources": counting_sources(), **more}
    return SessionStore(folder / "s", **more) if kind == "files" else SqliteStore(folder / "s.db", **more)


def place_of(log: SessionLog) -> Path | str:
    """Under what its store finds a session again."""
    return log.path or log.session_id


def put(store: AnyStore, data: bytes) -> Path | str:
    """Bytes of a session file, put into a store by somebody else; under what it is found."""
    if isinstance(store, SqliteStore):
        return store.take(data)
    store.folder.mkdir(parents=True, exist_ok=True)
    path = store.folder / "put.jsonl"
    path.write_bytes(data)
    return path
