"""Who says what: system, user, assistant, tool result, and messages of the host's own kind.

Times are milliseconds since the epoch. The core reads no clock: a timestamp arrives with the message or the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.content import Block, Content, Text, ToolCall, block_from_wire, content_from_wire
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.model import ThinkingLevel
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.core.wire import JsonObject, Spoken, split_extra, to_wire
from antiphon.errors import WireError

StopReason: TypeAlias = Literal["pending", "stop", "length", "toolUse", "deferred", "error", "aborted"]


@final
class SystemMessage(Spoken, frozen=True, kw_only=True, gc=False, tag="system"):
    """Prompt text and tools, as history: later ones change what earlier ones said (see `core/transcript`)."""

    role: ClassVar[Literal["system"]] = "system"
    content: str | Content = ""
    sections: dict[str, str | None] | UnsetType = UNSET
    tools_added: tuple[ToolDeclaration, ...] | UnsetType = UNSET
    tools_removed: tuple[ToolName, ...] | UnsetType = UNSET
    timestamp: int | float = 0


@final
class UserMessage(Spoken, frozen=True, kw_only=True, gc=False, tag="user"):
    """What a person, or a program in their place, says."""

    role: ClassVar[Literal["user"]] = "user"
    content: str | Content
    timestamp: int | float = 0


@final
class AssistantMessage(Spoken, frozen=True, kw_only=True, gc=False, tag="assistant"):
    """One answer of a model. `model` is the id asked for, `response_model` the one that answered, if different."""

    role: ClassVar[Literal["assistant"]] = "assistant"
    content: Content
    api: str = ""
    provider: str = ""
    model: str = ""
    response_model: str | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    thinking_level: ThinkingLevel | str | UnsetType = UNSET
    provider_thinking_level: str | UnsetType = UNSET
    diagnostics: list[Any] | UnsetType = UNSET
    usage: Usage = NO_USAGE
    stop_reason: StopReason
    raw_stop_reason: str | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    timestamp: int | float = 0
    duration_ms: int | float | UnsetType = UNSET


@final
class ToolResultMessage(Spoken, frozen=True, kw_only=True, gc=False, tag="toolResult"):
    """The answer to one call. `details` is for displays and hosts, never for the model."""

    role: ClassVar[Literal["toolResult"]] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: Content
    details: Any | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    nested_calls: Any | UnsetType = UNSET
    is_error: bool
    timestamp: int | float = 0
    duration_ms: int | float | UnsetType = UNSET


@final
class HostMessage(Spoken, frozen=True, kw_only=True, gc=False, tag="$host"):
    """A message of the host's own role, kept whole in `extra`; converted or dropped before a model sees it."""

    @property
    def role(self) -> str:
        return str(self.extra.get("role", "")) if self.extra is not UNSET else ""

    @property
    def data(self) -> JsonObject:
        """The message as a plain JSON object, `role` included. Read only."""
        return {} if self.extra is UNSET else self.extra


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolResultMessage | HostMessage

_ROLES: dict[str, type[SystemMessage] | type[UserMessage] | type[AssistantMessage] | type[ToolResultMessage]] = {
    "system": SystemMessage,
    "user": UserMessage,
    "assistant": AssistantMessage,
    "toolResult": ToolResultMessage,
}


def host_message(role: str, **fields: Any) -> HostMessage:
    """A message of the host's own `role` with these wire fields."""
    return HostMessage(extra={"role": role, **fields})


def message_from_wire(given: JsonObject) -> Message:
    """The message that a JSON object describes. Null or missing content is empty, unknown fields are kept.

    Raises:
        WireError: no `role`, or a known role with a field of the wrong type.
    """
    role = given.get("role")
    if not isinstance(role, str):
        raise WireError("a message needs a text in `role`")
    kind = _ROLES.get(role)
    if kind is None:
        return HostMessage(extra=given)
    parts = split_extra(given, kind)
    content = parts.pop("content", None)
    extra = parts.pop("extra", UNSET)
    parts["content"] = ()
    wire = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
    named = {wire[name]: item for name, item in parts.items()}
    if isinstance(named.get("usage"), dict):
        named["usage"] = _known_usage(named["usage"])
    try:
        message = msgspec.convert({"role": role, **named}, kind)
    except msgspec.ValidationError as error:
        raise WireError(f"{role} message: {error}") from error
    if kind is SystemMessage or kind is UserMessage:
        body: str | Content = content if isinstance(content, str) else content_from_wire(content)
        if content is None and kind is SystemMessage:
            body = ""
    else:
        body = content_from_wire(content)
    return msgspec.structs.replace(message, content=body, extra=extra)


def _known_usage(given: JsonObject) -> JsonObject:
    """Usage without members we do not know; numbers that JavaScript wrote as `12.0` become whole."""
    cost = given.get("cost")
    out = {k: _whole(v) for k, v in given.items() if k in Usage.__struct_encode_fields__ and k != "cost"}
    if isinstance(cost, dict):
        known = type(NO_USAGE.cost).__struct_encode_fields__
        out["cost"] = {k: v for k, v in cast("JsonObject", cost).items() if k in known}
    return out


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def message_to_wire(message: Message) -> JsonObject:
    """The message as plain lists and dicts with wire names, unknown fields included."""
    out: JsonObject = to_wire(message)
    return out


def user(content: str | Sequence[Block], timestamp: int | float = 0) -> UserMessage:
    """A user message of a text or of blocks."""
    return UserMessage(content=content if isinstance(content, str) else tuple(content), timestamp=timestamp)


def calls_of(message: AssistantMessage) -> tuple[ToolCall, ...]:
    """The calls of an answer, in call order."""
    return tuple([block for block in message.content if type(block) is ToolCall])


def final_text(messages: Sequence[Message]) -> str:
    """The words of the last answer, or an empty text if there is none."""
    for message in reversed(messages):
        if type(message) is AssistantMessage:
            return "".join(block.text for block in message.content if type(block) is Text)
    return ""


__all__ = [
    "AssistantMessage",
    "HostMessage",
    "Message",
    "StopReason",
    "SystemMessage",
    "ToolResultMessage",
    "UserMessage",
    "block_from_wire",
    "calls_of",
    "final_text",
    "host_message",
    "message_from_wire",
    "message_to_wire",
    "user",
]
