"""One call to a model, from the question to the last event.

`converse` prepares the call, has it sent (`attempts`), reads the answer (`answer_reader`), and tells the host's
callbacks what they want to know. Every failure becomes a `Failed` event without secrets; only cancellation passes
through. An abort closes the connection at once (`patience`).
"""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, final

from msgspec import UNSET, Struct, structs

from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import failures, wire_json
from antiphon.providers.answer_reader import AnswerReader
from antiphon.providers.attempts import Attempts, is_this_machine
from antiphon.providers.call import Call, Decoder, Prepare, SimpleCall
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.failures import ErrorReply, Failure, RequestRefused
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.options import CallOptions, has_credential, read_options
from antiphon.providers.patience import CallOver, Patience
from antiphon.providers.scrubbing import scrub, scrub_value, secrets_in


async def converse(request: ModelRequest, prepare: Prepare) -> AsyncIterator[ResponseEvent]:
    """Ask once and tell what comes. Never raises, except for cancellation."""
    exchange = _Exchange(request)
    try:
        try:
            reader = await exchange.ask(prepare)
        except CallOver as over:
            yield exchange.failed(over.failure)
            return
        events: list[ResponseEvent] = []
        while not reader.over:
            events = await reader.next_events()
            if not reader.over:
                for event in events:
                    yield event
        for event in exchange.sealed(events):
            yield event
    finally:
        await exchange.close()


@final
class _Exchange:
    """What belongs to one call around its request and answer: options, secrets, callbacks, time."""

    def __init__(self, request: ModelRequest) -> None:
        self._asked = request
        self._model: Model = request.model
        self._started = time.time()
        self._patience = Patience(request.signal)
        self._options = CallOptions()
        self._secrets: tuple[str, ...] = ()
        self._call: Call | None = None
        self._reply: HttpReply | None = None

    async def ask(self, prepare: Prepare) -> AnswerReader:
        """Send the question; the reader of its answer.

        Raises:
            CallOver: there will be none.
        """
        call = await self._prepared(prepare)
        attempts = Attempts(self._model, self._options, self._patience)
        self._call, self._reply = await attempts.accepted(call)
        head = {"status": self._reply.status, "headers": dict(self._reply.headers)}
        await self._tell("on_response", self._options.on_response, head)
        look = None if self._options.on_provider_stream_event is None else self._look
        silence = self._options.silence_ms
        return AnswerReader(self._reply, self._call.decoder, self._model, self._patience, silence, look)

    async def close(self) -> None:
        """Let go of everything. An answer that was not read to its end loses its connection."""
        self._patience.forget()
        if self._reply is not None:
            with suppress(Exception):
                await self._reply.close()

    # -- the question

    async def _prepared(self, prepare: Prepare) -> Call:
        self._patience.check()
        headers = {} if self._model.headers is UNSET else self._model.headers
        self._secrets = secrets_in(self._asked.api_key, headers, self._model.base_url)
        try:
            self._options = read_options(self._asked)
            self._check_credential()
            call = prepare(self._asked, self._options)
        except RequestRefused as refused:
            raise CallOver(refused.failure) from refused
        except Exception as error:  # whatever a history or an option holds: it is told, not raised
            raise CallOver(failures.cannot_send(failures.explain(error))) from error
        self._secrets = secrets_in(self._options.api_key, call.request.headers, call.request.url)
        return await self._as_the_host_wants(call)

    def _check_credential(self) -> None:
        if not (has_credential(self._model, self._options) or is_this_machine(self._model.base_url)):
            advice = "Pass api_key, or set the provider's key variable."
            raise RequestRefused(failures.no_key(self._model.provider, advice))

    async def _as_the_host_wants(self, call: Call) -> Call:
        """The call after `on_payload`, which may replace the body."""
        callback = self._options.on_payload
        if callback is None:
            return call
        body = await self._tell("on_payload", callback, wire_json.read(call.request.body))
        if body is None:
            return call
        try:
            data = wire_json.encode(body)
        except (TypeError, ValueError) as error:
            raise CallOver(failures.callback_failed("on_payload", error)) from error
        return _WithBody(call, HttpRequest(call.request.url, call.request.headers, data))

    async def _look(self, value: JsonValue) -> None:
        await self._tell("on_provider_stream_event", self._options.on_provider_stream_event, value)

    async def _tell(self, name: str, callback: Callable[[Any, Model], Any] | None, value: Any) -> Any:
        if callback is None:
            return None
        try:
            answer = callback(value, self._model)
            return await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            raise CallOver(failures.callback_failed(name, error)) from error

    # -- the end

    def failed(self, failure: Failure) -> ResponseEvent:
        """The only event of a call that never got an answer."""
        draft = AnswerDraft(self._model, int(self._started * 1000))
        draft.failed(failure)
        return self._sealed(draft.take()[-1])

    def sealed(self, events: list[ResponseEvent]) -> list[ResponseEvent]:
        """The last events of an answer, fit for the caller. One is made up if the decoder failed to give it."""
        if not events or not isinstance(events[-1], Done | Failed):
            return [*events, self.failed(failures.malformed("the decoder gave no final message"))]
        return [*events[:-1], self._sealed(events[-1])]

    def _sealed(self, event: ResponseEvent) -> ResponseEvent:
        """A last event with its duration and without secrets."""
        if isinstance(event, Done):
            message = self._timed(event.message)
            if self._call is not None:
                self._call.answered(message)
            return Done(reason=event.reason, message=message)
        if isinstance(event, Failed):
            message = self._timed(event.error)
            if message.error_message is not UNSET:
                text = scrub(message.error_message, self._secrets)
                message = structs.replace(message, error_message=text)
            return Failed(reason=event.reason, error=message)
        return event

    def _timed(self, message: AssistantMessage) -> AssistantMessage:
        """The message with its duration, and what the server called things without secrets."""
        changed: JsonObject = {"duration_ms": max(0, round((time.time() - self._started) * 1000))}
        for name in _NAMES:
            value = getattr(message, name)
            if value is not UNSET:
                changed[name] = scrub_value(value, self._secrets)
        return structs.replace(message, **changed)


_NAMES = ("raw_stop_reason", "response_id", "response_model", "diagnostics")
"""Fields of a message that a server fills."""


class _WithBody(Struct, frozen=True):
    """A call whose body the host replaced; what it would remember or try instead was about the other body."""

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


__all__ = ["Call", "Decoder", "Prepare", "SimpleCall", "converse", "now_ms"]
