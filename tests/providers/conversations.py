"""Small conversations and requests for tests of adapters, and a transport that answers without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.transcript import Transcript
from antiphon.providers.http import HttpRequest

IMAGE = Image(data="iVBORw0KGgo=", mime_type="image/png")
READ = ToolDeclaration(
    name="read",
    description="Read a file",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
STRICT_READ = ToolDeclaration(
    name="read",
    description="Read a file",
    parameters=READ.parameters,
    constrained_sampling={"type": "json_schema", "strict": "prefer"},
)


def user(*content: str | Image) -> UserMessage:
    if len(content) == 1 and isinstance(content[0], str):
        return UserMessage(content=content[0])
    return UserMessage(content=tuple(Text(text=item) if isinstance(item, str) else item for item in content))


def system(text: str = "", **fields: Any) -> SystemMessage:
    return SystemMessage(content=text, **fields)


def said(model: Model, *content: str | Text | Thinking | ToolCall, **fields: Any) -> AssistantMessage:
    """An answer that this model gave."""
    blocks = tuple(Text(text=item) if isinstance(item, str) else item for item in content)
    calls = any(isinstance(block, ToolCall) for block in blocks)
    given: dict[str, Any] = {"stop_reason": "toolUse" if calls else "stop", **fields}
    return AssistantMessage(content=blocks, api=model.api, provider=model.provider, model=model.id, **given)


def call(id_: str, name: str = "read", **arguments: Any) -> ToolCall:
    return ToolCall(id=id_, name=name, arguments=arguments)


def result(id_: str, *content: str | Image, name: str = "read", is_error: bool = False) -> ToolResultMessage:
    blocks = tuple(Text(text=item) if isinstance(item, str) else item for item in content)
    return ToolResultMessage(tool_call_id=id_, tool_name=name, content=blocks, is_error=is_error)


class Signal:
    """An abort signal that tests pull by hand."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._event = asyncio.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def aborted(self) -> bool:
        return self._event.is_set()

    def abort(self, reason: str | None = None) -> None:
        self.reason = reason
        self._event.set()
        for callback in self._callbacks:
            callback()

    async def wait(self) -> None:
        await self._event.wait()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        if self.aborted:
            callback()
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)


def ask(model: Model, messages: Sequence[Message], *, level: str = "off", **options: Any) -> ModelRequest:
    """A request with a key."""
    window = messages if isinstance(messages, Transcript) else Transcript(messages)
    given = {"api_key": "test-key", **options}
    return ModelRequest(model=model, messages=window, thinking_level=level, signal=Signal(), options=given)  # type: ignore[arg-type]


@dataclass
class Reply:
    """An answer of the scripted server. `error`: raised after the body."""

    body: bytes | str | dict[str, Any] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Exception | None = None
    closed: bool = False

    async def pieces(self) -> AsyncIterator[bytes]:
        body = json.dumps(self.body) if isinstance(self.body, dict) else self.body
        yield body.encode() if isinstance(body, str) else body
        if self.error is not None:
            raise self.error

    async def close(self) -> None:
        self.closed = True


class Server:
    """A transport: it keeps what it was sent and answers from a list."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[HttpRequest] = []

    async def __call__(self, request: HttpRequest, *, connect_seconds: float) -> Reply:
        self.requests.append(request)
        return self.replies.pop(0)

    def body(self, index: int = -1) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.requests[index].body)
        return body


async def events_of(stream: Any, request: ModelRequest) -> list[ResponseEvent]:
    return [event async for event in stream(request)]
