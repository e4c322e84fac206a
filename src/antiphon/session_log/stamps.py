"""Times and ids: where they come from, and how they are written.

A log never reads the clock or the dice itself; it asks a `Sources`. Tests give one that counts.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Callable, Container
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from msgspec import Struct

from antiphon.errors import ConfigurationError

ATTEMPTS = 100
"""Collisions of short ids after which a long one is taken."""

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
LAST_MS = 8_640_000_000_000_000
"""No time of these files is further from the epoch, in milliseconds."""

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def _system_ms() -> int:
    return time.time_ns() // 1_000_000


class Sources(Struct, frozen=True):
    """The clock (milliseconds since the epoch) and the dice (that many random bytes) of a log."""

    now_ms: Callable[[], int] = _system_ms
    random_bytes: Callable[[int], bytes] = os.urandom

    def entry_id(self, taken: Container[str]) -> str:
        """Eight hex digits that are not `taken`; a full UUID if chance keeps failing."""
        for _ in range(ATTEMPTS):
            short = self.random_bytes(4).hex()
            if short not in taken:
                return short
        return str(uuid.UUID(bytes=self.random_bytes(16), version=4))

    def session_id(self) -> str:
        """A UUID of version 7: ids of later sessions sort later."""
        stamp = self.now_ms().to_bytes(6, "big")
        raw = bytearray(stamp + self.random_bytes(10))
        raw[6] = 0x70 | raw[6] & 0x0F
        raw[8] = 0x80 | raw[8] & 0x3F
        return str(uuid.UUID(bytes=bytes(raw)))

    def now_iso(self) -> str:
        return iso(self.now_ms())


def iso(ms: int) -> str:
    """The moment as ISO text, UTC, milliseconds: `2026-01-01T00:00:00.000Z`."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def ms_of(text: str) -> int | None:
    """Milliseconds since the epoch of an ISO text; nothing if it is none. Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MILLISECOND


def file_stamp(timestamp: str) -> str:
    """An ISO time as it stands in a file name."""
    return timestamp.replace(":", "-").replace(".", "-")


def checked_session_id(given: str) -> str:
    """The id a caller chose.

    Raises:
        ConfigurationError: it could not stand in a file name.
    """
    if _SESSION_ID.fullmatch(given) is None:
        raise ConfigurationError(
            f"{given!r} cannot be a session id: use letters, digits, dot, dash and underscore, "
            "with a letter or digit first and last"
        )
    return given
