"""Anthropic Messages as a model stream: encode, send, decode, and remember what a session's server holds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import final

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, SystemMessage
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers.anthropic_messages import encode, items, sessions
from antiphon.providers.anthropic_messages.decode import MessagesDecoder, diagnostic
from antiphon.providers.anthropic_messages.sessions import Session, Sessions, ThreadUse
from antiphon.providers.anthropic_messages.tools import marked_tools, prefers_strict, tool_list
from antiphon.providers.copilot import copilot_headers
from antiphon.providers.dialects import AnthropicDialect, anthropic_dialect
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.exchange import Call, converse
from antiphon.providers.failures import ErrorReply
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, HistoryCache, Mark
from antiphon.providers.http import HttpRequest
from antiphon.providers.options import CallOptions, merged_headers
from antiphon.providers.system_text import folded_state, leading_text
from antiphon.providers.wire_json import encode as to_bytes


@final
class AnthropicMessages:
    """The adapter. One object may serve any number of models, sessions and calls at once."""

    def __init__(self) -> None:
        self._histories = HistoryCache()
        self._sessions = Sessions()

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        return converse(request, self.prepare)

    def prepare(self, request: ModelRequest, options: CallOptions) -> Call:
        """The call for a request.

        Raises:
            RequestRefused: the request cannot be encoded.
        """
        session = self._sessions.of(options.session_id)
        dialect = anthropic_dialect(request.model)
        wish = _Wish(request, options, dialect, session, strict=not session.strict_refused, thread="continue")
        return self._call(wish, ())

    def _call(self, wish: _Wish, notes: tuple[JsonObject, ...]) -> Call:
        history = self._history(wish)
        content = _content(wish, history)
        used = content.thread_use(wish, history)
        request = _http_request(wish, content, history, used)
        draft = AnswerDraft(wish.request.model, int(time.time() * 1000))
        draft.diagnostics.extend(notes)
        if content.thinking.marks and content.thinking.effort is not None:
            draft.provider_thinking_level = content.thinking.effort
        decoder = MessagesDecoder(wish.request.model, draft)
        return _MessagesCall(self, wish, content, used, request, decoder)

    def _history(self, wish: _Wish) -> History:
        model, dialect = wish.request.model, wish.dialect
        effort = encode.effort_of(model, wish.options, dialect)
        rules = items.ItemRules(
            api=model.api,
            provider=model.provider,
            model=model.id,
            dialect=dialect,
            strict=wish.strict,
            tools_in_place=_system(wish)[2],
            efforts=effort is not None and dialect.supports_mid_convo_effort,
        )
        key = (rules, "image" in model.input)

        def make() -> History:
            hand_off = HandOff(model, encode.rewriter(model))
            return History(items.MessageItems(rules), hand_off, in_place=dialect.supports_mid_convo_system_messages)

        return self._histories.history(wish.request.messages, key, make)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one request to the server should be. `thread`: how far threads may be used."""

    request: ModelRequest
    options: CallOptions
    dialect: AnthropicDialect
    session: Session
    strict: bool
    thread: ThreadUse


@dataclass(frozen=True, slots=True)
class _Content:
    """The parts of a body. `settings` and `sent` are what a thread is recognised by; empty without threads."""

    fields: JsonObject
    system: list[JsonObject]
    tools: list[JsonObject]
    declared: tuple[ToolDeclaration, ...]
    thinking: encode.Thinking
    mark: JsonObject | None
    inline_tools: bool
    settings: bytes
    sent: bytes

    @property
    def last(self) -> list[JsonObject]:
        effort = self.thinking.effort
        return [items.effort_item(effort)] if self.thinking.marks and effort is not None else []

    def thread_use(self, wish: _Wish, history: History) -> ThreadUse:
        """How this request uses the session's thread."""
        if not self.settings or wish.options.disable_continuation or wish.session.threads_refused:
            return "none"
        known = wish.session.thread
        if wish.thread != "continue" or known is None or not known.is_continued_by(self.settings, self.sent):
            return "none" if wish.thread == "none" else "create"
        return "continue"


