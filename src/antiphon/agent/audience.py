"""What a run sees of its agent: somebody to tell, and queues to take from.

Taking has two phases. A poll leases messages; each is removed for good when it is told as part of the transcript. What
is still leased when the run ends goes back to the head of its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from threading import RLock
from typing import final

from msgspec import structs

from antiphon.agent.listeners import Listeners, Note
from antiphon.agent.view import CHANGES, View
from antiphon.core.events import AgentEvent
from antiphon.core.messages import Message
from antiphon.core.ports import AbortSignal
from antiphon.core.queues import MessageQueue, Queued, QueueMode, empty_queue
from antiphon.core.states import QueueName

_CHANGING = RLock()
"""Held while what waits is replaced: messages may be queued from any thread, also out of a signal handler."""


@final
class Queues:
    """Steering and follow-up, with the lease of the active run."""

    __slots__ = ("accepted", "cleared", "committed", "follow_up", "leased", "steering")

    def __init__(self, steering_mode: QueueMode, follow_up_mode: QueueMode) -> None:
        self.steering: MessageQueue = empty_queue(steering_mode)
        self.follow_up: MessageQueue = empty_queue(follow_up_mode)
        self.leased: deque[tuple[QueueName, Queued]] = deque()
        self.committed = 0
        self.cleared: tuple[Message, ...] = ()
        self.accepted = 0

    def accept(self, name: QueueName, message: Message) -> str:
        """Queue a message; gives the id of the item."""
        with _CHANGING:
            self.accepted += 1
            item = Queued(f"q{self.accepted}", message)
            if name == "steering":
                self.steering = self.steering.push(item)
            else:
                self.follow_up = self.follow_up.push(item)
        return item.id

    def set_mode(self, name: QueueName, mode: QueueMode) -> None:
        """From the next poll on."""
        with _CHANGING:
            if name == "steering":
                self.steering = structs.replace(self.steering, mode=mode)
            else:
                self.follow_up = structs.replace(self.follow_up, mode=mode)

    def poll_steering(self) -> tuple[Message, ...]:
        if not self.steering:
            return ()
        with _CHANGING:
            taken, self.steering = self.steering.take()
        return self._lease("steering", taken)

    def poll_follow_up(self) -> tuple[Message, ...]:
        if not self.follow_up:
            return ()
        with _CHANGING:
            taken, self.follow_up = self.follow_up.take()
        return self._lease("follow_up", taken)

    def _lease(self, queue: QueueName, taken: tuple[Queued, ...]) -> tuple[Message, ...]:
        self.leased.extend((queue, item) for item in taken)
        return tuple([item.message for item in taken])

    def delivered(self) -> None:
        self.leased.popleft()
        self.committed -= 1

    def forget_lease(self) -> None:
        """Nothing is leased any more, whatever becomes of it."""
        self.leased.clear()
        self.committed = 0
        self.cleared = ()

    def give_back(self) -> None:
        steering = tuple(item for queue, item in self.leased if queue == "steering")
        follow_up = tuple(item for queue, item in self.leased if queue == "follow_up")
        self.forget_lease()
        with _CHANGING:
            if steering:
                self.steering = self.steering.put_back(steering)
            if follow_up:
                self.follow_up = self.follow_up.put_back(follow_up)

    def clear(self, *names: QueueName) -> tuple[Message, ...]:
        """Drop what waits in these queues, leased messages included unless they are being told; gives what was
        dropped.
        """
        lease = list(self.leased)
        told, open_ = lease[: self.committed], lease[self.committed :]
        dropped = [item.message for queue, item in open_ if queue in names]
        self.cleared += tuple(dropped)
        self.leased = deque([*told, *(pair for pair in open_ if pair[0] not in names)])
        with _CHANGING:
            if "steering" in names:
                dropped += [item.message for item in self.steering.waiting()]
                self.steering = self.steering.emptied()
            if "follow_up" in names:
                dropped += [item.message for item in self.follow_up.waiting()]
                self.follow_up = self.follow_up.emptied()
        return tuple(dropped)

    def __bool__(self) -> bool:
        return bool(self.steering) or bool(self.follow_up)


_change_by = CHANGES.get


@final
class RunAudience:
    """The agent as one run sees it (`loop.boundary.Audience`)."""

    __slots__ = ("_listeners", "_queues", "_returns", "_signal", "_view")

    def __init__(self, view: View, listeners: Listeners, queues: Queues, signal: AbortSignal, *, returns: bool) -> None:
        self._view = view
        self._listeners = listeners
        self._queues = queues
        self._signal = signal
        self._returns = returns
        listeners.begin_run()

    def tell(self, event: AgentEvent) -> Awaitable[None] | None:
        change = _change_by(type(event))
        if change is not None:
            change(self._view, event)
        only = self._listeners.only
        return only(event, self._signal) if only is not None else self._listeners.tell(event, self._signal)

    def resume(self, event: AgentEvent) -> Awaitable[None] | None:
        return self._listeners.resume(event)

    def delivered(self) -> None:
        self._queues.delivered()

    def commit(self) -> None:
        self._queues.committed = len(self._queues.leased)

    def withdrawn(self) -> tuple[Message, ...]:
        cleared, self._queues.cleared = self._queues.cleared, ()
        return cleared

    def give_back(self, leased: tuple[Message, ...]) -> tuple[Message, ...]:
        if not self._returns:
            self._queues.forget_lease()
            return leased
        self._queues.give_back()
        return ()

    def queued(self) -> bool:
        return bool(self._queues)

    def busy_with_critical(self) -> bool:
        return self._listeners.writing is not None

    def hurry(self) -> None:
        self._listeners.hurry()

    def report_to(self, note: Note) -> None:
        self._listeners.note = note
