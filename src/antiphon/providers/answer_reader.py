"""Reading an answer: bytes of a reply become provider events, and a decoder makes response events of them.

One provider event at a time, so that an abort between two of them loses nothing that was told and tells nothing more.
Whatever goes wrong, the decoder is asked for its last word.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias, final

from antiphon.core.model import Model
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonValue
from antiphon.providers import failures, wire_json
from antiphon.providers.attempts import lost
from antiphon.providers.call import Decoder
from antiphon.providers.failures import Failure, Malformed
from antiphon.providers.http import HttpReply
from antiphon.providers.patience import CallOver, Patience
from antiphon.providers.sse import EventTooLarge, SseEvent, SseParser

MAX_WHOLE_BODY_BYTES: Final = 64 * 1024 * 1024
LAST_PIECE_SECONDS: Final = 0.01

Look: TypeAlias = Callable[[JsonValue], Awaitable[None]]
"""Shown each provider event before it is decoded. Raises `CallOver` to end the answer."""


@final
class AnswerReader:
    """One answer while it is read. `over`: its last event was given."""

    def __init__(
        self, reply: HttpReply, decoder: Decoder, model: Model, patience: Patience, silence_ms: float, look: Look | None
    ) -> None:
        self._decoder = decoder
        self._model = model
        self._patience = patience
        self._silence_ms = silence_ms
        self._look = look
        self._pieces = reply.pieces()
        self._parser = SseParser()
        self._waiting: deque[SseEvent | JsonValue] = deque()
        self._state: Literal["head", "first piece", "body", "over"] = "head"

    @property
    def over(self) -> bool:
        return self._state == "over"

    async def next_events(self) -> list[ResponseEvent]:
        """What the next provider event, the end of the body, or a failure says; the last call makes `over` true.

        It is empty in the end only if the decoder does not keep its contract.
        """
        try:
            self._patience.check()
            events = await self._step()
        except CallOver as over:
            return self._given_up(over.failure)
        except Malformed as error:
            return self._given_up(failures.malformed(str(error), retryable=error.retryable))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not break the contract of the stream
            return self._given_up(failures.malformed(f"{type(error).__name__}: {failures.explain(error)}"))
        if self._decoder.finished and self._state != "over":
            await self._last_piece()
            self._state = "over"
        return events

    async def _step(self) -> list[ResponseEvent]:
        if self._state == "head":
            self._state = "first piece"
            return self._decoder.start()
        if not self._waiting and not await self._read():
            self._state = "over"
            return self._decoder.end()
        item = self._waiting.popleft()
        value = self._decoder.parse(item) if type(item) is SseEvent else item
        if value is None:
            return []
        if self._look is not None:
            await self._look(value)
        return self._decoder.feed(value)

    def _given_up(self, failure: Failure) -> list[ResponseEvent]:
        self._state = "over"
        return self._decoder.fail(self._patience.verdict(failure))

    async def _read(self) -> bool:
        """Read until there is an event, or the body is over (False)."""
        while not self._waiting:
            piece = await self._next()
            if piece is None:
                self._waiting.extend(self._parser.close())
                return bool(self._waiting)
            if self._state == "first piece" and (head := piece.lstrip()[:1]):
                self._state = "body"
                if head in (b"{", b"[", b"<"):
                    self._waiting.extend(await self._no_stream(piece))
                    return bool(self._waiting)
            try:
                self._waiting.extend(self._parser.feed(piece))
            except EventTooLarge as error:
                raise Malformed(str(error)) from error
        return True

    async def _next(self) -> bytes | None:
        coming = anext(self._pieces, None)
        try:
            return await self._patience.within(coming, self._silence_ms, "further piece of the answer")
        except CallOver:
            raise
        except Exception as error:
            raise CallOver(lost(error, self._model)) from error

    async def _no_stream(self, piece: bytes) -> Sequence[JsonValue]:
        """A body that is no stream: a whole answer, an error in spite of status 200, or a web page."""
        body = bytearray(piece)
        while len(body) < MAX_WHOLE_BODY_BYTES and (more := await self._next()) is not None:
            body += more
        text = body.decode("utf-8", "replace")
        answer = wire_json.read_object(text)
        values = None if answer is None else self._decoder.whole(answer)
        if values is not None:
            return values
        if answer is not None and ("error" in answer or "message" in answer or "detail" in answer):
            raise CallOver(failures.provider_error(failures.words_of(answer, text)))
        raise Malformed(f"the server sent no event stream but: {failures.cut(text, 500)}")

    async def _last_piece(self) -> None:
        """Read the end of a body that should be over, so that the connection can be used again."""
        with suppress(Exception):
            async with asyncio.timeout(LAST_PIECE_SECONDS):
                async for _ in self._pieces:
                    pass
