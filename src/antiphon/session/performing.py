"""Calls that no answer of this run asks for: those of tools, and those that an earlier process has left open."""

from __future__ import annotations

from typing import final

from msgspec import UNSET, structs

from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall
from antiphon.core.hooks import AfterOverride, AfterToolCall, Context
from antiphon.core.messages import AssistantMessage, ToolResultMessage
from antiphon.core.ports import AbortSignal, OnUpdate
from antiphon.core.usage import add_usage
from antiphon.loop.tool_call import run_tool_call
from antiphon.session.conversation import Conversation
from antiphon.session.nested_calls import NestedCalls
from antiphon.session.tool_registry import ToolRegistry

_NO_ANSWER = AssistantMessage(content=(), stop_reason="stop")


@final
class Performer:
    """Puts single calls through the pipeline of all calls."""

    def __init__(self, conversation: Conversation, registry: ToolRegistry) -> None:
        self._c = conversation
        self._registry = registry

    async def nested(self, call: ToolCall, signal: AbortSignal | None, on_update: OnUpdate) -> Outcome:
        """One call of a tool."""
        c = self._c
        return await run_tool_call(
            call,
            tools=self._registry.callable_tools(),
            assistant_message=c.last_answer() or _NO_ANSWER,
            context=Context(c.agent.messages, c.agent.tools),
            signal=c.agent.signal if signal is None else signal,
            before_tool_call=c.agent.before_tool_call,
            after_tool_call=c.agent.after_tool_call,
            on_update=on_update,
            policy=c.agent.policy,
            clock=c.clock,
        )

    async def left_open(self, call: ToolCall, signal: AbortSignal) -> Outcome:
        """One call that an earlier process has left open, and that a person has judged already."""
        c = self._c
        return await run_tool_call(
            call,
            tools=self._registry.declared(),
            assistant_message=c.last_answer() or _NO_ANSWER,
            context=Context(c.agent.messages, c.agent.tools),
            signal=signal,
            before_tool_call=c.hooks.tool_call,
            after_tool_call=c.hooks.tool_result,
            policy=c.agent.policy,
            clock=c.clock,
        )


@final
class NestedUsage:
    """What the calls of a tool have used is part of its own result, and so is the record of them."""

    def __init__(self, nested: NestedCalls) -> None:
        self._nested = nested

    def override(self, call: AfterToolCall) -> AfterOverride | None:
        """The usage of a result, with that of its calls."""
        nested = self._nested.usage(call.tool_call.id)
        if nested is None:
            return None
        own = call.result.usage
        return AfterOverride(usage=nested if own is UNSET else add_usage(own, nested))

    def amended(self, message: ToolResultMessage) -> ToolResultMessage:
        """A result with the record of the calls that its tool has made."""
        taken = self._nested.take(message.tool_call_id)
        if taken is None:
            return message
        record, usage = taken
        total = message.usage
        if usage is not None:
            total = usage if total is UNSET else add_usage(total, usage)
        return structs.replace(message, nested_calls=record, usage=total)
