"""What a run says while it goes on. Every part of a run is bracketed by a start and an end event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType, field

from antiphon.core.calls import ToolResult
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, Wire

if TYPE_CHECKING:
    from antiphon.core.response import AnswerSoFar

    LiveMessage: TypeAlias = Message | AnswerSoFar
else:
    LiveMessage = Any


class EventBase(Wire, frozen=True, kw_only=True, gc=False, tag_field="type", tag=True):
    """Common form: the wire says what the event is in `type`."""


@final
class AgentStart(EventBase, frozen=True, kw_only=True, gc=False, tag="agent_start"):
    type: ClassVar[Literal["agent_start"]] = "agent_start"


@final
class TurnStart(EventBase, frozen=True, kw_only=True, gc=False, tag="turn_start"):
    type: ClassVar[Literal["turn_start"]] = "turn_start"


@final
class MessageStart(EventBase, frozen=True, kw_only=True, gc=False, tag="message_start"):
    """A message begins. For an answer that streams, `message` is the answer so far."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: LiveMessage


@final
class MessageUpdate(EventBase, frozen=True, kw_only=True, gc=False, tag="message_update"):
    """An answer grew. `message` is a snapshot of the answer after `assistant_message_event`."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    message: LiveMessage
    assistant_message_event: ResponseEvent


@final
class MessageEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="message_end"):
    """A message is final and part of the transcript from now on. `entry_id`: under which a session has stored it."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: Message
    entry_id: str | UnsetType = field(default=UNSET, name="$entryId")


@final
class ToolExecutionStart(EventBase, frozen=True, kw_only=True, gc=False, tag="tool_execution_start"):
    """A call is being looked at. `args` are the raw arguments; `position` is the call's place in its answer.

    `parent_tool_call_id`: the call of the tool that makes this one; the loop itself never sets it.
    """

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: JsonObject
    parent_tool_call_id: str | UnsetType = UNSET
    position: int = field(default=0, name="$position")


@final
class ToolExecutionUpdate(EventBase, frozen=True, kw_only=True, gc=False, tag="tool_execution_update"):
    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: JsonObject
    partial_result: Any
    parent_tool_call_id: str | UnsetType = UNSET
    position: int = field(default=0, name="$position")


@final
class ToolExecutionEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="tool_execution_end"):
    """A call is over. `is_error` is the effective flag; the result keeps its own."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: ToolResult
    is_error: bool
    duration_ms: int | UnsetType = UNSET
    parent_tool_call_id: str | UnsetType = UNSET
    position: int = field(default=0, name="$position")


@final
class TurnEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="turn_end"):
    """One answer and the results of all its calls, in call order."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]


@final
class AgentEnd(EventBase, frozen=True, kw_only=True, gc=False, tag="agent_end"):
    """The run is over. `messages` are those of this run only."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: tuple[Message, ...]


AgentEvent: TypeAlias = (
    AgentStart
    | TurnStart
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | TurnEnd
    | AgentEnd
)
