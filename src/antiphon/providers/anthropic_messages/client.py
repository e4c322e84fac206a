"""Anthropic Messages as a model stream: encode, send, decode, and remember what a session's server holds."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import cast, final

from msgspec import Struct, structs

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, SystemMessage
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers.anthropic_messages import encode, items, sessions
from antiphon.providers.anthropic_messages.decode import MessagesDecoder, diagnostic
from antiphon.providers.anthropic_messages.sessions import Session, Sessions, ThreadUse
from antiphon.providers.anthropic_messages.tools import marked_tools, prefers_strict, tool_list
from antiphon.providers.copilot import copilot_headers, is_copilot
from antiphon.providers.dialects import AnthropicDialect, anthropic_dialect
from antiphon.providers.draft import AnswerDraft
from antiphon.providers.exchange import Call, converse
from antiphon.providers.failures import ErrorReply
from antiphon.providers.frames import Frame, HistoryCache
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, opening_of
from antiphon.providers.http import HttpRequest
from antiphon.providers.options import CallOptions, merged_headers
from antiphon.providers.system_text import leading_text
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
        history, frame = self._histories.framed(wish.request, wish.options, wish.plan, wish.strict)
        content = cast("_Content", frame.more)
        sent = _sent(wish, content, history)
        used = _thread_use(wish, content, sent)
        request = HttpRequest(frame.url, frame.headers, _body(wish, frame, history, used))
        draft = AnswerDraft(wish.request.model, int(time.time() * 1000))
        draft.diagnostics.extend(notes)
        if content.thinking.marks and content.thinking.effort is not None:
            draft.provider_thinking_level = content.thinking.effort
        decoder = MessagesDecoder(wish.request.model, draft)
        return _MessagesCall(self, wish, content, sent, used, request, decoder)


@final
class _Wish(Struct, frozen=True):
    """What one request to the server should be. `thread`: how far threads may be used."""

    request: ModelRequest
    options: CallOptions
    dialect: AnthropicDialect
    session: Session
    strict: bool
    thread: ThreadUse

    def plan(self, request: ModelRequest, options: CallOptions, state: SystemState) -> _Plan:
        return _Plan(self, state)


class _Content(Struct, frozen=True):
    """The parts of a frame. With threads `settings` is what they are recognised by, and `creating` opens a new one."""

    fields: JsonObject
    tools: list[JsonObject]
    declared: tuple[ToolDeclaration, ...]
    thinking: encode.Thinking
    settings: bytes
    creating: bytes


@final
class _Plan:
    """How a conversation is put into requests."""

    def __init__(self, wish: _Wish, state: SystemState) -> None:
        self._wish = wish
        self._prompt, self._declared, self._inline = _system(wish, state)
        model, dialect = wish.request.model, wish.dialect
        effort = encode.effort_of(model, wish.options, dialect)
        self._rules = items.ItemRules(
            api=model.api,
            provider=model.provider,
            model=model.id,
            dialect=dialect,
            strict=wish.strict,
            tools_in_place=self._inline,
            efforts=effort is not None and dialect.supports_mid_convo_effort,
        )

    @property
    def key(self) -> object:
        return (self._rules, "image" in self._wish.request.model.input)

    def history(self) -> History:
        model, dialect = self._wish.request.model, self._wish.dialect
        hand_off = HandOff(model, encode.rewriter(model))
        return History(items.MessageItems(self._rules), hand_off, in_place=dialect.supports_mid_convo_system_messages)

    def frame(self, history: History) -> Frame:
        wish = self._wish
        model, options, dialect = wish.request.model, wish.options, wish.dialect
        thinking = encode.thinking_of(model, options, dialect, history.tokens)
        mark = encode.cache_mark(options, dialect)
        fields = encode.settings(model, options, dialect, thinking)
        tools = tool_list(self._declared, dialect, strict=wish.strict)
        whole = dict(fields)
        if system := encode.system_blocks(self._prompt, mark):
            whole["system"] = system
        if marked := marked_tools(tools, mark, dialect, keep_place=self._inline):
            whole["tools"] = marked
        settings = creating = b""
        if _has_threads(wish):
            settings = to_bytes([fields, self._prompt, tools])
            creating = opening_of({**whole, "thread": {"type": "create"}}, "messages")
        told = thinking.effort if thinking.marks else None
        return Frame(
            url=encode.endpoint(model),
            headers=self._headers(thinking, bool(marked)),
            opening=opening_of(whole, "messages"),
            mark=None if mark is None else partial(items.marked, mark=mark),
            last=[] if told is None else [items.effort_item(told)],
            more=_Content(fields, marked, self._declared, thinking, settings, creating),
            steady=not is_copilot(model),
        )

    def _headers(self, thinking: encode.Thinking, tools: bool) -> dict[str, str]:
        wish = self._wish
        model, options, dialect = wish.request.model, wish.options, wish.dialect
        threads = _has_threads(wish)
        beta = encode.betas(dialect, thinking, tools=tools, inline_tools=self._inline, threads=threads)
        defaults = encode.default_headers(model, options, dialect, beta)
        defaults.update(copilot_headers(model, wish.request.messages))
        return encode.tidy_betas(merged_headers(defaults, model, options))


def _sent(wish: _Wish, content: _Content, history: History) -> bytes | None:
    """What the server would hold after this request; None where threads are of no use."""
    if not content.settings or wish.options.disable_continuation or wish.session.threads_refused:
        return None
    if wish.thread == "none":
        return None
    effort = content.thinking.effort
    told = to_bytes(items.effort_item(effort)) + b"," if content.thinking.marks and effort is not None else b""
    return history.unmarked(told)


def _thread_use(wish: _Wish, content: _Content, sent: bytes | None) -> ThreadUse:
    """How this request uses the session's thread."""
    if sent is None:
        return "none"
    known = wish.session.thread
    if wish.thread == "continue" and known is not None and known.is_continued_by(content.settings, sent):
        return "continue"
    return "create"


