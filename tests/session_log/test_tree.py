"""The tree of a session: siblings by time, labels, and depths that no recursion survives."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.session_log.make import counting_sources, says

from antiphon.core.messages import user
from antiphon.session_log import SessionStore
from antiphon.session_log.tree import walk_tree

HEADER = b'{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}'


def line(entry_id: str, parent: str | None, second: int | str) -> bytes:
    stamp = f"2026-01-01T00:00:{second:02d}.000Z" if isinstance(second, int) else second
    above = "null" if parent is None else f'"{parent}"'
    return f'{{"type":"custom","id":"{entry_id}","parentId":{above},"timestamp":"{stamp}","customType":"x"}}'.encode()


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/", sources=counting_sources(), durability="fast")


def test_siblings_are_sorted_by_time_and_unreadable_times_are_equal_to_all(store: SessionStore) -> None:
    log = store.in_memory(
        [HEADER, line("r", None, 0), line("c", "r", 9), line("a", "r", 1), line("x", "r", "never"), line("b", "r", 5)]
    )

    (root,) = log.tree()

    assert [node.id for node in root.children] == ["a", "c", "x", "b"]


def test_a_very_deep_tree_is_shown(store: SessionStore) -> None:
    log = store.create()
    for number in range(5_000):
        log.append_message(user(str(number)) if number % 2 else says(str(number)))

    depths = [depth for depth, _ in walk_tree(log.tree())]

    assert depths == list(range(5_000))
    assert len(log.path_ids()) == 5_000


def test_a_doubled_tail_does_not_explode(store: SessionStore) -> None:
    """Every doubled entry shows the children of both: seen as nested lists that is 2 to the power of the depth."""
    tail = [line(f"e{n}", f"e{n - 1}" if n else None, n % 60) for n in range(200)]
    log = store.in_memory([HEADER, *tail, *tail])

    assert sum(1 for _ in walk_tree(log.tree())) == 400
    assert len(log.path_ids()) == 200


def test_labels_stand_at_their_entries(store: SessionStore) -> None:
    log = store.in_memory()
    first = log.append_message(user("a"))
    log.set_label(first, "one")
    log.set_label(first, "two")

    (root,) = log.tree()

    assert (root.label, root.kind) == ("two", "message")
    assert root.label_time is not None


def test_children_and_paths_of_other_branches(store: SessionStore) -> None:
    log = store.in_memory()
    first = log.append_message(user("a"))
    left = log.append_message(says("left"))
    log.branch(first)
    right = log.append_message(says("right"))

    assert log.children(first) == [left, right]
    assert log.children(None) == [first]
    assert log.path_ids(left) == [first, left]
    assert log.path_ids() == [first, right]
    assert log.path_ids(None) == []
