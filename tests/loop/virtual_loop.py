"""An event loop whose time is not that of the wall: when nobody has anything to do, the next timer is due at once.

Graces, time-outs and pulls keep their real lengths and their order, and cost nothing. A loop in which nothing can
happen any more (no timer, nothing ready) says so instead of waiting for ever.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(Exception):
    """Everything waits, and nothing is left that could end a wait."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop with a clock of its own, in seconds from 0."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Patient(self))

    def time(self) -> float:
        return self._now

    def pass_(self, seconds: float) -> None:
        """Nothing is ready: the time until the next timer passes."""
        self._now += seconds


class _Patient(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """A selector that does not wait: it lets the time of its loop pass."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Stuck("no timer is set and nothing is ready")
        self._loop.pass_(timeout)
        return ready


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    """Run in a virtual loop of its own and close it: what was abandoned there is nobody else's burden."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


async def quiet(seconds: float = 1e-6) -> None:
    """Returns when everything waits for a timer or for something that has not happened."""
    await asyncio.sleep(seconds)