def _body(wish: _Wish, frame: Frame, history: History, used: ThreadUse) -> bytes:
    content, known = cast("_Content", frame.more), wish.session.thread
    if used == "continue" and known is not None:
        fields = {**content.fields, "thread": {"type": "continue", "previous_message_id": known.message_id}}
        opening = opening_of(fields, "messages")
        return history.enclosed(opening, frame.mark, frame.last, start=len(known.items))
    return history.enclosed(content.creating if used == "create" else frame.opening, frame.mark, frame.last)


def _has_threads(wish: _Wish) -> bool:
    return wish.dialect.supports_message_threads and bool(wish.options.session_id) and wish.options.caching


def _system(wish: _Wish, state: SystemState) -> tuple[str, tuple[ToolDeclaration, ...], bool]:
    """Prompt and tools at the top, and whether tools change inside the conversation."""
    messages = wish.request.messages
    if not wish.dialect.supports_mid_convo_system_messages:
        return state.prompt, state.tools, False
    first = messages[0] if len(messages) else None
    if type(first) is not SystemMessage:
        return "", state.tools, False
    initial = first.tools_added or ()
    if wish.dialect.supports_mid_convo_tool_changes and initial:
        return leading_text(first), initial, True
    return leading_text(first), state.tools, False


@final
class _MessagesCall(Struct, frozen=True):
    """A request, and what to do if the server refuses a feature of it."""

    client: AnthropicMessages
    wish: _Wish
    content: _Content
    sent: bytes | None
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
            return self._again(structs.replace(self.wish, thread=instead), note)
        if self.wish.strict and sessions.is_strict_limit(reply) and self._prefers_strict():
            session.strict_refused = True
            note = diagnostic("anthropic_strict_tools_fallback", draft, {"status": reply.status})
            return self._again(structs.replace(self.wish, strict=False), note)
        return None

    def _prefers_strict(self) -> bool:
        return prefers_strict(self.content.tools, self.content.declared)

    def _again(self, wish: _Wish, note: JsonObject) -> Call:
        return self.client._call(wish, (*self.decoder.draft.diagnostics, note))

    def answered(self, message: AssistantMessage) -> None:
        if self.sent is not None:
            wish, content = self.wish, self.content
            keep_unsigned = wish.dialect.allow_empty_signature
            wish.session.thread = sessions.thread_after(
                message, wish.request.model, content.settings, self.sent, keep_unsigned=keep_unsigned
            )
