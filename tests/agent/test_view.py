"""State is a fold over events: the same events give the same state, and state comes before listeners."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import QUICK, within

from antiphon.agent.view import View
from antiphon.core.calls import ToolResult
from antiphon.core.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
    TurnStart,
)
from antiphon.core.messages import AssistantMessage, user
from antiphon.core.policy import PI
from antiphon.core.transcript import Transcript
from antiphon.testing import World, call, calls, fails, says

SCRIPTS: dict[str, list[Any]] = {
    "text": [says("Hel", "lo")],
    "tools": [says("look") + calls("A", "B"), call("C"), says("end")],
    "same ids": [calls("A", "A", "B"), says("end")],
    "error": [calls("A"), fails("overloaded", after=says("half"))],
}


def glimpse(of: Any) -> tuple[Any, ...]:
    live = of.streaming_message
    return (
        None if live is None else (live.role, live.content),
        of.pending_tool_calls,
        of.error_message,
        len(getattr(of, "messages", ())) or len(getattr(of, "transcript", ())),
    )


@pytest.mark.requirement("S3-89")
@pytest.mark.parametrize("policy", [QUICK, PI, replace(QUICK, duplicate_call_id="allow")], ids=["quick", "pi", "allow"])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_recorded_events_told_again_give_the_same_state_at_every_moment(script: str, policy: Any) -> None:
    world = World(SCRIPTS[script], policy=policy)
    begun = Transcript(world.agent.messages)
    seen: list[tuple[Any, ...]] = []
    world.agent.subscribe(lambda event, _: seen.append(glimpse(world.agent)))
    for _ in range(2):
        world.model.script += SCRIPTS[script]
        await within(world.prompt("go"))

    view = View(begun, ids_are_a_set=policy.name == "pi")
    again: list[tuple[Any, ...]] = []
    for event in world.recording.events:
        if isinstance(event, AgentStart):
            view.begin_run()
        view.apply(event)
        again.append(glimpse(view))

    assert again == seen
    assert list(view.transcript) == list(world.agent.messages)


def test_the_fold_is_total() -> None:
    """What does not concern the state leaves it unchanged, also out of order."""
    view = View(Transcript())
    for event in (AgentStart(), TurnStart(), AgentEnd(messages=())):
        view.apply(event)
    view.apply(ToolExecutionEnd(tool_call_id="x", tool_name="A", result=ToolResult(), is_error=False))

    assert (len(view.transcript), view.pending_tool_calls, view.error_message) == (0, frozenset(), None)


def start(call_id: str, position: int) -> ToolExecutionStart:
    return ToolExecutionStart(tool_call_id=call_id, tool_name="A", args={}, position=position)


def end(call_id: str, position: int) -> ToolExecutionEnd:
    return ToolExecutionEnd(tool_call_id=call_id, tool_name="A", result=ToolResult(), is_error=False, position=position)


def test_an_id_is_pending_until_its_last_call_has_ended() -> None:
    """D6; in the reference the first end removes it."""
    for ids_are_a_set, expected in ((False, {"a"}), (True, set())):
        view = View(Transcript(), ids_are_a_set=ids_are_a_set)
        for event in (start("a", 0), start("a", 1), start("b", 2), end("b", 2), end("a", 0)):
            view.apply(event)
        assert view.pending_tool_calls == expected
        view.apply(end("a", 1))
        assert view.pending_tool_calls == frozenset()


def test_any_message_is_streaming_between_its_start_and_its_end() -> None:
    view, message = View(Transcript()), user("x")
    view.apply(MessageStart(message=message))
    assert view.streaming_message is message
    view.apply(MessageEnd(message=message))
    assert (view.streaming_message, list(view.transcript)) == (None, [message])


@pytest.mark.parametrize("reason", ["error", "aborted", "stop"])
def test_any_error_text_of_an_answer_is_the_error_whatever_its_stop_reason(reason: Any) -> None:
    view = View(Transcript())
    view.apply(TurnEnd(message=AssistantMessage(content=(), stop_reason=reason, error_message="mine"), tool_results=()))
    view.apply(TurnEnd(message=AssistantMessage(content=(), stop_reason="stop"), tool_results=()))
    view.apply(TurnEnd(message=AssistantMessage(content=(), stop_reason="stop", error_message=""), tool_results=()))
    assert view.error_message == "mine"

    view.begin_run()
    assert view.error_message is None


def test_the_end_of_a_run_clears_what_it_left_open() -> None:
    view = View(Transcript())
    view.apply(MessageStart(message=user("x")))
    view.apply(start("a", 0))
    view.apply(AgentEnd(messages=()))
    assert view.streaming_message is None
    assert view.pending_tool_calls == {"a"}

    view.end_run()
    assert view.pending_tool_calls == frozenset()
