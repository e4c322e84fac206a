"""What comes in: prompts, steering, follow-ups. Accepted at once, then carried out.

Acceptance is synchronous: when `submit` returns, the conversation is reserved, or the message is in its queue. So of
two prompts in one tick the second finds a run in progress, and an abort right behind a prompt aborts it. Everything
slower (handlers of extensions, a compaction before the prompt, the run) comes after that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import replace

from antiphon.core.content import Image
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from antiphon.errors import WouldDeadlock
from antiphon.session import phases
from antiphon.session.beginning import Beginning
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import InputGiven
from antiphon.session.intake import command_of, expanded, handled_input, run_command, user_message
from antiphon.session.ports import Source, StreamingBehavior
from antiphon.session.queue_view import ClearedQueue, Kind, QueueView
from antiphon.session.refusals import (
    CompactionInProgress,
    ExtensionCommandRefused,
    SessionBusy,
    SessionDisposed,
)
from antiphon.session.settlement import Settlement, Submission

Given: TypeAlias = str | Message | Sequence[Message]
WhenIdle: TypeAlias = Literal["start", "queue"]
MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolResultMessage, HostMessage)
Work: TypeAlias = Coroutine[Any, Any, Settlement]


@final
class Ask(Struct, frozen=True, kw_only=True):
    """A prompt as it was handed in. `behavior`: what to do with it while a run is active.

    `commands` false: a command of an extension is refused. `handled`: input handlers have seen it.
    """

    given: Given
    images: tuple[Image, ...] = ()
    behavior: StreamingBehavior | None = None
    source: Source = "interactive"
    expand: bool = True
    when_idle: WhenIdle = "start"
    commands: bool = True
    handled: bool = False

    @property
    def text(self) -> str | None:
        return self.given if isinstance(self.given, str) else None


@final
class Inbox:
    """The entrance of one conversation."""

    def __init__(self, conversation: Conversation, queue: QueueView, beginning: Beginning) -> None:
        self._c = conversation
        self._queue = queue
        self._beginning = beginning
        self._turnstile = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- handing in -----------------------------------------------------------------------------------------------

    def submit(self, ask: Ask) -> Submission:
        """Take a prompt in; what follows goes on in a task."""
        submission = Submission()
        work = self._taken_in(ask, submission)
        if work is not None:
            self._in_background(self._carried_out(work, submission))
        return submission

    async def prompt(self, ask: Ask) -> Settlement:
        """Take a prompt in and carry it out in this task.

        Raises:
            WouldDeadlock: awaited by a listener that the conversation waits for; use `submit`.
        """
        submission = Submission()
        work = self._taken_in(ask, submission)
        if work is not None:
            if self._c.listeners.calls_this_task:
                self._in_background(self._carried_out(work, submission))
                raise WouldDeadlock("a listener cannot wait for what its own conversation does; use submit()")
            await self._carried_out(work, submission, raises=True)
        return await submission.settled()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carried_out(self, work: Work, submission: Submission, *, raises: bool = False) -> None:
        """Do the work; its end, or its failure, is the submission's."""
        try:
            submission.settle(await work)
        except BaseException as error:
            submission.fail(error)
            if raises or not isinstance(error, Exception):
                raise

    def _taken_in(self, ask: Ask, submission: Submission) -> Work | None:
        """Accept, queue or refuse now; gives the work that is left."""
        c = self._c
        command = command_of(ask.text, c.hooks) if ask.expand and ask.text is not None else None
        if command is not None and ask.commands and not c.is_in(phases.Disposed):
            return self._command(*command)
        refusal = self._refusal(ask) if command is None else ExtensionCommandRefused()
        if refusal is not None:
            submission.fail(refusal)
            return None
        if c.is_in(phases.Settling):
            return self._after_settlement(ask, submission)
        if c.is_in(phases.Idle) and ask.when_idle == "start":
            self._beginning.reserve()
            return self._start(ask, submission)
        if self._is_to_be_handled(ask):
            return self._handled_while_running(ask, submission)
        submission.settle(self._enqueue(ask))
        return None

    def _refusal(self, ask: Ask) -> Exception | None:
        """Why a prompt cannot be taken in now."""
        c = self._c
        if c.is_in(phases.Disposed):
            return SessionDisposed()
        if c.is_in(phases.Compacting, phases.Summarizing) and c.life is None:
            doing = "a compaction runs" if c.is_in(phases.Compacting) else "a branch summary is written"
            return CompactionInProgress(doing)
        running = not c.is_in(phases.Idle, phases.Settling)
        return SessionBusy() if running and ask.behavior is None and not self._is_to_be_handled(ask) else None

    def _is_to_be_handled(self, ask: Ask) -> bool:
        """Is there an input handler that has to see it first?"""
        return self._c.hooks.input is not None and ask.text is not None and not ask.handled

    async def _after_settlement(self, ask: Ask, submission: Submission) -> Settlement:
        """Those who are being told of the settlement come first."""
        await self._c.idle()
        work = self._taken_in(ask, submission)
        return await submission.settled() if work is None else await work

    async def _command(self, command: Any, rest: str) -> Settlement:
        await run_command(self._c, command, rest)
        return Settlement(disposition="handled")

    # -- while a run is active ------------------------------------------------------------------------------------

    async def _handled_while_running(self, ask: Ask, submission: Submission) -> Settlement:
        """Input handlers see messages one after the other, so the queue keeps the order in which they came."""
        async with self._turnstile:
            seen = await self._seen_by_handlers(ask)
            if seen is None:
                return Settlement(disposition="handled")
            work = self._taken_in(seen, submission)
        return await submission.settled() if work is None else await work

    async def _seen_by_handlers(self, ask: Ask) -> Ask | None:
        """What input handlers make of a prompt; nothing if they took it over."""
        if not self._is_to_be_handled(ask):
            return ask
        given = await handled_input(self._c, InputGiven(ask.text or "", ask.images, ask.source, ask.behavior))
        return None if given is None else replace(ask, given=given.text, images=given.images, handled=True)

    def _enqueue(self, ask: Ask) -> Settlement:
        """Put a message into a queue, and tell."""
        agent = self._c.agent
        kind: Kind = "followUp" if ask.behavior == "followUp" else "steering"
        queued_id = ""
        for message in self._messages_of(ask):
            queued_id = agent.follow_up(message) if kind == "followUp" else agent.steer(message)
            if isinstance(message, UserMessage):
                self._queue.add(queued_id, kind, message)
        self._c.emit(self._queue.event())
        return Settlement(disposition="queued", queued_id=queued_id)

    def _messages_of(self, ask: Ask) -> tuple[Message, ...]:
        given = ask.given
        if isinstance(given, str):
            text = expanded(given, self._c.resources) if ask.expand else given
            return (user_message(text, ask.images, self._c.clock.now_ms()),)
        return (given,) if isinstance(given, MESSAGES) else tuple(given)

    def clear_queue(self) -> ClearedQueue:
        """Take everything out of the queues that is not being delivered."""
        dropped = self._c.agent.clear_all_queues()
        cleared = self._queue.dropped(dropped)
        self._c.emit(self._queue.event())
        return cleared

    # -- starting -------------------------------------------------------------------------------------------------

    async def _start(self, ask: Ask, submission: Submission) -> Settlement:
        """From the reservation to the settlement."""
        with self._beginning.reserved():
            seen = await self._seen_by_handlers(ask)
            if seen is None:
                self._c.send(phases.Withdrawn())
                return Settlement(disposition="handled")
            messages = self._messages_of(seen)
        return await self._beginning.run(messages, submission)
