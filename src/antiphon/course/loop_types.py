"""Chapter 07, the public surface: what a loop is given, what it tells while it runs, what it gives back."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, final

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, Message, StopReason, ToolResultMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import Wire
from antiphon.course.pairing import fault_text
from antiphon.course.ports import NEVER_ABORTED, ChatModel, Execute, Tools
from antiphon.errors import MisuseError, ProtocolError

EndReason: TypeAlias = Literal["stop", "length", "error", "aborted", "maxSteps"]
"""Why a run is over. The first four come from a model or a signal, the last one from the loop itself."""

SkipReason: TypeAlias = Literal["length", "error", "aborted", "unexpected-stop", "duplicate-id"]
"""Why a call was not executed."""

# ---- what a loop tells -----------------------------------------------------------------------------------------------


class LoopEventBase(Wire, frozen=True, kw_only=True, gc=False, tag_field="type", tag=True):
    """Common form: the wire says what the event is in `type`."""


@final
class ModelEvent(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="model_event"):
    """The model said something while it answered."""

    type: ClassVar[Literal["model_event"]] = "model_event"
    event: ResponseEvent


@final
class AssistantEvent(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="assistant_message"):
    """An answer is final and stands in the transcript."""

    type: ClassVar[Literal["assistant_message"]] = "assistant_message"
    message: AssistantMessage


@final
class ToolStart(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="tool_start"):
    """A call is about to be executed. Skipped calls have no such event."""

    type: ClassVar[Literal["tool_start"]] = "tool_start"
    call: ToolCall


@final
class ToolProgress(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="tool_progress"):
    """What an executing call has got so far."""

    type: ClassVar[Literal["tool_progress"]] = "tool_progress"
    call_id: str
    progress: Any


@final
class ToolEnd(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="tool_end"):
    """A call is over. These events come in order of completion, one per `ToolStart`; a skipped call has neither."""

    type: ClassVar[Literal["tool_end"]] = "tool_end"
    call_id: str
    result: ToolResultMessage


@final
class TurnEnd(LoopEventBase, frozen=True, kw_only=True, gc=False, tag="turn_end"):
    """The run is over. One run has exactly one of these, and it is the last event."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    reason: EndReason


LoopEvent: TypeAlias = ModelEvent | AssistantEvent | ToolStart | ToolProgress | ToolEnd | TurnEnd
Emit: TypeAlias = Callable[[LoopEvent], Awaitable[None] | None]

# ---- what a loop is given, and what it gives back --------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class AgentContext:
    """Where a run begins: the system prompt and the conversation so far, the new user message included."""

    system_prompt: str = ""
    messages: Sequence[Message] = ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoopOptions:
    """Everything about one run. `max_steps` bounds the requests to the model; None: as many as it takes.

    `emit` is told every event, in order, and awaited if it is asynchronous: the next event waits until it is done with
    this one. If it fails, the run goes on.

    Raises:
        MisuseError: an option that no loop can work with; the text names it.
    """

    context: AgentContext
    model: ChatModel
    tools: Tools
    executor: Execute
    signal: AbortSignal = NEVER_ABORTED
    max_steps: int | None = None
    emit: Emit | None = None

    def __post_init__(self) -> None:
        limit = self.max_steps
        if limit is not None and (type(limit) is not int or limit < 1):
            raise MisuseError(f"max_steps must be a whole number of at least 1, or None, not {limit!r}")
        if not callable(self.executor):
            raise MisuseError(f"executor must be callable, and a {type(self.executor).__name__} is not")
        if not callable(getattr(self.model, "stream", None)):
            raise MisuseError(f"model must have a method stream(request); a {type(self.model).__name__} has none")
        if not callable(getattr(self.tools, "definitions", None)):
            raise MisuseError(f"tools must have a method definitions(); a {type(self.tools).__name__} has none")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunResult:
    """How a run ended. `messages` is the whole transcript, `new_messages` what this run has added to it.

    `steps` counts the requests that were made. `error` says in words what went wrong if `reason` is `error`; else it is
    None. `faults` holds what `emit` has raised.
    """

    messages: tuple[Message, ...]
    new_messages: tuple[Message, ...]
    reason: EndReason
    steps: int
    error: str | None = None
    faults: tuple[Exception, ...] = ()


# ---- two small things that every loop needs --------------------------------------------------------------------------


@final
class Teller:
    """Tells events, one after the other. What `emit` raises is kept in `faults`: an observer does not steer the run.

    Several tasks may tell at once. Their events wait for each other, first come, first told, so that an asynchronous
    `emit` is never called while it is still busy with an earlier event.
    """

    def __init__(self, emit: Emit | None) -> None:
        self._emit = emit
        self._telling = asyncio.Lock()
        self.faults: list[Exception] = []

    async def tell(self, event: LoopEvent) -> None:
        """Tell one event, and wait for it if `emit` is asynchronous."""
        if self._emit is None:
            return
        async with self._telling:
            try:
                waiting = self._emit(event)
                if inspect.isawaitable(waiting):
                    await waiting
            except Exception as error:  # noqa: BLE001 - the border to an observer
                self.faults.append(error)


FINAL = ("stop", "deferred", "toolUse", "length", "error", "aborted")


def final_answer(given: object) -> AssistantMessage:
    """What a model gave as its final message.

    Raises:
        ProtocolError: it is no assistant message, or one without a reason to stop.
    """
    if not isinstance(given, AssistantMessage):
        raise ProtocolError(f"the model ended with a {type(given).__name__}, not with an AssistantMessage")
    if given.stop_reason not in FINAL:
        raise ProtocolError(f"the model ended with stop reason {given.stop_reason!r}, which is no end")
    return given


def failed_answer(error: Exception, signal: AbortSignal) -> AssistantMessage:
    """The answer of a model that raised instead of answering. Nothing of what it had begun to say is kept."""
    reason: StopReason = "aborted" if signal.aborted else "error"
    return AssistantMessage(content=(), stop_reason=reason, error_message=fault_text(error))
