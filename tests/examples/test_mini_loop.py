"""The smallest loop: asserted by its new messages and its events alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.examples.stage import example

from antiphon import Context, ToolCall, tool
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider

mini = example("mini_loop")


@tool
async def calculate(a: int, b: int) -> str:
    """Multiply."""
    return str(a * b)


async def run(*responses: Any, **given: Any) -> Any:
    model = ScriptedProvider(responses)
    config = mini.Config(SCRIPTED, model, (calculate,), **given)
    finished = await mini.run_agent_loop(Context(messages=(user("123 x 456?"),)), config)
    return finished, model


@pytest.mark.requirement("S1-2")
async def test_a_round_trip() -> None:
    call = ToolCall(id="c1", name="calculate", arguments={"a": 123, "b": 456})

    finished, model = await run([call], "56088.")

    assert [message.role for message in finished.new_messages] == ["assistant", "toolResult", "assistant"]
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "toolResult"]
    assert finished.new_messages[1].content[0].text == "56088"
    assert [event.type for event in finished.events] == [
        "agent_start",
        "message_end",
        "tool_execution_start",
        "tool_execution_end",
        "message_end",
        "message_end",
        "agent_end",
    ]


async def test_events_are_told_as_they_happen() -> None:
    heard: list[Any] = []

    finished, _model = await run("Hello.", emit=heard.append)

    assert heard == finished.events


@pytest.mark.parametrize(("stop_reason", "says"), [("length", "length"), ("error", "error"), ("stop", "error")])
async def test_calls_of_a_broken_answer_are_paired_and_not_run(stop_reason: Any, says: str) -> None:
    call = ToolCall(id="c1", name="calculate", arguments={"a": 1, "b": 2})

    finished, model = await run(AssistantMessage(content=(call,), stop_reason=stop_reason))

    result = finished.new_messages[1]
    assert isinstance(result, ToolResultMessage)
    assert result.details == {"skipped": True, "reason": says}
    assert len(model.requests) == 1


async def test_the_clock_is_the_one_that_is_given() -> None:
    call = ToolCall(id="c1", name="calculate", arguments={"a": 1, "b": 2})

    finished, _model = await run([call], "2", now_ms=lambda: 1_234)

    assert finished.new_messages[1].timestamp == 1_234
