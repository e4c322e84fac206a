"""Usage, results of calls, queues and toolboxes: small values, each with its rules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest
from msgspec import UNSET

from antiphon.core.calls import (
    CutReason,
    Outcome,
    SkipReason,
    ToolResult,
    cut_off,
    error_outcome,
    result_message,
    skipped,
    text_result,
)
from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import UserMessage
from antiphon.core.queues import Queued, empty_queue
from antiphon.core.toolbox import NO_TOOLS, Toolbox
from antiphon.core.usage import NO_USAGE, Cost, Usage, add_usage, total_tokens

CALL = ToolCall(id="c1", name="read", arguments={})


def test_usages_add_member_by_member() -> None:
    left = Usage(input=1, output=2, cache_read=3, cache_write=4, total_tokens=10, cost=Cost(input=0.1, total=0.1))
    right = Usage(input=10, reasoning=5, cache_write_1h=2, total_tokens=10, cost=Cost(output=0.2, total=0.2))
    both = add_usage(left, right)
    assert (both.input, both.output, both.reasoning, both.cache_write_1h, both.total_tokens) == (11, 2, 5, 2, 20)
    assert both.cost.total == pytest.approx(0.3)
    assert add_usage(right, right).reasoning == 10
    assert add_usage(left, left).reasoning is UNSET
    assert add_usage(left, NO_USAGE) is left
    assert add_usage(NO_USAGE, right) is right


def test_a_total_is_what_was_said_or_the_sum() -> None:
    assert total_tokens(Usage(input=1, output=2, cache_read=3, cache_write=4)) == 10
    assert total_tokens(Usage(input=1, total_tokens=7)) == 7


@pytest.mark.parametrize("reason", get_args(SkipReason))
def test_a_skipped_call_says_why(reason: Any) -> None:
    outcome = skipped(CALL, reason, typed=True)
    assert (outcome.is_error, outcome.executed, outcome.result.details) == (
        True,
        False,
        {"skipped": True, "reason": reason},
    )
    assert skipped(CALL, reason, typed=False).result.details == {}


@pytest.mark.parametrize("reason", get_args(CutReason))
def test_a_call_that_was_cut_says_that_effects_are_possible(reason: Any) -> None:
    outcome = cut_off(CALL, reason, 12)
    assert (outcome.is_error, outcome.executed, outcome.duration_ms) == (True, True, 12)
    assert outcome.result.details == {"cutOff": True, "reason": reason}
    block = outcome.result.content[0]
    assert isinstance(block, Text)
    assert "may have had effects" in block.text


def test_a_result_message_leaves_out_what_is_not_for_the_model() -> None:
    result = ToolResult(content=(Text(text="a"),), details={"d": 1}, structured_content={"s": 1}, terminate=True)
    message = result_message(CALL, Outcome(result=result, is_error=False, duration_ms=3, executed=True), 9)
    assert (message.tool_call_id, message.tool_name, message.details, message.duration_ms) == (
        "c1",
        "read",
        {"d": 1},
        3,
    )
    assert not hasattr(message, "terminate")
    assert text_result("x").details is UNSET
    assert error_outcome("x", {"why": 1}).result.details == {"why": 1}


@pytest.mark.parametrize("given", [True, False, 1, "yes", UNSET])
def test_only_exactly_true_terminates(given: Any) -> None:
    assert Outcome(result=ToolResult(terminate=given), is_error=False).terminates is (given is True)


def test_queues_take_one_or_all_and_take_back() -> None:
    items = [Queued(str(n), UserMessage(content=str(n))) for n in range(3)]
    queue = empty_queue()
    for item in items:
        queue = queue.push(item)
    taken, rest = queue.take()
    assert (taken, rest.waiting(), bool(rest)) == ((items[0],), (items[1], items[2]), True)
    assert rest.put_back(taken).waiting() == tuple(items)
    everything = empty_queue("all").put_back(tuple(items))
    assert everything.peek() == tuple(items)
    assert everything.take()[1].peek() == ()
    assert not everything.emptied()
    assert everything.emptied().mode == "all"


def test_a_toolbox_finds_the_first_of_a_name() -> None:
    first, second = SimpleNamespace(name="a", execution_mode="sequential"), SimpleNamespace(name="a")
    box = Toolbox([first, second])  # type: ignore[list-item]
    assert box.find("a") is first
    assert (box.wants_order("a"), box.wants_order("b"), box.unique) == (True, False, False)
    assert (NO_TOOLS.tools, NO_TOOLS.find("a"), NO_TOOLS.unique) == (None, None, True)
