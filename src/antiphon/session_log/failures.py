"""What a failed answer means to a session: worth another try, or a context that is too long. Pure.

The judgement is that of `core/failure.py`; here it is put as a session asks. Source: sessions specification, section 8.
"""

from __future__ import annotations

import re

from antiphon.core import failure
from antiphon.core.failure import is_overflow, is_recoverable_length
from antiphon.core.messages import AssistantMessage

_THROTTLED_TOKENS = re.compile(r"\s*throttling error\b", re.IGNORECASE)
"""Texts without a status that begin so: the data of the sessions specification says no, that of the providers yes."""


def is_retryable(message: AssistantMessage, context_window: int) -> bool:
    """Is the same request worth another try? Never for a context that is too long or a limit of the account."""
    text = message.error_message
    if isinstance(text, str) and _THROTTLED_TOKENS.match(text):
        return False
    return failure.is_retryable(message) and not is_overflow(message, context_window)


def retry_delay_ms(attempt: int, *, base_ms: int = 2_000, cap_ms: int = 60_000) -> int:
    """Milliseconds to wait before retry number `attempt` (the first is 1): doubling from `base_ms`, up to `cap_ms`."""
    doublings = min(max(attempt - 1, 0), 62)
    return min(cap_ms, base_ms << doublings)


__all__ = ["is_overflow", "is_recoverable_length", "is_retryable", "retry_delay_ms"]
