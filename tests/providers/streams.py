"""Feeding decoders without a network: provider events as values, or as the bytes that carry them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from antiphon.core.model import Model, Prices
from antiphon.core.response_events import ResponseEvent
from antiphon.providers import failures
from antiphon.providers.anthropic_messages.decode import MessagesDecoder
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.exchange import Decoder
from antiphon.providers.failures import Malformed
from antiphon.providers.google_generative_ai.decode import GeminiDecoder
from antiphon.providers.sse import SseParser

PRICES = Prices(input=1, output=2, cache_read=0.1, cache_write=1.25)

CLAUDE = Model(
    id="claude-test",
    provider="anthropic",
    api="anthropic-messages",
    base_url="https://messages.example",
    reasoning=True,
    input=("text", "image"),
    cost=PRICES,
    context_window=200_000,
    max_tokens=32_000,
)
GEMINI = Model(
    id="gemini-3-flash-preview",
    provider="google",
    api="google-generative-ai",
    base_url="https://gemini.example/v1beta",
    reasoning=True,
    input=("text", "image"),
    cost=PRICES,
    context_window=200_000,
    max_tokens=32_000,
)

MakeDecoder = Callable[[], Decoder]


def numbered_ids() -> Callable[[str], str]:
    """Ids that tests can foresee: call_1, call_2, …"""
    count = 0

    def make(prefix: str) -> str:
        nonlocal count
        count += 1
        return f"{prefix}{count}"

    return make


def claude_decoder(model: Model = CLAUDE) -> MessagesDecoder:
    return MessagesDecoder(model, AnswerDraft(model, 1), numbered_ids())


def gemini_decoder(model: Model = GEMINI) -> GeminiDecoder:
    return GeminiDecoder(model, AnswerDraft(model, 1), numbered_ids())


def sse(events: Iterable[Any]) -> bytes:
    """Values as a stream; those that name a `type` get an `event:` line."""
    out: list[str] = []
    for event in events:
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            out.append(f"event: {event['type']}\n")
        out.append(f"data: {json.dumps(event)}\n\n")
    return "".join(out).encode("utf-8", "replace")


def decode_bytes(decoder: Decoder, body: bytes, *, size: int = 64, reset: bool = False) -> list[ResponseEvent]:
    """What a decoder makes of a body that comes in pieces of `size` bytes, and then ends or breaks."""
    events = list(decoder.start())
    parser = SseParser()
    try:
        for start in range(0, len(body), size):
            for event in parser.feed(body[start : start + size]):
                if (value := decoder.parse(event)) is not None and not decoder.finished:
                    events += decoder.feed(value)
        if not decoder.finished and reset:
            return events + decoder.fail(failures.connection_lost("the connection was reset"))
        for event in parser.close():
            if (value := decoder.parse(event)) is not None and not decoder.finished:
                events += decoder.feed(value)
    except Malformed as error:
        return events + decoder.fail(failures.malformed(str(error), retryable=error.retryable))
    return events if decoder.finished else events + decoder.end()


def decode(decoder: Decoder, values: Sequence[Any]) -> list[ResponseEvent]:
    """What a decoder makes of these provider events and the end of the body."""
    return decode_bytes(decoder, sse(values))
