"""Recordings: what was heard, in words short enough for an assertion."""

from __future__ import annotations

import asyncio

from antiphon.core.content import Text
from antiphon.core.events import AgentEnd, AgentStart, MessageEnd, MessageStart, ToolExecutionStart, TurnStart
from antiphon.core.messages import ToolResultMessage, host_message, user
from antiphon.testing import Recording, brief, who

RESULT = ToolResultMessage(tool_call_id="c1", tool_name="look", content=(Text(text="ok"),), is_error=False)


def test_who_names_the_speaker() -> None:
    assert [who(m) for m in (user("hi"), RESULT, host_message("note", text="x"))] == ["user", "result c1", "note"]


def test_brief_names_type_and_subject() -> None:
    start = ToolExecutionStart(tool_call_id="c1", tool_name="look", args={})

    assert [brief(event) for event in (TurnStart(), MessageEnd(message=RESULT), start)] == [
        "turn_start",
        "message_end result c1",
        "tool_execution_start c1",
    ]


def test_events_are_kept_in_order_and_found_by_type() -> None:
    recording = Recording()
    for event in (AgentStart(), TurnStart(), MessageStart(message=user("hi")), AgentEnd(messages=())):
        recording(event)

    assert recording.types == ["agent_start", "turn_start", "message_start", "agent_end"]
    assert recording.log[2] == "message_start user"
    assert recording.of(MessageStart) == [MessageStart(message=user("hi"))]


def test_runs_are_told_apart() -> None:
    recording = Recording()
    for _ in range(2):
        for event in (AgentStart(), AgentEnd(messages=())):
            recording(event)

    assert [len(run) for run in recording.runs()] == [2, 2]


async def test_heard_waits_for_the_event_or_finds_it_in_the_past() -> None:
    recording = Recording()
    waiting = asyncio.create_task(recording.heard("message_end result c1"))
    await asyncio.sleep(0)

    recording(TurnStart())
    assert not waiting.done()
    recording(MessageEnd(message=RESULT))

    assert await waiting == MessageEnd(message=RESULT)
    assert await recording.heard("turn_start") == TurnStart()
    assert await recording.heard(lambda event: event.type == "message_end") == MessageEnd(message=RESULT)
