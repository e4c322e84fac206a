"""The outside of a loop with something changed: model, executor, signal, messages, events."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from msgspec import structs

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.response_events import Done, Failed, ResponseEvent

Run: TypeAlias = Callable[[Any], Awaitable[Any]]
"""A loop: options in, result out. The types are those of the folder under test, so nothing is known of them here."""

Mangle: TypeAlias = Callable[[Sequence[Message]], Sequence[Message]]


def mangled(run: Run, mangle: Mangle) -> Run:
    """A loop whose transcript is wrong in this way, in its requests as well as in its result."""

    async def run_mangled(options: Any) -> Any:
        model = AskedDifferently(
            options.model, lambda request: replace(request, messages=tuple(mangle(request.messages)))
        )
        result = await run(replace(options, model=model))
        return replace(result, messages=tuple(mangle(result.messages)), new_messages=tuple(mangle(result.new_messages)))

    return run_mangled


class AskedDifferently:
    """A model that gets other requests than the loop has made."""

    def __init__(self, model: Any, change: Callable[[Any], Any]) -> None:
        self._model = model
        self._change = change

    def stream(self, request: Any) -> Any:
        return self._model.stream(self._change(request))


class AnsweringDifferently:
    """A model whose final messages are changed before the loop sees them."""

    def __init__(self, model: Any, change: Callable[[AssistantMessage], AssistantMessage]) -> None:
        self._model = model
        self._change = change

    def stream(self, request: Any) -> Any:
        return _ChangedAnswer(self._model.stream(request), self._change)


class _ChangedAnswer:
    def __init__(self, answer: Any, change: Callable[[AssistantMessage], AssistantMessage]) -> None:
        self._answer = answer
        self._change = change

    async def __aiter__(self) -> AsyncIterator[ResponseEvent]:
        async for event in self._answer:
            if isinstance(event, Done | Failed):
                message = self._change(event.message if isinstance(event, Done) else event.error)
                yield Done(reason=message.stop_reason, message=message)
            else:
                yield event

    async def result(self) -> AssistantMessage:
        return self._change(await self._answer.result())


def answering(run: Run, change: Callable[[AssistantMessage], AssistantMessage]) -> Run:
    """A loop that takes the final messages of its model for something else."""

    async def run_answering(options: Any) -> Any:
        return await run(replace(options, model=AnsweringDifferently(options.model, change)))

    return run_answering


def taken_for(wrong: Any, stop_reason: str, *, calls: bool) -> Callable[[AssistantMessage], AssistantMessage]:
    """Answers with this stop reason, with or without calls, seem to have another one."""

    def change(message: AssistantMessage) -> AssistantMessage:
        has_calls = any(isinstance(block, ToolCall) for block in message.content)
        if message.stop_reason != stop_reason or has_calls is not calls:
            return message
        return structs.replace(message, stop_reason=wrong)

    return change


def listening(run: Run, change: Callable[[Any], Sequence[Any]]) -> Run:
    """A loop whose events reach its listener changed: each one becomes none, one or several."""

    async def run_listening(options: Any) -> Any:
        async def emit(event: Any) -> None:
            for told in change(event):
                waiting = options.emit(told)
                if inspect.isawaitable(waiting):
                    await waiting

        return await run(replace(options, emit=emit))

    return run_listening
