"""One call to a model from request to last event: the only file of this floor that waits.

`converse` prepares, sends, tries again where that is allowed, reads the stream and lets a decoder turn it into events.
Every failure becomes a `Failed` event; only cancellation passes through. An abort closes the connection at once.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, final
from urllib.parse import urlsplit

from msgspec import UNSET, structs

from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.ports import AbortSignal, ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import failures, http, wire_json
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.failures import ErrorReply, Failure, Malformed, RequestRefused
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.options import CallOptions, has_credential, read_options
from antiphon.providers.retry_after import AskedWait, asked_wait, own_wait_ms, wants_retry
from antiphon.providers.sse import EventTooLarge, SseEvent, SseParser

_MAX_ERROR_BODY = 1024 * 1024
_MAX_WHOLE_BODY = 64 * 1024 * 1024
_ERROR_BODY_SECONDS = 30.0
_LAST_PIECE_SECONDS = 0.01
_MAX_REPLACED_CALLS = 4

T = TypeVar("T")


class Decoder(Protocol):
    """Turns parsed provider events into response events. Pure; one per answer.

    `start` comes after the HTTP headers. `end` and `fail` must finish the answer if it is not finished.
    """

    @property
    def finished(self) -> bool: ...

    def parse(self, event: SseEvent) -> JsonValue | None:
        """What an SSE event says; None if nothing.

        Raises:
            Malformed: it makes no sense.
        """
        ...

    def whole(self, answer: JsonObject) -> Sequence[JsonValue] | None:
        """Provider events that say the same as an answer that was not streamed; None if it is no answer."""
        ...

    def start(self) -> list[ResponseEvent]: ...
    def feed(self, value: JsonValue) -> list[ResponseEvent]: ...
    def end(self) -> list[ResponseEvent]: ...
    def fail(self, failure: Failure) -> list[ResponseEvent]: ...


class Call(Protocol):
    """An encoded request and the decoder of its answer."""

    @property
    def request(self) -> HttpRequest: ...
    @property
    def decoder(self) -> Decoder: ...

    def refused(self, reply: ErrorReply) -> Call | None:
        """Another call to make instead of the refused one, at once; None if there is none."""
        ...

    def answered(self, message: AssistantMessage) -> None:
        """The answer is complete; called before the caller hears of it."""
        ...


@dataclass(frozen=True, slots=True)
class SimpleCall:
    """A call without second thoughts."""

    request: HttpRequest
    decoder: Decoder

    def refused(self, reply: ErrorReply) -> Call | None:
        return None

    def answered(self, message: AssistantMessage) -> None:
        return None


Prepare: TypeAlias = Callable[[ModelRequest, CallOptions], Call]


class _Over(Exception):
    """The call has come to this end."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


async def converse(request: ModelRequest, prepare: Prepare) -> AsyncIterator[ResponseEvent]:
    """Ask once and tell what comes. Never raises, except for cancellation."""
    exchange = _Exchange(request)
    try:
        for event in await exchange.begin(prepare):
            yield event
        while not exchange.over:
            for event in await exchange.next_events():
                yield event
    finally:
        await exchange.close()


