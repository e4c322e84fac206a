"""A stage for adapters: requests built from pack entries, and a network that answers from them."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from msgspec import UNSET

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, message_from_wire
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest, ModelStream
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.system_state import normalize_context
from antiphon.core.wire import JsonObject, to_wire
from antiphon.loop.abort import AbortController
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.wire_json import encode

KEY = "test-key"
HI = {"messages": [{"role": "user", "content": "Hi", "timestamp": 1}]}
Cut = Callable[[bytes], Sequence[bytes]]


def model_of(given: JsonObject) -> Model:
    return msgspec.convert(given, Model)


def messages_of(context: JsonObject) -> tuple[Message, ...]:
    """The messages of a context, its prompt and tools in front."""
    tools = [msgspec.convert(tool, ToolDeclaration) for tool in context.get("tools", ())]
    messages = [item if not isinstance(item, dict) else message_from_wire(item) for item in context.get("messages", ())]
    return normalize_context(context.get("systemPrompt", ""), tools, messages)


def request_of(case: JsonObject, transport: Any, controller: AbortController, **more: Any) -> ModelRequest:
    """What a caller would ask for a pack entry."""
    options = {**case.get("options", {}), **more.pop("options", {})}
    level = options.pop("reasoning", "off")
    context = more.pop("context", None) or case.get("context") or HI
    return ModelRequest(
        model=model_of(case["model"]),
        messages=messages_of(context),
        thinking_level=level,
        signal=controller.signal,
        api_key=options.pop("apiKey", KEY),
        session_id=options.pop("sessionId", None),
        options={**options, "entry": "raw" if case.get("entry") == "stream" else "unified", "transport": transport},
    )


def cuts(size: int | str | Sequence[int]) -> Cut:
    """How to cut a body: pieces of one size, of given sizes, `whole`, or `random` (the same each time)."""
    if size == "whole":
        return lambda data: [data] if data else []
    if size == "random":
        return _at_random
    if isinstance(size, int):
        return lambda data: [data[at : at + size] for at in range(0, len(data), size)]
    return lambda data: _of_sizes(data, list(size))  # type: ignore[arg-type]


def _at_random(data: bytes) -> list[bytes]:
    chance = random.Random(len(data))  # noqa: S311
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        size = chance.choice((1, 2, 5, 17, 80, 400))
        pieces.append(data[at : at + size])
        at += size
    return pieces


def _of_sizes(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces: list[bytes] = []
    at = 0
    for size in [*sizes, len(data)]:
        if at < len(data):
            pieces.append(data[at : at + size])
        at += size
    return pieces


@dataclass
class Reply:
    """A reply of the stage's network."""

    status: int
    headers: dict[str, str]
    parts: Sequence[bytes]
    end: str | None = None
    closed: bool = False

    async def pieces(self) -> AsyncIterator[bytes]:
        for part in self.parts:
            yield part
        if self.end == "reset":
            raise ConnectionResetError(104, "Connection reset by peer")
        if self.end == "hang":
            await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True


@dataclass
class Network:
    """Answers each request with the next reply of the pack, the last one again and again."""

    replies: Sequence[JsonObject]
    cut: Cut = field(default_factory=lambda: cuts("whole"))
    requests: list[HttpRequest] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    given: list[Reply] = field(default_factory=list)

    async def __call__(self, request: HttpRequest, *, connect_seconds: float) -> HttpReply:
        self.requests.append(request)
        self.at.append(time.monotonic())
        reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if reply.get("drop"):
            raise ConnectionResetError(104, "Connection reset by peer")
        made = self._reply(reply)
        self.given.append(made)
        return made

    def _reply(self, reply: JsonObject) -> Reply:
        if "sse" in reply:
            body = reply["sse"].encode("utf-8", "surrogatepass")
            return Reply(200, {"content-type": "text/event-stream"}, self.cut(body), reply.get("end"))
        given = reply.get("body", "")
        body = given.encode() if isinstance(given, str) else encode(given)
        headers = {name.lower(): value for name, value in reply.get("headers", {}).items()}
        return Reply(reply["status"], headers, self.cut(body))


async def events_of(
    stream: ModelStream,
    request: ModelRequest,
    controller: AbortController,
    abort_at: int | None = None,
) -> list[ResponseEvent]:
    """Everything a stream says; aborts on the event with this number."""
    events: list[ResponseEvent] = []
    async for event in stream(request):  # type: ignore[union-attr]
        if abort_at is not None and len(events) == abort_at:
            controller.abort("the test aborts")
        events.append(event)
    return events


def final_message(events: Sequence[ResponseEvent]) -> AssistantMessage:
    last = events[-1]
    if isinstance(last, Done):
        return last.message
    assert isinstance(last, Failed), f"the last event is {last!r}"
    return last.error


def event_to_wire(event: ResponseEvent) -> JsonObject:
    """The event as the packs write it: without snapshots."""
    out: JsonObject = to_wire(event)
    for name in ("message", "error", "block", "arguments"):
        out.pop(name, None)
    return out


def message_to_pack(message: AssistantMessage) -> JsonObject:
    """The message as the packs write it."""
    out: JsonObject = to_wire(message)
    for name in ("timestamp", "durationMs", "errorMessage"):
        out.pop(name, None)
    for entry in out.get("diagnostics", []):
        entry.pop("timestamp", None)
    return out


def error_text(message: AssistantMessage) -> str:
    return "" if message.error_message is UNSET else message.error_message
