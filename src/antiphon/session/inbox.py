"""What comes in: prompts, steering, follow-ups, notes. Accepted at once, then carried out.

Acceptance is synchronous: when `submit` returns, the conversation is reserved, or the message is in its queue. So of
two prompts in one tick the second finds a run in progress, and an abort right behind a prompt aborts it. Everything
slower (handlers of extensions, a compaction before the prompt, the run) comes after that.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.content import Content, Image
from antiphon.core.events import MessageEnd, MessageStart
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    host_message,
)
from antiphon.core.wire import to_wire
from antiphon.errors import CannotContinue, NothingToContinue, WouldDeadlock
from antiphon.loop.abort import AbortController
from antiphon.session import phases
from antiphon.session.approvals import Approvals
from antiphon.session.budget import BudgetKeeper
from antiphon.session.choices import Choices
from antiphon.session.conversation import Conversation
from antiphon.session.driver import Begin, Driver
from antiphon.session.hooks import InputGiven, StartAnswer, StartGiven
from antiphon.session.intake import command_of, expanded, handled_input, run_command, user_message
from antiphon.session.narrator import Narrator
from antiphon.session.open_batch import OpenBatch
from antiphon.session.ports import Source, StreamingBehavior
from antiphon.session.queue_view import ClearedQueue, Kind
from antiphon.session.refusals import (
    ApprovalsPending,
    CompactionInProgress,
    ExtensionCommandRefused,
    NoCredentials,
    NoModel,
    SessionBusy,
    SessionDisposed,
)
from antiphon.session.run_hooks import RunHooks
from antiphon.session.settlement import Settlement, Submission
from antiphon.session.system_prompt import patch
from antiphon.session.tool_registry import ToolRegistry

Given: TypeAlias = str | Message | Sequence[Message]
WhenIdle: TypeAlias = Literal["start", "queue"]
DeliverAs: TypeAlias = Literal["steer", "followUp", "nextTurn"]
MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolResultMessage, HostMessage)
Work: TypeAlias = Coroutine[Any, Any, Settlement]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
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

    def __init__(
        self,
        conversation: Conversation,
        driver: Driver,
        narrator: Narrator,
        run_hooks: RunHooks,
        registry: ToolRegistry,
        choices: Choices,
        budget: BudgetKeeper,
        approvals: Approvals,
        open_batch: OpenBatch,
    ) -> None:
        self._c = conversation
        self._driver = driver
        self._narrator = narrator
        self._run_hooks = run_hooks
        self._registry = registry
        self._choices = choices
        self._budget = budget
        self._approvals = approvals
        self._open_batch = open_batch
        self._queue = narrator.queue
        self._next_turn: list[HostMessage] = []
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
            self._reserve()
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

    def _reserve(self) -> None:
        self._c.send(phases.Accept())
        self._c.work = AbortController()

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
        with self._reserved():
            seen = await self._seen_by_handlers(ask)
            if seen is None:
                self._c.send(phases.Withdrawn())
                return Settlement(disposition="handled")
            messages = self._messages_of(seen)
        return await self._started(messages, submission)

    async def _started(self, messages: tuple[Message, ...], submission: Submission | None) -> Settlement:
        """Prepare a run with these messages, and drive it to its settlement."""
        with self._reserved():
            self._check()
            if self._open_batch.is_open:
                self._approvals.refuse_all()
                await self._open_batch.close(self._c.work.signal)
            await self._prepare_branch()
            await self._driver.check_before_prompt()
            prompts = await self._composed(messages)
        if submission is not None:
            submission.accept("started")
        return await self._drive(lambda: self._c.agent.prompt(prompts))

    def _reserved(self) -> _Reservation:
        return _Reservation(self._c)

    def _check(self) -> None:
        """May something be asked at all?

        Raises:
            NoModel, NoCredentials: there is nobody to ask.
            LimitStillReached: the budget is used up.
        """
        model = self._c.model
        if model is None:
            raise NoModel
        if not self._c.models.has_credentials(model):
            raise NoCredentials(model.provider)
        self._budget.new_prompt()
        self._budget.check()

    async def _prepare_branch(self) -> None:
        """Write what has to stand in front of a run."""
        c = self._c
        self._narrator.store_held()
        c.log.record_repairs()
        if c.has_open_calls():
            c.log.close_open_calls()
        self._choices.record()
        self._registry.forget_pending()
        c.refresh()

    async def _composed(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The prompt patch, the messages, notes that waited for them, and what extensions add."""
        more = await self._asked_at_start(messages[0] if messages else None)
        notes, self._next_turn = self._next_turn, []
        patched = self._run_hooks.prompt_patch()
        return (*([] if patched is None else [patched]), *messages, *notes, *more)

    async def _asked_at_start(self, message: Message | None) -> tuple[Message, ...]:
        c, run_hooks = self._c, self._run_hooks
        run_hooks.forced_prompt, run_hooks.section_edits = None, {}
        hook = c.hooks.before_agent_start
        if hook is None:
            return ()
        before = dict(run_hooks.sections())
        sections = dict(before)
        try:
            answer: Any = hook(StartGiven(message, c.agent.system_prompt, sections))
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            c.report("before_agent_start", error, hook)
            return ()
        run_hooks.section_edits = patch(before, sections)
        if not isinstance(answer, StartAnswer):
            return ()
        run_hooks.forced_prompt = answer.system_prompt
        return answer.messages

    async def _drive(self, begin: Begin) -> Settlement:
        try:
            return await self._driver.drive(begin)
        finally:
            self._run_hooks.forced_prompt, self._run_hooks.section_edits = None, {}

    # -- going on -------------------------------------------------------------------------------------------------

    async def go_on(self) -> Settlement:
        """Run without a new message: answer open calls, repeat what failed, or take what is queued.

        Raises:
            SessionBusy, ApprovalsPending, NothingToContinue, CannotContinue, LimitStillReached: why not.
        """
        c = self._c
        if not c.is_in(phases.Idle):
            raise SessionDisposed if c.is_in(phases.Disposed) else SessionBusy
        if self._approvals.pending:
            raise ApprovalsPending(len(self._approvals.pending))
        if c.listeners.calls_this_task:
            raise WouldDeadlock("a listener cannot wait for what its own conversation does; make it a task")
        self._reserve()
        with self._reserved():
            self._check_for_going_on()
            if self._open_batch.is_open:
                await self._open_batch.close(c.work.signal)
            await self._prepare_branch()
            await self._driver.omit_failed_attempt()
            self._check_there_is_something()
        return await self._drive(self._driver.go_on)

    def _check_for_going_on(self) -> None:
        model = self._c.model
        if model is None:
            raise NoModel
        if not self._c.models.has_credentials(model):
            raise NoCredentials(model.provider)
        self._budget.check()

    def _check_there_is_something(self) -> None:
        messages = self._c.log.messages()
        if all(type(message) is SystemMessage for message in messages):
            raise NothingToContinue("there is no message to continue from; use prompt()")
        if isinstance(self._c.last_message(), AssistantMessage) and not self._c.agent.has_queued_messages:
            raise CannotContinue("the last message is an answer and nothing is queued; use prompt()")

    # -- notes of extensions --------------------------------------------------------------------------------------

    async def note(
        self,
        custom_type: str,
        content: str | Content,
        *,
        display: bool,
        details: Any | UnsetType,
        trigger_turn: bool | None,
        deliver_as: DeliverAs | None,
    ) -> None:
        """A message of an extension: delivered as asked, or stored where it does not split anything."""
        c = self._c
        message = _note(custom_type, content, display=display, details=details, timestamp=c.clock.now_ms())
        if c.is_in(phases.Disposed):
            raise SessionDisposed
        if deliver_as == "nextTurn":
            self._next_turn.append(message)
        elif c.life is not None and not c.is_in(phases.Settling):
            self._note_while_running(message, trigger_turn=trigger_turn, deliver_as=deliver_as)
        elif trigger_turn:
            await self.prompt(Ask(given=message, expand=False))
        else:
            c.emit(MessageStart(message=message))
            entry_id = self._narrator.recorder.record(message)
            c.refresh()
            c.emit(MessageEnd(message=message, entry_id=UNSET if entry_id is None else entry_id))
            await c.told()

    def _note_while_running(
        self, message: HostMessage, *, trigger_turn: bool | None, deliver_as: DeliverAs | None
    ) -> None:
        if trigger_turn is False:
            self._narrator.notes.append(message)
        elif deliver_as == "followUp":
            self._c.agent.follow_up(message)
        else:
            self._c.agent.steer(message)

    def keep_shell_result(self, message: HostMessage) -> None:
        """Store the result of the user's command: now, or once the conversation has settled."""
        if self._c.is_in(phases.Idle, phases.Settling):
            self._narrator.recorder.record(message)
            self._c.refresh()
        elif self._c.is_in(phases.Compacting, phases.Summarizing) and self._c.life is None:
            self._narrator.recorder.record(message)
        else:
            self._narrator.shell.append(message)


class _Reservation:
    """While a prompt is prepared: if that fails, it is as if the prompt had never come."""

    def __init__(self, conversation: Conversation) -> None:
        self._c = conversation

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._c.is_in(phases.Starting):
            self._c.send(phases.Withdrawn())


def _note(
    custom_type: str, content: str | Content, *, display: bool, details: Any | UnsetType, timestamp: int
) -> HostMessage:
    fields: dict[str, Any] = {"customType": custom_type, "content": to_wire(content), "display": display}
    if details is not UNSET:
        fields["details"] = details
    return host_message("custom", **fields, timestamp=timestamp)
