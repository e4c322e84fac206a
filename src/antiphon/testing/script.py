"""What a scripted model will say: answers as values, written the way one tells a conversation.

    [says("Let me look. ") + calls("A", "B"), says("Hel", "lo"), fails("overloaded")]

An `Answer` is streamed as a provider would stream it: start, then per block its start, its pieces and its end, then the
final message. How it goes wrong, waits or ignores an abort is part of the value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.content import Block, Content, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, StopReason
from antiphon.core.model import Model
from antiphon.core.response_events import (
    Done,
    Failed,
    Growth,
    ResponseEvent,
    Start,
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
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.core.wire import JsonObject, encode
from antiphon.testing.gate import Gate

SCRIPTED_MODEL = Model(id="scripted-1", provider="scripted", api="scripted", name="Scripted model")

Ending: TypeAlias = Literal["final", "silence", "waiting"]


@final
@dataclass(frozen=True, slots=True)
class Part:
    """One block and the pieces in which its text, or the JSON text of its arguments, arrives."""

    block: Text | Thinking | ToolCall
    pieces: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class Hold:
    """Wait at a gate before the event with this number (0 is the start event)."""

    before: int
    gate: Gate


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of a scripted model. Made by `says`, `calls`, `fails`, …; refined by its methods.

    `ending`: with a final message, without one (the stream just ends), or not at all (it waits for ever). `error` is
    raised before event number `error_before`; without that number the stream function itself raises it.
    """

    parts: tuple[Part, ...] = ()
    stop_reason: StopReason = "stop"
    error_message: str | UnsetType = UNSET
    usage: Usage = NO_USAGE
    holds: tuple[Hold, ...] = ()
    ending: Ending = "final"
    error: BaseException | None = None
    error_before: int | None = None
    heeds_abort: bool = True

    @property
    def content(self) -> Content:
        """The blocks of the finished answer."""
        return tuple(part.block for part in self.parts)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools that this answer calls, in call order."""
        return tuple(block.name for block in self.content if isinstance(block, ToolCall))

    def __add__(self, more: Answer) -> Answer:
        """This answer with the blocks of `more` behind; how it ends is decided by `more`."""
        calls_something = bool(self.tool_names or more.tool_names)
        stop_reason: StopReason = "toolUse" if more.stop_reason == "stop" and calls_something else more.stop_reason
        return replace(more, parts=(*self.parts, *more.parts), stop_reason=stop_reason, holds=self.holds + more.holds)

    def held(self, gate: Gate, *, before: int = 0) -> Answer:
        """The same answer, waiting at `gate` before its event number `before` (0: before anything arrives)."""
        return replace(self, holds=(*self.holds, Hold(before, gate)))

    def costing(self, usage: Usage) -> Answer:
        """The same answer with this usage."""
        return replace(self, usage=usage)

    def ignoring_abort(self) -> Answer:
        """The same answer from a model that does not look at its abort signal."""
        return replace(self, heeds_abort=False)

    def message(self, model: Model = SCRIPTED_MODEL) -> AssistantMessage:
        """The final message as `model` would give it."""
        return AssistantMessage(
            content=self.content,
            api=model.api,
            provider=model.provider,
            model=model.id,
            usage=self.usage,
            stop_reason=self.stop_reason,
            error_message=self.error_message,
        )


def says(*pieces: str) -> Answer:
    """A text answer, streamed in these pieces; the text is all of them together."""
    return Answer(parts=(Part(Text(text="".join(pieces)), pieces),))


def thinks(*pieces: str) -> Answer:
    """Reasoning, streamed in these pieces; put the visible answer behind: `thinks("hm") + says("yes")`."""
    return Answer(parts=(Part(Thinking(thinking="".join(pieces)), pieces),))


def call(name: str, arguments: JsonObject | None = None, *, id: str | None = None) -> Answer:  # noqa: A002
    """An answer that calls one tool. The id of the call is the name of the tool unless `id` says otherwise."""
    block = ToolCall(id=name if id is None else id, name=name, arguments=arguments or {})
    return Answer(parts=(Part(block, (encode(block.arguments).decode(),)),), stop_reason="toolUse")


def calls(*wanted: str | Answer) -> Answer:
    """An answer with several calls: names of tools to call without arguments, or answers made by `call`."""
    answers = [call(item) if isinstance(item, str) else item for item in wanted]
    parts = tuple(part for answer in answers for part in answer.parts)
    return Answer(parts=parts, stop_reason="toolUse")


def fails(message: str = "the model failed", *, after: Answer | None = None) -> Answer:
    """An answer that ends with an error, as providers report it; `after` is what had arrived by then."""
    begun = after or Answer()
    return replace(begun, stop_reason="error", error_message=message)


def cut_off(answer: Answer) -> Answer:
    """The same answer, cut off by the output limit."""
    return replace(answer, stop_reason="length")


def raises(error: BaseException) -> Answer:
    """A stream function that breaks its contract and raises instead of answering."""
    return Answer(error=error)


def breaks(answer: Answer, error: BaseException, *, before: int | None = None) -> Answer:
    """An answer whose stream raises while it is read: before event number `before`, else before the final message."""
    last = len(events_of(answer, SCRIPTED_MODEL)) - 1
    return replace(answer, error=error, error_before=last if before is None else before)


def falls_silent(answer: Answer) -> Answer:
    """An answer that never ends: everything arrives but the final message. An abort ends it unless it is ignored."""
    return replace(answer, ending="waiting")


def stops_short(answer: Answer) -> Answer:
    """An answer whose stream just ends, without a final message."""
    return replace(answer, ending="silence")


def names_called(answers: Iterable[object]) -> tuple[str, ...]:
    """The tools that the answers of a script call, each once, in order of appearance."""
    names = (name for answer in answers if isinstance(answer, Answer) for name in answer.tool_names)
    return tuple(dict.fromkeys(names))


def events_of(answer: Answer, model: Model) -> list[ResponseEvent]:
    """The answer as the response events of a provider, the final message included."""
    final = answer.message(model)
    begun = AssistantMessage(
        content=(), api=model.api, provider=model.provider, model=model.id, usage=NO_USAGE, stop_reason="pending"
    )
    events: list[ResponseEvent] = [Start(message=begun)]
    for index, part in enumerate(answer.parts):
        events.extend(_growth(index, part))
    if answer.stop_reason in ("error", "aborted"):
        events.append(Failed(reason=answer.stop_reason, error=final))
    else:
        events.append(Done(reason=answer.stop_reason, message=final))
    return events


def _growth(index: int, part: Part) -> list[Growth]:
    block = part.block
    if isinstance(block, Text):
        deltas: list[Growth] = [TextDelta(content_index=index, delta=piece) for piece in part.pieces]
        return [TextStart(content_index=index), *deltas, TextEnd(content_index=index, content=block.text)]
    if isinstance(block, Thinking):
        deltas = [ThinkingDelta(content_index=index, delta=piece) for piece in part.pieces]
        return [ThinkingStart(content_index=index), *deltas, ThinkingEnd(content_index=index, content=block.thinking)]
    deltas = [ToolCallDelta(content_index=index, delta=piece) for piece in part.pieces]
    start = ToolCallStart(content_index=index, id=block.id, name=block.name)
    return [start, *deltas, ToolCallEnd(content_index=index, tool_call=block)]


__all__ = [
    "SCRIPTED_MODEL",
    "Answer",
    "Block",
    "Hold",
    "Part",
    "breaks",
    "call",
    "calls",
    "cut_off",
    "events_of",
    "fails",
    "falls_silent",
    "names_called",
    "raises",
    "says",
    "stops_short",
    "thinks",
]
