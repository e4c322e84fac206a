"""Sessions in a database are the same sessions: the same verbs, the same history, the same bytes on the way back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.session_log.make import counting_sources, forty_entries, history, says, told_texts

from antiphon.core.messages import user
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import (
    NotASession,
    SessionExists,
    SessionInUse,
    SessionReadOnly,
    SessionUnreadable,
    SessionWriteFailed,
)
from antiphon.session_log.sqlite import SqliteStore
from antiphon.session_log.store import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path / "all.db", cwd="/proj", sources=counting_sources())
    yield store
    store.close()


@pytest.mark.requirement("S1-18")
def test_a_conversation_comes_back_as_it_was(store: SqliteStore) -> None:
    with store.create() as log:
        log.append_model_change("p", "m")
        log.append_message(user("one"))
        log.append_message(says("two"))
        told = history(log)

    again = store.continue_recent()

    assert again is not None
    with again:
        assert history(again) == told
        assert again.report.outcome == "clean"
        again.append_message(user("three"))
    with store.open(again.session_id) as log:
        assert told_texts(log) == ["one", "two", "three"]


def test_a_session_in_which_nobody_spoke_is_not_stored(store: SqliteStore) -> None:
    with store.create() as log:
        log.set_name("never used")
        assert not log.saved

    assert store.listing() == []


def test_a_file_goes_in_and_comes_back_byte_for_byte(store: SqliteStore, tmp_path: Path) -> None:
    """Unreadable lines, foreign line ends and a missing last newline included."""
    files = SessionStore(tmp_path / "files", cwd="/proj", sources=counting_sources())
    with forty_entries(files) as log:
        told = history(log)
    assert log.path is not None
    lines = log.path.read_bytes().split(b"\n")
    data = b"\n".join([*lines[:5], b"{{{ broken", b"", *lines[5:20], lines[20] + b"\r", *lines[21:]])[:-1]

    session_id = store.take(data)

    assert store.whole(session_id) == data
    with store.open(session_id, access="read") as copy:
        assert history(copy)["told"] == told["told"]
    with store.open(session_id) as copy:
        copy.append_message(user("more"))
        assert told_texts(copy)[-1] == "more"


def test_an_old_version_is_upgraded(store: SqliteStore) -> None:
    header = {"type": "session", "id": "old", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/proj"}
    message = {"type": "message", "timestamp": "2026-01-01T00:00:00.000Z", "message": {"role": "user", "content": "hi"}}
    data = b"".join(json.dumps(line).encode() + b"\n" for line in (header, message))
    store.take(data)

    with store.open("old", access="read") as log:
        assert told_texts(log) == ["hi"]
    assert store.whole("old") == data, "looking changes nothing"
    with store.open("old") as log:
        log.append_message(says("hello"))
    with store.open("old") as log:
        assert told_texts(log) == ["hi", "hello"]


def test_one_owner_at_a_time(store: SqliteStore) -> None:
    with store.create() as log:
        log.append_message(user("one"))
        with pytest.raises(SessionInUse):
            store.open(log.session_id)
        with store.open(log.session_id, access="read") as reader:
            with pytest.raises(SessionReadOnly):
                reader.append_message(user("no"))
            with store.fork(reader, reader.leaf_id) as mine:
                mine.append_message(user("mine"))

    store.open(log.session_id).close()
    assert len(store.listing()) == 2


def test_lists_and_searches(store: SqliteStore) -> None:
    for name in ("alpha", "beta"):
        with store.create() as log:
            log.append_message(user(f"about {name}"))
            log.set_name(name)

    first, second = store.listing(), store.listing()

    assert first == second
    assert sorted(row.facts.name or "" for row in first) == ["alpha", "beta"]
    assert [hit.row.facts.name for hit in store.search("BETA about")] == ["beta"]
    assert list(store.search("gamma")) == []


def test_what_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    with pytest.raises(NotASession):
        store.open("ghost")
    with pytest.raises(NotASession):
        store.take(b"garbage\n")
    header = b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n'
    store.take(header)
    with pytest.raises(SessionExists):
        store.take(header)
    (tmp_path / "no.db").write_text("this is no database, " * 100)
    with pytest.raises(SessionUnreadable):
        SqliteStore(tmp_path / "no.db", cwd="/")


def test_a_store_is_named_by_a_text(tmp_path: Path) -> None:
    database = open_store(f"sqlite:{tmp_path}/x.db", cwd="/")

    assert isinstance(database, SqliteStore)
    database.close()
    assert isinstance(open_store(str(tmp_path), cwd="/"), SessionStore)


def test_a_failed_append_changes_nothing(store: SqliteStore) -> None:
    log = store.create()
    log.append_message(user("one"))
    other = sqlite3.connect(store.path, isolation_level=None)
    store._database.execute("PRAGMA busy_timeout = 0")
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(SessionWriteFailed):
        log.append_message(says("two"))
    other.execute("ROLLBACK")

    assert log.entry_count == 1
    log.append_message(says("three"))
    assert told_texts(log) == ["one", "three"]
    with store.open(log.session_id, access="read") as reader:
        assert told_texts(reader) == ["one", "three"]
    other.close()


def test_a_closed_database_is_said_to_be_unreadable(store: SqliteStore) -> None:
    log = store.create(session_id="x")
    log.append_message(user("one"))
    with pytest.raises(SessionExists):
        store.create(session_id="x")
    log.flush()
    store._database.close()

    with pytest.raises(SessionUnreadable):
        log.entry(log.leaf_id or "")
    with pytest.raises(SessionWriteFailed):
        log.append_message(says("two"))
    with pytest.raises(SessionWriteFailed):
        log.flush()


def test_an_export_of_a_stored_session_is_a_file(store: SqliteStore, tmp_path: Path) -> None:
    with store.create() as log:
        log.append_message(user("one"))
        (tmp_path / "x.jsonl").write_bytes(store.export(log))

    with SessionStore(tmp_path, cwd="/").open(tmp_path / "x.jsonl") as file:
        assert told_texts(file) == ["one"]


def test_forty_entries_in_a_database(store: SqliteStore) -> None:
    """All kinds of entries, in memory and stored, and a fork of them."""
    with store.in_memory() as memory:
        assert memory.entry_count == 0
    with store.create(session_id="forty") as log:
        for number in range(20):
            log.append_message(user(str(number)))
            log.append_message(says(str(number)))
        told = history(log)
        with store.fork(log, log.path_ids()[9]) as fork:
            assert told_texts(fork) == told_texts(log)[:10]
            assert fork.header.parent_session == f"sqlite:{store.path}#forty"
    with store.open("forty") as again:
        assert history(again) == told
    assert store.continue_recent(cwd="/elsewhere") is None
