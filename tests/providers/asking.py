"""Ask a model in a test: a request with sensible parts, and everything the stream says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.core.messages import AssistantMessage, Message, user
from antiphon.core.model import Model, Prices
from antiphon.core.ports import ModelRequest, ModelStream
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.loop.abort import AbortController

KEY = "sk-test-Zq8marked1234567890"


def model(base_url: str = "https://models.example.com/v1", api: str = "openai-completions", **more: Any) -> Model:
    fields: dict[str, Any] = {
        "id": "small",
        "provider": "example",
        "api": api,
        "base_url": base_url,
        "context_window": 100_000,
        "max_tokens": 4096,
        "cost": Prices(input=1, output=2),
    }
    return Model(**{**fields, **more})


def request(
    asked: Model,
    messages: Sequence[Message] = (user("Hi"),),
    *,
    controller: AbortController | None = None,
    api_key: str | None = KEY,
    level: Any = "off",
    session_id: str | None = None,
    **options: Any,
) -> ModelRequest:
    return ModelRequest(
        model=asked,
        messages=messages,
        thinking_level=level,
        signal=(controller or AbortController()).signal,
        api_key=api_key,
        session_id=session_id,
        options=options,
    )


async def events(stream: ModelStream, asked: ModelRequest) -> list[ResponseEvent]:
    return [event async for event in stream(asked)]  # type: ignore[union-attr]


async def answer(stream: ModelStream, asked: ModelRequest) -> AssistantMessage:
    """The final message, of a good end or a bad one."""
    last = (await events(stream, asked))[-1]
    if isinstance(last, Done):
        return last.message
    assert isinstance(last, Failed)
    return last.error
