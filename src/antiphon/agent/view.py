"""The state of an agent as a fold over events. Telling the same events again gives the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from msgspec import UNSET, Struct

from antiphon.core.events import (
    AgentEnd,
    AgentEvent,
    LiveMessage,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.ports import Tool
from antiphon.core.transcript import Transcript


@final
class View:
    """What the events so far amount to. Calls are pending by position, so an id that repeats is pending until its
    last.
    """

    __slots__ = ("_ids_are_a_set", "error_message", "pending", "streaming_message", "transcript")

    def __init__(self, transcript: Transcript, *, ids_are_a_set: bool = False) -> None:
        self.transcript = transcript
        self.streaming_message: LiveMessage | None = None
        self.pending: dict[int, str] = {}
        self.error_message: str | None = None
        self._ids_are_a_set = ids_are_a_set

    def apply(self, event: AgentEvent) -> None:
        """Take one event into account. Events that change nothing are ignored."""
        change = CHANGES.get(type(event))
        if change is not None:
            change(self, event)

    def begin_run(self) -> None:
        self.streaming_message = None
        self.error_message = None

    def end_run(self) -> None:
        self.streaming_message = None
        self.pending.clear()

    @property
    def pending_tool_calls(self) -> frozenset[str]:
        return frozenset(self.pending.values())

    def _streams(self, event: MessageStart | MessageUpdate) -> None:
        self.streaming_message = event.message

    def _appended(self, event: MessageEnd) -> None:
        self.streaming_message = None
        self.transcript = self.transcript.append(event.message)

    def _call_begun(self, event: ToolExecutionStart) -> None:
        self.pending[event.position] = event.tool_call_id

    def _call_ended(self, event: ToolExecutionEnd) -> None:
        self.pending.pop(event.position, None)
        if self._ids_are_a_set:  # the reference forgets an id at its first end
            self.pending = {p: i for p, i in self.pending.items() if i != event.tool_call_id}

    def _turn_ended(self, event: TurnEnd) -> None:
        if event.message.error_message is not UNSET and event.message.error_message:
            self.error_message = event.message.error_message

    def _run_ended(self, _event: AgentEnd) -> None:
        self.streaming_message = None


CHANGES: dict[type, Callable[[View, Any], None]] = {
    MessageUpdate: View._streams,
    MessageStart: View._streams,
    MessageEnd: View._appended,
    ToolExecutionStart: View._call_begun,
    ToolExecutionEnd: View._call_ended,
    TurnEnd: View._turn_ended,
    AgentEnd: View._run_ended,
}
"""Which event changes what, before any listener hears of it."""


@final
class AgentState(Struct, frozen=True):
    """A snapshot of everything a host may read. `is_streaming`: a run is active."""

    system_prompt: str
    model: Model
    thinking_level: ThinkingLevel
    tools: tuple[Tool, ...]
    messages: Transcript
    is_streaming: bool
    streaming_message: LiveMessage | None
    pending_tool_calls: frozenset[str]
    error_message: str | None
