"""`AgentSession`: an agent and its log, as one conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

from antiphon.agent.agent import Agent
from antiphon.agent.listeners import Listener
from antiphon.core.content import Image
from antiphon.core.messages import Message
from antiphon.loop.outcome import RunOutcome
from antiphon.session.recorder import Recorder
from antiphon.session_log.log import SessionLog


@final
class AgentSession:
    """One conversation that is written down while it happens."""

    def __init__(self, agent: Agent, log: SessionLog) -> None:
        self.agent = agent
        self.log = log
        self._unsubscribe = agent.subscribe(Recorder(log), critical=True)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told every event after it has been stored."""
        return self.agent.subscribe(listener)

    async def prompt(self, given: str | Message | Sequence[Message], images: Sequence[Image] = ()) -> RunOutcome:
        """Say something and run until the agent is idle and nothing is queued."""
        outcome = await self.agent.prompt(given, images)
        if outcome.has_queued_messages and outcome.reason in ("stop", "length", "terminated"):
            outcome = await self.agent.run_until_idle()
        self.log.flush()
        return outcome

    def abort(self, reason: str | None = None) -> None:
        """Ask the active run to stop."""
        self.agent.abort(reason)

    def close(self) -> None:
        """Write what is left and let go of the file."""
        self._unsubscribe()
        self.log.close()
