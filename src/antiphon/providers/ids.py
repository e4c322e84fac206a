"""Names made up where a provider gave none."""

from __future__ import annotations

import uuid


def new_id(prefix: str) -> str:
    """A name that nobody has used: the prefix and 24 hexadecimal digits."""
    return prefix + uuid.uuid4().hex[:24]
