"""A model that says what a script tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeAlias, final

from msgspec import structs

from antiphon.core.messages import Message
from antiphon.core.ports import AbortSignal, ModelRequest
from antiphon.core.response import AnswerSoFar, answer_begun
from antiphon.core.response_events import Failed, ResponseEvent, Start
from antiphon.testing.gate import Gate
from antiphon.testing.script import Answer, events_of, fails

ScriptItem: TypeAlias = Answer | Callable[[ModelRequest], Answer]

NOTHING_LEFT = "no scripted answer is left"


@final
class ScriptedModel:
    """A stream function: the k-th request gets the k-th answer; a function in the script makes its answer on request.

    When the script is used up, every request gets an error answer. An event is produced only when it is asked for.
    """

    def __init__(self, script: Sequence[ScriptItem] = ()) -> None:
        self.script: list[ScriptItem] = list(script)
        self.requests: list[ModelRequest] = []
        self.asked: list[tuple[Message, ...]] = []
        """The messages of each request, as they were at that moment."""
        self.open_streams = 0
        """Streams that were begun and neither ended nor closed: 0 when nothing leaks."""

    @property
    def answers_left(self) -> int:
        """How many answers of the script have not been asked for."""
        return max(0, len(self.script) - len(self.requests))

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        """Begin the next answer.

        Raises:
            BaseException: what the script says this stream function raises.
        """
        number = len(self.requests)
        self.requests.append(request)
        self.asked.append(tuple(request.messages))
        item = self.script[number] if number < len(self.script) else fails(NOTHING_LEFT)
        answer = item if isinstance(item, Answer) else item(request)
        if answer.error is not None and answer.error_before is None:
            raise answer.error
        return self._play(answer, request)

    async def _play(self, answer: Answer, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        self.open_streams += 1
        try:
            async for event in _events(answer, request):
                yield event
        finally:
            self.open_streams -= 1


async def _events(answer: Answer, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
    """The events of an answer with its waits, faults and the reaction to an abort."""
    signal = request.signal if answer.heeds_abort else None
    events = events_of(answer, request.model)
    live: AnswerSoFar | None = None
    for number, event in enumerate(events):
        for hold in answer.holds:
            if hold.before == number:
                await passed_or_aborted(hold.gate, signal)
        is_last = number == len(events) - 1
        if is_last and answer.ending == "waiting" and number != answer.error_before:
            await passed_or_aborted(Gate(), signal)
        if signal is not None and signal.aborted:
            yield _aborted(answer, request, live)
            return
        if number == answer.error_before and answer.error is not None:
            raise answer.error
        if is_last and answer.ending == "silence":
            return
        live = _grown(live, event)
        yield event


def _grown(live: AnswerSoFar | None, event: ResponseEvent) -> AnswerSoFar | None:
    if isinstance(event, Start):
        return answer_begun(event.message)
    return None if live is None or event.type in ("done", "error") else live.grow(event)  # type: ignore[arg-type]


def _aborted(answer: Answer, request: ModelRequest, live: AnswerSoFar | None) -> Failed:
    """The end of an answer that was aborted: what had arrived so far, as a final message."""
    content = () if live is None else live.content
    message = structs.replace(
        answer.message(request.model), content=content, stop_reason="aborted", error_message="Request was aborted"
    )
    return Failed(reason="aborted", error=message)


async def passed_or_aborted(gate: Gate, signal: AbortSignal | None) -> None:
    """Wait at a gate until it is open or, if there is a signal, until that is aborted."""
    if signal is None:
        await gate.passed()
        return
    if signal.aborted:
        return
    waiting = [asyncio.ensure_future(gate.passed()), asyncio.ensure_future(signal.wait())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
