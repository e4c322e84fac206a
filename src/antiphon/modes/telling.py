"""Listeners that write to standard output: when it fails, the run is told once, and nothing is written any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from antiphon.core.session_events import SessionEvent
from antiphon.modes.output import OutputFailed

Listener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]


def guarded(listener: Listener, failed: Callable[[], None]) -> Listener:
    """The listener; once its output has failed, `failed` is called and it hears nothing more."""
    over = False

    def give_up() -> None:
        nonlocal over
        if not over:
            over = True
            failed()

    def tell(event: SessionEvent) -> Awaitable[None] | None:
        if over:
            return None
        try:
            waiting = listener(event)
        except OutputFailed:
            give_up()
            return None
        return None if waiting is None else written(waiting)

    async def written(waiting: Awaitable[None]) -> None:
        try:
            await waiting
        except OutputFailed:
            give_up()

    return tell
