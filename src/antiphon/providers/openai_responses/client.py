"""Responses as a model stream: encode, send, decode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.providers.exchange import Call, SimpleCall, converse, now_ms
from antiphon.providers.frames import HistoryCache
from antiphon.providers.openai_responses.decode import ResponsesDecoder
from antiphon.providers.openai_responses.encode import encode
from antiphon.providers.options import CallOptions


@final
class OpenAIResponses:
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
        encoded = encode(request, options, self._histories)
        decoder = ResponsesDecoder(
            request.model,
            now_ms(),
            encoded.custom_arguments,
            options.raw_get("serviceTier"),
            encoded.provider_level,
        )
        return SimpleCall(encoded.request, decoder)
