"""The face of a session that is only looked at: what it is, what goes on, what it has used."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.agent.agent import Agent
from antiphon.agent.view import AgentState
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.transcript import Transcript
from antiphon.session import phases
from antiphon.session.hooks import SessionHooks
from antiphon.session.listeners import SessionListener
from antiphon.session.ports import Resources
from antiphon.session.session_parts import SessionParts
from antiphon.session.settings import SessionSettings
from antiphon.session.statistics import (
    ForkPoint,
    SessionStats,
    UsageOfContext,
    context_usage_of,
    fork_points,
    last_answer_text,
)
from antiphon.session_log.log import SessionLog


class SessionState(SessionParts):
    """What anybody may know of a conversation."""

    @property
    def agent(self) -> Agent:
        """The agent underneath. Prompt the session, not the agent."""
        return self._c.agent

    @property
    def log(self) -> SessionLog:
        return self._c.log

    @property
    def cwd(self) -> str:
        return self._c.cwd

    @property
    def settings(self) -> SessionSettings:
        return self._c.settings

    @property
    def resources(self) -> Resources:
        return self._c.resources

    @property
    def hooks(self) -> SessionHooks:
        """What extensions want to be asked. Others may be set; they count from the next question on."""
        return self._c.hooks

    @hooks.setter
    def hooks(self, hooks: SessionHooks) -> None:
        self._c.hooks = hooks

    @property
    def phase(self) -> phases.PhaseName:
        return self._c.phase.name

    @property
    def is_streaming(self) -> bool:
        """Is a prompt being worked on? Also while it waits for a retry."""
        return self._c.life is not None and not self._c.is_in(phases.Settling)

    @property
    def is_idle(self) -> bool:
        """Does nothing go on?"""
        return self._c.is_in(phases.Idle, phases.Settling, phases.Disposed)

    @property
    def is_compacting(self) -> bool:
        return self._c.is_in(phases.Compacting, phases.Summarizing)

    @property
    def is_retrying(self) -> bool:
        return self._c.is_in(phases.RetryWait)

    @property
    def retry_attempt(self) -> int:
        life = self._c.life
        return 0 if life is None else life.attempt

    @property
    def is_bash_running(self) -> bool:
        return self.shell.is_running

    @property
    def messages(self) -> Transcript:
        return self._c.agent.messages

    @property
    def state(self) -> AgentState:
        return self._c.agent.state

    @property
    def model(self) -> Model | None:
        return self._c.model

    @property
    def thinking_level(self) -> ThinkingLevel:
        return self._c.agent.thinking_level

    @property
    def system_prompt(self) -> str:
        """The prompt that is in force, as the model was told it."""
        return self._c.log.messages().system.prompt

    @property
    def session_id(self) -> str:
        return self._c.log.session_id

    @property
    def session_file(self) -> str | None:
        path = self._c.log.path
        return None if path is None else str(path)

    @property
    def session_name(self) -> str | None:
        return self._c.log.name

    @property
    def pending_message_count(self) -> int:
        return len(self._narrator.queue)

    @property
    def has_queued_messages(self) -> bool:
        """Does anything wait, messages of extensions included?"""
        return self._c.agent.has_queued_messages

    def subscribe(self, listener: SessionListener, *, barrier: bool = True, capacity: int = 1000) -> Callable[[], None]:
        """Be told every event, after it has been stored. Gives the way out.

        With a `barrier` the conversation waits for the listener; without, events wait for it in a queue of `capacity`.
        """
        return self._c.listeners.subscribe(listener, barrier=barrier, capacity=capacity)

    def get_context_usage(self) -> UsageOfContext | None:
        """How full the context is; nothing without a model whose window is known."""
        return context_usage_of(self._c.log, self._c.model)

    def get_session_stats(self) -> SessionStats:
        """Counts and costs over the whole log."""
        return self._statistics.stats(self._c.model)

    def get_last_assistant_text(self) -> str | None:
        return last_answer_text(self._c.log)

    def get_user_messages_for_forking(self) -> tuple[ForkPoint, ...]:
        return fork_points(self._c.log)
