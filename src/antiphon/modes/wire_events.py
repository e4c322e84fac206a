"""Events of a conversation as lines of JSON, as programs read them. Pure.

A `message_update` carries only what is new: the growing message would make a stream quadratic in size. Everything else
is the event as it is. Source: modes specification 7.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.content import ToolCall
from antiphon.core.events import AgentEnd, MessageUpdate
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import (
    Done,
    Failed,
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
from antiphon.core.session_events import EntryAppended, RunEnded, SessionEvent
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject, encode, to_wire
from antiphon.session_log.entries import entry_to_wire


class PieceBase(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """What is new in an answer."""


@final
class Begun(PieceBase, frozen=True, tag="start"):
    """The answer begins. Normally not sent: it becomes `message_start`."""


@final
class TextBegan(PieceBase, frozen=True, tag="text_start"):
    content_index: int


@final
class TextGrew(PieceBase, frozen=True, tag="text_delta"):
    content_index: int
    delta: str


@final
class TextEnded(PieceBase, frozen=True, tag="text_end"):
    content_index: int
    content: str


@final
class ThinkingBegan(PieceBase, frozen=True, tag="thinking_start"):
    content_index: int


@final
class ThinkingGrew(PieceBase, frozen=True, tag="thinking_delta"):
    content_index: int
    delta: str


@final
class ThinkingEnded(PieceBase, frozen=True, tag="thinking_end"):
    content_index: int
    content: str


@final
class CallBegan(PieceBase, frozen=True, tag="toolcall_start"):
    content_index: int
    id: str
    tool_name: str


@final
class CallGrew(PieceBase, frozen=True, tag="toolcall_delta"):
    content_index: int
    delta: str


@final
class CallEnded(PieceBase, frozen=True, tag="toolcall_end"):
    content_index: int
    tool_call: ToolCall


@final
class Ended(PieceBase, frozen=True, tag="done"):
    """The answer is complete. Normally not sent: it becomes `message_end`."""

    reason: str
    message: AssistantMessage


@final
class Broke(PieceBase, frozen=True, tag="error"):
    """The answer failed. Normally not sent: it becomes `message_end`."""

    reason: str
    error: AssistantMessage


Piece: TypeAlias = (
    Begun
    | TextBegan
    | TextGrew
    | TextEnded
    | ThinkingBegan
    | ThinkingGrew
    | ThinkingEnded
    | CallBegan
    | CallGrew
    | CallEnded
    | Ended
    | Broke
)


@final
class Update(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="message_update"):
    """An answer grew. `usage`: that of the answer so far; it may be zero until the end."""

    usage: Usage
    assistant_message_event: Piece


def piece(event: ResponseEvent) -> Piece:
    """What is new in an answer, as it stands on the wire."""
    match event:
        case TextDelta():
            return TextGrew(content_index=event.content_index, delta=event.delta)
        case ThinkingDelta():
            return ThinkingGrew(content_index=event.content_index, delta=event.delta)
        case ToolCallDelta():
            return CallGrew(content_index=event.content_index, delta=event.delta)
        case TextStart():
            return TextBegan(content_index=event.content_index)
        case ThinkingStart():
            return ThinkingBegan(content_index=event.content_index)
        case ToolCallStart():
            return CallBegan(content_index=event.content_index, id=event.id, tool_name=event.name)
        case TextEnd():
            return TextEnded(content_index=event.content_index, content=event.content)
        case ThinkingEnd():
            return ThinkingEnded(content_index=event.content_index, content=event.content)
        case ToolCallEnd():
            return CallEnded(content_index=event.content_index, tool_call=event.tool_call)
        case Done():
            return Ended(reason=event.reason, message=event.message)
        case Failed():
            return Broke(reason=event.reason, error=event.error)
        case Start():
            return Begun()


def line(event: SessionEvent | AgentEnd) -> bytes:
    """The line of an event, its end included."""
    if type(event) is MessageUpdate:
        usage = cast("AssistantMessage", event.message).usage
        return encode(Update(usage=usage, assistant_message_event=piece(event.assistant_message_event))) + b"\n"
    if type(event) is EntryAppended:
        return encode({"type": event.type, "entry": entry_to_wire(event.entry)}) + b"\n"
    if type(event) is AgentEnd:  # of an agent without a session
        event = RunEnded(messages=event.messages, will_retry=False)
    return encode(event) + b"\n"


def record(event: SessionEvent | AgentEnd) -> JsonObject:
    """The same as a JSON object."""
    return cast("JsonObject", msgspec.json.decode(line(event)))


def line_of(value: JsonObject) -> bytes:
    """The line of a record that is no event."""
    return encode({name: item for name, item in value.items() if item is not UNSET}) + b"\n"


def header_line(header: Any) -> bytes:
    """The first line of the JSON mode: what a session file begins with, without what only files need."""
    given = to_wire(header)
    order = ("type", "version", "id", "timestamp", "cwd", "parentSession")
    return encode({name: given[name] for name in order if name in given}) + b"\n"
