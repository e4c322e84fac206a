"""Messages that wait for a run, as a value: first in, first out, taken one at a time or all at once."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import Struct, structs

from antiphon.core.growing import Grown, grown
from antiphon.core.messages import Message

QueueMode: TypeAlias = Literal["one-at-a-time", "all"]


@final
class Queued(Struct, frozen=True, gc=False):
    """A message with the id under which it was accepted."""

    id: str
    message: Message


@final
class MessageQueue(Struct, frozen=True, gc=False):
    """`items` from `start` on are waiting. Pushing and taking one are O(1)."""

    items: Grown[Queued]
    start: int = 0
    mode: QueueMode = "one-at-a-time"

    def push(self, item: Queued) -> MessageQueue:
        return structs.replace(self, items=self.items.append(item))

    def take(self) -> tuple[tuple[Queued, ...], MessageQueue]:
        """What one poll takes, and the rest."""
        taken = self.peek()
        return taken, structs.replace(self, start=self.start + len(taken))

    def peek(self) -> tuple[Queued, ...]:
        """What the next poll would take."""
        if self.start == self.items.count:
            return ()
        if self.mode == "all":
            return self.waiting()
        return (self.items.items[self.start],)

    def waiting(self) -> tuple[Queued, ...]:
        """Everything that waits, oldest first."""
        return tuple(self.items.items[self.start : self.items.count])

    def put_back(self, items: tuple[Queued, ...]) -> MessageQueue:
        """These wait again, before all others, in their order."""
        queue = self.emptied()
        for item in (*items, *self.waiting()):
            queue = queue.push(item)
        return queue

    def emptied(self) -> MessageQueue:
        """Nothing waits; the mode stays."""
        return MessageQueue(grown(), 0, self.mode)

    def __bool__(self) -> bool:
        return self.start < self.items.count


def empty_queue(mode: QueueMode = "one-at-a-time") -> MessageQueue:
    return MessageQueue(grown(), 0, mode)
