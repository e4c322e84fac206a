"""From the reservation of a conversation to its first request: what is checked, written and asked in front of a run.

If any of it fails, it is as if the prompt had never come.
"""

from __future__ import annotations

import inspect
from typing import Any, final

from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    Message,
    SystemMessage,
)
from antiphon.errors import CannotContinue, NothingToContinue, WouldDeadlock
from antiphon.loop.abort import AbortController
from antiphon.session import phases
from antiphon.session.approvals import Approvals
from antiphon.session.budget import BudgetKeeper
from antiphon.session.choices import Choices
from antiphon.session.conversation import Conversation
from antiphon.session.driver import Begin, Driver
from antiphon.session.hooks import StartAnswer, StartGiven
from antiphon.session.narrator import Narrator
from antiphon.session.open_batch import OpenBatch
from antiphon.session.refusals import (
    ApprovalsPending,
    NoCredentials,
    NoModel,
    SessionBusy,
    SessionDisposed,
)
from antiphon.session.run_hooks import RunHooks
from antiphon.session.settlement import Settlement, Submission
from antiphon.session.system_prompt import patch
from antiphon.session.tool_registry import ToolRegistry


@final
class Beginning:
    """Begins runs, for a prompt or to go on without one."""

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
        self.next_turn: list[HostMessage] = []
        """Notes that go with the next prompt."""

    def reserve(self) -> None:
        self._c.send(phases.Accept())
        self._c.work = AbortController()

    async def run(self, messages: tuple[Message, ...], submission: Submission | None) -> Settlement:
        """Prepare a run with these messages, and drive it to its settlement."""
        with self.reserved():
            self._check()
            if self._open_batch.is_open:
                self._approvals.refuse_all()
                await self._open_batch.close(self._c.work.signal, going_on=False)
            await self._prepare_branch()
            await self._driver.check_before_prompt()
            prompts = await self._composed(messages)
        if submission is not None:
            submission.accept("started")
        return await self._drive(lambda: self._c.agent.prompt(prompts))

    def reserved(self) -> Reservation:
        return Reservation(self._c)

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
        notes = tuple(self.next_turn)
        self.next_turn.clear()
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
        self.reserve()
        with self.reserved():
            self._check_for_going_on()
            if c.has_open_calls():
                await self._open_batch.ask()
                if self._approvals.pending:
                    raise ApprovalsPending(len(self._approvals.pending))
                await self._open_batch.close(c.work.signal, going_on=True)
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


@final
class Reservation:
    """While a prompt is prepared: if that fails, it is as if the prompt had never come."""

    def __init__(self, conversation: Conversation) -> None:
        self._c = conversation

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._c.is_in(phases.Starting):
            self._c.send(phases.Withdrawn())
