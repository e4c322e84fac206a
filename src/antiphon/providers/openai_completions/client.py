"""Chat Completions as a model stream: encode, send, decode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.exchange import Call, SimpleCall, converse, now_ms
from antiphon.providers.frames import HistoryCache
from antiphon.providers.openai_completions.decode import ChatDecoder
from antiphon.providers.openai_completions.encode import encode
from antiphon.providers.options import CallOptions


@final
class OpenAICompletions:
    """A `ModelStream`. Keeps what it encoded, so that a conversation that grows is not encoded again."""

    def __init__(self) -> None:
        self._histories = HistoryCache()

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        return converse(request, self.prepare)

    def prepare(self, request: ModelRequest, options: CallOptions) -> Call:
        """The request and the decoder of its answer.

        Raises:
            RequestRefused: it cannot be encoded.
        """
        if chat_dialect(request.model).emulated_tools:
            # loaded here because few models need it
            from antiphon.providers.openai_completions.emulated import emulated_call

            return emulated_call(request, options)
        encoded, custom_arguments = encode(request, options, self._histories)
        return SimpleCall(encoded, ChatDecoder(request.model, now_ms(), custom_arguments))
