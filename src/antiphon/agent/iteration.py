"""A run as an iteration over its events. Lock-step: the run waits for its reader, so nothing piles up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from antiphon.core.events import AgentEvent

Subscribe = Callable[..., Callable[[], None]]


async def iterate(subscribe: Subscribe, start: Callable[[], Awaitable[Any]]) -> AsyncIterator[AgentEvent]:
    """Events of the run that `start` begins. The run is joined before the iteration is over, however it is left."""
    loop = asyncio.get_running_loop()
    offered: asyncio.Queue[AgentEvent | None] = asyncio.Queue(maxsize=1)
    taken = asyncio.Semaphore(0)

    async def offer(event: AgentEvent, _signal: Any) -> None:
        await offered.put(event)
        await taken.acquire()  # the reader has come back for more

    async def run() -> Any:
        unsubscribe = subscribe(offer)
        try:
            return await start()
        finally:
            unsubscribe()

    task = loop.create_task(run(), name="agent run")
    task.add_done_callback(lambda _: offered.put_nowait(None) if offered.empty() else None)
    try:
        while True:
            event = await offered.get()
            if event is None:
                break
            yield event
            taken.release()
        await task
    finally:
        if not task.done():
            task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # raised above if the reader was still there
