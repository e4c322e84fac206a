"""What a run has used, and when that is enough. How the machine uses it is in `machine_rows`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, structs

from antiphon.core.calls import Outcome, result_message, text_result
from antiphon.core.content import Text, ToolCall
from antiphon.core.limits import (
    NOTHING_USED,
    Budget,
    LimitReached,
    Tally,
    may_start,
    reached,
    with_answer,
    with_call,
    with_results,
    without_calls,
)
from antiphon.core.messages import AssistantMessage, ToolResultMessage
from antiphon.core.policy import NO_LIMITS, RunLimits
from antiphon.core.usage import Cost, Usage

LOOK = ToolCall(id="a", name="look", arguments={"at": 1})


def result(text: str = "seen", *, is_error: bool = False, usage: Any = UNSET) -> ToolResultMessage:
    given = structs.replace(text_result(text), usage=usage)
    return result_message(LOOK, Outcome(result=given, is_error=is_error), 0)


@pytest.mark.parametrize(
    ("limits", "tally", "name", "allowed", "figure"),
    [
        (RunLimits(max_turns=2), Tally(turns=2), "max_turns", 2, 2),
        (RunLimits(max_tokens=100), Tally(usage=Usage(input=70, output=30)), "max_tokens", 100, 100),
        (RunLimits(max_tokens=100), Tally(usage=Usage(total_tokens=120)), "max_tokens", 100, 120),
        (RunLimits(max_cost=0.5), Tally(usage=Usage(cost=Cost(total=0.75))), "max_cost", 0.5, 0.75),
        (RunLimits(repeat_limit=3), Tally(repeated=3), "no_progress", 3, 3),
        (RunLimits(max_tool_calls=2), Tally(tool_calls=2, refused="look"), "max_tool_calls", 2, 2),
        (
            RunLimits(max_tool_calls=9, max_calls_of=(("look", 1),)),
            Tally(tool_calls=2, refused="look", calls_of=(("look", 1),)),
            "max_tool_calls",
            1,
            1,
        ),
        (
            RunLimits(max_tool_calls=2, max_calls_of=(("look", 5),)),
            Tally(tool_calls=2, refused="look", calls_of=(("look", 1),)),
            "max_tool_calls",
            2,
            2,
        ),
    ],
)
def test_the_bound_that_is_reached_is_named(
    limits: RunLimits, tally: Tally, name: Any, allowed: float, figure: float
) -> None:
    assert reached(limits, tally) == LimitReached(name, allowed, figure)


@pytest.mark.parametrize(
    ("limits", "tally"),
    [
        (NO_LIMITS, Tally(turns=10**9, tool_calls=10**9, repeated=10**9, usage=Usage(input=10**9))),
        (RunLimits(max_turns=2), Tally(turns=1)),
        (RunLimits(max_tokens=100), Tally(usage=Usage(input=99))),
        (RunLimits(max_cost=0.5), Tally(usage=Usage(cost=Cost(total=0.49)))),
        (RunLimits(repeat_limit=3), Tally(repeated=2)),
        (RunLimits(max_tool_calls=2), Tally(tool_calls=2)),  # used up, and nobody asked for more
        (RunLimits(max_tool_calls=3), Tally(tool_calls=2, refused="look")),  # raised since
    ],
)
def test_below_a_bound_nothing_is_reached(limits: RunLimits, tally: Tally) -> None:
    assert reached(limits, tally) is None


def test_a_call_may_start_while_its_bounds_allow_it() -> None:
    limits = RunLimits(max_tool_calls=3, max_calls_of=(("look", 1),))

    assert may_start(limits, NOTHING_USED, "look")
    once = with_call(limits, NOTHING_USED, "look")
    assert not may_start(limits, once, "look")
    assert may_start(limits, once, "other")
    assert not may_start(limits, with_call(limits, with_call(limits, once, "other"), "other"), "other")


def test_calls_are_counted_by_name_only_where_a_bound_asks_for_it() -> None:
    limits = RunLimits(max_calls_of=(("look", 3),))

    tally = with_call(limits, with_call(limits, with_call(limits, NOTHING_USED, "look"), "other"), "look")

    assert (tally.tool_calls, tally.calls_of) == (3, (("look", 2),))
    assert with_call(NO_LIMITS, NOTHING_USED, "look").calls_of == ()


def test_calls_that_did_not_begin_are_taken_back() -> None:
    tally = Tally(tool_calls=3, calls_of=(("look", 2),))

    assert without_calls(tally, ["look", "other"]) == Tally(tool_calls=1, calls_of=(("look", 1),))


def answer(why: Any, *calls: ToolCall, usage: Usage | None = None) -> AssistantMessage:
    message = AssistantMessage(content=(Text(text="so"), *calls), stop_reason=why)
    return message if usage is None else AssistantMessage(content=message.content, stop_reason=why, usage=usage)


def test_usage_of_answers_and_results_is_added_up() -> None:
    tally = with_answer(NOTHING_USED, answer("toolUse", LOOK, usage=Usage(input=5, output=2)))
    tally = with_answer(tally, answer("stop", usage=Usage(input=7)))
    tally = with_results(NO_LIMITS, tally, answer("toolUse", LOOK), [result(usage=Usage(output=3))])

    assert tally.usage == Usage(input=12, output=5)


def test_nothing_new_is_made_of_an_answer_that_used_nothing() -> None:
    assert with_answer(NOTHING_USED, answer("stop")) is NOTHING_USED
    assert with_results(NO_LIMITS, NOTHING_USED, answer("toolUse", LOOK), [result()]) is NOTHING_USED


def test_truncated_answers_count_in_a_row() -> None:
    """Without calls there is nothing to try again."""
    tally = with_answer(with_answer(NOTHING_USED, answer("length", LOOK)), answer("length", LOOK))
    assert tally.length_retries == 2

    assert with_answer(tally, answer("length")).length_retries == 0
    assert with_answer(tally, answer("toolUse", LOOK)).length_retries == 0


@pytest.mark.parametrize(
    "other",
    [
        (ToolCall(id="b", name="look", arguments={"at": 2}), result()),
        (ToolCall(id="b", name="peek", arguments={"at": 1}), result()),
        (LOOK, result(text="changed")),
        (LOOK, result(is_error=True)),
    ],
)
def test_only_the_same_call_with_the_same_result_is_a_repetition(other: tuple[ToolCall, ToolResultMessage]) -> None:
    """The id is not part of it: models make a new one each time. A changed result is progress."""
    limits = RunLimits(repeat_limit=9)
    same = ToolCall(id="z", name="look", arguments={"at": 1})
    tally = with_results(limits, NOTHING_USED, answer("toolUse", LOOK, same), [result(), result()])
    assert tally.repeated == 2

    tally = with_results(limits, tally, answer("toolUse", other[0]), [other[1]])
    assert tally.repeated == 1
    assert with_results(limits, tally, answer("toolUse", LOOK), [result()]).repeated == 1


def test_repetition_costs_nothing_where_nobody_asks_for_it() -> None:
    assert with_results(NO_LIMITS, Tally(turns=1), answer("toolUse", LOOK), [result()]).last_call == b""


def test_a_budget_begins_with_nothing_used() -> None:
    assert Budget().used is NOTHING_USED
