"""Making, opening and copying sessions: what a folder holds afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.session_log.make import counting_sources, forty_entries, ids_on_disk, says, told_texts

from antiphon.core.messages import user
from antiphon.errors import ConfigurationError
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import NoSuchEntry, NotASession, SessionUnreadable


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "s", cwd=str(tmp_path), sources=counting_sources(), durability="fast")


def test_a_chosen_id_stands_in_the_file_name(store: SessionStore) -> None:
    with store.create(session_id="my-id") as log:
        log.append_message(user("x"))
        assert log.path is not None
        assert log.path.name.endswith("Z_my-id.jsonl")
    with pytest.raises(ConfigurationError):
        store.create(session_id="a/b")


def test_a_fork_has_the_path_and_not_the_rest(store: SessionStore) -> None:
    with forty_entries(store) as log:
        target = log.path_ids()[12]
        before = ids_on_disk(log.path) if log.path else []
        fork = store.fork(log, target)

        assert fork.path is not None
        assert ids_on_disk(fork.path)[:10] == before[:10]
        assert fork.header.parent_session == str(log.path)
        assert fork.report.outcome == "clean"
        assert log.path is not None
        assert ids_on_disk(log.path) == before, "the old session stays as it was"
        with pytest.raises(NoSuchEntry):
            store.fork(log, "ghost")
    fork.close()


def test_a_copy_has_all_branches(store: SessionStore) -> None:
    with store.create() as log:
        first = log.append_message(user("a"))
        log.append_message(says("left"))
        log.branch(first)
        log.append_message(says("right"))
        assert log.path is not None

    with store.copy(log.path, cwd="/elsewhere", session_id="copy") as copy:
        assert len(copy.children(first)) == 2
        assert (copy.cwd, copy.session_id) == ("/elsewhere", "copy")
    for source in (store.folder / "none.jsonl", store.folder):
        with pytest.raises(NotASession):
            store.copy(source)


def test_a_file_that_the_system_does_not_give_is_unreadable(store: SessionStore) -> None:
    store.folder.mkdir()

    with pytest.raises(SessionUnreadable):
        store.open(store.folder)


def test_an_old_session_is_read_without_being_changed(store: SessionStore) -> None:
    store.folder.mkdir()
    path = store.folder / "old.jsonl"
    header = {"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/proj"}
    message = {"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": {"role": "user", "content": "hi"}}
    path.write_text(json.dumps(header) + "\n" + json.dumps(message) + "\n")
    before = path.read_bytes()

    with store.open(path, access="read") as log:
        assert told_texts(log) == ["hi"]

    assert path.read_bytes() == before


def test_an_empty_file_is_read_without_being_changed(store: SessionStore) -> None:
    store.folder.mkdir()
    path = store.folder / "empty.jsonl"
    path.touch()

    with store.open(path, access="read") as log:
        assert log.entry_count == 0

    assert path.read_bytes() == b""


def test_files_are_for_their_owner_only(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("a"))
        assert log.path is not None
        assert log.path.stat().st_mode & 0o077 == 0
