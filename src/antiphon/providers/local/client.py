"""The embedded model as a model stream: the Chat Completions adapter over a transport that never leaves the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import cast, final

from msgspec import structs

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject
from antiphon.providers import wire_json
from antiphon.providers.exchange import converse
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.local.engine import Engine, Fault, Generation
from antiphon.providers.local.model import EMBEDDED, model_file
from antiphon.providers.openai_completions.client import OpenAICompletions


@cache
def engine() -> Engine:
    """The engine of this process."""
    return Engine(model_file, EMBEDDED.id, EMBEDDED.context_window)


@final
class LocalLlama:
    """A `ModelStream` that answers with the embedded model."""

    def __init__(self) -> None:
        self._chat = OpenAICompletions()

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        inside = structs.replace(request, options={"transport": send, **request.options})
        return converse(inside, self._chat.prepare)


async def send(request: HttpRequest, *, connect_seconds: float) -> HttpReply:
    """Ask the embedded model as if it were a server.

    Raises:
        ValueError: it cannot be loaded, or cannot read the request.
    """
    body: JsonObject = {**wire_json.read(request.body), "return_progress": True}  # so that it can be stopped early
    generation = engine().ask(body)
    try:
        first = await generation.chunks.get()
    except BaseException:
        generation.stop()
        raise
    if type(first) is Fault:
        raise ValueError(first.text)
    return _Reply(generation, cast("JsonObject | None", first))


@final
class _Reply:
    """Chunks as the body of an HTTP answer. A refusal of the model's server comes as its first chunk."""

    def __init__(self, generation: Generation, first: JsonObject | None) -> None:
        self._generation = generation
        self._first = first
        error = (first or {}).get("error")
        self.status = int(error.get("code", 500)) if isinstance(error, dict) else 200
        self.headers: Mapping[str, str] = {}

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.status != 200:
            yield wire_json.encode(self._first)
            return
        chunk = self._first
        while chunk is not None:
            yield b"data: %s\n\n" % wire_json.encode(chunk)
            item = await self._generation.chunks.get()
            if type(item) is Fault:
                raise ConnectionError(item.text)
            chunk = cast("JsonObject | None", item)
        yield b"data: [DONE]\n\n"

    async def close(self) -> None:
        self._generation.stop()
