"""A run as an iteration over its events. Lock-step: the run waits for its reader, so nothing piles up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, final

from antiphon.core.events import AgentEvent

Subscribe = Callable[..., Callable[[], None]]
Start = Callable[[], Awaitable[Any]]


@final
class RunEvents(AsyncIterator[AgentEvent]):
    """Events of a run that begins with the first step of the iteration.

    Leaving it early cancels the run, closes what is open, and joins it. Python itself does not wait when a plain
    `async for` is left by `break`; inside of `async with` it does:

        async with agent.run("...") as events:
            async for event in events:
                ...
    """

    __slots__ = ("_steps",)

    def __init__(self, subscribe: Subscribe, start: Start) -> None:
        self._steps = _iterate(subscribe, start)

    async def __anext__(self) -> AgentEvent:
        return await anext(self._steps)

    async def aclose(self) -> None:
        """Leave: returns when the run is over and joined."""
        await self._steps.aclose()

    async def __aenter__(self) -> RunEvents:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@final
class _Handover:
    """Events between a run and its reader. The run waits until the reader has come back for more.

    A reader that is slower than the grace of an abort is not waited for: it still gets every event.
    """

    __slots__ = ("_back", "_ready", "events", "left", "overtaken")

    def __init__(self) -> None:
        self.events: deque[AgentEvent] = deque()
        self.left = False
        self.overtaken = False
        self._ready: asyncio.Future[None] | None = None
        self._back: asyncio.Future[None] | None = None

    def offer(self, event: AgentEvent, _signal: Any) -> Awaitable[None] | None:
        """The listener of the run."""
        if self.left:
            return None
        self.events.append(event)
        self.wake()
        return None if self.overtaken else self._taken()

    async def _taken(self) -> None:
        self._back = asyncio.get_running_loop().create_future()
        try:
            await self._back
        except asyncio.CancelledError:
            self.overtaken = True
            raise

    def wake(self) -> None:
        """There is something for the reader: an event, or the end of the run."""
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def come_back(self) -> None:
        """The reader has dealt with all that was offered."""
        self.overtaken = False
        if self._back is not None and not self._back.done():
            self._back.set_result(None)

    async def something(self) -> None:
        """Returns when there is something for the reader."""
        self._ready = asyncio.get_running_loop().create_future()
        await self._ready

    def leave(self) -> None:
        """The reader will not come back."""
        self.left = True
        self.come_back()


async def _iterate(subscribe: Subscribe, start: Start) -> AsyncGenerator[AgentEvent]:
    hand = _Handover()
    task = asyncio.ensure_future(_run(subscribe, start, hand))
    task.add_done_callback(lambda _: hand.wake())
    try:
        while True:
            while hand.events:
                yield hand.events.popleft()
            hand.come_back()
            if task.done():
                break
            await hand.something()
        await task
    finally:
        hand.leave()
        if not task.done():
            task.cancel()
            await _joined(task)


async def _run(subscribe: Subscribe, start: Start, hand: _Handover) -> Any:
    unsubscribe = subscribe(hand.offer)
    try:
        return await start()
    finally:
        unsubscribe()


async def _joined(task: asyncio.Future[Any]) -> None:
    """Returns when the run is over. A cancellation meanwhile hurries it, and is felt afterwards."""
    hurried: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as again:
            hurried = again
            task.cancel()
    if not task.cancelled():
        task.exception()  # nobody reads it any more
    if hurried is not None:
        raise hurried
