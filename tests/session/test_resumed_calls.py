"""After a crash: calls that were open are made, closed or asked about, as their tools allow."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.session.stage import Stage, texts

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, StopReason, ToolResultMessage, user
from antiphon.core.ports import ReplayPolicy
from antiphon.session.refusals import ApprovalsPending
from antiphon.session_log import SessionStore
from antiphon.session_log.calls import CALL_STARTED, Progress, resumption
from antiphon.session_log.entries import CustomEntry
from antiphon.testing import CallScript, ScriptedTool, calls, says, settle

pytestmark = pytest.mark.not_replayed("what a crash left behind is not played again")


def test_every_case_is_decided() -> None:
    """Never twice what must not be done twice; what had not begun is done for the first time."""
    decided = {case: resumption(*case) for case in product(get_args(Progress), get_args(ReplayPolicy))}

    assert {what for (how_far, _), what in decided.items() if how_far == "not begun"} == {"run"}
    assert decided["begun", "never"] == decided["unknown", "never"] == "close"
    assert decided["begun", "safe"] == decided["unknown", "safe"] == "run"
    assert decided["begun", "ask"] == decided["unknown", "ask"] == "ask"


def crashed(folder: Path, *started: int, stop: StopReason = "toolUse") -> None:
    """A process that was killed while the calls at these positions were running."""
    asked = tuple(ToolCall(id=name, name=name, arguments={}) for name in ("A", "B"))
    answer = AssistantMessage(content=asked, stop_reason=stop, provider="scripted", model="one")
    with SessionStore(folder, cwd=str(folder)).create() as log:
        log.append_message(user("go"))
        log.append_call_started(ToolCall(id="earlier", name="A", arguments={}), 7)
        log.append_message(answer)
        for position in started:
            log.append_call_started(asked[position], position)


def resumed(folder: Path, script: CallScript, replay: ReplayPolicy = "never", **options: Any) -> Stage:
    log = SessionStore(folder, cwd=str(folder)).continue_recent()
    assert log is not None
    tools = [ScriptedTool(name, script, replay=replay) for name in ("A", "B")]
    return Stage([says("done")], log=log, tools=tools, **options)


def results_of(stage: Stage) -> list[tuple[str, bool]]:
    found = [message for message in stage.log.messages() if isinstance(message, ToolResultMessage)]
    return [(texts([message])[0].removeprefix("toolResult: "), message.is_error) for message in found]


async def test_what_had_not_begun_is_made_and_what_may_have_run_is_not(tmp_path: Path) -> None:
    crashed(tmp_path, 0)
    script = CallScript()
    stage = resumed(tmp_path, script, "never")

    settlement = await stage.session.continue_()

    assert settlement.final_text == "done"
    assert [executed.call_id for executed in script.executed] == ["B"]
    (first, is_error), second = results_of(stage)
    assert is_error
    assert "may have had effects" in first
    assert second == ("ok B", False)


async def test_what_may_be_done_twice_is_made_again(tmp_path: Path) -> None:
    crashed(tmp_path, 0, 1)
    script = CallScript()
    stage = resumed(tmp_path, script, "safe")

    await stage.session.continue_()

    assert [executed.call_id for executed in script.executed] == ["A", "B"]
    assert results_of(stage) == [("ok A", False), ("ok B", False)]


@pytest.mark.parametrize("allowed", [True, False])
async def test_a_person_is_asked_where_the_tool_wants_it(tmp_path: Path, allowed: bool) -> None:
    crashed(tmp_path, 0)
    script = CallScript()
    stage = resumed(tmp_path, script, "ask")

    with pytest.raises(ApprovalsPending):
        await stage.session.continue_()
    (asked,) = stage.session.pending_approvals
    assert "Run it again?" in (asked.question or "")
    stage.session.answer_approval(asked.id, allowed, reason=None if allowed else "rather not")
    await stage.session.continue_()

    assert [executed.call_id for executed in script.executed] == (["A", "B"] if allowed else ["B"])
    assert results_of(stage)[0] == (("ok A", False) if allowed else ("rather not", True))


async def test_an_answer_given_before_the_call_began_again_is_none(tmp_path: Path) -> None:
    """Asked, allowed, started again, killed again: the permission was for one time."""
    crashed(tmp_path, 0, 1)
    stage = resumed(tmp_path, CallScript(), "ask")
    with pytest.raises(ApprovalsPending):
        await stage.session.continue_()
    for asked in stage.session.pending_approvals:
        stage.session.answer_approval(asked.id, True)
    for position, name in enumerate(("A", "B")):
        stage.log.append_call_started(ToolCall(id=name, name=name, arguments={}), position)
    stage.log.close()

    script = CallScript()
    second = resumed(tmp_path, script, "ask")
    with pytest.raises(ApprovalsPending):
        await second.session.continue_()

    assert script.executed == []
    assert len(second.session.pending_approvals) == 2


async def test_the_host_is_asked_about_what_had_not_begun(tmp_path: Path) -> None:
    """A crash is no way around an approval."""
    crashed(tmp_path)
    script = CallScript()
    stage = resumed(tmp_path, script, "safe", approve=lambda call: call.tool_call.name == "B")

    with pytest.raises(ApprovalsPending):
        await stage.session.continue_()
    (asked,) = stage.session.pending_approvals
    assert asked.tool_name == "B"
    stage.session.answer_approval(asked.id, True)
    await stage.session.continue_()

    assert [executed.call_id for executed in script.executed] == ["A", "B"]


@pytest.mark.parametrize("stop", ["length", "error", "aborted"])
async def test_calls_of_an_answer_that_did_not_end_well_are_never_made(tmp_path: Path, stop: StopReason) -> None:
    crashed(tmp_path, stop=stop)
    script = CallScript()
    stage = resumed(tmp_path, script, "safe")

    await stage.session.continue_()

    assert script.executed == []


async def test_whoever_says_something_else_makes_nothing(tmp_path: Path) -> None:
    crashed(tmp_path, 0)
    script = CallScript()
    stage = resumed(tmp_path, script, "safe")

    await stage.session.prompt("something else")

    assert script.executed == []
    assert [is_error for _, is_error in results_of(stage)] == [True, True]


async def test_the_record_stands_in_the_file_before_the_call_starts(tmp_path: Path) -> None:
    stage = Stage([calls("A"), says("done")], folder=tmp_path)
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")

    with SessionStore(tmp_path, cwd=str(tmp_path)).open(stage.log.path or "", access="read") as reader:
        assert [found.progress for found in reader.open_calls()] == ["begun"]

    gate.open()
    assert (await going).final_text == "done"


async def test_a_call_that_waits_for_a_person_has_not_begun(tmp_path: Path) -> None:
    stage = Stage([calls("A"), says("done")], folder=tmp_path, approve=lambda _: True)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    while not stage.session.pending_approvals:
        await settle()

    with SessionStore(tmp_path, cwd=str(tmp_path)).open(stage.log.path or "", access="read") as reader:
        assert [found.progress for found in reader.open_calls()] != ["begun"]

    stage.session.answer_approval(stage.session.pending_approvals[0].id, True)
    assert (await going).final_text == "done"


async def test_a_call_whose_batch_waits_for_a_person_has_not_begun_either(tmp_path: Path) -> None:
    """Calls of one answer start together: the first needs no approval, the second does."""
    script = CallScript()
    stage = Stage([calls("A", "B"), says("done")], folder=tmp_path, approve=lambda call: call.tool_call.name == "B")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    while not stage.session.pending_approvals:
        await settle()
    for _ in range(20):
        await settle()
    await stage.session.dispose()
    await going

    second = resumed(tmp_path, script, "never", approve=lambda call: call.tool_call.name == "B")
    second.session.answer_approval(second.session.pending_approvals[0].id, True)
    await second.session.continue_()

    assert [executed.call_id for executed in script.executed] == ["A", "B"]
    kinds = [entry.data["position"] for entry in second.log.entries() if entry_is_start(entry)]
    assert kinds == [0, 1], "each started once"


def entry_is_start(entry: Any) -> bool:
    return isinstance(entry, CustomEntry) and entry.custom_type == CALL_STARTED
