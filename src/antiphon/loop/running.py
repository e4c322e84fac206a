"""The calls of a batch that are running: their signals, time limits, and how they are stopped.

Several calls run in a task each. A lone call is stepped by the driver itself (`loop/lone_call`), which saves the two
turns of the event loop that a task costs. Either way nothing of a tool reaches the driver but two kinds of news, put
into its inbox in the order in which they happen: `Progress` and `Finished`. Code that was told to stop and does not is
cancelled a few times, then abandoned: its call is answered, its later news are ignored, the outcome of the run names
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from threading import get_ident
from typing import Any, final

from antiphon.core.calls import CutReason, Outcome, cut_off
from antiphon.core.hooks import AfterHook, Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import Policy
from antiphon.core.ports import Clock
from antiphon.core.states import Finished, Progress
from antiphon.loop.abort import DerivedSignal, Signal
from antiphon.loop.leash import PULL_EVERY, PULLS, Leash
from antiphon.loop.tool_call import Ready, ask_after, execute

Post = Callable[[Any], None]


@final
class RunningCall(Coroutine[Any, Any, None]):
    """One executing call: in a task of its own, or (`task` None) stepped by the driver on its leash."""

    __slots__ = (
        "alone",
        "asks_after",
        "batch",
        "closed",
        "delivered",
        "news",
        "position",
        "pulled",
        "ready",
        "reason",
        "signal",
        "started",
        "steps",
        "stopping",
        "task",
        "timer",
    )

    def __init__(self, batch: RunningCalls, position: int, ready: Ready, parent: Signal) -> None:
        self.batch = batch
        self.position = position
        self.ready = ready
        self.signal = DerivedSignal(parent)
        self.reason: CutReason | None = None
        self.alone = False
        self.asks_after = True  # until a run that closes nothing is lost
        self.closed = False
        self.stopping = False
        self.pulled = 0
        self.news = 0  # progress that was posted and not yet told
        self.delivered: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.started = batch.clock.monotonic()
        self.steps: Coroutine[Any, Any, Outcome] | None = None
        self.task: asyncio.Task[None] | None = None
        if ready.timeout is not None:
            self.timer = batch.loop.call_later(ready.timeout, self._timed_out)

    # -- running --------------------------------------------------------------------------------------------------

    def begin_task(self) -> None:
        """Run in a task of its own. The call itself is what the task steps, so it notices whatever happens to the
        task.
        """
        self.task = self.batch.loop.create_task(self, name=f"tool {self.ready.call.name}")

    def send(self, value: None, /) -> Any:
        if self.steps is None:
            self.steps = self.work()
        return self._step(self.steps.send, value)

    def throw(self, error: Any, value: Any = None, trace: Any = None, /) -> Any:
        if self.steps is None:  # cancelled before the first step
            self.finish(self.cut())
            raise StopIteration
        return self._step(self.steps.throw, error)

    def close(self) -> None:
        if self.steps is not None:
            self.steps.close()

    def __await__(self) -> Generator[Any, None, None]:
        raise TypeError("a call is stepped by its task")  # pragma: no cover - only makes it a coroutine

    def _step(self, step: Callable[[Any], Any], given: Any) -> Any:
        try:
            return step(given)
        except StopIteration as ended:
            outcome = ended.value
        except asyncio.CancelledError:
            outcome = self.cut()
        except BaseException as error:
            if error is given:  # the task is closed, without an event loop to wait in
                raise
            outcome = self.exited(error)
        self.finish(outcome)
        raise StopIteration

    def work(self) -> Coroutine[Any, Any, Outcome]:
        """Execute, then ask the after hook, if there is one."""
        batch = self.batch
        work = execute(self.ready, self.signal, batch.clock, batch.policy, self)
        return work if batch.after_hook is None else self._asked_after(work, batch.after_hook)

    async def _asked_after(self, work: Coroutine[Any, Any, Outcome], hook: AfterHook) -> Outcome:
        batch = self.batch
        outcome = await work
        self.closed = True
        if not outcome.executed:
            return outcome
        if self.news:  # all progress is told before
            self.delivered = batch.loop.create_future()
            await self.delivered
        if not self.asks_after:
            return outcome
        return await ask_after(
            self.ready, outcome, hook, batch.message, batch.context(), self.signal, batch.policy, self.was_cut
        )

    def was_cut(self) -> bool:
        """Was this call cancelled by the run?"""
        return self.batch.leash.was_cut() if self.task is None else self.task.cancelling() > 0

    def cancel(self) -> None:
        """Cancel it once."""
        if self.task is None:
            self.batch.leash.pull_now()
        else:
            self.task.cancel()

    def update(self, partial: Any) -> None:
        """Progress of the tool; deaf once it has returned. From another thread it is handed over, in order."""
        if self.closed:
            return
        if get_ident() != self.batch.thread:
            self.batch.loop.call_soon_threadsafe(self.update, partial)
            return
        self.news += 1
        self.batch.post(Progress(self.position, partial))

    def leaves_thread(self) -> None:
        """The call is cut, its thread goes on: a thread cannot be stopped."""
        self.batch.abandoned.append(f"thread of tool {self.ready.call.name} ({self.ready.call.id})")

    def told(self) -> None:
        """One piece of progress has been told to every listener."""
        self.news -= 1
        if self.news == 0 and self.delivered is not None and not self.delivered.done():
            self.delivered.set_result(None)

    # -- ending ---------------------------------------------------------------------------------------------------

    def cut(self) -> Outcome:
        """The outcome of a call that was begun and stopped."""
        elapsed = round((self.batch.clock.monotonic() - self.started) * 1000)
        return cut_off(self.ready.call, self.reason or "cancelled", max(0, elapsed))

    def exited(self, error: BaseException) -> Outcome:
        """The outcome of a call that wants the process to end."""
        self.batch.exits(error)
        self.reason = "fault"
        return self.cut()

    def finish(self, outcome: Outcome) -> None:
        if self.leave():
            self.batch.post(Finished(self.position, outcome, self.batch.clock.now_ms()))

    def leave(self) -> bool:
        """Nothing more is heard of this call. False if it was abandoned before: then it is answered already."""
        if self.batch.calls.get(self.position) is not self:
            return False
        self.closed = True
        if self.timer is not None:
            self.timer.cancel()
        self.signal.release()
        del self.batch.calls[self.position]
        return True

    # -- stopping -------------------------------------------------------------------------------------------------

    def _timed_out(self) -> None:
        if self.reason is None:
            self.reason = "timeout"
            self.signal.abort("timeout")
            self.stop_after(self.grace(self.batch.policy.abort_grace or 0.0))

    def grace(self, usual: float) -> float:
        own = self.ready.abort_grace
        return usual if own is None else own

    def stop_after(self, seconds: float) -> None:
        """Cancel the call when its grace is over. A second order to stop may shorten the grace, not prolong it."""
        when = self.batch.loop.time() + seconds
        if self.timer is not None:
            if self.stopping and self.timer.when() <= when:
                return
            self.timer.cancel()
        self.stopping = True
        self.timer = self.batch.loop.call_at(when, self.pull)

    def pull(self) -> None:
        if self.pulled == PULLS:
            self.abandon()
            return
        self.pulled += 1
        self.timer = self.batch.loop.call_later(PULL_EVERY, self.pull)
        self.cancel()

    def abandon(self) -> None:
        self.batch.abandoned.append(f"tool {self.ready.call.name} ({self.ready.call.id})")
        self.cancel()  # one more pull lets a lone call go; a task may still hear it
        if not self.alone:
            self.finish(self.cut())


@final
class RunningCalls:
    """All running calls of a run."""

    __slots__ = (
        "abandoned",
        "after_hook",
        "calls",
        "clock",
        "context",
        "exits",
        "leash",
        "loop",
        "message",
        "policy",
        "post",
        "thread",
    )

    def __init__(
        self,
        *,
        post: Post,
        exits: Callable[[BaseException], None],
        policy: Policy,
        clock: Clock,
        after_hook: AfterHook | None,
        context: Callable[[], Context],
        leash: Leash,
    ) -> None:
        self.leash = leash
        self.loop = asyncio.get_running_loop()
        self.thread = get_ident()
        self.calls: dict[int, RunningCall] = {}
        self.post = post
        self.exits = exits
        self.policy = policy
        self.clock = clock
        self.after_hook = after_hook
        self.context = context
        self.message: AssistantMessage = _NO_MESSAGE
        self.abandoned: list[str] = []

    def begin(self, position: int, ready: Ready, parent: Signal) -> RunningCall:
        call = self.calls[position] = RunningCall(self, position, ready, parent)
        return call

    def told(self, position: int) -> None:
        call = self.calls.get(position)
        if call is not None:
            call.told()

    def stop(self, reason: CutReason, grace: float | None) -> None:
        """Every running call has this long to hear its signal; then it is cancelled. `None`: it is never cancelled."""
        for call in list(self.calls.values()):
            call.reason = call.reason or reason
            if grace is not None and (call.pulled == 0 or grace == 0):
                call.stop_after(call.grace(grace) if grace else 0.0)

    def runs_in(self, task: asyncio.Task[Any]) -> bool:
        """Is it one of these calls that this task executes?"""
        return any(call.task is task for call in self.calls.values())

    def dissolve(self) -> None:
        """The run is over: refer back to it no more."""
        self.post = _deaf
        self.exits = _deaf
        self.context = Context

    def leave(self) -> bool:
        """Cancel what still runs: the run is over in a way that leaves calls open. Was there any?"""
        calls = list(self.calls.values())
        for call in calls:
            call.leave()
            call.cancel()
        return bool(calls)


def _deaf(_news: Any) -> None:
    return None


_NO_MESSAGE = AssistantMessage(content=(), stop_reason="stop")
