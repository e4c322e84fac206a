"""The rules that every sequence of response events obeys, whatever the server sent (provider specification, 2)."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.content import Text, Thinking, ToolCall
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

_STARTS = (TextStart, ThinkingStart, ToolCallStart)
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd)


def final_message(events: Sequence[ResponseEvent]) -> AssistantMessage:
    """The message of the last event."""
    last = events[-1]
    assert isinstance(last, Done | Failed), f"the last event is {last}"
    return last.message if isinstance(last, Done) else last.error


def check_events(events: Sequence[ResponseEvent]) -> AssistantMessage:
    """Every rule; gives back the final message."""
    message = final_message(events)
    assert not any(isinstance(event, Done | Failed) for event in events[:-1]), "more than one last event"
    starts = [index for index, event in enumerate(events) if isinstance(event, Start)]
    assert starts in ([], [0]), "start is the first event or missing"
    assert starts or len(events) == 1, "content without start"
    _check_blocks(events, message)
    last = events[-1]
    if isinstance(last, Done):
        assert last.reason == message.stop_reason
        assert last.reason in ("stop", "length", "toolUse")
    else:
        assert last.reason == message.stop_reason
        assert last.reason in ("error", "aborted")
        assert isinstance(message.error_message, str)
        assert message.error_message
    return message


def _check_blocks(events: Sequence[ResponseEvent], message: AssistantMessage) -> None:
    open_blocks: dict[int, str] = {}
    grown: dict[int, list[str]] = {}
    count = 0
    for event in events:
        if isinstance(event, _STARTS):
            assert event.content_index == count, "blocks start in content order"
            count += 1
            block = getattr(event, "block", None)
            first = getattr(block, "text", getattr(block, "thinking", "")) if block else ""
            open_blocks[event.content_index] = _kind(event)
            grown[event.content_index] = [first]
        elif isinstance(event, _DELTAS):
            assert open_blocks.get(event.content_index) == _kind(event), "a delta for a block that is not open"
            grown[event.content_index].append(event.delta)
        elif isinstance(event, _ENDS):
            assert open_blocks.pop(event.content_index, None) == _kind(event), "an end for a block that is not open"
            overrides = message.api == "openai-responses"  # its final items win over their deltas
            if isinstance(event, TextEnd | ThinkingEnd) and not overrides:
                assert _joined(grown[event.content_index]) == _joined([event.content]), "deltas and end differ"
    assert len(message.content) == count, "the message holds exactly the blocks that started"
    assert not (open_blocks and isinstance(events[-1], Done)), "a block is open although the answer is complete"
    for block in message.content:
        assert isinstance(block, Text | Thinking | ToolCall)
        if isinstance(block, ToolCall):
            assert isinstance(block.id, str)
            assert block.id
            assert isinstance(block.arguments, dict)


def _kind(event: ResponseEvent) -> str:
    return type(event).__name__.removesuffix("Start").removesuffix("Delta").removesuffix("End")


def _joined(pieces: list[str]) -> str:
    return "".join(pieces).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
