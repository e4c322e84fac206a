"""Keeping keys out of texts."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast
from urllib.parse import unquote

_HARMLESS_HEADERS: Final = frozenset(
    {
        "accept", "accept-encoding", "anthropic-beta", "anthropic-version", "content-type", "copilot-vision-request",
        "openai-intent", "user-agent", "x-initiator",
    }
)  # fmt: skip
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_SHORTEST: Final = 6
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk|rk|gsk|xai|r8)[-_][A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}")
SCRUBBED: Final = "[secret]"


def secrets_in(api_key: str | None, headers: Mapping[str, str | None], url: str = "") -> tuple[str, ...]:
    """Everything in a request that must not be told: the key, what headers carry that are not known to be harmless,
    and the credentials in its address and in those of proxies. Words that are too short to be secrets are left out."""
    found = {api_key or "", *credentials_in(url)}
    for name, value in headers.items():
        if value and name.lower() not in _HARMLESS_HEADERS:
            found.update((value, value.split(" ", 1)[-1]))
    for name in _PROXIES:
        found.update(credentials_in(os.environ.get(name, "")))
    return tuple(sorted((item for item in found if len(item) >= _SHORTEST), key=len, reverse=True))


def credentials_in(url: str) -> set[str]:
    """What stands before the host of an address, as it is written, as it is meant, and as a header carries it."""
    if "@" not in url:
        return set()
    words, _, _ = url.partition("://")[2].rpartition("@")
    parts = {words, *words.split(":", 1)}
    meant = {unquote(part) for part in parts}
    return parts | meant | {base64.b64encode(unquote(words).encode()).decode()}


def scrub(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without anything that looks like a key."""
    for secret in secrets:
        text = text.replace(secret, SCRUBBED)
    return _LOOKS_SECRET.sub(SCRUBBED, text)


def scrub_value(value: Any, secrets: tuple[str, ...]) -> Any:
    """A JSON value without these secrets in any of its texts. What merely looks like a key may be an id."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, SCRUBBED)
        return value
    if isinstance(value, dict):
        return {name: scrub_value(item, secrets) for name, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [scrub_value(item, secrets) for item in cast("list[Any]", value)]
    return value
