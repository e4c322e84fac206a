"""Calling a tool the way the loop does, in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall, text_of
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import AbortSignal, Tool
from antiphon.loop.tool_call import run_tool_call


async def outcome_of(
    tool: Tool, arguments: dict[str, Any], signal: AbortSignal | None = None, updates: list[Any] | None = None
) -> Outcome:
    """The outcome of one call, checks and all."""
    call = ToolCall(id="call-1", name=tool.name, arguments=arguments)
    tools: Sequence[Tool] = [tool]
    return await run_tool_call(
        call,
        tools=tools,
        assistant_message=AssistantMessage(content=(call,), stop_reason="toolUse"),
        context=Context(),
        signal=signal,
        on_update=None if updates is None else updates.append,
    )


async def text(tool: Tool, signal: AbortSignal | None = None, **arguments: Any) -> str:
    """The text of a call that must succeed."""
    outcome = await outcome_of(tool, arguments, signal)
    assert not outcome.is_error, text_of(outcome.result.content)
    return text_of(outcome.result.content)


async def error(tool: Tool, signal: AbortSignal | None = None, **arguments: Any) -> str:
    """The text of a call that must fail."""
    outcome = await outcome_of(tool, arguments, signal)
    assert outcome.is_error, text_of(outcome.result.content)
    return text_of(outcome.result.content)