def _content(wish: _Wish, history: History) -> _Content:
    model, options, dialect = wish.request.model, wish.options, wish.dialect
    prompt, declared, inline = _system(wish)
    thinking = encode.thinking_of(model, options, dialect, history.tokens.tokens)
    mark = encode.cache_mark(options, dialect)
    fields = encode.settings(model, options, dialect, thinking)
    tools = tool_list(declared, dialect, strict=wish.strict)
    content = _Content(
        fields=fields,
        system=encode.system_blocks(prompt, mark),
        tools=marked_tools(tools, mark, dialect, keep_place=inline),
        declared=declared,
        thinking=thinking,
        mark=mark,
        inline_tools=inline,
        settings=b"",
        sent=b"",
    )
    if not _has_threads(wish):
        return content
    settings = to_bytes([fields, prompt, tools])
    last = b"".join(to_bytes(item) + b"," for item in content.last)
    return replace(content, settings=settings, sent=history.unmarked() + last)


def _has_threads(wish: _Wish) -> bool:
    return wish.dialect.supports_message_threads and bool(wish.options.session_id) and wish.options.caching


def _system(wish: _Wish) -> tuple[str, tuple[ToolDeclaration, ...], bool]:
    """Prompt and tools at the top, and whether tools change inside the conversation."""
    messages = wish.request.messages
    state = folded_state(messages)
    if not wish.dialect.supports_mid_convo_system_messages:
        return state.prompt, state.tools, False
    first = messages[0] if len(messages) else None
    if type(first) is not SystemMessage:
        return "", state.tools, False
    initial = first.tools_added or ()
    if wish.dialect.supports_mid_convo_tool_changes and initial:
        return leading_text(first), initial, True
    return leading_text(first), state.tools, False


def _http_request(wish: _Wish, content: _Content, history: History, used: ThreadUse) -> HttpRequest:
    model, options, dialect = wish.request.model, wish.options, wish.dialect
    fields, start = dict(content.fields), 0
    known = wish.session.thread
    if used == "continue" and known is not None:
        start = len(known.items)
        fields["thread"] = {"type": "continue", "previous_message_id": known.message_id}
    else:
        if content.system:
            fields["system"] = content.system
        if content.tools:
            fields["tools"] = content.tools
        if used == "create":
            fields["thread"] = {"type": "create"}
    body = history.body(fields, "messages", mark=_marker(content.mark), last=content.last, start=start)
    beta = encode.betas(
        dialect,
        content.thinking,
        tools=bool(content.tools),
        inline_tools=content.inline_tools,
        threads=_has_threads(wish),
    )
    defaults = encode.default_headers(model, options, dialect, beta)
    defaults.update(copilot_headers(model, wish.request.messages))
    headers = encode.tidy_betas(merged_headers(defaults, model, options))
    return HttpRequest(encode.endpoint(model), headers, body)


def _marker(mark: JsonObject | None) -> Mark | None:
    if mark is None:
        return None

    def mark_last(item: JsonValue) -> JsonValue | None:
        return items.marked(item, mark)

    return mark_last


@final
@dataclass(frozen=True, slots=True)
class _MessagesCall:
    """A request, and what to do if the server refuses a feature of it."""

    client: AnthropicMessages
    wish: _Wish
    content: _Content
    used: ThreadUse
    request: HttpRequest
    decoder: MessagesDecoder

    def refused(self, reply: ErrorReply) -> Call | None:
        session, draft = self.wish.session, self.decoder.draft
        instead = sessions.after_thread_refusal(reply, self.used)
        if instead is not None:
            session.thread = None
            session.threads_refused = session.threads_refused or instead == "none"
            note = diagnostic("anthropic_thread_fallback", draft, {"status": reply.status, "instead": instead})
            return self._again(replace(self.wish, thread=instead), note)
        if self.wish.strict and sessions.is_strict_limit(reply) and self._prefers_strict():
            session.strict_refused = True
            note = diagnostic("anthropic_strict_tools_fallback", draft, {"status": reply.status})
            return self._again(replace(self.wish, strict=False), note)
        return None

    def _prefers_strict(self) -> bool:
        return prefers_strict(self.content.tools, self.content.declared)

    def _again(self, wish: _Wish, note: JsonObject) -> Call:
        return self.client._call(wish, (*self.decoder.draft.diagnostics, note))

    def answered(self, message: AssistantMessage) -> None:
        if self.used != "none":
            wish, content = self.wish, self.content
            keep_unsigned = wish.dialect.allow_empty_signature
            wish.session.thread = sessions.thread_after(
                message, wish.request.model, content.settings, content.sent, keep_unsigned=keep_unsigned
            )
