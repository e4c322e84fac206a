"""Events of a run as items of the record."""

from __future__ import annotations

from typing import Any

from tests.conformance.core_values import JsonDict, plain, plain_message, plain_messages

from antiphon.core.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from antiphon.core.response_events import ResponseEvent


def event_item(event: AgentEvent) -> JsonDict:
    """An event as the record tells it, its live parts as they are now."""
    item: JsonDict = {"ev": event.type}
    match event:
        case MessageStart() | MessageEnd():
            item["message"] = plain_message(event.message)
        case MessageUpdate():
            item["message"] = plain_message(event.message)
            item["sub"] = growth(event.assistant_message_event)
        case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
            item.update(_execution(event))
        case TurnEnd():
            item["message"] = plain_message(event.message)
            item["toolResults"] = plain_messages(event.tool_results)
        case AgentEnd():
            item["messages"] = plain_messages(event.messages)
        case _:
            pass
    return item


def _execution(event: ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd) -> JsonDict:
    item: JsonDict = {"call": event.tool_call_id, "tool": event.tool_name}
    match event:
        case ToolExecutionStart():
            item["args"] = plain(event.args)
        case ToolExecutionUpdate():
            item["args"] = plain(event.args)
            item["partial"] = plain(event.partial_result)
        case ToolExecutionEnd():
            item["result"] = plain(event.result)
            item["isError"] = event.is_error
    return item


def growth(event: ResponseEvent) -> list[Any]:
    """A provider event as `[type, index]` and what it brought."""
    wire = plain(event)
    brought = [wire[name] for name in ("delta", "content", "toolCall") if name in wire]
    return [wire["type"], wire["contentIndex"], *brought]


def mark_of(item: JsonDict) -> JsonDict:
    """What triggers and gates can ask about an event."""
    mark = {"event": item["ev"]}
    if "message" in item:
        mark["role"] = item["message"]["role"]
    if "call" in item:
        mark["call"] = item["call"]
    return mark
