"""Lists and searches of a folder: right, and cheap the second time."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.session_log.make import counting_sources, says

from antiphon.core.messages import user
from antiphon.session_log import SessionStore, folder_for
from antiphon.session_log.catalog import CACHE_NAME, Catalog, Row


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "s", cwd="/proj", sources=counting_sources(), durability="fast")


def session(store: SessionStore, text: str, cwd: str = "/proj") -> Path:
    with store.create(cwd=cwd) as log:
        log.append_message(user(text, store.terms.sources.now_ms()))
        log.append_message(says(f"answer to {text}"))
        assert log.path is not None
        return log.path


def test_a_list_shows_the_session_spoken_in_last_first(store: SessionStore) -> None:
    first, second = session(store, "one"), session(store, "two")

    rows = store.listing()

    assert [row.path for row in rows] == [second, first]
    assert [row.facts.first_message for row in rows] == ["two", "one"]
    assert rows[0].facts.message_count == 2


def test_files_that_did_not_change_are_not_read_again(store: SessionStore) -> None:
    session(store, "one")
    changed = session(store, "two")
    before = store.listing()
    with store.open(changed) as log:
        log.set_name("named")

    read: list[Path] = []
    gathered = Catalog._gathered

    def watched(self: Catalog, path: Path, *, words: bool) -> object:
        read.append(path)
        return gathered(self, path, words=words)

    with patch.object(Catalog, "_gathered", watched):
        after = store.listing()

    assert read == [changed]
    assert {row.facts.name for row in after} == {None, "named"}
    assert len(before) == len(after)


@pytest.mark.parametrize("damage", [b"", b"garbage", b"\x92\x01"])
def test_a_damaged_cache_is_no_harm(store: SessionStore, damage: bytes) -> None:
    session(store, "one")
    before = store.listing()
    (store.folder / CACHE_NAME).write_bytes(damage)

    assert store.listing() == before


def test_what_is_no_session_is_left_out(store: SessionStore) -> None:
    session(store, "one")
    (store.folder / "notes.txt").write_text("x")
    (store.folder / "broken.jsonl").write_text("x")
    (store.folder / "empty.jsonl").write_text("")

    assert len(store.listing()) == 1
    assert SessionStore(store.folder / "none", cwd="/").listing() == []


def test_progress_is_told_after_the_first_and_every_tenth_file(store: SessionStore) -> None:
    for number in range(21):
        session(store, str(number))
    told: list[list[Row]] = []

    rows = store.listing(told.append)

    assert [len(step) for step in told] == [1, 10, 20]
    assert len(rows) == 21


def test_the_most_recent_is_the_file_changed_last(store: SessionStore) -> None:
    first, second = session(store, "one"), session(store, "two", cwd="/other")
    os.utime(first, ns=(1, 2))
    os.utime(second, ns=(1, 1))
    (store.folder / "newest.jsonl").write_text("no session")

    assert store.most_recent() == first
    assert store.most_recent(cwd="/other") == second
    assert store.most_recent(cwd="/nowhere") is None


def test_a_search_finds_all_words_wherever_they_were_said(store: SessionStore) -> None:
    path = session(store, "Where is the Straße to Rome?")
    session(store, "something else")

    hits = list(store.search("STRASSE answer"))

    assert [hit.row.path for hit in hits] == [path]
    assert list(store.search("rome mars")) == []
    assert list(store.search("")) == []


def test_folders_of_working_folders(tmp_path: Path) -> None:
    assert folder_for(tmp_path, "/home/me/proj").name == "--home-me-proj--"
    assert folder_for(tmp_path, "C:\\work").name == "--C--work--"
