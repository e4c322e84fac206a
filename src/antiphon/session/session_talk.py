"""The face of a session that is talked to: prompts, steering, notes, and what stops them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from antiphon.core.content import Content, Image
from antiphon.core.messages import user
from antiphon.errors import WouldDeadlock
from antiphon.session import phases
from antiphon.session.inbox import Ask, Given, WhenIdle
from antiphon.session.notes import DeliverAs
from antiphon.session.ports import Source, StreamingBehavior
from antiphon.session.queue_view import ClearedQueue
from antiphon.session.session_state import SessionState
from antiphon.session.settlement import Disposition, Settlement, Submission


class SessionTalk(SessionState):
    """Saying something to a conversation, and stopping it."""

    def submit(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        streaming_behavior: StreamingBehavior | None = None,
        source: Source = "interactive",
        expand: bool = True,
        when_idle: WhenIdle = "start",
        commands: bool = True,
    ) -> Submission:
        """Hand in a prompt. When this returns it is accepted, queued or refused; the rest goes on by itself.

        `commands` false: a command of an extension is refused instead of run.
        """
        return self._inbox.submit(
            Ask(
                given=given,
                images=tuple(images),
                behavior=streaming_behavior,
                source=source,
                expand=expand,
                when_idle=when_idle,
                commands=commands,
            )
        )

    async def prompt(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        streaming_behavior: StreamingBehavior | None = None,
        source: Source = "interactive",
        expand: bool = True,
    ) -> Settlement:
        """Say something; returns when the conversation has settled. A queued message returns at once.

        Raises:
            SessionBusy: a run is active and no streaming behaviour was given.
            CompactionInProgress: the context is being rewritten.
            NoModel, NoCredentials: there is nobody to ask.
            LimitStillReached: the budget is used up.
            SessionError: the log cannot be written.
        """
        return await self._inbox.prompt(
            Ask(given=given, images=tuple(images), behavior=streaming_behavior, source=source, expand=expand)
        )

    async def steer(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        source: Source = "interactive",
        when_idle: WhenIdle = "start",
    ) -> Disposition:
        """Change direction at the next turn boundary. When idle it starts a run, or (`queue`) waits for the next."""
        asked = self.submit(
            given, images, streaming_behavior="steer", source=source, when_idle=when_idle, commands=False
        )
        return await asked.accepted()

    async def follow_up(
        self,
        given: Given,
        images: Sequence[Image] = (),
        *,
        source: Source = "interactive",
        when_idle: WhenIdle = "start",
    ) -> Disposition:
        """Say something when the work would end. When idle it starts a run, or (`queue`) waits for the next."""
        asked = self.submit(
            given, images, streaming_behavior="followUp", source=source, when_idle=when_idle, commands=False
        )
        return await asked.accepted()

    async def send_user_message(
        self, content: str | Content, *, deliver_as: StreamingBehavior | None = None, expand: bool = False
    ) -> Disposition:
        """The same as a prompt, from a program: nothing is expanded unless asked for."""
        if isinstance(content, str):
            asked = self.submit(content, streaming_behavior=deliver_as, source="extension", expand=expand)
        else:
            message = user(content, self._c.clock.now_ms())
            asked = self.submit(message, streaming_behavior=deliver_as, source="extension", expand=False)
        return await asked.accepted()

    async def send_custom_message(
        self,
        custom_type: str,
        content: str | Content,
        *,
        display: bool = True,
        details: Any | UnsetType = UNSET,
        trigger_turn: bool | None = None,
        deliver_as: DeliverAs | None = None,
    ) -> None:
        """A message of an extension, which the model reads as the user's."""
        await self._notes.take(
            custom_type,
            content,
            display=display,
            details=details,
            trigger_turn=trigger_turn,
            deliver_as=deliver_as,
        )

    async def continue_(self) -> Settlement:
        """Go on without a new message: after answered approvals, a raised budget, a failure, or with what is queued.

        Raises:
            SessionBusy, ApprovalsPending, NothingToContinue, CannotContinue, LimitStillReached: why not.
        """
        return await self._beginning.go_on()

    def clear_queue(self) -> ClearedQueue:
        """Take back what waits; gives the texts."""
        return self._inbox.clear_queue()

    def get_steering_messages(self) -> tuple[str, ...]:
        return self._narrator.queue.texts("steering")

    def get_follow_up_messages(self) -> tuple[str, ...]:
        return self._narrator.queue.texts("followUp")

    # -- stopping -------------------------------------------------------------------------------------------------

    def request_abort(self, reason: str | None = None) -> None:
        """Stop whatever goes on: a request, tools, the wait for a retry, a compaction. Returns at once."""
        c = self._c
        why = reason or "aborted"
        c.send(phases.Abort(why))
        c.work.abort(why)
        c.agent.abort(why)

    async def abort(self, reason: str | None = None) -> None:
        """The same; returns when the conversation has settled. Queued messages stay queued."""
        self.request_abort(reason)
        if not self._c.listeners.calls_this_task:
            await self._c.idle()

    def abort_retry(self) -> None:
        """End the wait for a retry, and the prompt with it."""
        if self.is_retrying:
            self.request_abort("retry cancelled")

    def abort_compaction(self) -> None:
        if self._c.is_in(phases.Compacting):
            self._c.work.abort("compaction cancelled")

    def abort_branch_summary(self) -> None:
        if self._c.is_in(phases.Summarizing):
            self._c.work.abort("summary cancelled")

    async def wait_for_idle(self) -> None:
        """Returns when nothing goes on.

        Raises:
            WouldDeadlock: awaited by a listener that the conversation waits for.
        """
        if self._c.listeners.calls_this_task:
            raise WouldDeadlock("the conversation cannot settle before the listener that waits for it; make it a task")
        await self._c.idle()

    async def suspend(self) -> None:
        """Stop in front of calls that wait for approval, and leave them open: they can be answered later."""
        self._suspends = bool(self._approvals.pending)
        try:
            await self.abort("suspended")
        finally:
            self._suspends = False
