"""The ordinary adapters against a real model server over HTTP: one loop in each of its three dialects.

The server is llama.cpp's own, started by the library on a free port. Its chat template knows tools, so they are called
the native way; two more loops go without them (`emulatedTools`).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import structs
from tests.providers.asking import answer, model, request

from antiphon.agent import Agent
from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of, user
from antiphon.core.model import Model
from antiphon.core.policy import RunLimits
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.providers.registry import new_adapter
from antiphon.tools import tool

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("installed")]

REQUIRED: dict[str, Any] = {
    "openai-completions": "required",
    "openai-responses": "required",
    "anthropic-messages": {"type": "any", "disable_parallel_tool_use": True},
}
PLAIN: dict[str, Any] = {
    "temperature": 0,
    "sampling_params": {"parallel_tool_calls": False},
}


@tool
async def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return f"It is 18 degrees in {city}."


class OneCall:
    """An adapter that insists on a call until there is a result, and forbids it afterwards."""

    def __init__(self, api: str) -> None:
        self._adapter = new_adapter(api)
        self._required = REQUIRED[api]

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        called = isinstance(request.messages[-1], ToolResultMessage)
        choice = "none" if called else self._required
        options = {**request.options, **PLAIN, "tool_choice": choice}
        return self._adapter(structs.replace(request, options=options))  # type: ignore[return-value]


@pytest.mark.parametrize("api", REQUIRED)
async def test_a_loop_with_native_tools(address: str, api: str) -> None:
    url = address if api == "anthropic-messages" else f"{address}/v1"
    served = model(url, api, max_tokens=48)
    await has_called(Agent(stream=OneCall(api), model=served, tools=[get_weather]), served)


@pytest.mark.parametrize("style", [True, "guided"])
async def test_a_loop_with_emulated_tools(address: str, style: bool | str) -> None:
    served = model(f"{address}/v1", context_window=1024, max_tokens=48, compat={"emulatedTools": style})
    await has_called(Agent(stream=OneCall(served.api), model=served, tools=[get_weather]), served)


async def has_called(agent: Agent, served: Model) -> None:
    """At least one call, and exactly one result for each. What is said, and how good the calls are, may be anything."""
    agent.limits = RunLimits(max_turns=3)
    outcome = await agent.prompt("What is the weather in Paris?")
    assert outcome.reason in ("stop", "length", "max_turns"), outcome.error
    messages = list(agent.messages[2:])
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    assert calls_of(answers[0])
    assert len(answers) > 1
    for said in answers:
        calls = calls_of(said)
        start = messages.index(said) + 1
        results = [m for m in messages[start : start + len(calls)] if isinstance(m, ToolResultMessage)]
        assert [result.tool_call_id for result in results] == [call.id for call in calls]
        assert said.usage.output > 0


async def test_an_answer_of_a_schema(address: str) -> None:
    """The server samples by the schema, so that even this model gives data."""
    served = model(f"{address}/v1", max_tokens=64)
    schema = {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}, "points": {"type": "integer"}},
        "required": ["mood", "points"],
    }
    asked = request(served, [user("How was the day?")], temperature=0, response_schema=schema)

    message = await answer(new_adapter(served.api), asked)

    said = json.loads("".join(block.text for block in message.content if isinstance(block, Text)))
    assert said["mood"] in ("good", "bad")
    assert isinstance(said["points"], int)
