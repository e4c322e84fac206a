"""Sequences that grow at one end: windows on shared storage, which never change what they showed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.growing import grown
from antiphon.core.messages import SystemMessage, UserMessage, host_message
from antiphon.core.transcript import Transcript

M = [UserMessage(content=str(n)) for n in range(8)]


def test_appending_keeps_every_earlier_window() -> None:
    empty = Transcript()
    one = empty.append(M[0])
    two = one.append(M[1])
    assert (len(empty), list(one), list(two)) == (0, [M[0]], [M[0], M[1]])
    assert one.storage is two.storage


def test_a_fork_gets_storage_of_its_own() -> None:
    one = Transcript([M[0]])
    left, right = one.append(M[1]), one.append(M[2])
    assert (list(left), list(right)) == ([M[0], M[1]], [M[0], M[2]])
    assert left.storage is not right.storage


def test_the_same_message_appended_twice_does_not_part_the_windows() -> None:
    """Machine and agent extend the same transcript by the same message: nothing is copied."""
    one = Transcript([M[0]])
    assert one.append(M[1]).storage is one.append(M[1]).storage


def test_it_reads_like_a_sequence() -> None:
    t = Transcript(M[:4]).extend(M[4:6])
    assert (t[0], t[-1], t[1:3], len(t)) == (M[0], M[5], (M[1], M[2]), 6)
    with pytest.raises(IndexError, match="message 9 of 6"):
        t[9]
    window = Transcript(M[:2])
    longer = window.append(M[2])
    assert list(window) == M[:2]
    assert window[::-1] == (M[1], M[0])
    assert longer == Transcript(M[:3])
    assert longer != Transcript(M[:2])
    assert window != longer
    assert Transcript(longer) == longer
    assert longer.__eq__(5) is NotImplemented
    assert repr(longer) == "<Transcript of 3 messages>"


def test_host_messages_are_counted() -> None:
    assert not Transcript(M).has_host_messages
    assert Transcript([*M, host_message("note")]).has_host_messages
    assert Transcript(M).append(host_message("note")).has_host_messages


def test_the_system_state_rides_along() -> None:
    t = Transcript([SystemMessage(content="a")])
    assert t.system.prompt == "a"
    assert t.append(M[0]).system is t.system
    assert t.append(SystemMessage(content="b")).system.prompt == "a\n\nb"
    assert Transcript([SystemMessage(content="a"), M[0]]).append(SystemMessage(content="c")).system.prompt == "a\n\nc"


def test_replaced_messages_leave_the_old_window_alone() -> None:
    t = Transcript(M[:3])
    changed = t.replaced(1, 2, [M[7]])
    assert (list(t), list(changed)) == (M[:3], [M[0], M[7], M[2]])


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 7)), max_size=30))
def test_windows_behave_like_lists(moves: list[tuple[int, int]]) -> None:
    """Append to any earlier window, in any order: each equals its plain list for ever."""
    windows, plain = [Transcript()], [[]]  # type: ignore[var-annotated]
    for place, message in moves:
        at = place % len(windows)
        windows.append(windows[at].append(M[message]))
        plain.append([*plain[at], M[message]])
    assert [list(w) for w in windows] == plain


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=30))
def test_grown_behaves_like_a_tuple(moves: list[tuple[int, int]]) -> None:
    windows, plain = [grown()], [()]  # type: ignore[var-annotated]
    for place, item in moves:
        at = place % len(windows)
        windows.append(windows[at].append(item))
        plain.append((*plain[at], item))
    assert [w.tuple() for w in windows] == plain
    assert [tuple(w) for w in windows] == plain
    assert [len(w) for w in windows] == [len(p) for p in plain]


def test_grown_is_indexed_and_compared_by_value() -> None:
    two = grown().append("a").append("b")
    assert (two[0], two[-1]) == ("a", "b")
    assert two == grown().append("a").append("b")
    assert two != grown()
    assert two != 5
    for index in (2, -3):
        with pytest.raises(IndexError):
            two[index]
