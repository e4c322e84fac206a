"""The border between the run and code that it did not write.

Whatever fails beyond this border comes back as a value: an input for the machine, or a record on the outcome. Nothing
beyond it can keep the run from ending: it is awaited on a leash.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, final

from antiphon.core.calls import CutReason
from antiphon.core.events import AgentEvent
from antiphon.core.hooks import Context
from antiphon.core.messages import Message
from antiphon.core.ports import ModelRequest, ModelStream
from antiphon.core.states import Fault, Idle, Input, Run, State
from antiphon.errors import ProtocolError
from antiphon.loop.abort import AbortableSignal
from antiphon.loop.config import LoopConfig
from antiphon.loop.leash import Cut, Leash, LetGo, foreign_cancelled
from antiphon.loop.outcome import FaultRecord
from antiphon.loop.pump import Pump
from antiphon.loop.running import RunningCall, RunningCalls
from antiphon.loop.tool_call import Ready, error_text


class CriticalFault(Exception):
    """A listener that the run cannot do without has failed; `__cause__` says how."""


class Audience(Protocol):
    """Whom the run tells its events, and whose queues it takes messages from."""

    def tell(self, event: AgentEvent) -> Awaitable[None] | None:
        """Pass an event on. Raises what a listener raised, if that has to end the run."""
        ...

    def resume(self, event: AgentEvent) -> Awaitable[None] | None:
        """Tell the rest: the listener that was waited for is given up."""
        ...

    def delivered(self) -> None:
        """The message at the head of the lease is in the transcript."""
        ...

    def commit(self) -> None:
        """What is leased will be announced now: it can no longer be cleared."""
        ...

    def withdrawn(self) -> tuple[Message, ...]:
        """Leased messages that were cleared since the last look."""
        ...

    def give_back(self, leased: tuple[Message, ...]) -> tuple[Message, ...]:
        """Messages that were taken and not announced go to the head of their queue; those that cannot are returned."""
        ...

    def queued(self) -> bool:
        """Do messages wait in a queue, as far as is known?"""
        ...

    def busy_with_critical(self) -> bool:
        """Is a listener at work that must not be cut?"""
        ...

    def hurry(self) -> None:
        """From now on, do not wait for listeners that are not critical."""
        ...

    def report_to(self, note: Callable[[str, BaseException, AgentEvent | None], None]) -> None:
        """Where failures of listeners are noted that do not end the run."""
        ...


class Standing(Protocol):
    """Where the machine stands, and whom it asks for answers: the reader of an answer moves it on with each piece."""

    state: State
    stream: ModelStream


@final
class Boundary:
    """What a run needs to call foreign code safely. `raises`: what escapes from it is raised to the caller."""

    __slots__ = (
        "abandoned",
        "aborted",
        "alone",
        "audience",
        "calls",
        "cancelled",
        "config",
        "exit",
        "faults",
        "heeds",
        "inbox",
        "leash",
        "loop",
        "now",
        "policy",
        "pump",
        "pump_fault",
        "raises",
        "ready",
        "run",
        "sequence_told",
        "signal",
        "struck",
        "undelivered",
        "woken",
    )

    def __init__(
        self,
        config: LoopConfig,
        signal: AbortableSignal,
        audience: Audience,
        inbox: deque[Input],
        tell_progress: Callable[[], Coroutine[Any, Any, None]],
        *,
        raises: bool,
    ) -> None:
        self.config = config
        self.policy = config.policy
        self.signal = signal
        self.audience = audience
        self.now = config.clock.now_ms
        self.run: Standing = _NOWHERE
        self.raises = raises
        self.aborted = False
        self.heeds = False  # the machine has to be told of an abort, or of messages that were cleared
        self.loop = asyncio.get_running_loop()
        self.leash = Leash(self._on_cancelled, config.close_timeout)
        self.leash.exempt = self._must_not_be_cut
        audience.report_to(self.note)
        self.inbox = inbox
        self.woken: asyncio.Future[None] | None = None
        self.calls = RunningCalls(
            post=self.post,
            exits=self.on_exit,
            policy=config.policy,
            clock=config.clock,
            after_hook=config.after_tool_call,
            context=self._context,
            leash=self.leash,
        )
        self.ready: dict[int, Ready] = {}
        self.faults: list[FaultRecord] = []
        self.abandoned: list[str] = self.calls.abandoned
        self.undelivered: list[Message] = []
        self.cancelled = 0
        self.sequence_told = False
        self.struck = False
        self.exit: BaseException | None = None
        self.alone: RunningCall | None = None
        self.pump = Pump(self.loop, tell_progress)
        self.pump_fault: BaseException | None = None

    def dissolve(self) -> None:
        """Let go of everything that refers back to the run, so that it is freed without the cycle collector."""
        self.audience.report_to(_unheard)
        self.calls.dissolve()
        self.leash.dissolve()
        self.pump = Pump(self.loop, _no_progress)
        self.run = _NOWHERE

    def _context(self) -> Context:
        run: Run | None = getattr(self.run.state, "run", None)
        return Context() if run is None else run.context

    def _must_not_be_cut(self) -> bool:
        """A store may finish writing; a lone call that was told to stop has a time limit of its own."""
        return self.audience.busy_with_critical() or (self.alone is not None and self.alone.stopping)

    def runs_in(self, task: asyncio.Task[Any]) -> bool:
        """Does this task do a part of the run, so that the run waits for it?"""
        return self.pump.runs_in(task) or self.calls.runs_in(task)

    def note(self, where: str, error: BaseException, event: AgentEvent | None = None) -> None:
        """Record what foreign code did, and report it once."""
        record = FaultRecord(where, error, event)
        self.faults.append(record)
        if self.config.on_fault is not None:
            try:
                self.config.on_fault(record)
            except Exception as failed:  # noqa: BLE001 - who is told of faults must not become one of the run
                self.faults.append(FaultRecord("on_fault", failed))

    # -- failures -------------------------------------------------------------------------------------------------

    def fault(self, error: BaseException, withdrawn: tuple[int, ...] = ()) -> Fault:
        """The input that tells the machine of a failure which the run does not survive."""
        if self.raises or self.sequence_told:
            raise error
        if self.policy.fault_closing == "failure sequence":
            self.sequence_told = True
        else:
            self.calls.stop("fault", self.policy.abort_grace)
        struck, self.struck = self.struck, False
        return Fault(error_text(error, self.policy), self.now(), withdrawn, struck)

    def failed(self, where: str, error: BaseException) -> Fault:
        """Foreign code that was asked something has failed."""
        self.note(where, error)
        return self.fault(error)

    def escaped(self, where: str, error: BaseException) -> Fault:
        """Whatever foreign code has raised, as the input that tells the machine."""
        if isinstance(error, GeneratorExit):  # the run itself is being closed: there is nothing to tell
            raise error
        if isinstance(error, asyncio.CancelledError):
            return self.failed(where, foreign_cancelled(error))
        if isinstance(error, Exception):
            return self.failed(where, error)
        self.on_exit(error)
        return self.fault(error)

    def on_exit(self, error: BaseException) -> None:
        """Foreign code asks the process to end: the run is closed first."""
        if self.exit is None:
            self.exit = error
            self.note("exit", error)
            self.calls.stop("fault", self.policy.abort_grace)

    # -- asking and telling ---------------------------------------------------------------------------------------

    async def ask(self, where: str, function: Callable[..., Any], *args: Any) -> Any:
        """What a hook or poll answers; `None` if it was cut after an abort; a `Fault` input if it failed."""
        try:
            answer = function(*args)
            return await self.leash.hold(answer) if inspect.isawaitable(answer) else answer
        except Cut as cut:
            self.let_go(where, cut)
            return None
        except BaseException as error:  # noqa: BLE001 - the border to foreign code
            return self.escaped(where, error)

    def let_go(self, where: str, cut: Cut) -> None:
        if isinstance(cut, LetGo):
            self.abandoned.append(where)

    async def tell(self, event: AgentEvent) -> BaseException | None:
        """Tell one event; gives what has to end the run."""
        try:
            waiting = self.audience.tell(event)
        except BaseException as error:  # noqa: BLE001 - the border to listeners
            return self.listener_failed(error, event)
        return None if waiting is None else await self.told(waiting, event)

    async def told(self, waiting: Awaitable[None], event: AgentEvent) -> BaseException | None:
        """Wait for the listeners of an event; gives what has to end the run."""
        pending: Awaitable[None] | None = waiting
        while pending is not None:
            try:
                await self.leash.hold(pending)
            except BaseException as error:  # noqa: BLE001 - the border to listeners
                fault = self.listener_failed(error, event)
                if fault is not None or not isinstance(error, LetGo):
                    return fault
                pending = self.audience.resume(event)  # who comes behind the one that was let go still hears of it
            else:
                return None
        return None

    def listener_failed(self, error: BaseException, event: AgentEvent) -> BaseException | None:
        """Decide what a listener's failure means: recorded, or the end of the run."""
        if isinstance(error, asyncio.CancelledError):
            error = foreign_cancelled(error)
        if isinstance(error, GeneratorExit):
            raise error
        if not isinstance(error, Exception):
            self.on_exit(error)
            return error
        if isinstance(error, CriticalFault):
            cause = error.__cause__ or error
            self.note("critical listener", cause, event)
            self.struck = True
            return cause
        if isinstance(error, Cut):
            self.let_go(f"listener of {type(event).__name__}", error)
        self.note("listener", error, event)
        return None if self.policy.listener_fault == "recorded" else error

    # -- news from tools ------------------------------------------------------------------------------------------

    def post(self, news: Input) -> None:
        self.inbox.append(news)
        if self.alone is not None:
            self.pump.start()
        else:
            self.wake()

    def wake(self) -> None:
        woken = self.woken
        if woken is not None and not woken.done():
            woken.set_result(None)

    # -- abort and cancellation -----------------------------------------------------------------------------------

    def on_abort(self) -> None:
        """The signal was aborted: from now on foreign code has its grace, and no more."""
        self.aborted = self.heeds = True
        grace = 0.0 if self.cancelled else self.policy.abort_grace
        reason: CutReason = "aborted"
        if self.signal.reason == "deadline":
            reason = "deadline"
        elif self.cancelled:
            reason = "cancelled"
        self.calls.stop(reason, grace)
        if grace is not None and not self.cancelled:
            self.leash.pull_after(grace)

    def _on_cancelled(self) -> None:
        """The task that awaits the run was cancelled: stop at once, close what is open, then let it propagate."""
        self.cancelled += 1
        if self.cancelled > 1:
            self.audience.hurry()
            self.leash.pull_after(0.0)
            return
        if self.signal.aborted:
            self.calls.stop("cancelled", 0.0)
        else:
            self.signal.abort("cancelled")
        self.leash.rest()
        self.leash.pull_after(self.config.close_timeout)


def _no_stream(_request: ModelRequest) -> Any:
    raise ProtocolError("this run asks nothing more, it has ended")


@final
class _Nowhere:
    """The place of a run that has ended, for what still refers to it."""

    def __init__(self) -> None:
        self.state: State = Idle()
        self.stream: ModelStream = _no_stream


_NOWHERE = _Nowhere()


def _unheard(_where: str, _error: BaseException, _event: AgentEvent | None) -> None:
    return None


async def _no_progress() -> None:
    return None