@final
class _Exchange:
    def __init__(self, request: ModelRequest) -> None:
        self.asked = request
        self.model: Model = request.model
        self.signal: AbortSignal = request.signal
        self.started = time.time()
        self.options = CallOptions()
        self.secrets: tuple[str, ...] = ()
        self.call: Call | None = None
        self._scope: asyncio.Timeout | None = None
        self._forget_abort = self.signal.on_abort(self._stop_waiting)
        self._reply: HttpReply | None = None
        self._state: Literal["head", "first piece", "body", "over"] = "head"

    async def begin(self, prepare: Prepare) -> list[ResponseEvent]:
        """Send the request; the `Failed` event if that does not lead to an answer, else nothing yet."""
        try:
            call = await self.prepare(prepare)
            self._reply = await self.open(call)
        except _Over as over:
            self._state = "over"
            return [self.failed_early(over.failure)]
        self._decoder = cast("Call", self.call).decoder
        self._pieces = self._reply.pieces()
        self._parser = SseParser()
        self._waiting: deque[SseEvent | JsonValue] = deque()
        return []

    async def close(self) -> None:
        """Let go of everything. An answer that was not read to its end loses its connection."""
        self._forget_abort()
        if self._reply is not None:
            with suppress(Exception):
                await self._reply.close()

    # -- before the call

    async def prepare(self, prepare: Prepare) -> Call:
        self._check_abort()
        try:
            self.options = read_options(self.asked)
            self._check_credential()
            call = prepare(self.asked, self.options)
        except RequestRefused as refused:
            raise _Over(refused.failure) from refused
        except Exception as error:  # whatever a history or an option holds: it is told, not raised
            raise _Over(failures.cannot_send(failures.explain(error))) from error
        self.secrets = failures.secrets_in(self.options.api_key, call.request.headers)
        return await self._as_the_host_wants(call)

    def _check_credential(self) -> None:
        if not (has_credential(self.model, self.options) or is_this_machine(self.model.base_url)):
            advice = "Pass api_key, or set the provider's key variable."
            raise RequestRefused(failures.no_key(self.model.provider, advice))

    async def _as_the_host_wants(self, call: Call) -> Call:
        """The call after `on_payload`, which may replace the body."""
        callback = self.options.on_payload
        if callback is None:
            return call
        body = await self._tell("on_payload", callback, wire_json.read(call.request.body))
        if body is None:
            return call
        try:
            data = wire_json.encode(body)
        except (TypeError, ValueError) as error:
            raise _Over(failures.callback_failed("on_payload", error)) from error
        return _WithBody(call, HttpRequest(call.request.url, call.request.headers, data))

    async def _tell(self, name: str, callback: Callable[[Any, Model], Any], value: Any) -> Any:
        try:
            answer = callback(value, self.model)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            raise _Over(failures.callback_failed(name, error)) from error

    # -- the call

    async def open(self, call: Call) -> HttpReply:
        """The reply of a call that was accepted, after as many attempts as are allowed."""
        attempt = replaced = 0
        while True:
            self.call = call
            reply = await self._attempt(call)
            if isinstance(reply, Failure):
                failure, asked, again = reply, None, True
            elif 200 <= reply.status < 300:
                await self._announce(reply)
                return reply
            else:
                refusal = await self._refusal(reply)
                other = call.refused(refusal) if replaced < _MAX_REPLACED_CALLS else None
                if other is not None:
                    call, replaced = other, replaced + 1
                    continue
                asked = asked_wait(refusal.headers, refusal.json, time.time() * 1000)
                failure = failures.http_error(self.model.provider, refusal, asked)
                again = wants_retry(refusal.status, refusal.headers)
            if not again or attempt >= self.options.max_retries:
                raise _Over(failure)
            await self._pause(attempt, asked, failure)
            attempt += 1

    async def _attempt(self, call: Call) -> HttpReply | Failure:
        transport = self.options.transport or http.send
        sent = transport(call.request, connect_seconds=self.options.connect_timeout_ms / 1000)
        try:
            return await self._within(sent, self.options.timeout_ms, "answer")
        except _Over as over:
            if over.failure.kind == "aborted":
                raise
            return over.failure
        except ImportError:
            raise _Over(failures.cannot_send("the HTTP library is missing; install antiphon[http]")) from None
        except ValueError as error:  # an address or header that cannot be sent
            raise _Over(failures.cannot_send(failures.explain(error))) from error
        except Exception as error:  # noqa: BLE001 - whatever a transport raises
            return self._lost(error)

    async def _announce(self, reply: HttpReply) -> None:
        callback = self.options.on_response
        if callback is None:
            return
        try:
            await self._tell("on_response", callback, {"status": reply.status, "headers": dict(reply.headers)})
        except BaseException:
            await reply.close()
            raise

    async def _refusal(self, reply: HttpReply) -> ErrorReply:
        """What a refused request was told. A body that breaks off counts as far as it came."""
        body = bytearray()
        try:
            with suppress(_Over):
                await self._within(_read_into(body, reply, _MAX_ERROR_BODY), _ERROR_BODY_SECONDS * 1000, "error body")
        except Exception:  # noqa: BLE001 - the status says enough
            pass
        finally:
            with suppress(Exception):
                await reply.close()
        self._check_abort()
        text = body.decode("utf-8", "replace")
        try:
            value = wire_json.read(text) if text.strip() else None
        except ValueError:
            value = None
        return ErrorReply(reply.status, reply.headers, text, value)

    async def _pause(self, attempt: int, asked: AskedWait | None, failure: Failure) -> None:
        cap = self.options.max_retry_delay_ms
        if asked is not None and 0 < cap < asked.ms:
            note = f"The server asks to wait {asked.ms / 1000:g} s, the limit for a retry delay is {cap / 1000:g} s."
            raise _Over(failures.with_note(failure, note))
        wait = own_wait_ms(attempt, random.random()) if asked is None else asked.ms  # noqa: S311
        await self._within(asyncio.sleep(wait / 1000), None, "")

    async def _within(self, work: Awaitable[T], ms: float | None, what: str) -> T:
        """The result of `work`, unless it is aborted or takes longer than `ms`."""
        self._scope = scope = asyncio.timeout(ms / 1000 if ms else None)
        try:
            async with scope:
                if self.signal.aborted:
                    self._stop_waiting()
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            if self.signal.aborted:
                raise _Over(failures.aborted(self.signal.reason)) from None
            raise _Over(failures.timed_out(what, ms or 0)) from None
        finally:
            self._scope = None

    def _stop_waiting(self) -> None:
        """Ends the wait that is going on, if any, as if its time were up."""
        if self._scope is not None:
            with suppress(RuntimeError):  # it is over already
                self._scope.reschedule(0)

    # -- the answer

    def failed_early(self, failure: Failure) -> ResponseEvent:
        draft = AnswerDraft(self.model, int(self.started * 1000))
        draft.failed(failure)
        return self._sealed(draft.take()[-1])

    @property
    def over(self) -> bool:
        return self._state == "over"

    async def next_events(self) -> list[ResponseEvent]:
        """What the next provider event, the end of the body, or a failure says. The last one makes `over` true."""
        decoder = self._decoder
        try:
            self._check_abort()
            events = await self._step(decoder)
        except _Over as over:
            events = self._given_up(decoder, over.failure)
        except Malformed as error:
            events = self._given_up(decoder, failures.malformed(str(error), retryable=error.retryable))
        except Exception as error:  # noqa: BLE001 - a fault of ours must not break the contract of the stream
            text = f"{type(error).__name__}: {failures.explain(error)}"
            events = self._given_up(decoder, failures.malformed(text))
        if not decoder.finished:
            return events
        if self._state != "over":
            await self._last_piece()
            self._state = "over"
        return [*events[:-1], self._sealed(events[-1])] if events else []

    def _check_abort(self) -> None:
        if self.signal.aborted:
            raise _Over(failures.aborted(self.signal.reason))

    async def _step(self, decoder: Decoder) -> list[ResponseEvent]:
        if self._state == "head":
            self._state = "first piece"
            return decoder.start()
        if not self._waiting and not await self._read(decoder):
            self._state = "over"
            return decoder.end()
        item = self._waiting.popleft()
        value = decoder.parse(item) if type(item) is SseEvent else item
        if value is None:
            return []
        callback = self.options.on_provider_stream_event
        if callback is not None:
            await self._tell("on_provider_stream_event", callback, value)
        return decoder.feed(value)

    def _given_up(self, decoder: Decoder, failure: Failure) -> list[ResponseEvent]:
        self._state = "over"
        events = decoder.fail(failure)
        if decoder.finished and events:
            return events
        return [self.failed_early(failure)]  # the decoder itself is at fault

    async def _read(self, decoder: Decoder) -> bool:
        """Read until there is an event, or the body is over (False)."""
        while not self._waiting:
            piece = await self._next()
            if piece is None:
                self._waiting.extend(self._parser.close())
                return bool(self._waiting)
            if self._state == "first piece" and (head := piece.lstrip()[:1]):
                self._state = "body"
                if head in (b"{", b"[", b"<"):
                    self._waiting.extend(await self._no_stream(piece, decoder))
                    return bool(self._waiting)
            try:
                self._waiting.extend(self._parser.feed(piece))
            except EventTooLarge as error:
                raise Malformed(str(error)) from error
        return True

    async def _next(self) -> bytes | None:
        try:
            return await self._within(anext(self._pieces, None), self.options.silence_ms, "further piece of the answer")
        except _Over:
            raise
        except Exception as error:
            raise _Over(self._lost(error)) from error

    def _lost(self, error: Exception) -> Failure:
        host = host_of(self.model.base_url)
        return failures.connection_lost(f"{failures.explain(error)} ({host})" if host else error)

    async def _no_stream(self, piece: bytes, decoder: Decoder) -> Sequence[JsonValue]:
        """A body that is no stream: a whole answer, an error in spite of status 200, or a web page."""
        body = bytearray(piece)
        while len(body) < _MAX_WHOLE_BODY and (more := await self._next()) is not None:
            body += more
        text = body.decode("utf-8", "replace")
        answer = wire_json.read_object(text)
        values = None if answer is None else decoder.whole(answer)
        if values is not None:
            return values
        if answer is not None and ("error" in answer or "message" in answer or "detail" in answer):
            raise _Over(failures.provider_error(failures.words_of(answer, text)))
        raise Malformed(f"the server sent no event stream but: {failures.cut(text, 500)}")

    async def _last_piece(self) -> None:
        """Read the end of a body that should be over, so that the connection can be used again."""
        with suppress(Exception):
            async with asyncio.timeout(_LAST_PIECE_SECONDS):
                async for _ in self._pieces:
                    pass

    def _sealed(self, event: ResponseEvent) -> ResponseEvent:
        """A last event with its duration and without secrets; others as they are."""
        if isinstance(event, Done):
            message = self._timed(event.message)
            if self.call is not None:
                self.call.answered(message)
            return Done(reason=event.reason, message=message)
        if isinstance(event, Failed):
            message = self._timed(event.error)
            if message.error_message is not UNSET:
                text = failures.scrub(message.error_message, self.secrets)
                message = structs.replace(message, error_message=text)
            return Failed(reason=event.reason, error=message)
        return event

    def _timed(self, message: AssistantMessage) -> AssistantMessage:
        return structs.replace(message, duration_ms=max(0, round((time.time() - self.started) * 1000)))


@dataclass(frozen=True, slots=True)
class _WithBody:
    """A call whose body the host replaced."""

    call: Call
    request: HttpRequest

    @property
    def decoder(self) -> Decoder:
        return self.call.decoder

    def refused(self, reply: ErrorReply) -> Call | None:
        return None

    def answered(self, message: AssistantMessage) -> None:
        return None


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return int(time.time() * 1000)


async def _read_into(body: bytearray, reply: HttpReply, limit: int) -> None:
    async for piece in reply.pieces():
        body += piece
        if len(body) >= limit:
            return


def host_of(url: str) -> str:
    """The host that an address names; empty if it names none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_this_machine(url: str) -> bool:
    """Does the address name this machine, whose servers ask for no key?"""
    host = host_of(url)
    return host in ("localhost", "::1") or host.startswith("127.")
