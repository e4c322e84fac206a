"""A gate: order in a test comes from opening gates by hand, never from sleeping."""

from __future__ import annotations

import asyncio
from typing import final


@final
class Gate:
    """Closed until `open()` is called. Whoever comes to a closed gate waits, all of them pass once it is open."""

    def __init__(self, *, is_open: bool = False) -> None:
        self._opened = asyncio.Event()
        self._arrived = asyncio.Condition()
        self._arrivals = 0
        if is_open:
            self._opened.set()

    @property
    def is_open(self) -> bool:
        """May one pass without waiting?"""
        return self._opened.is_set()

    @property
    def arrivals(self) -> int:
        """How many have come to the gate so far, waiting or not."""
        return self._arrivals

    def open(self) -> None:
        """Let everybody pass, now and later."""
        self._opened.set()

    async def passed(self) -> None:
        """Come to the gate; returns when it is open."""
        self._arrivals += 1
        async with self._arrived:
            self._arrived.notify_all()
        await self._opened.wait()

    async def reached(self, arrivals: int = 1) -> None:
        """Returns when so many have come to the gate in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: self._arrivals >= arrivals)
