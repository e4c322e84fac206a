"""What waits, as a person sees it: the user's queued messages with their ids, until each is delivered.

The queues themselves belong to the agent. A delivery is recognised by the message itself, not by its text, so two
equal texts and pictures without a text are told apart. Messages of extensions are queued, but not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.content import Image, text_of
from antiphon.core.messages import Message, UserMessage
from antiphon.core.session_events import QueuedItem, QueueUpdate

Kind: TypeAlias = Literal["steering", "followUp"]


@final
class ClearedQueue(Struct, frozen=True):
    """The texts that were taken out of the queues."""

    steering: tuple[str, ...] = ()
    follow_up: tuple[str, ...] = ()


@final
class QueueView:
    """Shown items, oldest first."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[QueuedItem, Message]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item_id: str, kind: Kind, message: UserMessage) -> None:
        content = message.content
        images = not isinstance(content, str) and any(type(block) is Image for block in content)
        item = QueuedItem(id=item_id, kind=kind, text=text_of(content), has_images=images)
        self._waiting.append((item, message))

    def delivered(self, message: Message) -> bool:
        """Take a message out that is being told; was it shown?"""
        for place, (_, waiting) in enumerate(self._waiting):
            if waiting is message:
                del self._waiting[place]
                return True
        return False

    def dropped(self, messages: Iterable[Message]) -> ClearedQueue:
        """Take out messages that were removed from the queues; gives their texts."""
        gone = {id(message) for message in messages}
        out = [item for item, message in self._waiting if id(message) in gone]
        self._waiting = [(item, message) for item, message in self._waiting if id(message) not in gone]
        return ClearedQueue(_texts(out, "steering"), _texts(out, "followUp"))

    def texts(self, kind: Kind) -> tuple[str, ...]:
        return _texts([item for item, _ in self._waiting], kind)

    def event(self) -> QueueUpdate:
        """All that waits now."""
        return QueueUpdate(
            steering=self.texts("steering"),
            follow_up=self.texts("followUp"),
            items=tuple(item for item, _ in self._waiting),
        )


def _texts(items: Iterable[QueuedItem], kind: Kind) -> tuple[str, ...]:
    return tuple(item.text for item in items if item.kind == kind)
