"""Is a failure worth another try, and when?"""

from __future__ import annotations

import pytest

from antiphon.core.messages import AssistantMessage
from antiphon.session.retry import NEVER, Retry, RetrySettings, next_retry

SETTINGS = RetrySettings(max_retries=3, base_delay_ms=2_000, max_delay_ms=60_000)


def failed(text: str) -> AssistantMessage:
    return AssistantMessage(content=(), stop_reason="error", error_message=text)


def plan(text: str, made: int = 0, settings: RetrySettings = SETTINGS) -> Retry | None:
    return next_retry(failed(text), made, settings, context_window=100_000)


def test_waits_double_up_to_the_longest() -> None:
    settings = RetrySettings(max_retries=9)
    delays = [found.delay_ms for n in range(6) if (found := plan("overloaded", n, settings)) is not None]
    assert delays == [2_000, 4_000, 8_000, 16_000, 32_000, 60_000]


def test_there_are_only_so_many() -> None:
    assert plan("overloaded", 3) is None
    assert plan("overloaded", 0, NEVER) is None


@pytest.mark.parametrize(
    "text",
    [
        "401 Unauthorized",
        "429 insufficient_quota",
        "prompt is too long",
        "openai answered 402: overloaded, pay first",
        "openai answered 400: bad request",
        "",
    ],
)
def test_what_does_not_pass_is_not_repeated(text: str) -> None:
    assert plan(text) is None


@pytest.mark.parametrize(
    "text",
    ["overloaded", "503", "ECONNRESET", "openai answered 503: busy", "openai answered 429: slow down", "terminated"],
)
def test_what_passes_is_repeated(text: str) -> None:
    assert plan(text) == Retry(1, 3, 2_000, text)


def test_a_longer_wait_that_the_server_asks_for_wins_within_reason() -> None:
    longer = plan("openai answered 429: slow down [asks to wait 9000 ms]")
    assert longer is not None
    assert longer.delay_ms == 9_000
    assert plan("openai answered 429: slow down [asks to wait 61000 ms]") is None


def test_answers_that_ended_well_are_left_alone() -> None:
    good = AssistantMessage(content=(), stop_reason="stop")
    assert next_retry(good, 0, SETTINGS, context_window=100) is None


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="max_retries"):
        RetrySettings(max_retries=-1)
