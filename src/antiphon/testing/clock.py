"""A clock for tests: time moves only when it is told to."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count
from typing import final

START_MS = 1_800_000_000_000
SETTLING_TURNS = 25


@final
class VirtualClock:
    """Implements `core.ports.Clock`. Nobody wakes by waiting: `advance` moves time and wakes sleepers in order.

    Sleepers wake by due time, equal ones in the order in which they fell asleep. After each one the event loop gets
    some turns, so what it does next (even sleeping again within the same stretch of time) happens at its own moment.
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._start_ms + round(self._now * 1000)

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Returns when time has been moved on by `seconds`; after one turn of the event loop for 0 or less."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken

    @property
    def sleeping(self) -> int:
        """How many are asleep. Cancelled sleepers do not count."""
        return sum(1 for _due, _number, woken in self._sleepers if not woken.done())

    async def advance(self, seconds: float) -> None:
        """Move time on and wake who is due, one after the other, each at its own time."""
        await settle()
        target = self._now + seconds
        while (due := self._next_due()) is not None and due <= target:
            self._now = due
            _due, _number, woken = heapq.heappop(self._sleepers)
            woken.set_result(None)
            await settle()
        self._now = target

    async def advance_to_next(self) -> float:
        """Move time on to the next sleeper's moment and wake who is due then; the seconds that passed.

        Raises:
            LookupError: nobody is asleep.
        """
        await settle()
        due = self._next_due()
        if due is None:
            raise LookupError("nobody is asleep")
        seconds = due - self._now
        await self.advance(seconds)
        return seconds

    def _next_due(self) -> float | None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)  # cancelled while asleep
        return self._sleepers[0][0] if self._sleepers else None


async def settle(turns: int = SETTLING_TURNS) -> None:
    """Let everything that is ready run: some turns of the event loop, without any time passing."""
    for _ in range(turns):
        await asyncio.sleep(0)
