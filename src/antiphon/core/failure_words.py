"""Word lists: what the texts of failures tell about them. For texts without a status or kind of their own.

Separators between words may vary (`rate limit`, `rate-limit`, `RateLimit`), case does not count.
They are compiled when a first failure is judged, for most processes end without one.
Source: providers specification 8.2 and 8.3, sessions specification 8.
"""

from __future__ import annotations

import re
from functools import cache

_GAP = r"[\s._-]*"
_N = r"[0-9][0-9,._]*"


def _any_of(*phrases: str) -> str:
    """A pattern for any of the phrases; a blank stands for any separator, also for none."""
    return "|".join(phrase.replace(" ", _GAP) for phrase in phrases)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


THROTTLE = _any_of("rate limit", "too many requests", "throttl", r"service unavailable\s*:")

OVERFLOW = _any_of(
    "prompt (?:is )?too long",
    "prompt exceeds max length",
    "request_too_large",
    "input is too long for (?:the )?requested model",
    "exceeds the context window",
    rf"exceeds? (?:the )?(?:model'?s )?maximum context length (?:of {_N} tokens?|\({_N}\))",
    "context window exceeded",
    r"input token count.{0,60}?exceeds the maximum",
    rf"maximum prompt length is {_N}",
    "reduce the length of the (?:messages|prompt|input)",
    rf"maximum context length is {_N}",
    rf"exceeds (?:the )?maximum allowed input length of {_N} tokens?",
    rf"input \({_N} tokens?\) is longer than the model'?s context length \({_N} tokens?\)",
    rf"exceeds the limit of {_N}",
    "exceeds the available context size",
    "exceed context size",
    "greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit",
    rf"too large for model with {_N} maximum context length",
    rf"prompt has {_N} tokens?, but the configured context size is {_N} tokens?",
    "model_context_window_exceeded",
    "prompt too long; exceeded (?:max )?context length",
    "range of input length should be",
    "context (?:length|window) exceeded",
    rf"prompt token count of {_N} exceeds the limit",
    "input length and `?max_tokens`? exceed context limit",
    rf"configured context size is {_N}",
    "too many (?:prompt )?tokens",
    "token limit exceeded",
)
TOO_LARGE_STATUS = r"\s*(?:[\w .-]{0,60}\berror\W{0,3})?(?:http\W{0,2})?413\b"
EMPTY_REFUSAL = r"\W*(?:400|413)\b.{0,40}\bno body\b"

ACCOUNT_LIMIT = _any_of(
    "GoUsageLimitError",
    "FreeUsageLimitError",
    "usage limit error",
    "monthly (?:usage )?limit",
    r"exceeded your (?:current )?quota",
    "available balance",
    "insufficient_quota",
    "out of budget",
    "quota exceeded",
    "billing",
    "subscription_sharing_usage_limit_exceeded",
    "subscription_sharing_workplace_individual_usage_limit_exceeded",
)
PLAN_CODE = r"\bcode\W{0,4}1308\b"
WEB_ADDRESS = r"https?://\S+"

TRANSIENT = _any_of(
    "overloaded",
    "server busy",
    r"\bbusy\b",
    "high demand",
    "at capacity",
    "rate limit",
    "too many requests",
    "throttl",
    r"(?<![\w.])(?:429|500|502|503|504|520|524)(?!\w|\.[0-9])",
    "unavailable",
    "bad gateway",
    "gateway (?:timeout|error)",
    "server error",
    "internal error",
    "provider returned (?:an )?error",
    "exceeded request buffer limit while retrying upstream",
    "unable to forward upstream",
    "upstream (?:request failed|stream read error|error|connect)",
    "stream was interrupted",
    "http2 stream failed",
    "network error",
    "connection (?:error|refused|lost|closed|reset|aborted|terminated)",
    r"\bdns\b",
    "other side closed",
    "fetch failed",
    r"request to \S.{0,400}? failed, reason:",
    "getaddrinfo",
    r"\b(?:ECONNRESET|ECONNABORTED|ECONNREFUSED|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN)\b",
    r"\b(?:EHOSTUNREACH|ENETUNREACH|ENETDOWN)\b",
    "reset before headers",
    "socket hang up",
    "socket connection was closed",
    "timed out",
    "time ?out",
    "terminated",
    r"websocket.{0,40}?(?:clos|error|disconnect|connection limit reached)",
    r"stream (?:was )?truncated",
    r"truncated stream",
    r"(?:stream|response|body|connection) (?:has )?ended (?:without|before|(?:too )?early|unexpectedly|prematurely)",
    "premature(?:ly)? (?:close|end|clos)",
    "ended prematurely",
    "did not get a response",
    "stream disconnected before completion",
    "cut short after the reply had begun",
    "pending stream has been cancell?ed",
    "retry (?:delay|after|later|again)",
    "(?:please|you can|should) retry",
    "(?:you can|please) (?:re)?try your request",
    "retry your request",
    "resource exhausted",
)


def names_overflow(text: str, provider: str = "") -> bool:
    """Does the text say that the conversation no longer fits the model?"""
    if _compiled(THROTTLE).search(text):
        return False
    if _compiled(OVERFLOW).search(text) or _compiled(TOO_LARGE_STATUS).match(text):
        return True
    return provider == "cerebras" and _compiled(EMPTY_REFUSAL).match(text) is not None


def names_account_limit(text: str) -> bool:
    """Does the text name a limit that waiting a minute will not lift? Web addresses in it do not count."""
    words = re.sub(WEB_ADDRESS, " ", text)
    return _compiled(ACCOUNT_LIMIT).search(words) is not None or _compiled(PLAN_CODE).search(words) is not None


def names_transient(text: str) -> bool:
    """Does the text name a trouble that passes by itself?"""
    return _compiled(TRANSIENT).search(text) is not None
