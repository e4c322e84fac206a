"""Events of a conversation as JSON records, as programs read them. Pure.

A `message_update` carries only what is new: the growing message would make a stream quadratic in size.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from antiphon.core.events import AgentEnd, AgentEvent, MessageUpdate
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
from antiphon.core.wire import JsonObject, encode, to_wire


def record(event: AgentEvent) -> JsonObject:
    """The record of an event."""
    if type(event) is MessageUpdate:
        return {
            "type": event.type,
            "usage": to_wire(event.message.usage),  # type: ignore[union-attr]  # only answers grow
            "assistantMessageEvent": response_record(event.assistant_message_event),
        }
    if type(event) is AgentEnd:
        return {"type": event.type, "messages": to_wire(event.messages), "willRetry": False}
    out: JsonObject = to_wire(event)
    return out


def response_record(event: ResponseEvent) -> JsonObject:
    """What is new in an answer."""
    out: dict[str, Any] = {"type": event.type}
    match event:
        case TextStart() | ThinkingStart():
            out["contentIndex"] = event.content_index
        case TextDelta() | ThinkingDelta() | ToolCallDelta():
            out |= {"contentIndex": event.content_index, "delta": event.delta}
        case TextEnd() | ThinkingEnd():
            out |= {"contentIndex": event.content_index, "content": event.content}
        case ToolCallStart():
            out |= {"contentIndex": event.content_index, "id": event.id, "toolName": event.name}
        case ToolCallEnd():
            out |= {"contentIndex": event.content_index, "toolCall": to_wire(event.tool_call)}
        case Done():
            out |= {"reason": event.reason, "message": to_wire(event.message)}
        case Failed():
            out |= {"reason": event.reason, "error": to_wire(event.error)}
        case Start():
            pass
    return out


def line(value: Any) -> bytes:
    """One record, ready to be written."""
    return encode({k: v for k, v in value.items() if v is not UNSET}) + b"\n"
