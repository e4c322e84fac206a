"""How long to wait: what a server asks for, and what we do when it says nothing. Times are milliseconds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, cast

from msgspec import Struct

from antiphon.core.wire import JsonValue

_LAST_RESORT_MS = 10 * 365 * 24 * 3600 * 1000  # an absurd wish stays a finite number


class AskedWait(Struct, frozen=True):
    """`in_body`: the error itself says that a retry is welcome, which counts for more than a header."""

    ms: int
    in_body: bool = False


def asked_wait(headers: Mapping[str, str], body: JsonValue, now_ms: float) -> AskedWait | None:
    """The wait a refusal asks for: `google.rpc.RetryInfo` of its body, `retry-after-ms`, or `retry-after`.

    `headers` have lower-case names; `now_ms` is the wall clock, for dates.
    """
    delay = _retry_info_ms(body)
    if delay is not None:
        return AskedWait(delay, in_body=True)
    ms = _number(headers.get("retry-after-ms"))
    if ms is not None:
        return AskedWait(_bounded(ms))
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return AskedWait(_bounded(seconds * 1000))
    date = _date_ms(text)
    return None if date is None else AskedWait(_bounded(date - now_ms))


def _bounded(ms: float) -> int:
    return math.ceil(min(max(0.0, ms), _LAST_RESORT_MS))


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"\s*[0-9]+(?:\.[0-9]*)?\s*|\s*\.[0-9]+\s*", text):
        return None
    return float(text)


def _date_ms(text: str) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return (date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000


def _retry_info_ms(body: JsonValue) -> int | None:
    """`retryDelay` of a `google.rpc.RetryInfo` detail, such as `"48.9s"`."""
    for detail in _details(body):
        if isinstance(detail, dict):
            item = cast("dict[str, Any]", detail)
            delay = item.get("retryDelay")
            if str(item.get("@type", "")).endswith("google.rpc.RetryInfo") and isinstance(delay, str):
                seconds = _number(delay.strip().removesuffix("s"))
                if seconds is not None:
                    return _bounded(seconds * 1000)
    return None


def _details(body: JsonValue) -> list[Any]:
    if isinstance(body, list) and body:
        body = body[0]
    error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    details = cast("dict[str, Any]", error).get("details") if isinstance(error, dict) else None
    return details if isinstance(details, list) else []


def own_wait_ms(attempt: int, chance: float) -> float:
    """Our own wait before request-level retry number `attempt` (0-based): doubling from 0.5 s to 8 s, shortened.

    `chance` in [0, 1) takes away up to a quarter, so that many clients do not come back at once.
    """
    return min(500 << min(attempt, 10), 8000) * (1 - 0.25 * chance)


def agent_wait_ms(attempt: int, base_ms: int, cap_ms: int = 60_000) -> int:
    """Wait before agent-level retry number `attempt` (1-based): doubling from `base_ms` up to `cap_ms`."""
    return min(base_ms << min(attempt - 1, 62), cap_ms)


def wants_retry(status: int, headers: Mapping[str, str]) -> bool:
    """May a refused request be sent again as it is? The server's `x-should-retry` wins over its status."""
    word = headers.get("x-should-retry", "").strip().lower()
    if word in ("true", "false"):
        return word == "true"
    return status in (408, 409, 429) or status >= 500
