"""Chapter 04: a model that says what a script tells it to.

    model = ScriptedModel(["Hello.", AssistantMessage(content=(...), stop_reason="toolUse"), lambda request: "Bye."])

The k-th request gets the k-th response. A response is a final message (or just its text), a list of stream events, or
a function of the request that gives one of these. Nothing depends on time, chance or a network, so a test that uses it
says the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypeAlias, final

from antiphon.core.content import Block, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import (
    Done,
    Failed,
    ResponseEvent,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.wire import encode
from antiphon.course.ports import ModelRequest
from antiphon.errors import AntiphonError
from antiphon.loop.event_stream import EventStream, response_stream

Answer: TypeAlias = AssistantMessage | str | Sequence[ResponseEvent]
ScriptedResponse: TypeAlias = Answer | Callable[[ModelRequest], Answer]


class ScriptExhausted(AntiphonError):
    """A request came for which the script has no response."""


@final
class ScriptedModel:
    """A model with a script. `requests` are deep copies: what happens to a list later does not change the record."""

    def __init__(self, responses: Iterable[ScriptedResponse] = ()) -> None:
        self.responses: tuple[ScriptedResponse, ...] = tuple(responses)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> EventStream[ResponseEvent, AssistantMessage]:
        """The next response as a stream whose events are all there already.

        Raises:
            ScriptExhausted: there is none left.
        """
        number = len(self.requests)
        self.requests.append(_copy(request))
        if number >= len(self.responses):
            raise ScriptExhausted(f"the script has {len(self.responses)} responses, and this is request {number + 1}")
        response = self.responses[number]
        answer = response(request) if callable(response) else response
        stream = response_stream()
        for event in _events(answer):
            stream.push(event)
        stream.end()  # only matters if no event was the last one: then result() raises instead of waiting for ever
        return stream


def _copy(request: ModelRequest) -> ModelRequest:
    """A copy that shares nothing with the request but the signal."""
    return replace(request, messages=deepcopy(request.messages), tools=deepcopy(request.tools))


def _events(answer: Answer) -> Iterable[ResponseEvent]:
    if isinstance(answer, str):
        answer = AssistantMessage(content=(Text(text=answer),), stop_reason="stop")
    return events_of(answer) if isinstance(answer, AssistantMessage) else answer


def events_of(message: AssistantMessage) -> Iterator[ResponseEvent]:
    """A final message as a provider would stream it: start, then per block start, delta, end, then the message."""
    yield Start(message=AssistantMessage(content=(), stop_reason="pending"))
    for index, block in enumerate(message.content):
        yield from _growth(index, block)
    reason = message.stop_reason
    if reason in ("error", "aborted"):
        yield Failed(reason=reason, error=message)
    else:
        yield Done(reason=reason, message=message)


def _growth(index: int, block: Block) -> Iterator[ResponseEvent]:
    if isinstance(block, Text):
        yield TextStart(content_index=index)
        yield TextDelta(content_index=index, delta=block.text)
        yield TextEnd(content_index=index, content=block.text)
    elif isinstance(block, Thinking):
        yield ThinkingStart(content_index=index)
        yield ThinkingDelta(content_index=index, delta=block.thinking)
        yield ThinkingEnd(content_index=index, content=block.thinking)
    elif isinstance(block, ToolCall):
        yield ToolCallStart(content_index=index, id=block.id, name=block.name)
        yield ToolCallDelta(content_index=index, delta=encode(block.arguments).decode())
        yield ToolCallEnd(content_index=index, tool_call=block)
