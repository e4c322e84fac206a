"""A conversation as encoded bytes, kept from request to request.

A conversation grows at its end, so almost everything of a request body was encoded for the request before. Hand-off and
wire format are folds; a `History` keeps their state, the token estimate and the joined bytes of all finished items. The
next request feeds only the messages that are new, and the body is one join.

A `HistoryCache` finds the history of a transcript by the identity of its storage. Whatever else the items depend on
(model, flags) is the `key`; under another key the history is built anew. Conversations that have not been asked about
for a while are dropped when bytes or conversations grow beyond a budget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, final

from antiphon.core.messages import Message, SystemMessage
from antiphon.core.transcript import Transcript
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import wire_json
from antiphon.providers.estimate import ContextTokens, TokenEstimate
from antiphon.providers.handoff import HandOff

BUDGET_BYTES: Final = 64 * 1024 * 1024
BUDGET_CONVERSATIONS: Final = 256

Mark: TypeAlias = Callable[[JsonValue], JsonValue | None]
"""A changed copy of an item, such as one with a cache marker; None if this item cannot carry it."""


class Fold(Protocol):
    """Messages that went through the hand-off become items of one wire format."""

    def feed(self, message: Message) -> list[JsonObject]:
        """Items that are certain now."""
        ...

    def finish(self) -> list[JsonObject]:
        """Items that are held back. Called on a copy, once."""
        ...

    def copy(self) -> Fold:
        """An independent fold in the same state."""
        ...


@dataclass(frozen=True, slots=True)
class Frame:
    """What surrounds the items of a request and mostly is the same from turn to turn."""

    headers: dict[str, str]
    opening: bytes


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
        self._recent: list[tuple[int, JsonObject]] = []  # offset and value of the last items, for marks
        self._tail: list[JsonObject] = []
        self._frame: tuple[object, object, Frame] | None = None
        self.length = 0
        """Messages that were fed."""

    def feed(self, messages: Sequence[Message]) -> None:
        """Take in the messages behind `length`."""
        if len(messages) > self.length:
            for index in range(self.length, len(messages)):
                self._feed(messages[index])
            self.length = len(messages)
            fold = self._fold.copy()
            tail = [item for message in self._hand_off.tail() for item in fold.feed(message)]
            self._tail = tail + fold.finish()

    def _feed(self, message: Message) -> None:
        self._estimate.feed(message)
        if not self._in_place and type(message) is SystemMessage:
            return
        for ready in self._hand_off.feed(message):
            for item in self._fold.feed(ready):
                self._append(item)

    def _append(self, item: JsonObject) -> None:
        self._recent.append((len(self._joined), item))
        if len(self._recent) > _MARKABLE_ITEMS:
            del self._recent[0]
        self._joined += wire_json.encode(item)
        self._joined += b","

    @property
    def tokens(self) -> ContextTokens:
        """The estimate for the messages that were fed."""
        return self._estimate.now

    def framed(self, of: object, how: object, make: Callable[[], Frame]) -> Frame:
        """The frame for the next request. It is made again if `of` is another object or `how` another value."""
        if self._frame is None or self._frame[0] is not of or self._frame[1] != how:
            self._frame = (of, how, make())
        return self._frame[2]

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
        tail = list(self._tail)
        if mark is not None and _mark_last(tail, mark):
            mark = None
        with memoryview(self._joined) as joined:
            finished = self._finished(joined, mark, start)
            parts = [opening, *finished, *_encoded(tail), *_encoded(last)]
            return b"".join(_closed([part for part in parts if len(part)]))

    def unmarked(self) -> bytes:
        """All items without marks, each followed by a comma: what another request may have to begin with."""
        return b"".join((self._joined, *_encoded(self._tail)))

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
    last = parts[-1]
    if last[-1] == _COMMA:
        parts[-1] = memoryview(last)[:-1]
    parts.append(b"]}")
    return parts


_COMMA: Final = ord(",")


@final
class HistoryCache:
    """Histories by conversation, the least recently used one first."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._entries: OrderedDict[int, tuple[object, object, History]] = OrderedDict()
        self._bytes = 0

    def history(self, messages: Sequence[Message], key: object, make: Callable[[], History]) -> History:
        """The history of these messages, fed with all of them. It is valid until the next call."""
        if not isinstance(messages, Transcript):
            fresh = make()
            fresh.feed(messages)
            return fresh
        storage = messages.storage
        known = self._entries.pop(id(storage), None)
        history: History | None = None
        if known is not None:
            self._bytes -= known[2].size
            if known[0] is storage and known[2].length <= len(messages) and known[1] == key:
                history = known[2]
        if history is None:
            history = make()
        history.feed(messages)
        self._entries[id(storage)] = (storage, key, history)
        self._bytes += history.size
        self._shrink()
        return history

    def _shrink(self) -> None:
        while len(self._entries) > 1 and (self._bytes > self._budget or len(self._entries) > BUDGET_CONVERSATIONS):
            _, (_, _, history) = self._entries.popitem(last=False)
            self._bytes -= history.size
