"""The conversation so far, as a value that grows at one end.

A `Transcript` is a window of some length on shared storage. Appending writes behind the window and returns a longer
window: O(1), nothing is copied, and every earlier window still shows what it showed. If two windows of one length are
extended differently (a fork), the second one gets storage of its own; extended by the same message, they stay together.

The replayed system state rides along: it is computed once and then updated by each appended system message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast, final, overload

from antiphon.core.messages import HostMessage, Message, SystemMessage
from antiphon.core.system_state import SystemState

_new: Callable[[type[Any]], Any] = object.__new__


@final
class Transcript(Sequence[Message]):
    """Append-only sequence of messages with O(1) append and snapshot. Treat it as immutable: it is."""

    __slots__ = ("_hosts", "_items", "_length", "_system")

    _items: list[Message]
    _length: int
    _hosts: int
    _system: SystemState | None

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        if isinstance(messages, Transcript):
            self._items, self._length = messages._items, messages._length
            self._hosts, self._system = messages._hosts, messages._system
            return
        self._items = list(messages)
        self._length = len(self._items)
        self._hosts = _hosts_among(self._items)
        self._system = None

    def append(self, message: Message) -> Transcript:
        """A transcript with one more message. O(1), unless this window was extended before (then O(n))."""
        longer: Transcript = _new(Transcript)
        items, length = self._items, self._length
        if len(items) == length:
            items.append(message)
        elif items[length] is not message:  # extended by somebody else, and differently
            items = [*items[:length], message]
        longer._items = items
        longer._length = length + 1
        longer._hosts = self._hosts
        longer._system = self._system
        kind = type(message)
        if kind is HostMessage:
            longer._hosts += 1
        elif kind is SystemMessage and self._system is not None:
            longer._system = self._system.apply(cast("SystemMessage", message))
        return longer

    def extend(self, messages: Iterable[Message]) -> Transcript:
        """A transcript with these messages behind the present ones."""
        longer = self
        for message in messages:
            longer = longer.append(message)
        return longer

    def replaced(self, start: int, stop: int, messages: Sequence[Message]) -> Transcript:
        """A transcript with these messages in place of `start:stop`. Copies references; looks at no other message."""
        taken = self._items[start:stop]
        changed = Transcript.__new__(Transcript)
        changed._items = self._items[: self._length]
        changed._items[start:stop] = messages
        changed._length = len(changed._items)
        changed._hosts = self._hosts + _hosts_among(messages) - _hosts_among(taken)
        systems = any(isinstance(message, SystemMessage) for message in (*taken, *messages))
        changed._system = None if systems else self._system
        return changed

    @property
    def system(self) -> SystemState:
        """Prompt and tools in force after the last message. O(n) once, then kept up to date."""
        if self._system is None:
            state = SystemState()
            for message in self:
                if type(message) is SystemMessage:
                    state = state.apply(message)
            self._system = state
        return self._system

    @property
    def has_host_messages(self) -> bool:
        """Are there messages of host roles, which a model must not see? O(1)."""
        return self._hosts > 0

    @property
    def storage(self) -> object:
        """Identity of the shared storage: two windows with the same storage agree on their common length."""
        return self._items

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Message]:
        items = self._items
        return iter(items) if len(items) == self._length else iter(items[: self._length])

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return tuple(self._items[start:stop])
            return tuple(self._items[i] for i in range(start, stop, step))
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        if self._items is other._items:
            return self._length == other._length
        return self._length == other._length and all(a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"<Transcript of {self._length} messages>"


def _hosts_among(messages: Iterable[Message]) -> int:
    return sum(1 for message in messages if type(message) is HostMessage)
