"""What hooks are told and what they may answer. Every hook may be a plain or an async function.

`None`, or a field left out, means "no wish". Lists handed to a hook are read-only snapshots.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.calls import ToolResult
from antiphon.core.content import Content, ToolCall
from antiphon.core.growing import Grown
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.ports import AbortSignal, Tool
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject


@final
class Context(Struct, frozen=True):
    """What the model may see: messages, and the tools that can run. `tools` None: none were given."""

    messages: Sequence[Message] = ()
    tools: Sequence[Tool] | None = None


@final
class Turn(Struct, frozen=True):
    """A finished turn. `context` holds its answer and results; `new_messages` is what the run would return now."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    context: Context
    new_messages: Grown[Message]


@final
class RequestInfo(Struct, frozen=True):
    """A request about to leave."""

    context: Context
    model: Model
    thinking_level: ThinkingLevel


@final
class BeforeToolCall(Struct, frozen=True):
    """A call that passed its checks. `args` is the object the tool will get: edits count and are not checked again."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: JsonObject
    context: Context


def position_of(call: BeforeToolCall) -> int | None:
    """The place of a call among those of its answer; nothing if it is not one of them."""
    for position, block in enumerate(calls_of(call.assistant_message)):
        if block is call.tool_call:
            return position
    return None


@final
class AfterToolCall(Struct, frozen=True):
    """An executed call. `result` and `is_error` are what the tool gave, before overrides."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: JsonObject
    result: ToolResult
    is_error: bool
    context: Context


@final
class BeforeDecision(Struct, frozen=True, gc=False):
    """Refuse a call. `terminate` exactly true: no further request is needed for it."""

    block: bool = False
    reason: str | None = None
    terminate: Any = None


@final
class AfterOverride(Struct, frozen=True, gc=False):
    """Fields of a result to replace, one by one, without merging. UNSET and None: keep what the tool gave."""

    content: Content | UnsetType | None = UNSET
    details: Any = UNSET
    structured_content: Any = UNSET
    is_error: bool | UnsetType | None = UNSET
    usage: Usage | UnsetType | None = UNSET
    terminate: Any = UNSET


@final
class RequestUpdate(Struct, frozen=True):
    """Replace context, model or level, for this request and all later ones of the run."""

    context: Context | None = None
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None


@final
class NextTurn(Struct, frozen=True):
    """The same before a further turn, and messages to announce and append first."""

    messages: Sequence[Message] = ()
    context: Context | None = None
    model: Model | None = None
    thinking_level: ThinkingLevel | None = None


TurnDecision: TypeAlias = Literal["continue", "end"] | None

ConvertToLlm: TypeAlias = Callable[[Sequence[Message]], Sequence[Message] | Awaitable[Sequence[Message]]]
TransformContext: TypeAlias = Callable[
    [Sequence[Message], AbortSignal], Sequence[Message] | Awaitable[Sequence[Message]]
]
GetApiKey: TypeAlias = Callable[[str], str | Awaitable[str | None] | None]
PrepareRequest: TypeAlias = Callable[[RequestInfo, AbortSignal], RequestUpdate | Awaitable[RequestUpdate | None] | None]
PrepareNextTurn: TypeAlias = Callable[[Turn, AbortSignal], NextTurn | Awaitable[NextTurn | None] | None]
FinishTurn: TypeAlias = Callable[[Turn, AbortSignal], TurnDecision | Awaitable[TurnDecision]]
BeforeHook: TypeAlias = Callable[
    [BeforeToolCall, AbortSignal], BeforeDecision | Awaitable[BeforeDecision | None] | None
]
AfterHook: TypeAlias = Callable[[AfterToolCall, AbortSignal], AfterOverride | Awaitable[AfterOverride | None] | None]
PollMessages: TypeAlias = Callable[[], Sequence[Message] | Awaitable[Sequence[Message] | None] | None]
