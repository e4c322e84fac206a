"""What is wrong with an answer that ended well: it no longer fitted, or was cut by a limit that can be raised."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.core.failure import classify, is_overflow, is_recoverable_length, is_retryable
from antiphon.core.messages import AssistantMessage
from antiphon.core.usage import Usage

FINE = AssistantMessage(content=(), stop_reason="stop", usage=Usage(input=900, cache_read=101, output=5))


def test_more_input_than_the_window_holds_is_an_overflow_although_nobody_said_so() -> None:
    found = classify(FINE, 1_000)

    assert found is not None
    assert (found.kind, found.overflow, found.retryable) == ("foreign", True, False)
    assert (is_overflow(FINE, 1_000), is_retryable(FINE)) == (True, False)
    assert (classify(FINE, 1_001), classify(FINE)) == (None, None)


def test_a_window_so_full_that_no_token_could_be_written_is_an_overflow() -> None:
    cut = replace(FINE, stop_reason="length", usage=Usage(input=990, output=0))

    assert (is_overflow(cut, 1_000), is_overflow(cut, 1_001)) == (True, False)
    assert not is_overflow(replace(cut, usage=Usage(input=990, output=1)), 1_000)


def test_only_an_answer_cut_below_the_wanted_limit_is_helped_by_a_larger_one() -> None:
    cut = replace(FINE, stop_reason="length", usage=Usage(output=100))

    assert (is_recoverable_length(cut, 101), is_recoverable_length(cut, 100)) == (True, False)
    assert not is_recoverable_length(FINE, 101)
