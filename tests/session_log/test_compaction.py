"""When a conversation shrinks, and what is asked for: the rules beside the recorded ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.session_log.make import counting_sources, says

from antiphon.core.messages import message_from_wire, user
from antiphon.session_log import SessionStore, Sources
from antiphon.session_log.compaction import CompactionSettings, SummaryRefused, context_tokens, prepare
from antiphon.session_log.compaction.conversation import conversation_text, file_lists, shortened
from antiphon.session_log.compaction.estimate import RunningSum, estimated_tokens
from antiphon.session_log.compaction.summary import answer_text
from antiphon.session_log.compaction.when import AfterRun, over_threshold, renews_permission

SETTINGS = CompactionSettings(reserve_tokens=100)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources())


def after(**changes: Any) -> AfterRun:
    """The end of a run that needs nothing, but for the changes."""
    answer = says("x", usage={"input": 10}, timestamp=1000)
    plain = AfterRun(
        answer=answer,
        same_model=True,
        already_tried=False,
        is_old=False,
        projected=10,
        has_edits=False,
        listed=10,
        context_window=1000,
        max_tokens=50,
    )
    return replace(plain, **changes)


TOO_LONG = says("", stopReason="error", errorMessage="prompt is too long", timestamp=1000)
CUT_OFF = says("x", stopReason="length", usage={"output": 5}, timestamp=1000)
FULL = says("x", usage={"input": 1001}, timestamp=1000)


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, "nothing"),
        ({"answer": TOO_LONG}, "recover"),
        ({"answer": TOO_LONG, "already_tried": True}, "give up"),
        ({"answer": TOO_LONG, "same_model": False}, "nothing"),
        ({"answer": TOO_LONG, "is_old": True}, "nothing"),
        ({"answer": CUT_OFF}, "recover"),
        ({"answer": CUT_OFF, "max_tokens": 5}, "nothing"),
        ({"answer": CUT_OFF, "max_tokens": 0}, "nothing"),
        ({"answer": FULL}, "compact"),
        ({"answer": FULL, "already_tried": True}, "compact"),
        ({"answer": says("x", usage={"input": 901}, timestamp=1000)}, "compact"),
        ({"answer": says("x", usage={"input": 900}, timestamp=1000)}, "nothing"),
        ({"answer": says("x", usage={"input": 999}, timestamp=1000), "has_edits": True}, "nothing"),
        ({"has_edits": True, "projected": 950}, "compact"),
        ({"answer": says("", stopReason="error", errorMessage="x", timestamp=1000), "listed": 950}, "compact"),
        ({"answer": says("", stopReason="error", errorMessage="x", timestamp=1000), "listed": None}, "nothing"),
        ({"answer": says("", stopReason="aborted", timestamp=1000), "listed": 950}, "nothing"),
        ({"answer": FULL, "context_window": 0}, "nothing"),
    ],
)
def test_what_to_do_after_a_run(changes: dict[str, Any], decision: str) -> None:
    assert after(**changes).decide(SETTINGS) == decision


@pytest.mark.parametrize("window", [1, 2, 100, 2_048, 8_192, 16_384, 32_768, 36_383])
def test_a_small_window_gets_numbers_that_fit_into_it(window: int) -> None:
    """The defaults would compact a window of 2,048 after every turn, and free nothing."""
    fitted = CompactionSettings().fitted(window)

    threshold = window - fitted.reserve_tokens
    assert threshold >= window * 3 // 4
    assert fitted.keep_recent_tokens <= threshold / 2, "a compaction frees half of what filled the window"
    assert not over_threshold(threshold, window, fitted)
    assert over_threshold(threshold + 1, window, fitted)


def test_numbers_that_fit_are_not_touched() -> None:
    assert CompactionSettings().fitted(36_384) == CompactionSettings()
    assert CompactionSettings().fitted(0) == CompactionSettings(), "a window that is not known"
    assert CompactionSettings(False, 900, 200).fitted(1_000) == CompactionSettings(False, 250, 200)


def test_a_compaction_within_the_same_millisecond_does_not_make_the_next_answer_old() -> None:
    """Clocks are too coarse for it: the places of the entries tell."""
    log = SessionStore("unused", cwd="/", sources=Sources(now_ms=lambda: 1_000)).in_memory()
    log.append_message(user("a", 1_000))
    before, behind = says("b", timestamp=1_000), says("c", timestamp=1_000)
    kept = log.append_message(before)
    log.append_compaction("sum", kept, 1)
    log.append_message(user("d", 1_000))
    log.append_message(behind)

    assert log.was_compacted(before)
    assert not log.was_compacted(behind)


def test_nothing_is_done_when_switched_off() -> None:
    off = CompactionSettings(enabled=False)

    assert after(answer=TOO_LONG).decide(off) == "nothing"
    assert not over_threshold(10_000, 100, off)
    assert not over_threshold(10_000, 0, SETTINGS), "a window that is not known"


def test_permission_to_recover_is_renewed_by_an_answer_that_fits() -> None:
    assert renews_permission(says("x"))
    assert not renews_permission(TOO_LONG)
    assert not renews_permission(CUT_OFF)


def test_a_mark_behind_a_compaction_does_not_make_it_old(store: SessionStore) -> None:
    log = store.in_memory()
    log.append_message(user("x" * 4000))
    log.append_message(says("x" * 4000))
    log.append_compaction("sum", None, 1)
    log.move_to(log.leaf_id)

    assert prepare(log.projection(), CompactionSettings(True, 10, 10)) is None


def test_an_aborted_summary_is_refused() -> None:
    with pytest.raises(SummaryRefused):
        answer_text(says("half", stopReason="aborted"))
    assert answer_text(says("")) == ""


def test_the_running_sum_looks_at_each_message_once() -> None:
    store = SessionStore("unused", cwd="/")
    log = store.in_memory()
    known = RunningSum()
    for number in range(5):
        log.append_message(user("x" * number))
        assert known.of(log.projection()) == sum(map(estimated_tokens, log.messages()))
    log.append_context_edit(log.leaf_id or "", None)
    assert known.of(log.projection()) == sum(map(estimated_tokens, log.messages()))


def test_file_lists_are_disjoint_and_sorted_by_units() -> None:
    calls = [("read", "b"), ("read", "a"), ("edit", "b"), ("write", "\U0001f600"), ("write", "\uffff"), ("bash", "c")]
    blocks = [
        {"type": "toolCall", "id": str(at), "name": name, "arguments": {"path": path}}
        for at, (name, path) in enumerate(calls)
    ]
    message = message_from_wire({"role": "assistant", "content": blocks, "stopReason": "toolUse"})

    found = file_lists([message], [{"readFiles": ["z", 5], "modifiedFiles": "no list"}, "no object"])

    assert found.read == ("a", "z")
    assert found.modified == ("b", "\U0001f600", "\uffff")
    assert found.as_text().startswith("\n\n<read-files>\na\nz\n</read-files>")


def test_half_a_character_is_never_told() -> None:
    assert shortened("a\U0001f600b", 2) == "a\n\n[... 2 more characters truncated]"
    assert shortened("a\U0001f600", 3) == "a\U0001f600"


def test_a_conversation_without_words_is_empty() -> None:
    assert conversation_text([]) == ""
    assert conversation_text([message_from_wire({"role": "system", "content": "secret"})]) == ""


def test_a_list_of_messages_is_counted_from_the_last_usage_that_may_be_believed() -> None:
    messages = [user("x" * 40), says("a", usage={"input": 500}), user("x" * 40), says("b", stopReason="error")]

    assert context_tokens(messages).tokens == 500 + 10 + 1
    assert context_tokens(messages, trusted_from=2).tokens == 10 + 1 + 10 + 1
    assert context_tokens(messages).last_usage_index == 1
