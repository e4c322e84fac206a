"""Gemini as a model stream: encode, send, decode."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import final

from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.system_state import SystemState
from antiphon.providers import failures
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.exchange import Call, SimpleCall, converse
from antiphon.providers.frames import Frame, HistoryCache
from antiphon.providers.google_generative_ai.decode import GeminiDecoder
from antiphon.providers.google_generative_ai.dialect import gemini_dialect
from antiphon.providers.google_generative_ai.encode import body_fields, endpoint, rewriter
from antiphon.providers.google_generative_ai.items import ContentItems, ItemRules
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, opening_of
from antiphon.providers.http import HttpRequest
from antiphon.providers.options import CallOptions, merged_headers


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
        history, frame = self._histories.framed(request, options, _Plan)
        if history.is_empty:
            raise failures.RequestRefused(failures.cannot_send("Gemini needs at least one message with content"))
        asked = HttpRequest(frame.url, frame.headers, history.enclosed(frame.opening))
        return SimpleCall(asked, GeminiDecoder(request.model, AnswerDraft(request.model, int(time.time() * 1000))))


@final
class _Plan:
    """How a conversation is put into requests."""

    def __init__(self, request: ModelRequest, options: CallOptions, state: SystemState) -> None:
        self._model = request.model
        self._options = options
        self._state = state
        self._dialect = gemini_dialect(request.model)

    @property
    def key(self) -> object:
        model = self._model
        return (model.api, model.provider, model.id, "image" in model.input)

    def history(self) -> History:
        model = self._model
        return History(ContentItems(ItemRules(self._dialect)), HandOff(model, rewriter(model)))

    def frame(self, history: History) -> Frame:
        model, options, state = self._model, self._options, self._state
        tokens = history.tokens
        prompt, tools = state.prompt, state.tools
        fields = body_fields(model, options, self._dialect, prompt=prompt, tools=tools, context_tokens=tokens)
        headers = merged_headers({"x-goog-api-key": options.api_key or None}, model, options)
        return Frame(endpoint(model), headers, opening_of(fields, "contents"))
