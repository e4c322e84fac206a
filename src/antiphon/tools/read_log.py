"""What a conversation knows of files: the digest of each as it was last read or written by its tools."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_BLOCK_BYTES = 256 * 1024


class ContentDigest:
    """Tells one content from another, within this process, however its bytes are split into chunks.

    Whole blocks are condensed by the interpreter's own keyed hash of bytes (64 bits), which is four times as fast as a
    digest made for signatures; so a file of 1 GB is read at the speed of counting its lines.
    """

    def __init__(self) -> None:
        self._state = hashlib.blake2b(digest_size=20)
        self._rest = bytearray()

    def update(self, chunk: bytes) -> None:
        if self._rest or len(chunk) < _BLOCK_BYTES:
            self._rest += chunk
            if len(self._rest) < _BLOCK_BYTES:
                return
            chunk = bytes(self._rest)
        view = memoryview(chunk)
        end = len(chunk) - len(chunk) % _BLOCK_BYTES
        for start in range(0, end, _BLOCK_BYTES):
            self._state.update(hash(view[start : start + _BLOCK_BYTES]).to_bytes(8, "little", signed=True))
        self._rest = bytearray(view[end:])

    def digest(self) -> bytes:
        """Of all that has come so far."""
        state = self._state.copy()
        state.update(self._rest)
        return state.digest()


def digest(chunks: Iterable[bytes]) -> bytes:
    """The digest of a content given in chunks."""
    state = ContentDigest()
    for chunk in chunks:
        state.update(chunk)
    return state.digest()


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
