"""Telling progress while the driver waits inside a lone call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, final

from antiphon.loop.leash import PULL_EVERY, PULLS, Cut, Leash


@final
class Pump:
    """A task that exists only while there is progress to tell."""

    __slots__ = ("_loop", "_task", "_tell")

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop = loop
        self._tell = tell
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Make sure that what is in the inbox will be told."""
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._tell(), name="tool progress")

    def runs_in(self, task: asyncio.Task[Any]) -> bool:
        """Is it this task that tells?"""
        return task is self._task

    def busy(self) -> bool:
        """Is there progress that it is telling?"""
        return self._task is not None and not self._task.done()

    async def stop(self, leash: Leash) -> bool:
        """Wait until it has told what it began to tell. False if it had to be cut and did not even stop then."""
        task, cuts = self._task, 0
        while task is not None and not task.done():
            try:
                await leash.hold(asyncio.wait((task,), timeout=PULL_EVERY if cuts else None))
            except Cut:
                cuts = max(cuts, 1)
            if not cuts or leash.exempt():
                continue
            if cuts > PULLS:
                return task.done()
            cuts += 1
            task.cancel()
        return True
