"""Is a failed answer worth another try, and when? Pure.

What an error means is known below: our adapters' own texts by `providers/failures.py`, everybody else's by
`session_log/failures.py`.
"""

from __future__ import annotations

from typing import final

from msgspec import Struct

from antiphon.core.messages import AssistantMessage
from antiphon.providers.failures import classify
from antiphon.session_log.failures import is_retryable, retry_delay_ms


@final
class RetrySettings(Struct, frozen=True, kw_only=True):
    """How often a failed request is repeated, and how long is waited before: doubling from `base_delay_ms`."""

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2_000
    max_delay_ms: int = 60_000

    def __post_init__(self) -> None:
        for name in ("max_retries", "base_delay_ms", "max_delay_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be below 0, not {getattr(self, name)}")


NEVER = RetrySettings(enabled=False)


@final
class Retry(Struct, frozen=True, gc=False):
    """The plan for another try: its number (the first is 1), how many there may be, the wait, and what failed."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


def next_retry(answer: AssistantMessage, made: int, settings: RetrySettings, *, context_window: int) -> Retry | None:
    """The plan for another try after `made` ones, or nothing.

    A longer wait that the server asked for wins. If it asks for more than the longest wait that is allowed, there is
    no plan: it is shown instead of waited for in silence.
    """
    if not settings.enabled or made >= settings.max_retries:
        return None
    failure = classify(answer, context_window)
    if failure is None or failure.account_limit or failure.overflow:
        return None
    known = failure.kind != "foreign" and failure.retryable
    if not known and not is_retryable(answer, context_window):
        return None
    asked = failure.retry_after_ms or 0
    if asked > settings.max_delay_ms:
        return None
    delay = retry_delay_ms(made + 1, base_ms=settings.base_delay_ms, cap_ms=settings.max_delay_ms)
    text = answer.error_message if isinstance(answer.error_message, str) else ""
    return Retry(made + 1, settings.max_retries, max(delay, asked), text)
