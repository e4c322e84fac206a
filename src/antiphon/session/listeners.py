"""Telling a conversation's events: in order, to everybody, each listener on its own.

`emit` may be called from anywhere in the event loop, also from plain functions. As long as every listener is a plain
function, all are told before it returns. If one has to be waited for, the rest is told by a task, and whoever needs a
barrier awaits `told()`. What fails is reported and the next one is told.

A listener without a barrier has a queue of its own and is fed from it; only when that queue is full is it waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, final

from msgspec import Struct, field

from antiphon.core.session_events import ExtensionError, SessionEvent
from antiphon.errors import words_of

SessionListener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]
GRACE_SECONDS = 1.0
"""A listener that is cut has so long to end; then it is told nothing any more."""


class Subscription(Struct, eq=False):
    """One listener. The same function subscribed twice is two of them. `live`: it was not taken away yet."""

    listener: SessionListener
    live: bool = True
    inbox: asyncio.Queue[SessionEvent] | None = None
    feeder: asyncio.Task[None] | None = field(default=None)


@final
class Listeners:
    """Who is told. An event goes to those that are subscribed when it is told."""

    def __init__(self) -> None:
        self._subscriptions: tuple[Subscription, ...] = ()
        self._outbox: deque[SessionEvent] = deque()
        self._telling = False
        self._teller: asyncio.Task[None] | None = None
        self._inside: asyncio.Task[Any] | None = None
        self._work: asyncio.Future[None] | None = None
        self._given_up: asyncio.Future[None] | None = None

    def subscribe(self, listener: SessionListener, *, barrier: bool = True, capacity: int = 1000) -> Callable[[], None]:
        """Add a listener; the returned function takes it away again. `capacity`: events that wait without a barrier."""
        mine = Subscription(listener, inbox=None if barrier else asyncio.Queue(capacity))
        self._subscriptions = (*self._subscriptions, mine)

        def unsubscribe() -> None:
            mine.live = False
            self._subscriptions = tuple(s for s in self._subscriptions if s is not mine)

        return unsubscribe

    def clear(self) -> None:
        """Nobody is told anything any more; feeders end when they have told what waits."""
        for subscription in self._subscriptions:
            subscription.live = subscription.inbox is not None
        self._subscriptions = ()

    @property
    def is_busy(self) -> bool:
        """Is there a listener that has to be waited for?"""
        return self._teller is not None

    @property
    def calls_this_task(self) -> bool:
        """Is the current task a listener that is being waited for? Then it must not wait for the conversation."""
        return self._inside is not None and self._inside is _current_task()

    # -- telling --------------------------------------------------------------------------------------------------

    def emit(self, event: SessionEvent) -> None:
        """Tell an event behind all that were emitted before."""
        self._outbox.append(event)
        if not self._telling:
            self._telling = True
            self._tell_at_once()

    async def told(self) -> None:
        """Returns when everything emitted so far has been told. Cancelled, it cuts the listener that is waited for."""
        while self._teller is not None:
            teller = self._teller
            if teller is asyncio.current_task():
                return
            try:
                await asyncio.shield(teller)
            except asyncio.CancelledError:
                self._cut()
                raise

    def _tell_at_once(self) -> None:
        """Tell as far as nobody has to be waited for."""
        before, self._inside = self._inside, _current_task()
        try:
            while self._outbox:
                event = self._outbox.popleft()
                subscriptions = self._subscriptions
                for index, subscription in enumerate(subscriptions):
                    waiting = self._call(subscription, event)
                    if waiting is not None:
                        rest = self._tell_rest(event, subscription, waiting, subscriptions[index + 1 :])
                        self._teller = asyncio.get_running_loop().create_task(rest, name="session listeners")
                        return
            self._telling = False
        finally:
            self._inside = before

    async def _tell_rest(
        self,
        event: SessionEvent,
        first: Subscription,
        waiting: Awaitable[None],
        others: tuple[Subscription, ...],
    ) -> None:
        try:
            await self._settle(first, waiting, event)
            while True:
                for subscription in others:
                    pending = self._call(subscription, event)
                    if pending is not None:
                        await self._settle(subscription, pending, event)
                if not self._outbox:
                    break
                event, others = self._outbox.popleft(), self._subscriptions
        finally:
            self._teller = None
            self._telling = False
            if self._outbox:  # the event loop ends: whoever comes next tells the rest
                self._telling = True
                self._tell_at_once()

    def _call(self, subscription: Subscription, event: SessionEvent) -> Awaitable[None] | None:
        """Tell one listener; gives what is left to wait for."""
        if not subscription.live:
            return None
        if subscription.inbox is not None:
            return self._feed(subscription, subscription.inbox, event)
        try:
            return subscription.listener(event)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the border to listeners
            self._report(subscription, error, event)
            return None

    async def _settle(self, subscription: Subscription, waiting: Awaitable[None], event: SessionEvent) -> None:
        """Wait for one listener. One that is cut and goes on anyway is told nothing any more."""
        work = asyncio.ensure_future(waiting)
        self._work, self._given_up = work, asyncio.get_running_loop().create_future()
        self._inside = work if isinstance(work, asyncio.Task) else None
        try:
            await asyncio.wait((work, self._given_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._work, self._inside = None, None
        if not work.done():
            subscription.live = False
            self._report(subscription, TimeoutError("it did not end when it was cancelled"), event)
        elif work.cancelled():
            self._report(subscription, TimeoutError("it was cut short"), event)
        elif (error := work.exception()) is not None:
            self._report(subscription, error, event)

    def _cut(self) -> None:
        """The listener that is waited for has a second to end."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            asyncio.get_running_loop().call_later(GRACE_SECONDS, _give_up, self._given_up)

    # -- without a barrier ----------------------------------------------------------------------------------------

    def _feed(
        self, subscription: Subscription, inbox: asyncio.Queue[SessionEvent], event: SessionEvent
    ) -> Awaitable[None] | None:
        if inbox.full():
            return self._feed_when_there_is_room(subscription, inbox, event)
        inbox.put_nowait(event)
        self._keep_feeding(subscription, inbox)
        return None

    async def _feed_when_there_is_room(
        self, subscription: Subscription, inbox: asyncio.Queue[SessionEvent], event: SessionEvent
    ) -> None:
        await inbox.put(event)
        self._keep_feeding(subscription, inbox)

    def _keep_feeding(self, subscription: Subscription, inbox: asyncio.Queue[SessionEvent]) -> None:
        if subscription.feeder is None or subscription.feeder.done():
            subscription.feeder = asyncio.get_running_loop().create_task(self._feeding(subscription, inbox))

    async def _feeding(self, subscription: Subscription, inbox: asyncio.Queue[SessionEvent]) -> None:
        """Tell one listener what waits for it; ends when nothing does."""
        while not inbox.empty():
            event = inbox.get_nowait()
            try:
                waiting = subscription.listener(event)
                if waiting is not None:
                    await waiting
            except Exception as error:  # noqa: BLE001 - the border to listeners
                self._report(subscription, error, event)

    # -- failures -------------------------------------------------------------------------------------------------

    def _report(self, subscription: Subscription, error: BaseException, event: SessionEvent) -> None:
        """Tell the others that a listener failed. A failure over such a report is not reported again."""
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise error
        if type(event) is not ExtensionError:
            self.emit(failure_event(name_of(subscription.listener), event.type, error))


def failure_event(where: str, event: str, error: BaseException) -> ExtensionError:
    """What everybody is told of foreign code that failed."""
    return ExtensionError(extension_path=where, event=event, error=words_of(error) or type(error).__name__)


def name_of(function: Any) -> str:
    """How a function is called in a report."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', '') or '?'}.{name}"


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _give_up(waited: asyncio.Future[None] | None) -> None:
    if waited is not None and not waited.done():
        waited.set_result(None)
