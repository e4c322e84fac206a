"""What is remembered from call to call of one session: the thread on the server, and which features it refused.

A server with message threads keeps what it was sent. If a call repeats everything that the server holds, its answer
included, and goes on from there, only what is new is sent. Whether that is so is decided on bytes: the settings, and
the items without their cache marks. Source: provider specification, 4.6 (threads, strict limits).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, Literal, TypeAlias, cast, final

from msgspec import UNSET, Struct

from antiphon.core.messages import AssistantMessage, calls_of
from antiphon.core.model import Model
from antiphon.core.wire import JsonObject
from antiphon.providers.anthropic_messages.items import answer_content
from antiphon.providers.failures import ErrorReply
from antiphon.providers.handoff import HandOff
from antiphon.providers.wire_json import encode

MAX_SESSIONS: Final = 64

ThreadUse: TypeAlias = Literal["continue", "create", "none"]

_LOST = ("thread_not_found", "thread_already_continued", "thread_continue_in_flight", "thread_fingerprint_mismatch")
_UNSUPPORTED = "thread_unsupported_request"
_STRICT_LIMITS = (
    "The compiled grammar is too large",
    "Too many strict tools (",
    "Schemas contains too many parameters with union types (",
)


class Thread(Struct, frozen=True):
    """What the server holds: the settings it was asked with, and all items up to its answer `message_id`."""

    settings: bytes
    items: bytes
    message_id: str

    def is_continued_by(self, settings: bytes, items: bytes) -> bool:
        """Does a request repeat all of it and add something?"""
        return settings == self.settings and len(items) > len(self.items) and items.startswith(self.items)


@final
class Session:
    """One session's memory. Calls change it; it is never stored."""

    __slots__ = ("strict_refused", "thread", "threads_refused")

    def __init__(self) -> None:
        self.thread: Thread | None = None
        self.threads_refused = False
        self.strict_refused = False


@final
class Sessions:
    """Memories by session id, the least recently used one first. A call without an id has one of its own."""

    def __init__(self, limit: int = MAX_SESSIONS) -> None:
        self._limit = limit
        self._known: OrderedDict[str, Session] = OrderedDict()

    def of(self, session_id: str | None) -> Session:
        if not session_id:
            return Session()
        session = self._known.pop(session_id, None) or Session()
        self._known[session_id] = session
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return session


def thread_after(
    answer: AssistantMessage, model: Model, settings: bytes, sent: bytes, *, keep_unsigned: bool
) -> Thread | None:
    """The thread that an answer leaves on the server; None if it cannot be continued.

    It must be the asked model's own answer, whole, and come back in the next request as exactly one item.
    """
    if answer.stop_reason not in ("stop", "toolUse") or answer.response_model is not UNSET:
        return None
    if answer.response_id is UNSET or any(call.arguments_error is not UNSET for call in calls_of(answer)):
        return None
    kept = [message for message in HandOff(model).feed(answer) if type(message) is AssistantMessage]
    content = answer_content(kept[0].content, keep_unsigned=keep_unsigned) if kept else []
    if not content:
        return None
    item = encode({"role": "assistant", "content": content})
    return Thread(settings, sent + item + b",", answer.response_id)


def after_thread_refusal(reply: ErrorReply, used: ThreadUse) -> ThreadUse | None:
    """How to send the request instead; None if the refusal is not about threads."""
    if used == "none":
        return None
    error = _error(reply)
    code = _object(error.get("details")).get("error_code", error.get("error_code"))
    if code in _LOST:
        return "create" if used == "continue" else None
    if code == _UNSUPPORTED:
        return "none"
    message = error.get("message")
    speaks_of_threads = isinstance(message, str) and "thread" in message.lower()
    return "none" if code is None and reply.status == 400 and speaks_of_threads else None


def is_strict_limit(reply: ErrorReply) -> bool:
    """Was the request refused because its strict tools are too many or too large?"""
    error = _error(reply)
    message = error.get("message")
    if reply.status != 400 or error.get("type") != "invalid_request_error" or not isinstance(message, str):
        return False
    return any(words in message for words in _STRICT_LIMITS)


def _error(reply: ErrorReply) -> JsonObject:
    return _object(_object(reply.json).get("error"))


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
