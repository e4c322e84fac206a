"""The index of a large session: believed only for exactly the file it was made for, and never needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.session_log.make import counting_sources, history

from antiphon.core.messages import user
from antiphon.session_log import SessionStore
from antiphon.session_log.index_file import INDEXED_FROM, index_path
from antiphon.session_log.scan import Scan


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources(), durability="fast")


@pytest.fixture
def large(store: SessionStore) -> Path:
    """A session with an index, a label, a name, a branch and a compaction."""
    with store.create() as log:
        first = log.append_message(user("first"))
        for number in range(INDEXED_FROM):
            log.append_message(user(f"m{number}"))
        log.set_label(first, "start")
        log.set_name("large")
        log.append_compaction("sum", log.leaf_id, 1)
        assert log.path is not None
        return log.path


def reads_whole_file(store: SessionStore, path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    fed: list[bytes] = []
    feed = Scan.feed
    monkeypatch.setattr(Scan, "feed", lambda self, block: (fed.append(block), feed(self, block))[1])
    store.open(path, access="read").close()
    monkeypatch.undo()
    return bool(fed)


def test_a_small_session_has_none(store: SessionStore) -> None:
    with store.create() as log:
        log.append_message(user("x"))
    assert log.path is not None
    assert not index_path(log.path).exists()


def test_opening_with_an_index_reads_the_same(
    store: SessionStore, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not reads_whole_file(store, large, monkeypatch)
    with store.open(large) as indexed:
        told, ids = history(indexed), indexed.table.ids
        assert indexed.name == "large"
        assert indexed.label(ids[0]) == "start"
    index_path(large).unlink()

    with store.open(large) as whole:
        assert history(whole) == told
        assert whole.table.ids == ids


def test_what_was_appended_is_in_the_next_index(
    store: SessionStore, large: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(large) as log:
        log.append_message(user("more"))

    assert not reads_whole_file(store, large, monkeypatch)
    with store.open(large) as log:
        assert log.messages()[-1] == user("more")


@pytest.mark.parametrize("damage", ["removed", "cut", "flipped", "garbage"])
def test_a_damaged_index_is_no_harm(
    store: SessionStore, large: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = index_path(large)
    data = path.read_bytes()
    path.unlink()
    if damage != "removed":
        changed = data[:-10] if damage == "cut" else bytes([data[0] ^ 1]) + data[1:] if damage == "flipped" else b"\x00"
        path.write_bytes(changed)

    assert reads_whole_file(store, large, monkeypatch)


@pytest.mark.parametrize("change", ["grown", "touched", "replaced"])
def test_an_index_of_another_state_of_the_file_is_not_believed(
    store: SessionStore, large: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if change == "grown":
        with large.open("ab") as file:
            file.write(b"\n")
    elif change == "touched":
        os.utime(large, ns=(1, 1))
    else:
        data = large.read_bytes()
        large.unlink()
        large.write_bytes(data)

    assert reads_whole_file(store, large, monkeypatch)
