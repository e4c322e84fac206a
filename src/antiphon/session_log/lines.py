"""Where the lines of a session live: the port, and the lines of a session in memory.

An address is given by `append` (or found by whoever scans the bytes) and stays valid as long as the log is open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol, TypeAlias, final

Durability: TypeAlias = Literal["fast", "turn", "sync"]
"""When a line is safe from a power loss. `sync`: at once, each of them. `turn`: each message of a user, and each record
of a call that must not be made twice, at once; the rest when `flush` is called, as a conversation does when it has
settled. `fast`: when `flush` is called.

What was not synced may be lost for `LOSS_WINDOW_MS`. A killed process loses nothing in any of them."""

LOSS_WINDOW_MS = 35_000
"""How long a line that nobody synced can be lost by a power loss, in milliseconds. Linux writes by itself what is older
than 30,000 (`vm.dirty_expire_centisecs`) and looks every 5,000 (`vm.dirty_writeback_centisecs`), or as it was told."""

SPEAKERS = ("user", "assistant")
"""When one of them speaks, a session gets a file."""

INTENT = "intent"
"""Who speaks in a line that must be safe before something else happens."""
_URGENT = ("user", INTENT)


def is_due(durability: Durability, speaker: str) -> bool:
    """Must a line be safe from a power loss at once?"""
    return durability == "sync" or (durability == "turn" and speaker in _URGENT)


BLOCK_BYTES = 1 << 20


class Lines(Protocol):
    """Lines by address."""

    @property
    def saved(self) -> bool:
        """Is it kept anywhere but in memory?"""
        ...

    def read(self, address: int, length: int) -> bytes:
        """The bytes of one line.

        Raises:
            SessionError: they cannot be read any more.
        """
        ...

    def blocks(self) -> Iterator[bytes]:
        """All bytes, in order: header first, every line with its newline."""
        ...

    def append(self, line: bytes, speaker: str) -> int:
        """Store one line without its newline; its address.

        `speaker`: the role of the message in it, if it has one, or `INTENT`.

        Raises:
            SessionError: it is not stored, and everything is as before.
        """
        ...

    def news(self) -> tuple[int, bytes] | None:
        """Address and bytes of what somebody else has appended since the last call."""
        ...

    def flush(self) -> None:
        """Make what was stored survive a power loss."""
        ...

    def close(self) -> None: ...


@final
class MemoryLines:
    """A session without a file. `data`: its lines, each with a newline."""

    def __init__(self, data: bytes = b"") -> None:
        self._data = bytearray(data)

    @property
    def saved(self) -> bool:
        return False

    def read(self, address: int, length: int) -> bytes:
        return bytes(self._data[address : address + length])

    def blocks(self) -> Iterator[bytes]:
        yield bytes(self._data)

    def append(self, line: bytes, speaker: str) -> int:
        address = len(self._data)
        self._data += line + b"\n"
        return address

    def news(self) -> tuple[int, bytes] | None:
        return None

    def flush(self) -> None:
        return

    def close(self) -> None:
        return
