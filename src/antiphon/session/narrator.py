"""From the events of runs to those of the conversation: stored first, then told.

Two listeners of the agent. `store` is critical and comes first; `tell` passes the event on to the listeners of the
session, with what the session knows of it: the entry id, a message that was replaced before it was stored, whether a
failed run will be repeated. What was held back because it would have split a call from its results follows a turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
)
from antiphon.core.messages import AssistantMessage, HostMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.session_events import RunEnded
from antiphon.session import phases
from antiphon.session.conversation import Conversation
from antiphon.session.queue_view import QueueView
from antiphon.session.recorder import Recorder
from antiphon.session.retry import Retry, next_retry
from antiphon.session.user_images import fitted, has_images
from antiphon.session_log.compaction.when import renews_permission

Amend: TypeAlias = Callable[[ToolResultMessage], ToolResultMessage]


@final
class Narrator:
    """Writes down and passes on what the runs of one conversation say."""

    def __init__(self, conversation: Conversation, recorder: Recorder, queue: QueueView) -> None:
        self._conversation = conversation
        self.recorder = recorder
        self.queue = queue
        self.amend: Amend = _unchanged
        """Completes a result message before it is stored."""
        self.plan: Retry | None = None
        """How the run that ended last will be repeated."""
        self.recovery_tried = False
        """Was the context compacted for the sake of the last question?"""
        self.notes: list[HostMessage] = []
        """Messages without a turn of their own: they follow the current turn."""
        self.shell: list[HostMessage] = []
        """Results of the user's commands: they follow the settlement."""
        self.on_stored: Callable[[Message], None] = _nothing
        """Called with every message that was stored."""
        self._amended: dict[int, tuple[Message, Message]] = {}
        self._entry_id: str | None = None

    # -- storing --------------------------------------------------------------------------------------------------

    def store(self, event: AgentEvent, _signal: AbortSignal) -> Awaitable[None] | None:
        """Store a message at its end.

        Raises:
            SessionError: it cannot be stored.
        """
        if type(event) is MessageStart and type(event.message) is ToolResultMessage:
            self._amend(event.message)
        if type(event) is not MessageEnd:
            return None
        message = event.message
        if self._conversation.hooks.message_end is None and not self._has_pictures(message):
            self._record(message)
            return None
        return self._recorded_changed(message)

    def _has_pictures(self, message: Message) -> bool:
        c = self._conversation
        return type(message) is UserMessage and c.settings.auto_resize_images and has_images(message)

    async def _recorded_changed(self, message: Message) -> None:
        """Store a message after its pictures were made to fit, and extensions have seen it."""
        c = self._conversation
        if type(message) is UserMessage and c.model is not None and self._has_pictures(message):
            smaller = await fitted(message, c.model)
            if smaller is not message:
                self._amended[id(message)] = (message, smaller)
        if c.hooks.message_end is not None:
            await self._let_replace(message, c.hooks.message_end)
        self._record(message)

    def _amend(self, message: ToolResultMessage) -> None:
        amended = self.amend(message)
        if amended is not message:
            self._amended[id(message)] = (message, amended)

    async def _let_replace(self, message: Message, hook: Callable[[Message], Any]) -> None:
        """Let extensions replace a message by one of the same role."""
        current = self.current(message)
        try:
            answer = hook(current)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            self._conversation.report("message_end", error, hook)
            answer = None
        if answer is not None and getattr(answer, "role", None) == current.role:
            self._amended[id(message)] = (message, answer)

    def _record(self, message: Message) -> None:
        self._entry_id = None
        stored = self.current(message)
        self._entry_id = self.recorder.record(stored)
        self.on_stored(stored)

    def current(self, message: Message) -> Message:
        """The message as it is stored."""
        pair = self._amended.get(id(message))
        return message if pair is None else pair[1]

    # -- telling --------------------------------------------------------------------------------------------------

    def tell(self, event: AgentEvent, _signal: AbortSignal) -> Awaitable[None] | None:
        """Pass an event on; gives what is left to wait for."""
        if type(event) is MessageUpdate:
            self._conversation.emit(event)
        else:
            handle = _HANDLERS.get(type(event))
            if handle is None:
                self._conversation.emit(event)  # type: ignore[arg-type]  # only AgentEnd is no session event
            else:
                handle(self, event)
        return self._conversation.listeners.told() if self._conversation.listeners.is_busy else None

    def _run_started(self, event: AgentStart) -> None:
        c = self._conversation
        c.emit(event)
        life = c.life
        if life is not None and life.stopped is not None:
            c.agent.abort(life.stopped)

    def _message_started(self, event: MessageStart) -> None:
        c = self._conversation
        message: Any = event.message
        if type(message) is UserMessage:
            if len(self.queue) and self.queue.delivered(message):
                c.emit(self.queue.event())
        elif type(message) is ToolResultMessage:
            event = MessageStart(message=self.current(message))
        c.emit(event)

    def _message_ended(self, event: MessageEnd) -> None:
        c = self._conversation
        message = self.current(event.message)
        entry_id: str | UnsetType = UNSET if self._entry_id is None else self._entry_id
        c.emit(MessageEnd(message=message, entry_id=entry_id))
        if type(message) is UserMessage:
            self.recovery_tried = False
        elif type(message) is AssistantMessage:
            self._answered(message)

    def _answered(self, message: AssistantMessage) -> None:
        c = self._conversation
        if renews_permission(message):
            self.recovery_tried = False
        if c.is_in(phases.Running):
            for command in c.send(phases.Answered(good=message.stop_reason != "error")):
                c.emit(command)  # type: ignore[arg-type]  # this input leads to events only

    def _turn_ended(self, event: TurnEnd) -> None:
        if self._amended:
            results: Any = tuple(self.current(result) for result in event.tool_results)
            answer: Any = self.current(event.message)
            event = TurnEnd(message=answer, tool_results=results)
        self._conversation.emit(event)
        self.tell_notes()

    def _run_ended(self, event: AgentEnd) -> None:
        messages = tuple(map(self.current, event.messages)) if self._amended else event.messages
        self._amended.clear()
        self.plan = self._retry_of(messages)
        self._conversation.emit(RunEnded(messages=messages, will_retry=self.plan is not None))

    def _retry_of(self, messages: tuple[Message, ...]) -> Retry | None:
        """How a run that ended with these messages is repeated, if it is."""
        c = self._conversation
        life = c.life
        last = next((m for m in reversed(messages) if type(m) is AssistantMessage), None)
        if life is None or life.stopped is not None or last is None:
            return None
        return next_retry(last, life.attempt, c.settings.retry, context_window=c.context_window)

    # -- what was held back ---------------------------------------------------------------------------------------

    def tell_notes(self) -> None:
        """Store and tell the notes. Those that cannot be stored wait for the settlement."""
        while self.notes:
            try:
                entry_id = self.recorder.record(self.notes[0])
            except Exception as error:  # noqa: BLE001 - reported; the recorder tries again
                self._conversation.report("custom_message", error)
                entry_id = None
            self._tell_note(self.notes.pop(0), entry_id)

    def _tell_note(self, note: HostMessage, entry_id: str | None) -> None:
        self._conversation.emit(MessageStart(message=note))
        self._conversation.emit(MessageEnd(message=note, entry_id=UNSET if entry_id is None else entry_id))

    def store_held(self) -> None:
        """Store everything that was held back, in front of a run or a settlement.

        Raises:
            SessionError: the log cannot be written.
        """
        self.recorder.catch_up()
        self.tell_notes()
        while self.shell:
            self.recorder.record(self.shell.pop(0))


_HANDLERS: dict[type, Callable[[Narrator, Any], None]] = {
    AgentStart: Narrator._run_started,
    MessageStart: Narrator._message_started,
    MessageEnd: Narrator._message_ended,
    TurnEnd: Narrator._turn_ended,
    AgentEnd: Narrator._run_ended,
}


def _unchanged(message: ToolResultMessage) -> ToolResultMessage:
    return message


def _nothing(_message: Message) -> None:
    return None
