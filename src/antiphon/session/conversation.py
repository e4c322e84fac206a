"""What all parts of a session share: the log, the agent, who listens, and in which phase the conversation is.

It decides nothing. Parts ask it to send an input to the machine of phases, to tell an event, to store an entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final

from antiphon.agent.agent import Agent
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage, calls_of
from antiphon.core.model import Model
from antiphon.core.ports import Clock
from antiphon.core.session_events import EntryAppended, SessionEvent
from antiphon.loop.abort import AbortController
from antiphon.session import phases
from antiphon.session.hooks import SessionHooks
from antiphon.session.listeners import Listeners, failure_event, name_of
from antiphon.session.ports import ModelAccess, Resources
from antiphon.session.settings import SessionSettings
from antiphon.session_log.log import SessionLog


@final
class Conversation:
    """Shared by the parts of one session. Settings and resources may be replaced at any time."""

    def __init__(
        self,
        *,
        log: SessionLog,
        agent: Agent,
        models: ModelAccess,
        settings: SessionSettings,
        resources: Resources,
        hooks: SessionHooks,
        clock: Clock,
        cwd: str,
    ) -> None:
        self.log = log
        self.agent = agent
        self.models = models
        self.settings = settings
        self.resources = resources
        self.hooks = hooks
        self.clock = clock
        self.cwd = cwd
        self.model: Model | None = None
        self.listeners = Listeners()
        self.phase: phases.Phase = phases.Idle()
        self.work = AbortController()
        """Aborts whatever the session waits for between runs: a retry, a summary. Renewed for each piece of work."""
        self._idle: asyncio.Event | None = None

    # -- phases ---------------------------------------------------------------------------------------------------

    def send(self, given: phases.Input) -> list[phases.Command]:
        """Take a step; gives what is to be done.

        Raises:
            ProtocolError: the phase does not allow this input.
        """
        self.phase, commands = phases.step(self.phase, given)
        if self._idle is not None and type(self.phase) in (phases.Idle, phases.Disposed):
            self._idle.set()
            self._idle = None
        return commands

    def is_in(self, *kinds: type) -> bool:
        return type(self.phase) in kinds

    @property
    def life(self) -> phases.Life | None:
        return phases.life_of(self.phase)

    @property
    def is_stopped(self) -> bool:
        """Was an abort asked for that has not settled yet?"""
        life = self.life
        return life is not None and life.stopped is not None

    async def idle(self) -> None:
        """Returns when nothing goes on. What others begin at that very moment is not waited for."""
        if self.is_in(phases.Idle, phases.Disposed):
            return
        if self._idle is None:
            self._idle = asyncio.Event()
        await self._idle.wait()

    # -- telling and storing --------------------------------------------------------------------------------------

    def emit(self, event: SessionEvent) -> None:
        self.listeners.emit(event)

    async def told(self) -> None:
        await self.listeners.told()

    def entry_appended(self, entry_id: str) -> None:
        """Tell of an entry that is no message."""
        self.emit(EntryAppended(entry=self.log.entry(entry_id)))

    def report(self, what: str, error: BaseException, function: Callable[..., Any] | None = None) -> None:
        """Tell that a hook or another piece of foreign code failed."""
        self.emit(failure_event("session" if function is None else name_of(function), what, error))

    def refresh(self) -> None:
        """The agent knows what the log says."""
        messages = self.log.messages()
        _ = messages.system  # replayed once, then kept up to date by every append
        self.agent.messages = messages

    # -- what is known --------------------------------------------------------------------------------------------

    @property
    def context_window(self) -> int:
        return 0 if self.model is None else self.model.context_window

    def has_open_calls(self) -> bool:
        """May the last answer have calls without a result? Looks at the end of the context only."""
        messages = self.log.messages()
        results = 0
        for number in range(len(messages) - 1, -1, -1):
            message = messages[number]
            if type(message) is AssistantMessage:
                return len(calls_of(message)) > results
            if type(message) is UserMessage:
                return False
            results += type(message) is ToolResultMessage
        return False

    def last_message(self) -> Message | None:
        """The last message of the context."""
        messages = self.log.messages()
        return messages[len(messages) - 1] if len(messages) else None

    def last_answer(self) -> AssistantMessage | None:
        """The last answer of the context."""
        messages = self.log.messages()
        for number in range(len(messages) - 1, -1, -1):
            message = messages[number]
            if type(message) is AssistantMessage:
                return message
        return None
