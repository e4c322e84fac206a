"""Requests that differ from the last one of their conversation by new messages only: what surrounds those is kept.

A `HistoryCache` finds the history of a transcript by the identity of its storage. Whatever else the items depend on
(model, flags) is the `key` of a `Plan`; under another key the history is built anew. A `Frame` is the rest of a
request. It holds as long as model, options and prompt stay, and while the room for the answer is no other.
Conversations that have not been asked about for a while are dropped when bytes or conversations grow beyond a budget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, final

from msgspec import Struct

from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.system_state import SystemState
from antiphon.core.transcript import Transcript
from antiphon.core.wire import JsonObject
from antiphon.providers.estimate import room_for
from antiphon.providers.history import History, Mark
from antiphon.providers.options import CallOptions
from antiphon.providers.system_text import folded_state

BUDGET_BYTES: Final = 64 * 1024 * 1024
BUDGET_CONVERSATIONS: Final = 256


class Frame(Struct, frozen=True):
    """What surrounds the items of a request. `opening`: see `history.opening_of`; `more`: what a family needs beside.

    `steady`: it does not depend on the messages, so that it may be used again.
    """

    url: str
    headers: Mapping[str, str]
    opening: bytes
    mark: Mark | None = None
    last: Sequence[JsonObject] = ()
    more: Any = None
    steady: bool = True


class Plan(Protocol):
    """How a conversation is put into requests of one family."""

    @property
    def key(self) -> object:
        """All that the items depend on beside the messages."""
        ...

    def history(self) -> History:
        """An empty one."""
        ...

    def frame(self, history: History) -> Frame:
        """What surrounds the items now.

        Raises:
            NotConvertible: a tool insists on what it cannot have.
        """
        ...


MakePlan: TypeAlias = Callable[[ModelRequest, CallOptions, SystemState], Plan]


@final
class _Conversation:
    """A history, and how it was asked about last."""

    __slots__ = ("frame", "history", "how", "key", "model", "plan", "room", "state", "storage")

    def __init__(self, storage: object, key: object, history: History) -> None:
        self.storage = storage
        self.key = key
        self.history = history
        self.frame: Frame | None = None

    def is_asked_again(self, model: Model, state: SystemState, how: object) -> bool:
        return self.frame is not None and self.state is state and self.model is model and self.how == how

    def asked(self, model: Model, state: SystemState, how: object, plan: Plan, room: int) -> Frame:
        """The frame for this way of asking, which is remembered."""
        self.model, self.state, self.how, self.plan, self.room = model, state, how, plan, room
        frame = plan.frame(self.history)
        self.frame = frame if frame.steady else None
        return frame


@final
class HistoryCache:
    """Conversations, the least recently used one first."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._entries: OrderedDict[int, _Conversation] = OrderedDict()
        self._bytes = 0

    def framed(
        self, request: ModelRequest, options: CallOptions, make: MakePlan, more: object = None
    ) -> tuple[History, Frame]:
        """The history of these messages, fed with all of them, and the frame. They are valid until the next call.

        `more`: what the plan depends on beside model, options and prompt.
        """
        messages, model = request.messages, request.model
        state = folded_state(messages)
        how = (options.fingerprint(), more)
        entry = self._entries.get(id(messages.storage)) if isinstance(messages, Transcript) else None
        if entry is None or not entry.is_asked_again(model, state, how) or not self._grown(entry, messages):
            plan = make(request, options, state)
            entry = self._entry(messages, plan.key, plan.history)
            return entry.history, entry.asked(model, state, how, plan, _room(model, options, entry.history))
        room = _room(model, options, entry.history)
        if entry.frame is not None and entry.room == room:
            return entry.history, entry.frame
        return entry.history, entry.asked(model, state, how, entry.plan, room)

    def history(self, messages: Sequence[Message], key: object, make: Callable[[], History]) -> History:
        """The history of these messages, fed with all of them. It is valid until the next call."""
        return self._entry(messages, key, make).history

    def _entry(self, messages: Sequence[Message], key: object, make: Callable[[], History]) -> _Conversation:
        if not isinstance(messages, Transcript):
            entry = _Conversation(None, key, make())
            entry.history.feed(messages)
            return entry
        storage = messages.storage
        known = self._entries.get(id(storage))
        if known is not None and known.key == key and self._grown(known, messages):
            return known
        if known is not None:
            self._bytes -= known.history.size
        entry = _Conversation(storage, key, make())
        entry.history.feed(messages)
        self._bytes += entry.history.size
        self._entries[id(storage)] = entry
        self._entries.move_to_end(id(storage))
        self._shrink()
        return entry

    def _grown(self, entry: _Conversation, messages: Sequence[Message]) -> bool:
        """Feed a known conversation with what is new; False if these messages are not it, or an earlier part of it."""
        history = entry.history
        if not isinstance(messages, Transcript) or entry.storage is not messages.storage:
            return False
        if history.length > len(messages):
            return False
        before = history.size
        history.feed(messages)
        self._bytes += history.size - before
        self._entries.move_to_end(id(entry.storage))
        if self._bytes > self._budget:
            self._shrink()
        return True

    def _shrink(self) -> None:
        while len(self._entries) > 1 and (self._bytes > self._budget or len(self._entries) > BUDGET_CONVERSATIONS):
            _, entry = self._entries.popitem(last=False)
            self._bytes -= entry.history.size


def _room(model: Model, options: CallOptions, history: History) -> int:
    """The room for the answer, as far as a frame can depend on it: no more than could be asked for."""
    asked = model.max_tokens if options.max_tokens is None else max(options.max_tokens, model.max_tokens)
    return min(asked, room_for(model, history.tokens))
