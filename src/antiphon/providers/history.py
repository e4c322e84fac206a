"""A conversation as encoded bytes, kept from request to request.

A conversation grows at its end, so almost everything of a request body was encoded for the request before. Hand-off and
wire format are folds; a `History` keeps their state, the token estimate and the joined bytes of all finished items. The
next request feeds only the messages that are new, and the body is one join.

Whose history it is, and what surrounds the items of a request, is kept in `frames`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias, final

from antiphon.core.messages import Message, SystemMessage
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import wire_json
from antiphon.providers.estimate import TokenEstimate
from antiphon.providers.handoff import HandOff

Mark: TypeAlias = Callable[[JsonValue], JsonValue | None]
"""A changed copy of an item, such as one with a cache marker; None if this item cannot carry it."""


class Fold(Protocol):
    """Messages that went through the hand-off become items of one wire format."""

    def feed(self, message: Message) -> list[JsonObject]:
        """Items that are certain now."""
        ...

    def finish(self) -> list[JsonObject]:
        """Items that are held back. Changes nothing."""
        ...

    def copy(self) -> Fold:
        """An independent fold in the same state."""
        ...


def opening_of(fields: JsonObject, name: str, first: Sequence[JsonObject] = ()) -> bytes:
    """The beginning of a body: the fields, then the list `name` with its first items."""
    head = wire_json.encode(fields)
    before = head[:-1] + b"," if len(head) > 2 else b"{"
    return b"".join((before, wire_json.encode(name), b":[", *_encoded(first)))


@final
class History:
    """One conversation in one wire format. `in_place`: later system messages are items, too."""

    def __init__(self, fold: Fold, hand_off: HandOff, *, in_place: bool = False) -> None:
        self._fold = fold
        self._hand_off = hand_off
        self._in_place = in_place
        self._estimate = TokenEstimate()
        self._joined = bytearray()  # finished items, each followed by a comma
        self._recent: deque[tuple[int, JsonObject]] = deque(maxlen=_MARKABLE_ITEMS)  # offset and value, for marks
        self._tail: list[JsonObject] = []
        self.length = 0
        """Messages that were fed."""

    def feed(self, messages: Sequence[Message]) -> None:
        """Take in the messages behind `length`."""
        length = len(messages)
        if length > self.length:
            for message in messages[self.length :]:
                self._feed(message)
            self.length = length
            self._tail = self._behind() if self._hand_off.is_open else self._fold.finish()

    def _behind(self) -> list[JsonObject]:
        """What stands behind the finished items while calls have no result."""
        fold = self._fold.copy()
        items = [item for message in self._hand_off.tail() for item in fold.feed(message)]
        return items + fold.finish()

    def _feed(self, message: Message) -> None:
        self._estimate.feed(message)
        if not self._in_place and type(message) is SystemMessage:
            return
        joined = self._joined
        for ready in self._hand_off.feed(message):
            for item in self._fold.feed(ready):
                self._recent.append((len(joined), item))
                joined += wire_json.encode(item)
                joined += b","

    @property
    def tokens(self) -> int:
        """How many tokens the messages that were fed take, roughly."""
        return self._estimate.tokens

    @property
    def size(self) -> int:
        return len(self._joined)

    @property
    def is_empty(self) -> bool:
        """Does the wire format have no item for this conversation?"""
        return not self._joined and not self._tail

    def body(
        self,
        fields: JsonObject,
        name: str,
        first: Sequence[JsonObject] = (),
        mark: Mark | None = None,
        last: Sequence[JsonObject] = (),
        start: int = 0,
    ) -> bytes:
        """The request body: `fields`, and the items as the list `name`, between `first` and `last` (see `enclosed`)."""
        return self.enclosed(opening_of(fields, name, first), mark, last, start)

    def enclosed(
        self, opening: bytes, mark: Mark | None = None, last: Sequence[JsonObject] = (), start: int = 0
    ) -> bytes:
        """The request body that begins with `opening` (`opening_of`), with `last` behind the items.

        `mark` is offered the items from the end on, until it takes one. `start` leaves out finished items: as many
        bytes of `unmarked`.
        """
        tail = self._tail
        if mark is not None and tail:
            tail = list(tail)
            if _mark_last(tail, mark):
                mark = None
        with memoryview(self._joined) as joined:
            parts = [opening, *self._finished(joined, mark, start)]
            if tail or last:
                parts += _encoded(tail)
                parts += _encoded(last)
            return b"".join(_closed(parts))

    def unmarked(self, behind: bytes = b"") -> bytes:
        """All items without marks, each followed by a comma: what another request may have to begin with."""
        return b"".join((self._joined, *_encoded(self._tail), behind))

    def items(self) -> list[JsonValue]:
        """All items, decoded. For callers that look into them."""
        whole = self.body({}, "items")
        return list(wire_json.read(whole)["items"])

    def _finished(self, joined: memoryview, mark: Mark | None, begin: int) -> list[bytes | memoryview]:
        """The finished items; the last one that takes the mark is replaced by its marked copy."""
        if mark is not None:
            end = len(joined)
            for start, item in reversed(self._recent):
                if start < begin:
                    break
                marked = mark(item)
                if marked is not None:
                    return [joined[begin:start], wire_json.encode(marked), b",", joined[end:]]
                end = start
        return [joined[begin:]]


_MARKABLE_ITEMS: Final = 8


def _mark_last(items: list[JsonObject], mark: Mark) -> bool:
    for index in range(len(items) - 1, -1, -1):
        marked = mark(items[index])
        if marked is not None:
            items[index] = marked
            return True
    return False


def _encoded(items: Sequence[JsonObject]) -> list[bytes]:
    return [wire_json.encode(item) + b"," for item in items]


def _closed(parts: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """The parts with an end instead of the last comma. No part is copied."""
    while not len(parts[-1]):
        del parts[-1]
    last = parts[-1]
    if last[-1] == _COMMA:
        parts[-1] = memoryview(last)[:-1]
    parts.append(b"]}")
    return parts


_COMMA: Final = ord(",")
