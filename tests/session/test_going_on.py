"""A process ends in the middle of a batch, and another one goes on: the story of `test_resumed_calls` once more, with
tools of every policy in one session, with a second crash, and with tools that are gone.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.session.stage import Stage
from tests.session.test_approvals import ask_all, results_of

from antiphon.core.session_events import ApprovalRequested
from antiphon.session.refusals import ApprovalsPending
from antiphon.session_log import SessionStore
from antiphon.testing import CallScript, ScriptedTool, calls, says

POLICIES: dict[str, Any] = {"never": "never", "safe": "safe", "ask": "ask"}


def tools(script: CallScript) -> list[ScriptedTool]:
    """A tool for each policy, and two that run in order and have none."""
    by_policy = [ScriptedTool(name, script, replay=policy) for name, policy in POLICIES.items()]
    return [*by_policy, *(ScriptedTool(name, script, execution_mode="sequential") for name in ("first", "second"))]


async def crashed(tmp_path: Path, running: str, *others: str) -> None:
    """A process that is killed while the first of these calls runs."""
    script = CallScript()
    stage = Stage([calls(running, *others), says("never")], folder=tmp_path, tools=tools(script))
    gate = script.hold(running)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await script.running(running)
    stage.log.close()  # as if the process had been killed here
    gate.open()
    with pytest.raises(Exception):  # noqa: B017 - its log is closed
        await going


def reopened(tmp_path: Path, script: CallScript, *answers: Any, **options: Any) -> Stage:
    log = SessionStore(tmp_path, cwd=str(tmp_path)).continue_recent()
    assert log is not None
    return Stage([*answers], log=log, tools=tools(script), **options)


async def test_a_call_that_had_not_begun_is_made(tmp_path: Path) -> None:
    await crashed(tmp_path, "first", "second")
    script = CallScript()
    stage = reopened(tmp_path, script, says("done"))

    assert (await stage.session.continue_()).final_text == "done"

    assert script.executed_ids == ["second"]
    (first, was_interrupted), second = results_of(stage)
    assert ("may have had effects" in first, was_interrupted) == (True, True)
    assert second == ("toolResult: ok second", False)
    await stage.session.dispose()


async def test_a_call_that_had_not_begun_needs_the_approval_it_would_have_needed(tmp_path: Path) -> None:
    await crashed(tmp_path, "first", "second")
    script = CallScript()
    stage = reopened(tmp_path, script, says("done"), approve=ask_all)

    with pytest.raises(ApprovalsPending):
        await stage.session.continue_()
    (approval,) = stage.session.pending_approvals
    assert (approval.tool_name, approval.question) == ("second", "May second run?")
    stage.session.answer_approval(approval.id, True)
    await stage.session.continue_()

    assert script.executed_ids == ["second"]
    await stage.session.dispose()


@pytest.mark.parametrize("yes", [True, False])
async def test_a_person_decides_whether_a_call_is_made_again(tmp_path: Path, yes: bool) -> None:
    await crashed(tmp_path, "ask")
    asked = reopened(tmp_path, CallScript())
    with pytest.raises(ApprovalsPending):
        await asked.session.continue_()
    (request,) = asked.of(ApprovalRequested)
    assert "Run it again?" in str(request.question)
    await asked.session.dispose()

    script = CallScript()
    stage = reopened(tmp_path, script, says("done"))  # the question is in the log: another process may answer it
    (approval,) = stage.session.pending_approvals
    stage.session.answer_approval(approval.id, yes)
    assert (await stage.session.continue_()).final_text == "done"

    assert script.executed_ids == (["ask"] if yes else [])
    ((text, is_error),) = results_of(stage)
    assert (text == "toolResult: ok ask", is_error) == (yes, not yes)
    assert yes or "may have had effects" in text
    await stage.session.dispose()


async def test_what_was_allowed_once_is_not_allowed_for_ever(tmp_path: Path) -> None:
    """The second process is killed, too, while it makes the call again: the third has to ask anew."""
    await crashed(tmp_path, "ask")
    script = CallScript()
    second = reopened(tmp_path, script, says("never"))
    with pytest.raises(ApprovalsPending):
        await second.session.continue_()
    (approval,) = second.session.pending_approvals
    second.session.answer_approval(approval.id, True)
    gate = script.hold("ask")
    going = asyncio.ensure_future(second.session.continue_())
    await script.running("ask")
    second.log.close()
    gate.open()
    with pytest.raises(Exception):  # noqa: B017 - its log is closed
        await going

    third = reopened(tmp_path, CallScript())
    with pytest.raises(ApprovalsPending):
        await third.session.continue_()
    (again,) = third.session.pending_approvals
    assert again.id != approval.id
    await third.session.dispose()


async def test_a_tool_that_is_gone_leaves_its_call(tmp_path: Path) -> None:
    await crashed(tmp_path, "safe")
    log = SessionStore(tmp_path, cwd=str(tmp_path)).continue_recent()
    assert log is not None
    stage = Stage([says("noted")], log=log, tools=[ScriptedTool("other", CallScript())])

    assert (await stage.session.continue_()).final_text == "noted"

    assert [is_error for _, is_error in results_of(stage)] == [True]
    await stage.session.dispose()
