"""Chat Completions for servers without tools: the request of `emulated_tools`, and its answer read as calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast, final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import wire_json
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.emulated_tools import ChoiceReader, ask, room_of
from antiphon.providers.exchange import Call, SimpleCall, now_ms
from antiphon.providers.failures import Failure
from antiphon.providers.http import HttpRequest
from antiphon.providers.openai_completions.decode import ChatDecoder
from antiphon.providers.openai_completions.encode import base_fields, request_headers
from antiphon.providers.options import CallOptions, sampling_of
from antiphon.providers.sse import SseEvent
from antiphon.providers.system_text import folded_state


def emulated_call(request: ModelRequest, options: CallOptions) -> Call:
    """The call that puts tools into words."""
    model = request.model
    cap = min(options.max_tokens or model.max_tokens, max(1, model.context_window // 2))
    asked = ask(
        request.messages,
        folded_state(request.messages),
        room_of(model.context_window, cap, bytes_per_token=2),
        options.tool_choice,
    )
    flags = chat_dialect(model)
    body: JsonObject = {
        **base_fields(model, flags, options, cap),
        **sampling_of(model, options),
        **asked.fields,
        "messages": asked.messages,
    }
    sent = HttpRequest(
        url=f"{model.base_url.rstrip('/')}/chat/completions",
        headers=request_headers(request.messages, model, flags, options),
        body=wire_json.encode(body),
    )
    decoder = ChatDecoder(model, now_ms())
    return SimpleCall(sent, _ChoiceDecoder(decoder) if asked.is_choice else decoder)


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
            value = self._reader.rewrite(cast("JsonObject", value))
        return self._inner.feed(value)

    def end(self) -> list[ResponseEvent]:
        return self._inner.end()

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        return self._inner.fail(failure)
