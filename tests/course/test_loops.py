"""The two loops of chapter 07 on every combination of the decision table, against the table and against each other."""

from __future__ import annotations

from typing import Any

import pytest
from tests.course.loop_cases import BATCHES, STOP_REASONS, Case, Played, Run, all_cases, play

from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of
from antiphon.core.policy import STRICT, decision_table
from antiphon.course import core_loop, reference_loop
from antiphon.course.decisions import DECISIONS

LOOPS: dict[str, Run] = {"core": core_loop.run_agent_loop, "reference": reference_loop.run_agent_loop}
CASES = list(all_cases())
ENDS = {"stop", "length", "error", "aborted", "max_turns"}


def test_the_enumeration_is_whole() -> None:
    assert {(case.stop_reason, len(BATCHES[case.batch]) > 0) for case in CASES} >= set(DECISIONS)
    assert len(CASES) > 1000


@pytest.mark.requirement("S0-23", "X6")
async def test_both_loops_tell_the_same_events() -> None:
    """Same events, same requests, same executions, same result: they share types and no rule."""
    for case in CASES:
        core, reference = await play(LOOPS["core"], case), await play(LOOPS["reference"], case)
        assert core.events == reference.events, case
        assert core == reference, case


@pytest.mark.requirement("S0-13", "S0-24", "S0-39", "S0-40", "S0-41", "S0-61", "S0-63", "S0-65", "X15")
@pytest.mark.parametrize("name", LOOPS)
async def test_every_case_does_what_the_table_says(name: str) -> None:
    for case in CASES:
        if case.abort == "never" and case.limit is None and case.stop_reason in STOP_REASONS[:-1]:
            check_row(case, await play(LOOPS[name], case))


def check_row(case: Case, played: Played) -> None:
    """Compare one run without abort and limit with its row."""
    row = DECISIONS[case.stop_reason, bool(BATCHES[case.batch])]
    result = played.result
    assert result is not None
    assert result.reason == (row.ends or "stop"), case  # a run that goes on ends with the second answer
    assert result.steps == (1 if row.ends else 2), case
    assert bool(played.executed) == (row.calls == "execute"), case
    reasons = {m.details["reason"] for m in results_of(played) if m.details} - {"duplicate-id"}
    assert reasons == ({row.skip} if row.calls == "skip" else set()), case


def results_of(played: Played) -> list[ToolResultMessage]:
    assert played.result is not None
    return [message for message in played.result.messages if isinstance(message, ToolResultMessage)]


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("word", ["stop", "deferred"])
async def test_the_error_names_the_stop_reason_that_contradicts_its_calls(name: str, word: str) -> None:
    played = await play(LOOPS[name], Case(word, "one call", "never", None))

    assert played.result is not None
    assert played.result.error == f"the answer ended with {word} although it asks for tools"


@pytest.mark.parametrize("name", LOOPS)
async def test_an_abort_while_the_model_answers_changes_the_rows_that_say_error(name: str) -> None:
    """And no other row: an answer that is good, or cut off, ends as it always does."""
    for (word, asks), row in DECISIONS.items():
        played = await play(
            LOOPS[name], Case(word, "two calls" if asks else "no call", "while the model answers", None)
        )
        result = played.result
        assert result is not None
        assert result.reason == ("aborted" if row.ends in ("error", None) else row.ends), (word, asks)
        assert (result.error, result.steps, played.executed) == (None, 1, []), (word, asks)


@pytest.mark.requirement("S0-9", "S0-10", "S0-11", "S0-42", "X2")
@pytest.mark.parametrize("name", LOOPS)
async def test_the_three_promises_hold_in_every_case(name: str) -> None:
    for case in CASES:
        played = await play(LOOPS[name], case)
        check_promises(case, played)


def check_promises(case: Case, played: Played) -> None:
    """One append per answer, one result per call in call order, one end of the run."""
    result = played.result
    assert result is not None
    told = [event.message for event in played.events if event.type == "assistant_message"]
    assert told == [m for m in result.messages if isinstance(m, AssistantMessage)], case
    assert paired(result.messages), case
    assert all(paired(request.messages) for request in played.requests), case
    assert [event.reason for event in played.events if event.type == "turn_end"] == [result.reason], case
    assert played.events[-1].type == "turn_end", case
    assert len(played.requests) == result.steps, case
    starts = [event.call.id for event in played.events if event.type == "tool_start"]
    assert sorted(starts) == sorted(e.call_id for e in played.events if e.type == "tool_end"), case
    assert len(starts) == len(set(starts)), case
    if case.abort == "before the start":
        assert (result.reason, result.steps, result.new_messages) == ("aborted", 0, ()), case


def paired(messages: tuple[Any, ...]) -> bool:
    """Directly behind every answer stand the results of its calls, in call order, and nothing else has results."""
    wanted: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if not wanted or wanted.pop(0) != message.tool_call_id:
                return False
        elif wanted:
            return False
        elif isinstance(message, AssistantMessage):
            wanted = [call.id for call in calls_of(message)]
    return not wanted


@pytest.mark.requirement("S0-13", "X1", "X3", "X4", "X5")
def test_the_table_is_the_strict_profile_of_the_core() -> None:
    """Both say the same of every stop reason that is an end."""
    core = decision_table(STRICT)
    for key, decision in DECISIONS.items():
        after = core[key]
        calls = {"none": "none", "run": "execute", "refuse": "skip"}[after.calls]
        skip = after.skip if after.calls == "refuse" else None
        ends = None if after.then == "go on" else after.reason
        assert (calls, skip, ends) == (decision.calls, decision.skip, decision.ends), key
    assert set(core) - set(DECISIONS) == {("pending", False), ("pending", True)}
