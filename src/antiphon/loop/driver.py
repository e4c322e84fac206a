"""Performs the commands of the machine and brings back the answers. Every wait of a run is below this line.

The driver holds no rule of the loop: swap the machine and it still works. It tells the events, asks the questions
across the border to foreign code, waits for news of the tools, and tells the machine about an abort before anything
else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import CoroutineType
from typing import Any, cast, final

from msgspec import UNSET

from antiphon.core import states as c
from antiphon.core.events import AgentEvent
from antiphon.core.machine import RULES, step
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import ModelStream
from antiphon.core.response_events import Start
from antiphon.loop import questions
from antiphon.loop.abort import AbortableSignal
from antiphon.loop.boundary import Audience, Boundary
from antiphon.loop.config import LoopConfig, SystemClock
from antiphon.loop.lone_call import run_alone
from antiphon.loop.outcome import RunOutcome
from antiphon.loop.reading import read_response


@final
class Driver:
    """One run, from the prompt to its outcome. `raises`: what escapes from foreign code is raised, nothing is
    closed.
    """

    __slots__ = ("_boundary", "_deadline", "_exiting", "_inbox", "_interrupted", "state", "stream")

    def __init__(
        self,
        config: LoopConfig,
        stream: ModelStream,
        signal: AbortableSignal,
        audience: Audience,
        *,
        raises: bool = False,
    ) -> None:
        self.state: c.State = c.Idle()
        self._inbox: deque[c.Input] = deque()
        self._boundary = Boundary(config, signal, audience, self._inbox, self._tell_progress, raises=raises)
        self._boundary.run = self
        self.stream = stream
        self._interrupted = False
        self._exiting = False
        self._deadline: asyncio.TimerHandle | asyncio.Task[None] | None = None

    async def drive(self, prompt: c.Prompt) -> RunOutcome:
        """Perform commands until the run has ended.

        Raises:
            CancelledError: the awaiting task was cancelled; the run has been closed before.
            KeyboardInterrupt, SystemExit: foreign code asked for it; the run has been closed before.
            Exception: what escaped from foreign code, with `raises`.
        """
        b = self._boundary
        unhook = b.signal.on_abort(b.on_abort)
        self._set_deadline(prompt.run.rules.limits.max_seconds)
        may_wait = True
        try:
            await self._until_ended(prompt)
        except GeneratorExit:  # this coroutine is collected: there is no event loop to wait in
            may_wait = False
            raise
        except Exception:  # with `raises`; but what comes from outside counts more
            if b.exit is None and not b.cancelled:
                raise
        finally:
            unhook()
            b.leash.rest()
            if self._deadline is not None:
                self._deadline.cancel()
            if (b.calls.leave() or isinstance(self._deadline, asyncio.Task)) and may_wait:
                await asyncio.sleep(0)
            b.dissolve()
        if b.exit is not None:
            raise b.exit
        if b.cancelled:
            with suppress(asyncio.CancelledError):  # a task that cancelled itself has not felt it yet
                await asyncio.sleep(0)
            raise asyncio.CancelledError
        return self.outcome()

    async def _until_ended(self, prompt: c.Prompt) -> None:
        """Tell the events, ask the question, take one step with the answer; and again.

        One function instead of three, with names that are local and without `step` around the table: this is the hot
        road, and whatever stands on it is paid several times a turn.
        """
        b, tell, performer = self._boundary, self._boundary.audience.tell, PERFORM.get
        progress: c.Progress | None = None
        command: Any
        given: Any
        self.state, commands = step(self.state, prompt)
        while True:
            given = None
            if b.exit is not None and not self._exiting:
                self._exiting = True
                given, commands = await self._withdraw(b.exit, commands), []
            rest = iter(commands)
            for command in rest:
                perform = performer(type(command))
                if perform is not None:
                    if perform is not _delivered:
                        given = perform(b, command)
                        if type(given) is CoroutineType:
                            given = await given
                        if given is not None:
                            break
                        continue
                    command = _delivered(b, command)
                try:
                    waiting = tell(command)
                    if waiting is None:
                        continue
                    fault = await b.told(waiting, command)
                except BaseException as error:  # noqa: BLE001 - the border to listeners
                    fault = b.listener_failed(error, command)
                if fault is not None:
                    given = await self._withdraw(fault, [*rest])
                    break
            if progress is not None:
                b.calls.told(progress.position)
                progress = None
            if given is None:
                if type(self.state) is c.Ended:
                    return
                given = await self._news()
                if type(given) is c.Progress:
                    progress = given
            if b.heeds:
                self._noticed()
            try:  # no local name for the state: the traceback of a listener's failure would keep it, and so all tools
                self.state, commands = RULES[type(self.state)][type(given)](self.state, given)
            except Exception as error:  # noqa: BLE001 - foreign code gave what no rule can use
                commands = self._unusable(given, error)

    def _unusable(self, given: c.Input, error: Exception) -> list[c.Command]:
        """The machine stumbled over an answer and stands where it stood: it is told of a failure instead."""
        if isinstance(error, KeyError):
            try:
                step(self.state, given)
            except Exception as exact:  # noqa: BLE001 - says which input it was that no rule was found for
                error = exact
        where = _ANSWERED_BY.get(type(given))
        if where is not None:
            given = self._boundary.failed(where, error)
        elif type(given) is not c.Fault or type(self.state) is not c.Responding:
            raise error
        if type(self.state) is c.Responding:  # what has arrived may be what cannot be used: the answer begins anew
            self.state = step(self.state, _EMPTY_START)[0]
        self.state, commands = step(self.state, given)
        return commands

    def _noticed(self) -> None:
        """Tell the machine of an abort, and of queued messages that were cleared, before anything else."""
        b = self._boundary
        if b.aborted and not self._interrupted:
            self._interrupted = True
            self.state = step(self.state, c.Interrupt(b.signal.reason or "aborted"))[0]
        if type(self.state) is c.Preparing:
            withdrawn = b.audience.withdrawn()
            if withdrawn:
                self.state = step(self.state, c.Withdrawn(withdrawn))[0]
        b.heeds = False

    async def _withdraw(self, fault: BaseException, rest: list[c.Command]) -> c.Input:
        """Tell what is left to tell, ask nothing more."""
        b = self._boundary
        withdrawn: list[int] = []
        for command in rest:
            kind = type(command)
            if kind is c.StartTool:
                withdrawn.append(cast("c.StartTool", command).position)
            elif b.policy.fault_closing == "failure sequence" or kind in _ASK or kind is c.CallModel:
                continue
            elif kind is c.GiveBack or kind is c.Commit:
                PERFORM[kind](b, command)
            else:
                if kind is c.Deliver:
                    command = _delivered(b, cast("c.Deliver", command))
                await b.tell(cast("AgentEvent", command))
        return b.fault(fault, tuple(withdrawn))

    async def _tell_progress(self) -> None:
        """What the pump does: the only place besides the main road where the machine is stepped."""
        b = self._boundary
        while self._inbox:
            given = cast("c.Progress", self._inbox.popleft())
            self.state, commands = step(self.state, given)
            for event in commands if b.pump_fault is None else ():
                try:
                    waiting = b.audience.tell(cast("AgentEvent", event))
                    if waiting is not None:
                        await waiting
                except BaseException as error:  # noqa: BLE001 - the border to listeners
                    b.pump_fault = b.listener_failed(error, cast("AgentEvent", event))
                    if b.pump_fault is not None and b.alone is not None:
                        b.alone.asks_after = b.policy.fault_closing != "failure sequence"
            b.calls.told(given.position)

    async def _news(self) -> c.Input:
        """The next thing that a tool has to say."""
        b = self._boundary
        while not self._inbox:
            b.woken = b.loop.create_future()
            try:
                await b.woken
            except asyncio.CancelledError:
                b.leash.judge()  # nobody is held: it can only mean the run
            finally:
                b.woken = None
        return self._inbox.popleft()

    def _set_deadline(self, seconds: float | None) -> None:
        b = self._boundary
        if seconds is None:
            return
        clock = b.config.clock
        if isinstance(clock, SystemClock):
            self._deadline = b.loop.call_later(seconds, b.signal.abort, "deadline")
            return

        async def wait() -> None:
            await clock.sleep(seconds)
            b.signal.abort("deadline")

        self._deadline = b.loop.create_task(wait(), name="run deadline")

    def outcome(self) -> RunOutcome:
        """What the ended run has come to."""
        b, state = self._boundary, cast("c.Ended", self.state)
        run, messages = state.run, state.run.new.tuple()
        failed = state.reason in ("error", "aborted", "deadline")
        if b.config.budget is not None:
            b.config.budget.used = run.tally
        return RunOutcome(
            reason=state.reason,
            new_messages=messages,
            turns=run.tally.turns,
            tool_calls=run.tally.tool_calls,
            usage=run.tally.usage,
            error=_last_error(messages) if failed else None,
            abort_reason=run.stopped if failed else None,
            limit=state.limit,
            faults=tuple(b.faults),
            abandoned=tuple(b.abandoned),
            undelivered=tuple(b.undelivered),
            has_queued_messages=b.audience.queued(),
        )

    def runs_in(self, task: asyncio.Task[Any]) -> bool:
        """Does this task do a part of the run, so that the run waits for it?"""
        return self._boundary.runs_in(task)


def _commit(b: Boundary, _command: c.Commit) -> None:
    b.audience.commit()


def _give_back(b: Boundary, command: c.GiveBack) -> None:
    b.undelivered += (*b.audience.give_back(command.leased), *command.prepared)


def _delivered(b: Boundary, command: c.Deliver) -> AgentEvent:
    """The message leaves its queue for good; then everybody hears of it, by the event that this gives."""
    b.audience.delivered()
    return command.event


def _start_tool(b: Boundary, command: c.StartTool) -> Any:
    """Several calls get a task each; a lone one is stepped right here."""
    batch = cast("c.Executing", b.run.state).batch
    b.calls.message = batch.message
    call = b.calls.begin(command.position, b.ready.pop(command.position), b.signal)
    if batch.running == 1:
        return run_alone(b, call)
    call.begin_task()
    return None


def _last_error(messages: tuple[Any, ...]) -> str | None:
    for message in reversed(messages):
        if type(message) is AssistantMessage:
            return None if message.error_message is UNSET else message.error_message
    return None


_ASK: dict[type, Callable[[Boundary, Any], questions.Answer]] = {
    c.Drain: questions.drain,
    c.PrepareRequest: questions.prepare_request,
    c.Compose: questions.compose,
    c.Preflight: questions.preflight,
    c.AskDecision: questions.ask_decision,
    c.LookAgain: questions.look_again,
    c.PrepareNext: questions.prepare_next,
}
_ANSWERED_BY: dict[type, str] = {
    c.Drained: "poll",
    c.RequestPrepared: "prepare_request",
    c.Composed: "transform_context",
    c.Answered: "model stream",
    c.Decided: "finish_turn",
    c.Prepared: "prepare_next_turn",
}
"""Whose answer an input carries."""

_EMPTY_START = Start(message=AssistantMessage(content=(), stop_reason="pending"))

PERFORM: dict[type, Callable[[Boundary, Any], Any]] = {
    **_ASK,
    c.CallModel: read_response,
    c.StartTool: _start_tool,
    c.Commit: _commit,
    c.GiveBack: _give_back,
    c.Deliver: _delivered,
}
"""How a command that is no event is performed: gives an input, a coroutine of one, or nothing; or (`Deliver`) the event
that it carries.
"""
