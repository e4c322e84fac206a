"""Keeping keys out of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

_SECRET_HEADERS = re.compile(r"auth|key|token|cookie|secret", re.IGNORECASE)
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk|rk|gsk|xai|r8)[-_][A-Za-z0-9_-]{16,}|\bAIza[A-Za-z0-9_-]{30,}")
SCRUBBED: Final = "[secret]"


def secrets_in(api_key: str | None, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Everything in a request that must not be told: the key, and what credential-like headers carry."""
    found = {api_key or ""}
    for name, value in headers.items():
        if _SECRET_HEADERS.search(name):
            found.update((value, value.split(" ", 1)[-1]))
    return tuple(sorted((item for item in found if len(item) >= 6), key=len, reverse=True))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """The text without these secrets, and without anything that looks like a key."""
    for secret in secrets:
        text = text.replace(secret, SCRUBBED)
    return _LOOKS_SECRET.sub(SCRUBBED, text)
