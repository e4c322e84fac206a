"""Chat Completions as a model stream: encode, send, decode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.exchange import Call, SimpleCall, converse, now_ms
from antiphon.providers.history import HistoryCache
from antiphon.providers.openai_completions.decode import ChatDecoder
from antiphon.providers.openai_completions.emulated import emulated_call
from antiphon.providers.openai_completions.encode import encode
from antiphon.providers.openai_completions.tools import grammars_of
from antiphon.providers.options import CallOptions
from antiphon.providers.system_text import folded_state


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
            return emulated_call(request, options)
        encoded = encode(request, options, self._histories)
        return SimpleCall(encoded, ChatDecoder(request.model, now_ms(), _custom_arguments(request)))


def _custom_arguments(request: ModelRequest) -> dict[str, str]:
    if not chat_dialect(request.model).supports_open_ai_grammar_tools:
        return {}
    grammars = grammars_of(folded_state(request.messages).tools, supported=True)
    return {name: grammar.argument for name, grammar in grammars.items()}
