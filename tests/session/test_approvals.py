"""Calls that wait for a person: several at once, answered in any order, later, and from another process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.session.stage import Stage, texts

from antiphon.core.hooks import BeforeToolCall
from antiphon.core.messages import ToolResultMessage
from antiphon.core.session_events import ApprovalAnswered, ApprovalRequested
from antiphon.errors import ConfigurationError
from antiphon.session.approvals import Need
from antiphon.session.refusals import ApprovalsPending, NoSuchApproval
from antiphon.session_log import SessionStore
from antiphon.testing import CallScript, ScriptedTool, call, calls, says, settle

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


def ask_all(given: BeforeToolCall) -> Need:
    return f"May {given.tool_call.name} run?"


def results_of(stage: Stage) -> list[tuple[str, bool]]:
    found = [message for message in stage.log.messages() if isinstance(message, ToolResultMessage)]
    return [(texts([message])[0], message.is_error) for message in found]


async def waiting(stage: Stage, count: int) -> list[Any]:
    """The pending approvals, once there are so many."""
    while len(stage.session.pending_approvals) < count:
        await settle()
    return list(stage.session.pending_approvals)


async def test_all_approvals_of_an_answer_are_open_at_once_and_answered_in_any_order() -> None:
    stage = Stage([calls("A", "B", "C"), says("done")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    first, second, third = await waiting(stage, 3)
    assert [approval.tool_name for approval in (first, second, third)] == ["A", "B", "C"]
    assert first.question == "May A run?"

    stage.session.answer_approval(third.id, True)
    stage.session.answer_approval(second.id, False, reason="Not on Mondays.")
    assert stage.calls.executed_ids == []
    stage.session.answer_approval(first.id, True)
    await going

    assert sorted(stage.calls.executed_ids) == ["A", "C"]
    assert results_of(stage) == [
        ("toolResult: ok A", False),
        ("toolResult: Not on Mondays.", True),
        ("toolResult: ok C", False),
    ]
    assert len(stage.of(ApprovalRequested)) == len(stage.of(ApprovalAnswered)) == 3
    assert texts(stage.session.messages)[-1] == "assistant: done"


async def test_a_refusal_without_a_reason_still_tells_the_model() -> None:
    stage = Stage([calls("A"), says("I see")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    stage.session.answer_approval(approval.id, False)
    settlement = await going
    assert results_of(stage) == [("toolResult: The user did not allow this call of A.", True)]
    assert settlement.final_text == "I see"


async def test_a_listener_may_answer_while_it_hears_the_question() -> None:
    stage = Stage([calls("A", "B"), says("done")], approve=ask_all)

    def answer(event: object) -> None:
        if isinstance(event, ApprovalRequested):
            stage.session.answer_approval(event.id, event.tool_name == "A", reason="not B")

    stage.session.subscribe(answer)

    assert (await stage.session.prompt("go")).final_text == "done"
    assert results_of(stage) == [("toolResult: ok A", False), ("toolResult: not B", True)]


async def test_an_answer_is_given_once_and_to_something_that_is_pending() -> None:
    stage = Stage([calls("A"), says("done")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    stage.session.answer_approval(approval.id, True)
    for wrong in (approval.id, "nothing"):
        with pytest.raises(NoSuchApproval):
            stage.session.answer_approval(wrong, True)
    await going


async def test_edited_arguments_are_checked_and_brought_into_shape() -> None:
    script = CallScript()
    tool = ScriptedTool("add", script, parameters=SCHEMA)
    stage = Stage([call("add", {"n": 1}), says("done")], tools=[tool], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    with pytest.raises(ConfigurationError, match="edited arguments"):
        stage.session.answer_approval(approval.id, True, args={"n": "many"})
    assert stage.session.pending_approvals == (approval,)
    stage.session.answer_approval(approval.id, True, args={"n": "7"})
    await going
    assert [executed.args for executed in script.executed] == [{"n": 7}]


async def test_only_calls_that_can_run_are_asked_about() -> None:
    script = CallScript()
    tool = ScriptedTool("add", script, parameters=SCHEMA)
    answer = calls(call("add", {"n": "x"}, id="bad"), call("ghost", {}, id="ghost"), call("add", {"n": 1}, id="good"))
    stage = Stage([answer, says("done")], tools=[tool], approve=ask_all, exclude_tools=("ghost",))
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    assert approval.tool_call_id == "good"
    stage.session.answer_approval(approval.id, True)
    await going
    assert script.executed_ids == ["good"]


async def test_nobody_is_asked_about_a_call_whose_id_was_used_already() -> None:
    stage = Stage([calls(call("A", id="same"), call("B", id="same")), says("done")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    stage.session.answer_approval(approval.id, True)
    await going
    assert [event.tool_name for event in stage.of(ApprovalRequested)] == ["A"]


async def test_an_approver_that_fails_makes_every_call_ask() -> None:
    def broken(_call: BeforeToolCall) -> Need:
        raise ValueError("no")

    stage = Stage([calls("A"), says("done")], approve=broken)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    (approval,) = await waiting(stage, 1)
    stage.session.answer_approval(approval.id, True)
    await going
    assert "extension_error" in stage.told


async def test_an_abort_while_a_person_thinks_answers_the_calls() -> None:
    stage = Stage([calls("A", "B"), says("never")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await waiting(stage, 2)
    await stage.session.abort()
    assert (await going).aborted
    assert [is_error for _, is_error in results_of(stage)] == [True, True]
    assert stage.session.pending_approvals == ()
    assert stage.log.open_calls() == []


def again(tmp_path: Path, script: list[Any], calls_: CallScript, **options: Any) -> Stage:
    """The session of this folder, opened as by another process."""
    log = SessionStore(tmp_path, cwd=str(tmp_path)).continue_recent()
    assert log is not None
    tools = [ScriptedTool(name, calls_) for name in ("A", "B")]
    return Stage(script, log=log, tools=tools, approve=ask_all, **options)


async def left_open(tmp_path: Path) -> None:
    """A process that ends while a person thinks."""
    stage = Stage([calls("A", "B"), says("never")], folder=tmp_path, approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await waiting(stage, 2)
    await stage.session.dispose()
    assert (await going).aborted


async def test_approvals_survive_the_process_and_the_work_goes_on_elsewhere(tmp_path: Path) -> None:
    await left_open(tmp_path)

    second = again(tmp_path, [], CallScript())
    pending = second.session.pending_approvals
    assert [approval.tool_name for approval in pending] == ["A", "B"]
    second.session.answer_approval(pending[1].id, False, reason="never")
    with pytest.raises(ApprovalsPending):
        await second.session.continue_()
    await second.session.dispose()

    script = CallScript()
    third = again(tmp_path, [says("done")], script)
    (last,) = third.session.pending_approvals
    third.session.answer_approval(last.id, True, args={"x": 1})
    settlement = await third.session.continue_()
    assert settlement.final_text == "done"
    assert [(executed.call_id, executed.args) for executed in script.executed] == [("A", {"x": 1})]
    assert results_of(third) == [("toolResult: ok A", False), ("toolResult: never", True)]
    assert third.requests == [["user", "assistant", "toolResult", "toolResult"]]
    await third.session.dispose()


async def test_a_call_that_may_have_run_is_not_run_again(tmp_path: Path) -> None:
    """It was allowed while it waited, and then the process ended: nobody knows how far it came."""
    first = Stage([calls("A"), says("never")], folder=tmp_path, approve=ask_all)
    gate = first.hold("A")
    going = asyncio.ensure_future(first.session.prompt("go"))
    (approval,) = await waiting(first, 1)
    first.session.answer_approval(approval.id, True)
    await first.calls.running("A")
    first.log.close()  # as if the process had been killed here
    script = CallScript()
    second = again(tmp_path, [says("noted")], script)
    await second.session.continue_()
    assert script.executed == []
    ((text, is_error),) = results_of(second)
    assert is_error
    assert "Interrupted" in text
    gate.open()
    with pytest.raises(Exception):  # noqa: B017 - its log is closed
        await going
    await second.session.dispose()


async def test_whoever_goes_on_without_answering_refuses(tmp_path: Path) -> None:
    await left_open(tmp_path)
    stage = again(tmp_path, [says("fine")], CallScript())
    settlement = await stage.session.prompt("something else")
    assert settlement.final_text == "fine"
    assert all("went on with something else" in text for text, _ in results_of(stage))
    assert stage.requests == [["user", "assistant", "toolResult", "toolResult", "user"]]
    await stage.session.dispose()


async def test_a_session_can_be_suspended_and_go_on_in_the_same_process() -> None:
    stage = Stage([calls("A"), says("done")], approve=ask_all)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await waiting(stage, 1)
    await stage.session.suspend()
    assert (await going).aborted
    (approval,) = stage.session.pending_approvals
    stage.session.answer_approval(approval.id, True)
    assert (await stage.session.continue_()).final_text == "done"
    assert stage.calls.executed_ids == ["A"]
