"""Chat Completions for servers without tools: tools put into words, and the answer read as calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import emulated_tools, failures, guided_tools, wire_json
from antiphon.providers.answer_format import chat_fields
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.emulated_answers import ChoiceReader
from antiphon.providers.emulated_tools import Asked, room
from antiphon.providers.exchange import Call, Decoder, now_ms
from antiphon.providers.failures import ErrorReply, Failure
from antiphon.providers.handoff import transform
from antiphon.providers.http import HttpRequest
from antiphon.providers.openai_completions.decode import ChatDecoder
from antiphon.providers.openai_completions.encode import base_fields, request_headers, thinking_level
from antiphon.providers.openai_completions.thinking import Thought, thinking_fields
from antiphon.providers.options import CallOptions, sampling_of
from antiphon.providers.sse import SseEvent
from antiphon.providers.system_text import folded_state

_BYTES_PER_TOKEN = 2
"""Careful for words, too hopeful for digits and rare scripts: a refused request is sent again with 1, which is sure."""


def emulated_call(request: ModelRequest, options: CallOptions) -> Call:
    """The call that puts tools into words."""
    return _EmulatedCall(request, options, _BYTES_PER_TOKEN)


@final
class _EmulatedCall:
    """A request that was built to fit the window with so many bytes to a token."""

    def __init__(self, request: ModelRequest, options: CallOptions, bytes_per_token: int) -> None:
        self._asked_for = request
        self._options = options
        self._bytes_per_token = bytes_per_token
        cap = answer_tokens(request, options)
        asked = _asked(request, options, room(request.model.context_window, cap, bytes_per_token))
        self.request = _http_request(request, options, asked, cap)
        decoder = ChatDecoder(request.model, now_ms())
        self.decoder: Decoder = decoder if asked.schema is None else _ChoiceDecoder(decoder)

    def refused(self, reply: ErrorReply) -> Call | None:
        overflows = failures.http_error(self._asked_for.model.provider, reply).overflow
        if overflows and self._bytes_per_token > 1:
            return _EmulatedCall(self._asked_for, self._options, 1)
        return None

    def answered(self, message: AssistantMessage) -> None:
        return None


def answer_tokens(request: ModelRequest, options: CallOptions) -> int:
    """The output limit: what is asked for, and at most half of the window."""
    model = request.model
    wanted = options.max_tokens or model.max_tokens or 1024
    return min(wanted, model.context_window // 2) if model.context_window > 1 else wanted


def _asked(request: ModelRequest, options: CallOptions, room: int) -> Asked:
    guided = chat_dialect(request.model).emulated_tools == "guided"
    ask = guided_tools.ask if guided else emulated_tools.ask
    messages = transform(request.messages, request.model)
    return ask(messages, folded_state(request.messages), room, options.tool_choice)


def _http_request(request: ModelRequest, options: CallOptions, asked: Asked, cap: int) -> HttpRequest:
    model = request.model
    flags = chat_dialect(model)
    thought = Thought(model, flags, thinking_level(model, options), options.thinking_budgets)
    body: JsonObject = {
        **base_fields(model, flags, options, cap),
        **thinking_fields(thought, cap),
        **sampling_of(model, options),
        "messages": asked.messages,
    }
    if asked.stop is not None:
        body["stop"] = [asked.stop]
    if asked.schema is not None:
        named = {"name": "reply", "strict": True, "schema": asked.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif not folded_state(request.messages).tools:  # a call put into words is no instance of a schema
        body.update(chat_fields(options.response_schema))
    return HttpRequest(
        url=f"{model.base_url.rstrip('/')}/chat/completions",
        headers=request_headers(request.messages, model, flags, options),
        body=wire_json.encode(body),
    )


@final
class _ChoiceDecoder:
    """The ordinary decoder behind a reader of choices."""

    def __init__(self, inner: ChatDecoder) -> None:
        self._inner = inner
        self._reader = ChoiceReader()

    @property
    def finished(self) -> bool:
        return self._inner.finished

    def parse(self, event: SseEvent) -> JsonValue | None:
        return self._inner.parse(event)

    def whole(self, answer: JsonObject) -> Sequence[JsonValue] | None:
        return self._inner.whole(answer)

    def start(self) -> list[ResponseEvent]:
        return self._inner.start()

    def feed(self, value: JsonValue) -> list[ResponseEvent]:
        if isinstance(value, dict):
            return self._inner.feed(self._reader.rewrite(cast("JsonObject", value)))
        return [*self._held_back(), *self._inner.feed(value)]

    def end(self) -> list[ResponseEvent]:
        return [*self._held_back(), *self._inner.end()]

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        return [*self._held_back(), *self._inner.fail(failure)]

    def _held_back(self) -> list[ResponseEvent]:
        rest = self._reader.rest()
        return self._inner.feed(rest) if rest is not None and not self._inner.finished else []
