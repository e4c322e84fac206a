"""Telling events: in order of subscription, one listener after the other, each awaited.

A listener observes. If it fails, that is recorded and the next one is told. A critical listener (a store) is different:
its failure ends the run, and it is never cut short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from antiphon.core.events import AgentEvent
from antiphon.core.ports import AbortSignal
from antiphon.loop.boundary import CriticalFault

Listener: TypeAlias = Callable[[AgentEvent, AbortSignal], Awaitable[None] | None]
Note: TypeAlias = Callable[[str, BaseException, AgentEvent | None], None]


@dataclass(slots=True, eq=False)
class Subscription:
    """One listener. The same function subscribed twice is two of them. `live`: it was not taken away yet."""

    listener: Listener
    critical: bool
    live: bool = True


@final
class Listeners:
    """The subscriptions of an agent. An event goes to those that existed when it was emitted."""

    __slots__ = ("critical_at_work", "hurried", "note", "only", "raises", "subscriptions")

    def __init__(self, *, raises: bool) -> None:
        self.subscriptions: tuple[Subscription, ...] = ()
        self.only: Listener | None = None
        """The listener, if there is just one and it is not critical: the usual case, told without a loop around it."""
        self.raises = raises
        self.note: Note = _unnoted
        self.hurried = False
        self.critical_at_work = 0

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
        alone = len(subscriptions) == 1 and not subscriptions[0].critical
        self.only = subscriptions[0].listener if alone else None

    def tell(self, event: AgentEvent, signal: AbortSignal) -> Awaitable[None] | None:
        """Tell everybody; gives what is left to wait for, if a listener has to be waited for.

        Raises:
            CriticalFault: a critical listener failed; all others were told.
            Exception: what any listener raised, in a profile where that ends the run.
        """
        subscriptions = self.subscriptions
        failed: BaseException | None = None
        for index, subscription in enumerate(subscriptions):
            if not subscription.live:
                continue
            try:
                waiting = subscription.listener(event, signal)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the border to listeners
                failed = self._failed(subscription, error, event) or failed
            else:
                if waiting is not None:
                    return self._rest(event, signal, subscriptions[index:], waiting, failed)
        if failed is not None:
            raise CriticalFault(str(failed)) from failed
        return None

    async def _rest(
        self,
        event: AgentEvent,
        signal: AbortSignal,
        subscriptions: tuple[Subscription, ...],
        waiting: Awaitable[None] | None,
        failed: BaseException | None,
    ) -> None:
        """Wait for the first of these, then tell the others."""
        first = True
        for subscription in subscriptions:
            if not first and not subscription.live:
                continue
            try:
                pending = waiting if first else subscription.listener(event, signal)
                first = False
                if pending is not None:
                    await self._settle(subscription, pending)
            except asyncio.CancelledError as cut:
                failed = self._failed(subscription, cut, event) or failed
            except Exception as error:  # noqa: BLE001 - the border to listeners
                failed = self._failed(subscription, error, event) or failed
        if failed is not None:
            raise CriticalFault(str(failed)) from failed

    async def _settle(self, subscription: Subscription, pending: Awaitable[None]) -> None:
        if subscription.critical:
            await self._finish(pending)
        elif self.hurried:
            _drop(pending)
        else:
            await pending

    async def _finish(self, pending: Awaitable[None]) -> None:
        """A store may finish writing: it runs in a task that nobody cancels."""
        task = asyncio.ensure_future(pending)
        self.critical_at_work += 1
        try:
            while not task.done():
                try:
                    await asyncio.wait((task,))
                except asyncio.CancelledError:
                    continue
        finally:
            self.critical_at_work -= 1
        task.result()

    def _failed(self, subscription: Subscription, error: BaseException, event: AgentEvent) -> BaseException | None:
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
