"""Telling events: in order of subscription, one listener after the other, each awaited.

A listener observes. If it fails, that is recorded and the next one is told. A critical listener (a store) is different:
its failure ends the run, and it is never cut short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, final

from antiphon.core.events import AgentEvent
from antiphon.core.ports import AbortSignal
from antiphon.errors import words_of
from antiphon.loop.boundary import CriticalFault

Listener: TypeAlias = Callable[[AgentEvent, AbortSignal], Awaitable[None] | None]
Note: TypeAlias = Callable[[str, BaseException, AgentEvent | None], None]


@final
class Subscription:
    """One listener. The same function subscribed twice is two of them. `live`: it was not taken away yet."""

    __slots__ = ("critical", "listener", "live")

    def __init__(self, listener: Listener, critical: bool) -> None:
        self.listener = listener
        self.critical = critical
        self.live = True


@final
class _Telling:
    """One event on its way: whose turn it is, and what a critical listener has raised so far."""

    __slots__ = ("at", "event", "failed", "listeners", "signal", "subscriptions")

    def __init__(
        self,
        listeners: Listeners,
        event: AgentEvent,
        signal: AbortSignal,
        at: int,
        failed: BaseException | None,
    ) -> None:
        self.listeners = listeners
        self.subscriptions = listeners.subscriptions
        self.event = event
        self.signal = signal
        self.at = at
        self.failed = failed

    async def go_on(self, waiting: Awaitable[None] | None) -> None:
        """Wait for the listener whose turn it is, then tell the others."""
        while self.at < len(self.subscriptions):
            subscription = self.subscriptions[self.at]
            try:
                if waiting is None and subscription.live:
                    waiting = subscription.listener(self.event, self.signal)
                if waiting is not None:
                    await self.listeners.settle(subscription, waiting)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the border to listeners
                self.failed = self.listeners.failed(subscription, error, self.event) or self.failed
            waiting = None
            self.at += 1
        if self.failed is not None:
            raise CriticalFault(words_of(self.failed)) from self.failed


@final
class Listeners:
    """The subscriptions of an agent. An event goes to those that existed when it was emitted."""

    __slots__ = ("hurried", "note", "only", "raises", "subscriptions", "telling", "writing")

    def __init__(self, *, raises: bool) -> None:
        self.subscriptions: tuple[Subscription, ...] = ()
        self.only: Listener | None = None
        """The listener, if there is just one and it is not critical: the usual case, told without a loop around it."""
        self.raises = raises
        self.note: Note = _unnoted
        self.hurried = False
        self.telling: _Telling | None = None
        self.writing: asyncio.Future[None] | None = None
        """The task of a critical listener that is at work."""

    def subscribe(self, listener: Listener, *, critical: bool) -> Callable[[], None]:
        """Add a listener; the returned function takes it away again."""
        mine = Subscription(listener, critical)
        self._set((*self.subscriptions, mine))

        def unsubscribe() -> None:
            mine.live = False
            self._set(tuple(s for s in self.subscriptions if s is not mine))

        return unsubscribe

    def _set(self, subscriptions: tuple[Subscription, ...]) -> None:
        self.subscriptions = subscriptions
        alone = len(subscriptions) == 1 and not (subscriptions[0].critical or self.hurried)
        self.only = subscriptions[0].listener if alone else None

    def begin_run(self) -> None:
        """Nobody is in a hurry yet."""
        self.hurried = False
        self.telling = None
        self._set(self.subscriptions)

    def hurry(self) -> None:
        """From now on, do not wait for listeners that are not critical."""
        self.hurried = True
        self.only = None

    def tell(self, event: AgentEvent, signal: AbortSignal) -> Awaitable[None] | None:
        """Tell everybody; gives what is left to wait for, if a listener has to be waited for.

        Raises:
            CriticalFault: a critical listener failed; all others were told.
            Exception: what any listener raised, in a profile where that ends the run.
        """
        failed: BaseException | None = None
        for index, subscription in enumerate(self.subscriptions):
            if not subscription.live:
                continue
            try:
                waiting = subscription.listener(event, signal)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the border to listeners
                failed = self.failed(subscription, error, event) or failed
            else:
                if waiting is not None:
                    self.telling = _Telling(self, event, signal, index, failed)
                    return self.telling.go_on(waiting)
        if failed is not None:
            raise CriticalFault(words_of(failed)) from failed
        return None

    def resume(self, event: AgentEvent) -> Awaitable[None] | None:
        """Tell those behind the listener that was waited for: it has been given up."""
        telling = self.telling
        if telling is None or telling.event is not event:
            return None
        telling.at += 1
        return telling.go_on(None)

    async def settle(self, subscription: Subscription, pending: Awaitable[None]) -> None:
        """Wait for one listener, as far as it has a right to be waited for."""
        if subscription.critical:
            await self._finish(pending)
        elif self.hurried:
            _drop(pending)
        else:
            await pending

    async def _finish(self, pending: Awaitable[None]) -> None:
        """A store may finish writing: it runs in a task that nobody cancels."""
        task = self.writing = asyncio.ensure_future(pending)
        try:
            while not task.done():
                try:
                    await asyncio.wait((task,))
                except asyncio.CancelledError:
                    continue
        finally:
            self.writing = None
        task.result()

    def failed(self, subscription: Subscription, error: BaseException, event: AgentEvent) -> BaseException | None:
        """What has to end the run of what a listener raised; anything else is noted."""
        if self.raises:
            raise error
        if subscription.critical:
            return error
        self.note("listener", error, event)
        return None


def _drop(pending: Any) -> None:
    """Do not wait for it."""
    close = getattr(pending, "close", None) or getattr(pending, "cancel", None)
    if close is not None:
        close()


def _unnoted(_where: str, _error: BaseException, _event: AgentEvent | None) -> None:
    return None
