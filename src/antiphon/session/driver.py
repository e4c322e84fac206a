"""Carries a prompt from its acceptance to the settlement: performs what the machine of phases asks for.

Every wait between runs is below this line. It holds no rule: what follows what is in `phases.py`, what an answer means
in `retry.py` and `context_size.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, final

from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage
from antiphon.core.session_events import AgentSettled, AutoRetryEnd, AutoRetryStart, CompactionEnd
from antiphon.errors import LimitStillReached
from antiphon.loop.outcome import RunOutcome
from antiphon.session import phases
from antiphon.session.boundary import store_drafts
from antiphon.session.compactor import Compactor
from antiphon.session.context_size import judge
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import BoundaryAnswer
from antiphon.session.narrator import Narrator
from antiphon.session.one_answer import waited
from antiphon.session.settlement import Settlement
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.projection import Contribution

Begin: TypeAlias = Callable[[], Awaitable[RunOutcome]]


@final
class Driver:
    """Drives one conversation. `before_run`, `after_run`: called around every low-level run; the second judges it."""

    def __init__(self, conversation: Conversation, narrator: Narrator, compactor: Compactor) -> None:
        self._c = conversation
        self._narrator = narrator
        self._compactor = compactor
        self.before_run: Callable[[], None] = _nothing
        self.after_run: Callable[[RunOutcome], RunOutcome] = _unchanged
        self.prompt_patch: Callable[[], SystemMessage | None] = _nothing
        self._outcome: RunOutcome | None = None
        self._messages: list[Message] = []
        self._omitted: list[Contribution] = []
        self._told_settled = False
        self._aborted = False
        self._failure: BaseException | None = None

    async def drive(self, begin: Begin) -> Settlement:
        """Run until the conversation has settled. It must be in phase `starting`.

        Raises:
            SessionError: the log could not be written, not even at the end.
            CancelledError: the awaiting task was cancelled; the conversation has settled before.
        """
        c = self._c
        self._outcome, self._told_settled, self._failure = None, False, None
        self._messages, self._omitted = [], []
        try:
            c.send(phases.Started())
            given: phases.Input | None = await self._run(begin)
            while given is not None:
                given = await self._perform_all(c.send(given))
        except BaseException:
            self._close_after_crash()
            raise
        if self._failure is not None:
            raise self._failure
        return Settlement(
            disposition="started",
            aborted=self._aborted,
            outcome=self._outcome,
            new_messages=tuple(self._messages),
        )

    async def _perform_all(self, commands: Sequence[phases.Command]) -> phases.Input | None:
        """The answer to the last command; the others have none."""
        given: phases.Input | None = None
        for command in commands:
            given = await PERFORM[type(command)](self, command)
        return given

    # -- runs -----------------------------------------------------------------------------------------------------

    async def _run(self, begin: Begin) -> phases.Input:
        """One low-level run, from its first event to its last."""
        c = self._c
        try:
            self.before_run()
        except LimitStillReached:
            return phases.RunEnded(stop=True, aborted=c.is_stopped)
        outcome = self.after_run(await begin())
        self._outcome = outcome
        self._messages += outcome.new_messages
        c.refresh()
        plan, self._narrator.plan = self._narrator.plan, None
        return phases.RunEnded(
            aborted=outcome.reason == "aborted" or c.is_stopped,
            retry=plan,
            error=_error_of(self._last_answer()),
            stop=outcome.limit is not None or outcome.reason in ("ended_by_host", "deadline"),
        )

    async def _continue(self, _command: phases.Continue) -> phases.Input:
        return await self._run(self.go_on)

    async def go_on(self) -> RunOutcome:
        """A run without a new message of the user. What has changed in the prompt is told in front."""
        return await self._c.agent.continue_(system=self.prompt_patch())

    def _last_answer(self) -> AssistantMessage | None:
        """The last answer of the run that just ended."""
        new = () if self._outcome is None else self._outcome.new_messages
        return next((m for m in reversed(new) if type(m) is AssistantMessage), None)

    # -- failed answers -------------------------------------------------------------------------------------------

    async def _tell(self, event: AutoRetryStart | AutoRetryEnd | CompactionEnd) -> None:
        self._c.emit(event)
        await self._c.told()

    async def _wait(self, command: phases.Wait) -> phases.Input:
        c = self._c
        if c.is_stopped or not await waited(command.delay_ms, c.work.signal, c.clock):
            return phases.WaitOver(cancelled=True)
        return phases.WaitOver()

    async def _omit_attempt(self, _command: phases.OmitAttempt) -> None:
        await self._omit(self._last_answer())

    async def _omit(self, answer: AssistantMessage | None) -> None:
        """An answer and its results are left out of the context; their entries stay."""
        c = self._c
        self._omitted = self._attempt(answer)
        for item in self._omitted:
            c.entry_appended(c.log.append_context_edit(item.entry.id, None))
        c.refresh()
        await c.told()

    def _attempt(self, answer: AssistantMessage | None) -> list[Contribution]:
        """Where an answer and its results stand, if they are the end of the context."""
        items = self._c.log.projection().items
        results: list[Contribution] = []
        for place in range(len(items) - 1, -1, -1):
            item = items[place]
            if not item.messages:
                continue
            message = item.messages[-1]
            if type(message) is ToolResultMessage:
                results.append(item)
            elif type(message) is AssistantMessage:
                same = answer is not None and message.timestamp == answer.timestamp
                return [item, *reversed(results)] if same else []
            elif answer is None or not _stands_behind(message):
                return []
        return []

    async def _restore_attempt(self, _command: phases.RestoreAttempt) -> None:
        """A cut answer that could not be asked for again is better than none; a refused one says nothing."""
        c = self._c
        for item in self._omitted:
            entry = item.entry
            if not isinstance(entry, MessageEntry) or not isinstance(
                entry.message, AssistantMessage | ToolResultMessage
            ):
                continue
            if isinstance(entry.message, AssistantMessage) and entry.message.stop_reason != "length":
                return
            c.entry_appended(c.log.append_context_edit(entry.id, entry.message.content))
        self._omitted = []
        c.refresh()
        await c.told()

    # -- the size of the context ----------------------------------------------------------------------------------

    async def check_before_prompt(self) -> None:
        """Compact now if the next request would not fit."""
        c = self._c
        answer = c.last_answer()
        if answer is None:
            return
        settings = c.settings.compaction_for(c.model)
        tried = self._narrator.recovery_tried
        judged = judge(c.log, answer, c.model, settings, already_tried=tried, before_prompt=True)
        if judged.judgement not in ("compact", "recover"):
            return
        c.send(phases.CompactionBegan())
        outcome: phases.CompactionOutcome = "failed"
        try:
            if judged.judgement == "recover":
                await self._omit(answer)
            outcome = await self._compactor.by_itself(judged.reason, c.work.signal, will_retry=False)
            c.refresh()
            await c.told()
        finally:
            c.send(phases.Compacted(outcome))

    async def omit_failed_attempt(self) -> None:
        """To go on after a failure, the failure is left out of the context."""
        answer = self._c.last_message()
        if isinstance(answer, AssistantMessage) and answer.stop_reason in ("error", "aborted"):
            await self._omit(answer)

    async def _judge(self, _command: phases.Judge) -> phases.Input:
        c = self._c
        answer = self._last_answer()
        if answer is None:
            return phases.Judged("nothing")
        settings = c.settings.compaction_for(c.model)
        judged = judge(c.log, answer, c.model, settings, already_tried=self._narrator.recovery_tried)
        if judged.judgement == "recover":
            self._narrator.recovery_tried = True
        return judged

    async def _compact(self, command: phases.Compact) -> phases.Input:
        c = self._c
        if c.is_stopped:
            return phases.Compacted("aborted")
        outcome = await self._compactor.by_itself(command.reason, c.work.signal, will_retry=command.repeat)
        c.refresh()
        await c.told()
        return phases.Compacted(outcome)

    # -- the end --------------------------------------------------------------------------------------------------

    async def _count_queue(self, _command: phases.CountQueue) -> phases.Input:
        return phases.Counted(self._c.agent.has_queued_messages)

    async def _ask_boundary(self, _command: phases.AskBoundary) -> phases.Input:
        """Extensions may store entries and ask for one more request."""
        c = self._c
        answer: Any = None
        hook = c.hooks.before_settle
        if hook is not None:
            try:
                answer = hook()
                answer = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:  # noqa: BLE001 - the border to extensions
                c.report("agent_before_settle", error, hook)
        goes_on = isinstance(answer, BoundaryAnswer) and answer.go_on
        if isinstance(answer, BoundaryAnswer) and answer.entries:
            goes_on = store_drafts(c, answer.entries) and goes_on
            c.refresh()
        if goes_on and isinstance(c.last_message(), AssistantMessage):
            goes_on = False  # there is nothing a model could answer
        return phases.BoundaryAnswered(goes_on, c.agent.has_queued_messages)

    async def _settle(self, command: phases.Settle) -> phases.Input:
        """Store what was held back, then tell that nothing follows."""
        c = self._c
        self._aborted = command.aborted
        try:
            self._narrator.store_held()
            c.log.flush()
        except Exception as error:  # noqa: BLE001 - raised by `drive` once the conversation has settled
            self._failure = error
        c.refresh()
        self._told_settled = True
        c.emit(AgentSettled(aborted=command.aborted))
        await c.told()
        return phases.SettledTold()

    def _close_after_crash(self) -> None:
        """The task was cancelled, or our own code failed: settle without waiting for anybody."""
        c = self._c
        c.send(phases.Crashed())
        if c.is_in(phases.Settling):
            if not self._told_settled:
                try:
                    self._narrator.store_held()
                    c.log.flush()
                except Exception as error:  # noqa: BLE001 - the first failure is what counts
                    c.report("settlement", error)
                c.refresh()
                c.emit(AgentSettled(aborted=True))
            c.send(phases.SettledTold())


def _stands_behind(message: Message) -> bool:
    """May this message stand behind an answer without being a reply to it? (Notes and output of commands do.)"""
    return message.role in ("custom", "bashExecution")


def _error_of(answer: AssistantMessage | None) -> str | None:
    if answer is None or answer.stop_reason != "error":
        return None
    return answer.error_message if isinstance(answer.error_message, str) else ""


def _nothing() -> None:
    return None


def _unchanged(outcome: RunOutcome) -> RunOutcome:
    return outcome


PERFORM: dict[type, Callable[[Driver, Any], Awaitable[phases.Input | None]]] = {
    AutoRetryStart: Driver._tell,
    AutoRetryEnd: Driver._tell,
    CompactionEnd: Driver._tell,
    phases.OmitAttempt: Driver._omit_attempt,
    phases.RestoreAttempt: Driver._restore_attempt,
    phases.Wait: Driver._wait,
    phases.Judge: Driver._judge,
    phases.Compact: Driver._compact,
    phases.CountQueue: Driver._count_queue,
    phases.AskBoundary: Driver._ask_boundary,
    phases.Continue: Driver._continue,
    phases.Settle: Driver._settle,
}
"""How a command is performed: gives the input that the phase waits for, if it waits for one."""
