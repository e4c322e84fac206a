"""Making, opening and copying sessions: what a folder holds afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.session_log.make import counting_sources, forty_entries, history, ids_on_disk, says, told_texts

from antiphon.core.messages import user
from antiphon.errors import ConfigurationError
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import EntryRefused, FolderMissing, NoSuchEntry, NotASession, SessionUnreadable


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


def test_a_fork_drops_marks_of_moves(store: SessionStore) -> None:
    log = store.create()
    first = log.append_message(user("a"))
    log.append_message(says("b"))
    log.move_to(first)
    last = log.append_message(says("c"))

    fork = store.fork(log, last)

    assert told_texts(fork) == ["a", "c"]
    assert [entry.type for entry in fork.entries()] == ["message", "message"]


def test_an_export_can_be_opened(store: SessionStore, tmp_path: Path) -> None:
    with forty_entries(store) as log:
        told = history(log)
        (tmp_path / "out.jsonl").write_bytes(store.export(log))

    with store.open(tmp_path / "out.jsonl") as exported:
        assert history(exported) == told
        assert exported.report.outcome == "clean"


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


def test_a_session_whose_folder_is_gone_is_not_resumed_by_accident(store: SessionStore, tmp_path: Path) -> None:
    with store.create(cwd=str(tmp_path / "gone")) as log:
        log.append_message(user("a"))
        assert log.path is not None

    with pytest.raises(FolderMissing) as refused:
        store.resume(log.path)
    assert refused.value.cwd == str(tmp_path / "gone")
    with store.resume(log.path, cwd=str(tmp_path)) as here:
        assert here.cwd == str(tmp_path)
    with pytest.raises(NotASession):
        store.resume(store.folder / "none.jsonl")


def test_what_cannot_be_written_as_json_is_refused_before_anything_is_stored(store: SessionStore) -> None:
    log = store.create()
    log.append_message(user("a"))

    with pytest.raises(EntryRefused):
        log.append_custom("x", object())

    assert log.entry_count == 1
    assert log.path is not None
    assert len(ids_on_disk(log.path)) == 1


def test_half_characters_come_back_as_they_were_said(store: SessionStore) -> None:
    """Memory and file agree even about what UTF-8 cannot say."""
    with store.create() as log:
        log.append_message(user("x\ud800y"))
        assert log.path is not None

    with store.open(log.path) as again:
        assert told_texts(again) == ["x\ud800y"]


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
