"""What a conversation knows of files: the digest of each as it was last read or written by its tools."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest(chunks: Iterable[bytes]) -> bytes:
    """What tells one content from another."""
    state = new_digest()
    for chunk in chunks:
        state.update(chunk)
    return state.digest()


def new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=20)


class ReadLog:
    """By real path. One for all tools of a conversation; may be used from several threads."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def note(self, real_path: str, content_digest: bytes) -> None:
        self._known[real_path] = content_digest

    def known(self, real_path: str) -> bytes | None:
        """The digest of the content that the model has seen; None: it has not seen the file."""
        return self._known.get(real_path)

    def forget(self) -> None:
        self._known.clear()
