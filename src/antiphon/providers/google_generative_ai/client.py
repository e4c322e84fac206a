"""Gemini as a model stream: encode, send, decode."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.providers import failures
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.exchange import Call, SimpleCall, converse
from antiphon.providers.google_generative_ai.decode import GeminiDecoder
from antiphon.providers.google_generative_ai.dialect import GeminiDialect, gemini_dialect
from antiphon.providers.google_generative_ai.encode import body_fields, endpoint, rewriter
from antiphon.providers.google_generative_ai.items import ContentItems, ItemRules
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, HistoryCache
from antiphon.providers.http import HttpRequest
from antiphon.providers.options import CallOptions, merged_headers
from antiphon.providers.system_text import folded_state


@final
class GoogleGenerativeAi:
    """The adapter. One object may serve any number of models and calls at once."""

    def __init__(self) -> None:
        self._histories = HistoryCache()

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        return converse(request, self.prepare)

    def prepare(self, request: ModelRequest, options: CallOptions) -> Call:
        """The call for a request.

        Raises:
            RequestRefused: there is nothing to send.
            NotConvertible: a tool requires strict sampling and cannot have it.
        """
        model = request.model
        dialect = gemini_dialect(model)
        history = self._history(request, dialect)
        if history.is_empty:
            raise failures.RequestRefused(failures.cannot_send("Gemini needs at least one message with content"))
        state = folded_state(request.messages)
        tokens = history.tokens.tokens
        fields = body_fields(model, options, dialect, prompt=state.prompt, tools=state.tools, context_tokens=tokens)
        headers = merged_headers({"x-goog-api-key": options.api_key or None}, model, options)
        draft = AnswerDraft(model, int(time.time() * 1000))
        return SimpleCall(
            HttpRequest(endpoint(model), headers, history.body(fields, "contents")),
            GeminiDecoder(model, draft),
        )

    def _history(self, request: ModelRequest, dialect: GeminiDialect) -> History:
        model = request.model
        key = (model.api, model.provider, model.id, "image" in model.input)

        def make() -> History:
            return History(ContentItems(ItemRules(dialect)), HandOff(model, rewriter(model)))

        return self._histories.history(request.messages, key, make)
