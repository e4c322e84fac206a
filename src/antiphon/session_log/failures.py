"""What a failed answer means: worth another try, or a context that is too long. Pure; errors are known by their texts.

Providers say the same thing in many ways. The families below are those of the sessions specification, section 8; a text
that fits none is neither.
"""

from __future__ import annotations

import re

from antiphon.core.messages import AssistantMessage

_TRANSIENT = re.compile(
    r"""
      overload | \bbusy\b | _busy\b | high\ demand | at\ capacity | rate.?limit | too\ many\ requests
    | (?<![A-Za-z0-9_]) (?:429|500|502|503|504|520|524) (?![A-Za-z0-9_])
    | unavailable | server.?error | internal.?error
    | upstream | bad\ gateway | gateway.?(?:timeout|error) | provider.?returned.?(?:an.?)?error
    | network.?error | connection.?(?:error|refused|lost|closed|reset|aborted|terminated)
    | hang\ up | fetch\ failed | other\ side\ closed | \bdns\b | did\ not\ get\ a\ response
    | (?<![A-Za-z0-9_])
      (?:ECONNRESET|ECONNREFUSED|ECONNABORTED|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|ENETDOWN)
      (?![A-Za-z0-9_])
    | time.?out | timed\ out | \bterminated\b
    | websocket.{0,40}(?:clos|error|disconnect)
    | (?:stream|response|body|connection)\ (?:has\ )?ended\ (?:without|before|early|too\ early|unexpectedly|prematurely)
    | premature(?:ly)?\ (?:close|end|clos) | ended\ prematurely
    | (?:please|you\ can|should)\ retry | retry\ your\ request | retry\ (?:delay|after|later|again)
    | resource.?exhausted
    """,
    re.IGNORECASE | re.VERBOSE,
)

_ACCOUNT_LIMIT = re.compile(
    r"""
      (?:go|free|shared)usagelimit | usage.?limit.?error | monthly\ (?:usage\ )?limit | available\ balance
    | insufficient.?quota | out\ of\ budget | quota\ exceeded | exceeded\ your\ (?:current\ )?quota | billing
    | (?<![A-Za-z0-9_]) 1308 (?![A-Za-z0-9_])
    """,
    re.IGNORECASE | re.VERBOSE,
)

_OVERFLOW = re.compile(
    r"""
      prompt\ (?:is\ )?too\ long | prompt\ exceeds\ max(?:imum)?\ length | request_too_large
    | input\ is\ too\ long\ for\ requested\ model
    | exceeds?\ the\ context\ window | context\ window\ exceed | contextwindowexceeded | context\ window\ exceeds\ limit
    | exceeds?\ (?:the\ )?model'?s?\ maximum\ context\ length\ of\ [\d,]+
    | maximum\ context\ length\ is\ [\d,]+
    | input\ token\ count.{0,60}exceeds\ the\ maximum
    | maximum\ prompt\ length\ is\ [\d,]+
    | reduce\ the\ length\ of\ the\ (?:messages|prompt|input)
    | exceeds?\ the\ maximum\ allowed\ input\ length
    | prompt\ token\ count\ of\ [\d,]+\ exceeds\ the\ limit
    | exceeds?\ the\ available\ context\ size
    | greater\ than\ the\ context\ length
    | exceeded\ model\ token\ limit
    | too\ large\ for\ model\ with\ [\d,]+\ maximum\ context\ length
    | configured\ context\ size\ is\ [\d,]+
    | range\ of\ input\ length\ should\ be
    | (?:model_)?context_(?:length|window)_exceeded | context\ length\ exceeded
    | input\ length\ and\ `?max_tokens`?\ exceed\ context\ limit
    | too\ many\ tokens | token\ limit\ exceeded
    | ^\s*(?:http\s+)?413(?![A-Za-z0-9_]) | ^[^:]*\berror\ \(413\)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NOT_OVERFLOW = re.compile(
    r"rate.?limit|too many requests|^\s*(?:throttling(?: error)?|service unavailable|unavailable)\b", re.IGNORECASE
)
_BODYLESS_REFUSAL = re.compile(r"^\s*400 status code \(no body\)", re.IGNORECASE)
_BODYLESS_PROVIDERS = frozenset({"cerebras"})
"""They refuse a request that is too long with an empty answer."""

FULL_WINDOW = 0.99
"""Part of the window that, filled by an answer without output, means that nothing more fitted in."""


def is_overflow(message: AssistantMessage, context_window: int) -> bool:
    """Did the request not fit the model? Said by an error, or shown by the usage of an answer that ended otherwise."""
    text = _text(message)
    if message.stop_reason == "error":
        return is_overflow_text(text, message.provider)
    filled = message.usage.input + message.usage.cache_read
    if context_window <= 0:
        return False
    if message.stop_reason == "stop":
        return filled > context_window
    return message.stop_reason == "length" and message.usage.output == 0 and filled >= FULL_WINDOW * context_window


def is_overflow_text(text: str, provider: str = "") -> bool:
    """Does an error say that the request was too long?"""
    if provider in _BODYLESS_PROVIDERS and _BODYLESS_REFUSAL.search(text):
        return True
    return bool(_OVERFLOW.search(text)) and not _NOT_OVERFLOW.search(text)


def is_retryable(message: AssistantMessage, context_window: int) -> bool:
    """Is the same request worth another try? Never for a context that is too long or a limit of the account."""
    text = _text(message)
    if message.stop_reason != "error" or not text or is_overflow(message, context_window):
        return False
    return not _ACCOUNT_LIMIT.search(text) and bool(_TRANSIENT.search(text))


def is_recoverable_length(message: AssistantMessage, max_tokens: int) -> bool:
    """Was the answer cut below what the model may write? Then it was the window that was full."""
    return message.stop_reason == "length" and 0 <= message.usage.output < max_tokens


def retry_delay_ms(attempt: int, *, base_ms: int = 2_000, cap_ms: int = 60_000) -> int:
    """Milliseconds to wait before retry number `attempt` (the first is 1): doubling from `base_ms`, up to `cap_ms`."""
    doublings = min(max(attempt - 1, 0), 62)
    return min(cap_ms, base_ms << doublings)


def _text(message: AssistantMessage) -> str:
    return message.error_message if isinstance(message.error_message, str) else ""
