"""Chapter 07: what is wrong with the transcript of a loop, or with what it tells. Which promise, says `loop.py`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.course.saboteurs.outside import AskedDifferently, Run, listening, mangled

# ---- the transcript --------------------------------------------------------------------------------------------------


def double_append(run: Run) -> Run:
    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [copy for m in messages for copy in ([m, m] if isinstance(m, AssistantMessage) else [m])]

    return mangled(run, mangle)


def partial_kept(run: Run) -> Run:
    partial = AssistantMessage(content=(Text(text="Hel"),), stop_reason="pending")

    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [out for m in messages for out in ([partial, m] if isinstance(m, AssistantMessage) else [m])]

    return mangled(run, mangle)


def missing_pair(run: Run) -> Run:
    """The last result of every batch is lost."""

    def mangle(messages: Sequence[Message]) -> list[Message]:
        following = [*messages[1:], None]
        return [
            m
            for m, behind in zip(messages, following, strict=True)
            if not isinstance(m, ToolResultMessage) or isinstance(behind, ToolResultMessage)
        ]

    return mangled(run, mangle)


def skips_unpaired(run: Run) -> Run:
    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [m for m in messages if not (isinstance(m, ToolResultMessage) and _was_skipped(m))]

    return mangled(run, mangle)


def _was_skipped(message: ToolResultMessage) -> bool:
    return isinstance(message.details, dict) and "skipped" in message.details


def completion_order(run: Run) -> Run:
    async def run_disordered(options: Any) -> Any:
        finished: list[str] = []

        async def execute(call: ToolCall, /, **given: Any) -> Any:
            try:
                return await options.executor(call, **given)
            finally:
                finished.append(call.id)

        def mangle(messages: Sequence[Message]) -> list[Message]:
            out: list[Message] = []
            batch: list[ToolResultMessage] = []
            for message in (*messages, None):
                if isinstance(message, ToolResultMessage):
                    batch.append(message)
                    continue
                out += _sorted(batch, finished)
                batch = []
                if message is not None:
                    out.append(message)
            return out

        return await mangled(run, mangle)(replace(options, executor=execute))

    return run_disordered


def _sorted(batch: list[ToolResultMessage], finished: list[str]) -> list[ToolResultMessage]:
    place = {call_id: number for number, call_id in enumerate(finished)}
    return sorted(batch, key=lambda result: place.get(result.tool_call_id, len(place)))


def touches_the_callers_list(run: Run) -> Run:
    async def run_touching(options: Any) -> Any:
        result = await run(options)
        options.context.messages.extend(result.new_messages)
        return result

    return run_touching


def forgets_tools(run: Run) -> Run:
    async def run_forgetting(options: Any) -> Any:
        model = AskedDifferently(options.model, lambda request: replace(request, tools=()))
        return await run(replace(options, model=model))

    return run_forgetting


# ---- what is told ----------------------------------------------------------------------------------------------------


def second_turn_end(run: Run) -> Run:
    return listening(run, lambda event: [event, event] if event.type == "turn_end" else [event])


def silent_model(run: Run) -> Run:
    return listening(run, lambda event: [] if event.type == "model_event" else [event])


def swallows_progress(run: Run) -> Run:
    return listening(run, lambda event: [] if event.type == "tool_progress" else [event])


def overlapping_events(run: Run) -> Run:
    """Nobody waits until the listener is done with an event."""

    async def run_overlapping(options: Any) -> Any:
        telling: list[asyncio.Future[Any]] = []

        def emit(event: Any) -> None:
            waiting = options.emit(event)
            if inspect.isawaitable(waiting):
                telling.append(asyncio.ensure_future(waiting))

        try:
            return await run(replace(options, emit=emit))
        finally:
            await asyncio.gather(*telling)

    return run_overlapping


def late_ends(run: Run) -> Run:
    """Ends are held back until the whole batch is over, and then told in call order."""

    async def run_late(options: Any) -> Any:
        order: list[str] = []
        ended: dict[str, Any] = {}

        def change(event: Any) -> Sequence[Any]:
            if event.type == "tool_start":
                order.append(event.call.id)
            if event.type != "tool_end":
                return [event]
            ended[event.call_id] = event
            if set(order) - set(ended):
                return []
            told = [ended[call_id] for call_id in order]
            order.clear()
            ended.clear()
            return told

        return await listening(run, change)(options)

    return run_late


def late_progress(run: Run) -> Run:
    """Progress is kept until the call is over."""

    async def run_late(options: Any) -> Any:
        kept: dict[str, list[Any]] = {}

        def change(event: Any) -> Sequence[Any]:
            if event.type == "tool_progress":
                kept.setdefault(event.call_id, []).append(event)
                return []
            return [*kept.pop(event.call_id, ()), event] if event.type == "tool_end" else [event]

        return await listening(run, change)(options)

    return run_late
