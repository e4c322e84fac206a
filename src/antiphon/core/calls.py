"""What comes of one tool call: a result, and whether it counts as an error."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType, field

from antiphon.core.content import Content, Text, ToolCall
from antiphon.core.messages import ToolResultMessage
from antiphon.core.usage import Usage
from antiphon.core.wire import EXTRA, JsonObject, Wire

SkipReason: TypeAlias = Literal["length", "error", "aborted", "unexpected-stop", "duplicate-id", "limit", "fault"]
CutReason: TypeAlias = Literal["aborted", "timeout", "cancelled", "deadline", "fault"]


@final
class ToolResult(Wire, frozen=True, kw_only=True, gc=False):
    """What a tool gives back.

    `details` is for displays and hosts, `structured_content` for programs; neither reaches the model. `is_error`
    reports failure without raising. `terminate` exactly true: no further request is needed for this result.
    """

    content: Content = ()
    details: Any | UnsetType = UNSET
    structured_content: Any | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    terminate: Any | UnsetType = UNSET
    extra: JsonObject | UnsetType = field(default=UNSET, name=EXTRA)


@final
class Outcome(Wire, frozen=True, kw_only=True, gc=False):
    """How one call ended. `duration_ms` only if it was executed; `is_error` is the effective flag."""

    result: ToolResult
    is_error: bool
    duration_ms: int | UnsetType = UNSET
    executed: bool = False

    @property
    def terminates(self) -> bool:
        return self.result.terminate is True


def text_result(text: str, *, details: Any | UnsetType = UNSET) -> ToolResult:
    """A result of one text block."""
    return ToolResult(content=(Text(text=text),), details=details)


def error_outcome(text: str, details: Any | UnsetType = UNSET) -> Outcome:
    """A failure that the model can read. The reference gives such results empty details."""
    return Outcome(result=text_result(text, details={} if details is UNSET else details), is_error=True)


SKIP_TEXT: dict[SkipReason, str] = {
    "length": "Not executed: the answer was cut off by the output limit, so the arguments of tool {name} may be "
    "incomplete. Send the call again, in smaller pieces if it is large.",
    "error": "Not executed: the answer that asked for tool {name} failed before it was complete.",
    "aborted": "Operation aborted",
    "unexpected-stop": "Not executed: the answer ended with stop although it asked for tool {name}.",
    "duplicate-id": "Not executed: the id of this call of tool {name} was already used in the same answer.",
    "limit": "Not executed: the limit of tool calls for this run is reached.",
    "fault": "Not executed: the run failed before tool {name} could start.",
}

CUT_TEXT: dict[CutReason, str] = {
    "aborted": "Operation aborted while tool {name} was running; it may have had effects.",
    "timeout": "Tool {name} took longer than its time limit and was stopped; it may have had effects.",
    "cancelled": "The run was cancelled while tool {name} was running; it may have had effects.",
    "deadline": "The time limit of the run was reached while tool {name} was running; it may have had effects.",
    "fault": "The run failed while tool {name} was running; it may have had effects.",
}


def skipped(call: ToolCall, reason: SkipReason, *, typed: bool) -> Outcome:
    """The result of a call that was not begun. `typed`: say why in `details`."""
    details = {"skipped": True, "reason": reason} if typed else {}
    return error_outcome(SKIP_TEXT[reason].format(name=call.name), details)


def cut_off(call: ToolCall, reason: CutReason, duration_ms: int | UnsetType = UNSET) -> Outcome:
    """The result of a call that was begun and not finished."""
    outcome = error_outcome(CUT_TEXT[reason].format(name=call.name), {"cutOff": True, "reason": reason})
    return Outcome(result=outcome.result, is_error=True, duration_ms=duration_ms, executed=True)


def result_message(call: ToolCall, outcome: Outcome, timestamp: int | float) -> ToolResultMessage:
    """What the transcript keeps: content, details and usage. `terminate` and structured content stay out."""
    result = outcome.result
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=result.content,
        details=result.details,
        usage=result.usage,
        is_error=outcome.is_error,
        timestamp=timestamp,
        duration_ms=outcome.duration_ms,
    )
