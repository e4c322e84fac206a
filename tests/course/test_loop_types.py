"""The public surface of the loop: what is refused, and how events look on the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.course.loop_cases import Tools

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage
from antiphon.core.wire import to_wire
from antiphon.course.loop_types import (
    AgentContext,
    AgentLoopOptions,
    AssistantEvent,
    LoopEvent,
    Teller,
    ToolEnd,
    ToolProgress,
    ToolStart,
    TurnEnd,
)
from antiphon.course.reference_loop import SKIPPED, skipped_call
from antiphon.course.scripted_model import ScriptedModel
from antiphon.errors import MisuseError

CALL = ToolCall(id="a", name="work", arguments={"n": 1})


async def execute(call: ToolCall, /, **_given: Any) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(), is_error=False)


GOOD: dict[str, Any] = {
    "context": AgentContext(),
    "model": ScriptedModel(),
    "tools": Tools(),
    "executor": execute,
}


@pytest.mark.requirement("S0-64")
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, or None, not 0"),
        ({"max_steps": -3}, "not -3"),
        ({"max_steps": 1.5}, "not 1.5"),
        ({"max_steps": True}, "not True"),
        ({"executor": None}, "executor must be callable, and a NoneType is not"),
        ({"model": "gpt"}, "model must have a method stream"),
        ({"tools": []}, "tools must have a method definitions"),
    ],
)
def test_options_that_no_loop_can_work_with_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(MisuseError, match=says):
        AgentLoopOptions(**{**GOOD, **wrong})


@pytest.mark.requirement("S0-62", "X6")
def test_events_have_the_names_of_the_course_on_the_wire() -> None:
    result = skipped_call(CALL, "length")
    answer = AssistantMessage(content=(), stop_reason="stop")
    events = [
        AssistantEvent(message=answer),
        ToolStart(call=CALL),
        ToolProgress(call_id="a", progress="half"),
        ToolEnd(call_id="a", result=result),
        TurnEnd(reason="maxSteps"),
    ]

    wire = [to_wire(event) for event in events]

    assert [set(event) for event in wire] == [
        {"type", "message"},
        {"type", "call"},
        {"type", "callId", "progress"},
        {"type", "callId", "result"},
        {"type", "reason"},
    ]
    assert wire[2] == {"type": "tool_progress", "callId": "a", "progress": "half"}
    assert wire[4] == {"type": "turn_end", "reason": "maxSteps"}


async def test_events_that_are_told_at_once_reach_a_slow_listener_one_by_one() -> None:
    heard: list[str] = []
    gate = asyncio.Event()

    async def listen(event: LoopEvent) -> None:
        assert isinstance(event, ToolProgress)
        heard.append(f"begins {event.call_id}")
        await gate.wait()
        heard.append(f"ends {event.call_id}")

    teller = Teller(listen)
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(teller.tell(ToolProgress(call_id=name, progress=1)))
        while not heard:
            await asyncio.sleep(0)
        assert heard == ["begins a"]
        gate.set()

    assert heard == ["begins a", "ends a", "begins b", "ends b", "begins c", "ends c"]
    assert teller.faults == []


@pytest.mark.requirement("S0-35", "S0-36")
@pytest.mark.parametrize("reason", SKIPPED)
def test_a_skipped_call_says_so_in_words_and_in_details(reason: Any) -> None:
    result = skipped_call(CALL, reason)

    assert (result.tool_call_id, result.tool_name, result.is_error) == ("a", "work", True)
    assert result.details == {"skipped": True, "reason": reason}
    (block,) = result.content
    assert block.text.startswith("Tool work was not executed: ")  # type: ignore[union-attr]


def test_truncation_is_named_as_the_reason() -> None:
    assert "truncated" in skipped_call(CALL, "length").content[0].text  # type: ignore[union-attr]
