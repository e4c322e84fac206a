"""What a model stream says while it answers.

Events carry what is new, not what is there already: the answer so far is a fold of them (`core/response`). Any event
but the last may be missing. `Done` or `Failed` is the last one and carries the final message.
"""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, StopReason
from antiphon.core.wire import JsonObject, Wire


class ResponseEventBase(Wire, frozen=True, kw_only=True, gc=False, tag_field="type", tag=True):
    """Common form: the wire says what the event is in `type`."""


@final
class Start(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="start"):
    """The server has begun to answer. `message` holds what is known: api, provider, model, usage so far."""

    type: ClassVar[Literal["start"]] = "start"
    message: AssistantMessage


@final
class TextStart(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="text_start"):
    """A text block begins; `block` if it does not begin empty."""

    type: ClassVar[Literal["text_start"]] = "text_start"
    content_index: int
    block: Text | UnsetType = UNSET


@final
class TextDelta(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="text_delta"):
    type: ClassVar[Literal["text_delta"]] = "text_delta"
    content_index: int
    delta: str


@final
class TextEnd(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="text_end"):
    """`content` is the whole text and wins over the deltas; `block` if there is more to say than the text."""

    type: ClassVar[Literal["text_end"]] = "text_end"
    content_index: int
    content: str
    block: Text | UnsetType = UNSET


@final
class ThinkingStart(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="thinking_start"):
    type: ClassVar[Literal["thinking_start"]] = "thinking_start"
    content_index: int
    block: Thinking | UnsetType = UNSET


@final
class ThinkingDelta(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="thinking_delta"):
    type: ClassVar[Literal["thinking_delta"]] = "thinking_delta"
    content_index: int
    delta: str


@final
class ThinkingEnd(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="thinking_end"):
    """`content` is the whole text; `block` if there is more to say (signature, redaction)."""

    type: ClassVar[Literal["thinking_end"]] = "thinking_end"
    content_index: int
    content: str
    block: Thinking | UnsetType = UNSET


@final
class ToolCallStart(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="toolcall_start"):
    """A call begins: id and name as far as they are known."""

    type: ClassVar[Literal["toolcall_start"]] = "toolcall_start"
    content_index: int
    id: str
    name: str


@final
class ToolCallDelta(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="toolcall_delta"):
    """A piece of argument text. `arguments`: the provider's own partial reading, if it makes one."""

    type: ClassVar[Literal["toolcall_delta"]] = "toolcall_delta"
    content_index: int
    delta: str
    arguments: JsonObject | UnsetType = UNSET


@final
class ToolCallEnd(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="toolcall_end"):
    """The call is complete; `tool_call` replaces whatever was read so far."""

    type: ClassVar[Literal["toolcall_end"]] = "toolcall_end"
    content_index: int
    tool_call: ToolCall


@final
class Done(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="done"):
    """The answer is complete. Nothing is read behind it."""

    type: ClassVar[Literal["done"]] = "done"
    reason: StopReason
    message: AssistantMessage


@final
class Failed(ResponseEventBase, frozen=True, kw_only=True, gc=False, tag="error"):
    """The answer failed or was aborted; `error` is the message with what had arrived."""

    type: ClassVar[Literal["error"]] = "error"
    reason: StopReason
    error: AssistantMessage


Growth: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
ResponseEvent: TypeAlias = Start | Growth | Done | Failed
