"""The answer while it grows: a fold of response events that is computed when somebody looks.

A delta costs O(1): it is appended to the log of its response, and the snapshot in the event is a position in that log.
Reading `content` folds what has arrived since the last look, so a display that reads at every delta pays for each piece
once, and one that never looks pays nothing. A snapshot keeps showing its own moment: one that is older than the last
look is folded again from the start.

Whatever `content` gives is a value of its own: partial arguments that were handed out never change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, final

from msgspec import UNSET, Struct, UnsetType, structs

from antiphon.core.content import Block, Content, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import (
    Growth,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject


class _OpenText:
    """A text or thinking block that grows; pieces are joined when the block is looked at."""

    __slots__ = ("make", "parts", "text")

    def __init__(self, make: Callable[[str], Text | Thinking]) -> None:
        self.make = make
        self.text = ""
        self.parts: list[str] = []

    def block(self) -> Block:
        if self.parts:
            self.text += "".join(self.parts)
            self.parts.clear()
        return self.make(self.text)


class _OpenCall:
    """A call whose arguments are still arriving; the reader goes over each piece once."""

    __slots__ = ("given", "id", "name", "reader")

    def __init__(self, id_: str, name: str) -> None:
        from antiphon.core.partial_json import PartialReader  # loaded when somebody looks at a growing call

        self.id, self.name = id_, name
        self.reader = PartialReader()
        self.given: JsonObject | UnsetType = UNSET

    def block(self) -> Block:
        arguments = self.reader.arguments_now() if self.given is UNSET else self.given
        return ToolCall(id=self.id, name=self.name, arguments=arguments)


_Open = _OpenText | _OpenCall


class _Fold:
    """Blocks after the first `position` events of a response."""

    __slots__ = ("blocks", "position")

    def __init__(self, content: Content) -> None:
        self.blocks: list[Block | _Open] = list(content)
        self.position = 0

    def advance(self, events: list[Growth], count: int) -> None:
        for index in range(self.position, count):
            event = events[index]
            _APPLY[type(event)](self.blocks, event)
        self.position = count

    def content(self) -> Content:
        return tuple([b.block() if isinstance(b, _OpenText | _OpenCall) else b for b in self.blocks])


def _put(blocks: list[Block | _Open], index: int, block: Block | _Open) -> None:
    """Place a block; a gap that a provider left is filled with empty texts, so positions stay true."""
    while len(blocks) <= index:
        blocks.append(Text(text=""))
    blocks[index] = block


def _text_like(blocks: list[Block | _Open], index: int, make: Callable[[str], Text | Thinking]) -> _OpenText:
    """The open text at `index`; opened now if the provider never said that it starts."""
    found = blocks[index] if index < len(blocks) else None
    if isinstance(found, _OpenText):
        return found
    opened = _OpenText(make)
    if isinstance(found, Text):
        opened.text = found.text
    elif isinstance(found, Thinking):
        opened.text = found.thinking
    _put(blocks, index, opened)
    return opened


def _plain_text(text: str) -> Text:
    return Text(text=text)


def _plain_thinking(text: str) -> Thinking:
    return Thinking(thinking=text)


def _text_start(blocks: list[Block | _Open], event: TextStart) -> None:
    opened = _OpenText(_plain_text)
    if event.block is not UNSET:
        start = event.block
        opened.make = lambda text: structs.replace(start, text=text)
        opened.text = start.text
    _put(blocks, event.content_index, opened)


def _text_delta(blocks: list[Block | _Open], event: TextDelta) -> None:
    _text_like(blocks, event.content_index, _plain_text).parts.append(event.delta)


def _text_end(blocks: list[Block | _Open], event: TextEnd) -> None:
    _put(blocks, event.content_index, Text(text=event.content) if event.block is UNSET else event.block)


def _thinking_start(blocks: list[Block | _Open], event: ThinkingStart) -> None:
    opened = _OpenText(_plain_thinking)
    if event.block is not UNSET:
        start = event.block
        opened.make = lambda text: structs.replace(start, thinking=text)
        opened.text = start.thinking
    _put(blocks, event.content_index, opened)


def _thinking_delta(blocks: list[Block | _Open], event: ThinkingDelta) -> None:
    _text_like(blocks, event.content_index, _plain_thinking).parts.append(event.delta)


def _thinking_end(blocks: list[Block | _Open], event: ThinkingEnd) -> None:
    block = Thinking(thinking=event.content) if event.block is UNSET else event.block
    _put(blocks, event.content_index, block)


def _call_start(blocks: list[Block | _Open], event: ToolCallStart) -> None:
    _put(blocks, event.content_index, _OpenCall(event.id, event.name))


def _call_delta(blocks: list[Block | _Open], event: ToolCallDelta) -> None:
    index = event.content_index
    found = blocks[index] if index < len(blocks) else None
    if not isinstance(found, _OpenCall):
        found = _OpenCall("", "")
        _put(blocks, index, found)
    found.reader.feed(event.delta)
    found.given = event.arguments


def _call_end(blocks: list[Block | _Open], event: ToolCallEnd) -> None:
    _put(blocks, event.content_index, event.tool_call)


_APPLY: dict[type, Callable[[list[Block | _Open], Any], None]] = {
    TextStart: _text_start,
    TextDelta: _text_delta,
    TextEnd: _text_end,
    ThinkingStart: _thinking_start,
    ThinkingDelta: _thinking_delta,
    ThinkingEnd: _thinking_end,
    ToolCallStart: _call_start,
    ToolCallDelta: _call_delta,
    ToolCallEnd: _call_end,
}


@final
class ResponseLog:
    """The events of one response, append-only, shared by all snapshots of its answer."""

    __slots__ = ("base", "events", "fold")

    def __init__(self, base: AssistantMessage) -> None:
        self.base = base
        self.events: list[Growth] = []
        self.fold: _Fold | None = None

    def content(self, count: int) -> Content:
        fold = self.fold
        if fold is None or fold.position > count:
            fold = _Fold(self.base.content)
            if self.fold is None:
                self.fold = fold
        fold.advance(self.events, count)
        return fold.content()


@final
class AnswerSoFar(Struct, frozen=True, gc=False, eq=False, weakref=False):
    """A snapshot of a growing answer. It reads like an `AssistantMessage` whose stop reason is `pending`."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    stop_reason: ClassVar[Literal["pending"]] = "pending"

    log: ResponseLog
    count: int

    @property
    def content(self) -> Content:
        """The blocks at this moment. Folded on demand."""
        return self.log.content(self.count)

    @property
    def api(self) -> str:
        return self.log.base.api

    @property
    def provider(self) -> str:
        return self.log.base.provider

    @property
    def model(self) -> str:
        return self.log.base.model

    @property
    def usage(self) -> Usage:
        return self.log.base.usage

    @property
    def timestamp(self) -> int | float:
        return self.log.base.timestamp

    def freeze(self) -> AssistantMessage:
        """This moment as an ordinary message (stop reason `pending`)."""
        return structs.replace(self.log.base, content=self.content, stop_reason="pending")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnswerSoFar) and self.freeze() == other.freeze()

    def grow(self, event: Growth) -> AnswerSoFar:
        """The answer after one more event. O(1), unless this snapshot was grown before (then a log of its own)."""
        log, count = self.log, self.count
        if len(log.events) != count:
            log = self._fork()
        log.events.append(event)
        return AnswerSoFar(log, count + 1)

    def _fork(self) -> ResponseLog:
        copy = ResponseLog(self.log.base)
        copy.events = self.log.events[: self.count]
        return copy


def answer_begun(base: AssistantMessage) -> AnswerSoFar:
    """An answer of which nothing but `base` has arrived."""
    return AnswerSoFar(ResponseLog(base), 0)
