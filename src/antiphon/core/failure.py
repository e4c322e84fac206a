"""What a failed answer means, read from its message: its kind, its status, and what a caller can do about it.

A failure travels as the `error_message` of the final answer, so the text is the record: it begins with words that name
its kind (`LEADS`), and `classify` reads kind, status and asked wait back, also from a stored session. Texts that others
wrote are judged by word lists (`failure_words`).

A status at hand decides over words: a 4xx other than 408, 409 and 429 is final whatever its body says.
Source: providers specification 8, sessions specification 8.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct

from antiphon.core.failure_words import names_account_limit, names_overflow, names_transient
from antiphon.core.messages import AssistantMessage

Kind: TypeAlias = Literal[
    "http", "truncated", "connection_lost", "timeout", "malformed", "provider_error", "finish_error", "unknown_finish",
    "incomplete", "refusal", "blocked", "unfinished_tool_call", "inconsistent_input", "unsupported_fallback",
    "aborted", "no_key", "bad_request", "callback", "foreign",
]  # fmt: skip

LEADS: dict[Kind, str] = {
    "truncated": "The answer was cut off: the stream ended without",
    "connection_lost": "The connection was lost",
    "timeout": "The provider took too long (timed out)",
    "malformed": "The answer cannot be read",
    "provider_error": "The provider reported an error",
    "finish_error": "The answer ended for the reason",
    "unknown_finish": "The answer ended for an unknown reason",
    "incomplete": "The answer is incomplete",
    "refusal": "The model refused to answer",
    "blocked": "The provider blocked the prompt",
    "unfinished_tool_call": "The answer ended inside the call of tool",
    "inconsistent_input": "The final input of a call contradicts what was streamed",
    "unsupported_fallback": "The provider switched to another model in the middle of the answer",
    "aborted": "The request was aborted",
    "no_key": "No API key",
    "bad_request": "The request was not sent",
    "callback": "A callback of the host failed",
}
_ALWAYS: frozenset[Kind] = frozenset({"truncated", "connection_lost", "timeout"})
_BY_WORDS: frozenset[Kind] = frozenset({"provider_error", "finish_error", "unknown_finish", "incomplete", "foreign"})
INTERRUPTED = "the stream was interrupted"
_STATUS = re.compile(r".{1,100}? answered ([0-9]{3}): ")
_HEADER_WAIT = re.compile(r" \[asks to wait ([0-9]+) ms\]")
_BODY_WAIT = re.compile(r" \[invites a retry in ([0-9]+) ms\]")


class Failure(Struct, frozen=True):
    """`text` is complete and free of secrets. `retry_after_ms`: the wait that the server asked for."""

    kind: Kind
    text: str
    status: int | None = None
    retry_after_ms: int | None = None
    retryable: bool = False
    overflow: bool = False
    account_limit: bool = False

    @property
    def auth(self) -> bool:
        """Is the key missing, wrong, or not allowed to do this?"""
        return self.kind == "no_key" or self.status in (401, 403)


def read_failure(text: str, provider: str = "") -> Failure:
    """The failure that an error text records."""
    found = _STATUS.match(text)
    if found is not None:
        return _read_refusal(text, int(found[1]), text[found.end() :], provider)
    kind = _kind_of(text)
    waits = _HEADER_WAIT.search(text) or _BODY_WAIT.search(text)
    limit = kind in _BY_WORDS and names_account_limit(text)
    return Failure(
        kind=kind,
        text=text,
        retry_after_ms=int(waits[1]) if waits else None,
        retryable=not limit and _passes(kind, text),
        overflow=kind in _BY_WORDS and names_overflow(text, provider),
        account_limit=limit,
    )


def _kind_of(text: str) -> Kind:
    for kind, lead in LEADS.items():
        if text.startswith(lead):
            return kind
    return "foreign"


def _passes(kind: Kind, text: str) -> bool:
    if kind in _ALWAYS:
        return True
    if kind == "malformed":
        return INTERRUPTED in text
    return kind in _BY_WORDS and names_transient(text)


def _read_refusal(text: str, status: int, words: str, provider: str) -> Failure:
    waits, invited = _HEADER_WAIT.search(text), _BODY_WAIT.search(text)
    asked = waits or invited
    limit = status == 402 or (invited is None and names_account_limit(words))
    overflow = status != 429 and (names_overflow(words) or names_overflow(f"{status} {words}", provider))
    return Failure(
        kind="http",
        text=text,
        status=status,
        retry_after_ms=int(asked[1]) if asked else None,
        retryable=not limit and not overflow and _status_passes(status, words),
        overflow=overflow,
        account_limit=limit,
    )


def _status_passes(status: int, words: str) -> bool:
    if status in (408, 429):
        return True
    if status == 409:
        return names_transient(words)
    return status >= 500 and status not in (501, 505)


def classify(message: AssistantMessage, context_window: int | None = None) -> Failure | None:
    """What is wrong with a final answer; None if nothing is.

    An answer that ended well may still be one that no longer fitted: more input than the window holds, or a window so
    full that not one token could be written. That is kind `foreign`, overflow.
    """
    if message.stop_reason in ("error", "aborted"):
        text = "" if message.error_message is UNSET else message.error_message
        if message.stop_reason == "aborted":
            return Failure("aborted", text)
        return read_failure(text, message.provider)
    if context_window and _is_silent_overflow(message, context_window):
        return Failure("foreign", "The conversation no longer fits the context window of the model.", overflow=True)
    return None


def _is_silent_overflow(message: AssistantMessage, window: int) -> bool:
    usage = message.usage
    taken = usage.input + usage.cache_read
    if message.stop_reason == "stop":
        return taken > window
    return message.stop_reason == "length" and usage.output == 0 and taken * 100 >= window * 99


def is_retryable(message: AssistantMessage) -> bool:
    """Is asking once more worth it?"""
    failure = classify(message)
    return failure is not None and failure.retryable


def is_overflow(message: AssistantMessage, context_window: int | None = None) -> bool:
    """Was the conversation too long for the model?"""
    failure = classify(message, context_window)
    return failure is not None and failure.overflow


def is_recoverable_length(message: AssistantMessage, wanted_cap: int) -> bool:
    """Was the answer cut by a limit below the wanted one, so that a larger limit helps?"""
    return message.stop_reason == "length" and message.usage.output < wanted_cap
