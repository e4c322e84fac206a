"""Performs the commands of the machine and brings back the answers. Every wait of a run is below this line.

The driver holds no rule of the loop: swap the machine and it still works. It tells the events, asks the questions across
the border to foreign code, waits for news of the tools, and tells the machine about an abort before anything else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast, final

from msgspec import UNSET

from antiphon.core import states as c
from antiphon.core.events import AgentEvent
from antiphon.core.hooks import Context
from antiphon.core.machine import step
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import ModelStream
from antiphon.loop import questions
from antiphon.loop.abort import DerivedSignal
from antiphon.loop.boundary import Audience, Boundary
from antiphon.loop.config import LoopConfig, SystemClock
from antiphon.loop.outcome import RunOutcome
from antiphon.loop.reading import read_response
from antiphon.loop.tool_call import Ready, error_text


@final
class Driver:
    """One run, from the prompt to its outcome. `raises`: what escapes from foreign code is raised, nothing is closed."""

    __slots__ = ("_boundary", "_deadline", "_exiting", "_inbox", "_interrupted", "_ready", "_stream", "state")

    def __init__(
        self, config: LoopConfig, stream: ModelStream, signal: DerivedSignal, audience: Audience, *, raises: bool = False
    ) -> None:
        self.state: c.State = c.Idle()
        self._inbox: deque[c.Input] = deque()
        self._boundary = Boundary(config, signal, audience, self._context, self._inbox, raises=raises)
        self._stream = stream
        self._ready: dict[int, Ready] = {}
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
        try:
            await self._until_ended(prompt)
        finally:
            unhook()
            if self._deadline is not None:
                self._deadline.cancel()
            if b.calls.calls:
                await b.calls.leave()
            b.leash.rest()
        if b.exit is not None:
            raise b.exit
        if b.cancelled:
            raise asyncio.CancelledError
        return self.outcome()

    async def _until_ended(self, prompt: c.Prompt) -> None:
        b = self._boundary
        told: c.Input = prompt
        self.state, commands = step(self.state, prompt)
        while True:
            given = await self._perform(commands)
            if type(told) is c.Progress:
                b.calls.told(told.position)
            if given is None:
                if type(self.state) is c.Ended:
                    return
                given = await self._news()
            if b.signal.aborted and not self._interrupted:
                self._interrupted = True
                self.state = step(self.state, c.Interrupt(b.signal.reason or "aborted"))[0]
            told = given
            self.state, commands = step(self.state, given)

    async def _perform(self, commands: list[c.Command]) -> c.Input | None:
        """Tell the events, then ask. After a failure that ends the run the questions are withdrawn."""
        b = self._boundary
        fault: BaseException | None = None
        given: c.Input | None = None
        withdrawn: list[int] = []
        for command in commands:
            kind = type(command)
            if kind in QUESTIONS:
                if fault is None:
                    given = await self._ask(kind, command)
                elif kind is c.StartTool:
                    withdrawn.append(cast("c.StartTool", command).position)
                continue
            error = await self._tell(kind, command)
            if error is not None:
                fault = fault or error
                if b.policy.fault_closing == "failure sequence":
                    break
        return given if fault is None else b.fault(fault, tuple(withdrawn))

    async def _tell(self, kind: type, command: Any) -> BaseException | None:
        b = self._boundary
        if kind is c.GiveBack:
            b.undelivered += (*b.audience.give_back(command.leased), *command.prepared)
            return None
        if kind is c.Deliver:
            b.audience.delivered()
            command = command.event
        return await b.tell(cast("AgentEvent", command))

    async def _ask(self, kind: type, command: Any) -> c.Input | None:
        b = self._boundary
        if kind is c.CallModel:
            self.state, given = await read_response(b, self._stream, self.state, command)
            return given
        if kind is c.StartTool:
            b.calls.message = cast("c.Executing", self.state).batch.message
            b.calls.start(command.position, self._ready.pop(command.position), b.signal)
            return None
        if kind is c.Preflight:
            return await questions.preflight(b, command, self._ready)
        return cast("c.Input", await _ASK[kind](b, command))

    async def _news(self) -> c.Input:
        """The next thing that a tool has to say."""
        b = self._boundary
        while not self._inbox:
            if b.exit is not None and not self._exiting:
                self._exiting = True
                return c.Fault(error_text(b.exit), b.now())
            b.woken = b.loop.create_future()
            try:
                await b.woken
            except asyncio.CancelledError:
                b.leash.caught()
            finally:
                b.woken = None
        return self._inbox.popleft()

    def _context(self) -> Context:
        run: c.Run | None = getattr(self.state, "run", None)
        return Context() if run is None else run.context

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


def _last_error(messages: tuple[Any, ...]) -> str | None:
    for message in reversed(messages):
        if type(message) is AssistantMessage:
            return None if message.error_message is UNSET else message.error_message
    return None


_ASK: dict[type, Callable[..., Any]] = {
    c.Drain: questions.drain,
    c.PrepareRequest: questions.prepare_request,
    c.Compose: questions.compose,
    c.AskDecision: questions.ask_decision,
    c.PrepareNext: questions.prepare_next,
}
QUESTIONS = frozenset({*_ASK, c.CallModel, c.Preflight, c.StartTool})
