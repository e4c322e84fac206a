"""What goes wrong in a call to a model, put into words that `core/failure.py` can read back."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from antiphon.core.failure import (
    INTERRUPTED,
    LEADS,
    Failure,
    Kind,
    classify,
    is_overflow,
    is_recoverable_length,
    is_retryable,
    read_failure,
)
from antiphon.core.wire import JsonValue
from antiphon.providers.error_words import cut, error_words, explain, with_details, words_of
from antiphon.providers.retry_after import AskedWait


class RequestRefused(Exception):
    """The request cannot be encoded, or must not be sent; nothing left the machine."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Malformed(ValueError):
    """Bytes of a stream that do not make sense. `retryable`: another try may bring sense."""

    def __init__(self, text: str, *, retryable: bool = False) -> None:
        super().__init__(text)
        self.retryable = retryable


class ErrorReply(Struct, frozen=True):
    """A refusal: status other than 2xx. `json` is the decoded body, None if it is none."""

    status: int
    headers: Mapping[str, str]
    text: str
    json: JsonValue = None


# -- making ------------------------------------------------------------------------------------------------------------


def _make(kind: Kind, rest: str = "", provider: str = "") -> Failure:
    return read_failure(f"{LEADS[kind]}{rest}", provider)


def truncated(what: str = "its end") -> Failure:
    """The stream ended without `what`, which every complete answer has."""
    return _make("truncated", f" {what}.")


def connection_lost(cause: BaseException | str) -> Failure:
    return _make("connection_lost", f": {cause if isinstance(cause, str) else explain(cause)}")


def timed_out(what: str, ms: float) -> Failure:
    """`what` did not come within `ms`."""
    return _make("timeout", f": no {what} within {ms / 1000:g} s.")


def malformed(text: str, *, retryable: bool = False) -> Failure:
    return _make("malformed", f": {INTERRUPTED}: {text}" if retryable else f": {text}")


def provider_error(words: str, *details: object) -> Failure:
    """An error inside a stream: the provider's words, and its code or type where they say more."""
    return _make("provider_error", ": " + with_details(cut(words), details))


def finish_error(reason: str) -> Failure:
    return _make("finish_error", f" {reason}.")


def unknown_finish(reason: str) -> Failure:
    return _make("unknown_finish", f": {reason}.")


def incomplete(reason: str) -> Failure:
    return _make("incomplete", f": {reason}.")


def refusal(words: str = "") -> Failure:
    return _make("refusal", f": {cut(words)}" if words else ".")


def blocked(reason: str) -> Failure:
    return _make("blocked", f": {reason}.")


def unfinished_call(name: str) -> Failure:
    return _make("unfinished_tool_call", f" {name}, which was never completed.")


def inconsistent_input(name: str) -> Failure:
    return _make("inconsistent_input", f": tool {name}.")


def unsupported_fallback(words: str) -> Failure:
    return _make("unsupported_fallback", f": {words}")


def aborted(reason: str | None = None) -> Failure:
    return Failure("aborted", f"{LEADS['aborted']}: {reason}" if reason else f"{LEADS['aborted']}.")


def no_key(provider: str, advice: str = "") -> Failure:
    return _make("no_key", f" for provider {provider}. {advice}".rstrip())


def cannot_send(text: str) -> Failure:
    return _make("bad_request", f": {text}")


def callback_failed(name: str, error: BaseException) -> Failure:
    return _make("callback", f": {name} raised {type(error).__name__}: {explain(error)}")


def http_error(provider: str, reply: ErrorReply, asked: AskedWait | None = None) -> Failure:
    """A refusal: the status, and the provider's own words."""
    wait = ""
    if asked is not None:
        wait = f" [invites a retry in {asked.ms} ms]" if asked.in_body else f" [asks to wait {asked.ms} ms]"
    words = words_of(reply.json, reply.text)
    return read_failure(f"{provider or 'The provider'} answered {reply.status}: {words}{wait}", provider)


def with_note(failure: Failure, note: str) -> Failure:
    """The same failure with a sentence behind its text."""
    return read_failure(f"{failure.text} {note}")


__all__ = [
    "LEADS",
    "ErrorReply",
    "Failure",
    "Kind",
    "Malformed",
    "RequestRefused",
    "aborted",
    "blocked",
    "callback_failed",
    "cannot_send",
    "classify",
    "connection_lost",
    "cut",
    "error_words",
    "explain",
    "finish_error",
    "http_error",
    "incomplete",
    "inconsistent_input",
    "is_overflow",
    "is_recoverable_length",
    "is_retryable",
    "malformed",
    "no_key",
    "provider_error",
    "read_failure",
    "refusal",
    "timed_out",
    "truncated",
    "unfinished_call",
    "unknown_finish",
    "unsupported_fallback",
    "with_note",
    "words_of",
]
