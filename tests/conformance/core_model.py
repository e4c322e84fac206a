"""The scripted model: it answers the k-th request with the k-th response of the scenario.

It produces an event only when it is asked for the next one, so a run that has not finished handling an event never sees
the one behind it. With `delivery: push` all events are made at once when the request arrives.
"""

from __future__ import annotations

import copy
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.conformance.core_recorder import Recorder
from tests.conformance.core_values import API, JsonDict, ScriptedError, message, plain, plain_messages, usage_data

from antiphon.core.content import block_from_wire
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import AbortSignal, ModelRequest
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

NOTHING_LEFT: JsonDict = {"events": [["error", "error", {"errorMessage": "no scripted response left"}]]}
ABORTED = ["error", "aborted", {"errorMessage": "Request was aborted"}]


def option_of(request: ModelRequest, wire_name: str) -> Any:
    """A request option by its wire name; None if it is not set."""
    if wire_name == "sessionId":
        return request.session_id
    return request.options.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", wire_name))


class ScriptedModel:
    """A stream function that records each request and plays the response scripted for it."""

    def __init__(self, scenario: Mapping[str, Any], recorder: Recorder) -> None:
        self._responses: list[JsonDict] = scenario.get("responses", [])
        self._options: list[str] = scenario.get("recordOptions", [])
        self._recorder = recorder
        self._requests = 0

    @property
    def responses_left(self) -> int:
        """Unused responses; negative: requests beyond the script."""
        return len(self._responses) - self._requests

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        self._requests += 1
        number = self._requests
        self._recorder.note(self._item(number, request), {"request": number})
        response = self._responses[number - 1] if number <= len(self._responses) else NOTHING_LEFT
        if "throw" in response:
            raise ScriptedError(response["throw"])
        return Answer(response, request)

    def _item(self, number: int, request: ModelRequest) -> JsonDict:
        item: JsonDict = {
            "request": number,
            "model": request.model.id,
            "provider": request.model.provider,
            "thinking": request.thinking_level or "off",
            "messages": plain_messages(request.messages),
        }
        if request.api_key is not None:
            item["apiKey"] = request.api_key
        for name in self._options:
            if (value := option_of(request, name)) is not None:
                item[name] = plain(value)
        if request.signal.aborted:
            item["aborted"] = True
        return item


class Answer:
    """One response as a stream: an asynchronous iterator with a final result."""

    def __init__(self, response: JsonDict, request: ModelRequest) -> None:
        self._script: list[list[Any]] = list(response["events"])
        self._signal: AbortSignal | None = None if response.get("onAbort") == "ignore" else request.signal
        self._growing = GrowingAnswer(request, response.get("usage", 0))
        self._final: AssistantMessage | None = None
        self._ready: list[ResponseEvent | ScriptedError] | None = None
        if response.get("delivery") == "push":
            self._ready = list(self._all_events())

    def __aiter__(self) -> AsyncIterator[ResponseEvent]:
        return self

    async def __anext__(self) -> ResponseEvent:
        event = self._next_event() if self._ready is None else (self._ready.pop(0) if self._ready else None)
        if event is None:
            raise StopAsyncIteration
        if isinstance(event, ScriptedError):
            raise event
        return event

    async def result(self) -> AssistantMessage:
        """The final message of the response."""
        if self._final is None:
            raise AssertionError("this response has no final message")
        return self._final

    def _all_events(self) -> list[ResponseEvent | ScriptedError]:
        events: list[ResponseEvent | ScriptedError] = []
        while (event := self._next_event()) is not None:
            events.append(event)
        return events

    def _next_event(self) -> ResponseEvent | ScriptedError | None:
        """The next event, the error that reading raises, or None when the stream is over."""
        if not self._script:
            return None
        if self._signal is not None and self._signal.aborted:
            self._script = []
            return self._ended(ABORTED)
        step = self._script.pop(0)
        if step[0] == "raise":
            self._script = []
            return ScriptedError(step[1])
        return self._ended(step) if step[0] in ("done", "error", "end") else self._growing.grow(step)

    def _ended(self, step: list[Any]) -> ResponseEvent | None:
        kind, reason, *fields = step
        final = self._growing.finished(reason, *fields)
        if self._final is None:
            self._final = final
        if kind == "done":
            return Done(reason=reason, message=final)
        if kind == "error":
            return Failed(reason=reason, error=final)
        self._script = []
        return None


class GrowingAnswer:
    """The partial message of a response, as JSON, and the events that its growth is told by."""

    def __init__(self, request: ModelRequest, usage: Any) -> None:
        self._partial: JsonDict = {
            "role": "assistant",
            "content": [],
            "api": API,
            "provider": request.model.provider,
            "model": request.model.id,
            "usage": usage_data(usage),
            "stopReason": "pending",
        }

    def finished(self, reason: str, fields: JsonDict | None = None) -> AssistantMessage:
        """The final message: the partial one with its stop reason, then overwritten by `fields`."""
        return message({**self._partial, "stopReason": reason, **(fields or {})})  # type: ignore[return-value]

    def grow(self, step: list[Any]) -> ResponseEvent:
        """Apply one step to the partial message; the event that tells it."""
        kind, *rest = step
        if kind == "start":
            return Start(message=message(self._partial))  # type: ignore[arg-type]
        part, _, phase = kind.rpartition("_")
        return getattr(self, f"_{part}")(phase, *rest)

    def _text(self, phase: str, index: int, text: str = "") -> ResponseEvent:
        self._say(phase, index, "text", text)
        if phase == "start":
            return TextStart(content_index=index)
        if phase == "delta":
            return TextDelta(content_index=index, delta=text)
        return TextEnd(content_index=index, content=text)

    def _thinking(self, phase: str, index: int, text: str = "") -> ResponseEvent:
        self._say(phase, index, "thinking", text)
        if phase == "start":
            return ThinkingStart(content_index=index)
        if phase == "delta":
            return ThinkingDelta(content_index=index, delta=text)
        return ThinkingEnd(content_index=index, content=text)

    def _toolcall(self, phase: str, index: int, given: Any, arguments: Any = None) -> ResponseEvent:
        if phase == "start":
            self._put(index, {"type": "toolCall", "id": given["id"], "name": given["name"], "arguments": {}})
            return ToolCallStart(content_index=index, id=given["id"], name=given["name"])
        if phase == "delta":
            self._put(index, {**self._partial["content"][index], "arguments": arguments})
            return ToolCallDelta(content_index=index, delta=given, arguments=copy.deepcopy(arguments))
        self._put(index, given)
        return ToolCallEnd(content_index=index, tool_call=block_from_wire(copy.deepcopy(given)))  # type: ignore[arg-type]

    def _say(self, phase: str, index: int, kind: str, text: str) -> None:
        if phase == "start":
            self._put(index, {"type": kind, kind: ""})
            return
        block = self._partial["content"][index]
        self._put(index, {**block, kind: block[kind] + text if phase == "delta" else text})

    def _put(self, index: int, block: JsonDict) -> None:
        content = list(self._partial["content"])
        content.extend({"type": "text", "text": ""} for _ in range(index + 1 - len(content)))
        content[index] = block
        self._partial = {**self._partial, "content": content}
