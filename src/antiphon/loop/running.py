"""The calls of a batch that are running: one task each, their signals, time limits, and how they are stopped.

Nothing of a tool reaches the driver but two kinds of news, put into its inbox in the order in which they happen:
`Progress` and `Finished`. A task that was told to stop and does not is cancelled a few times, then abandoned: its call
is answered, its later news are ignored, and the outcome of the run names it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, final

from antiphon.core.calls import CutReason, Outcome, cut_off
from antiphon.core.hooks import AfterHook, Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import Clock
from antiphon.core.states import Finished, Progress
from antiphon.loop.abort import DerivedSignal, Signal
from antiphon.loop.leash import PULL_EVERY, PULLS
from antiphon.loop.tool_call import Ready, aborted_outcome, ask_after, execute

Post = Callable[[Any], None]


@final
class RunningCall:
    """One executing call."""

    __slots__ = ("batch", "closed", "delivered", "news", "position", "pulled", "ready", "reason", "signal", "started", "task", "timer")

    def __init__(self, batch: RunningCalls, position: int, ready: Ready, parent: Signal) -> None:
        self.batch = batch
        self.position = position
        self.ready = ready
        self.signal = DerivedSignal(parent)
        self.reason: CutReason | None = None
        self.closed = False
        self.pulled = 0
        self.news = 0  # progress that was posted and not yet told
        self.delivered: asyncio.Future[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.started = batch.clock.monotonic()
        self.task = batch.loop.create_task(self._run(), name=f"tool {ready.call.name}")
        self.task.add_done_callback(self._done)
        timeout = getattr(ready.tool, "timeout", None)
        if timeout is not None:
            self.timer = batch.loop.call_later(timeout, self._timed_out)

    # -- the task -------------------------------------------------------------------------------------------------

    async def _run(self) -> Outcome:
        batch = self.batch
        if self.signal.aborted:  # the last look before something happens
            return aborted_outcome(self.ready.call, batch.policy)
        outcome = await execute(self.ready, self.signal, self.update, batch.clock)
        self.closed = True
        hook = batch.after_hook
        if hook is None:
            return outcome
        if self.news:  # updates are told before the hook is asked
            self.delivered = batch.loop.create_future()
            await self.delivered
        return await ask_after(self.ready, outcome, hook, batch.message, batch.context(), self.signal)

    def update(self, partial: Any) -> None:
        """Progress of the tool; deaf once it has returned."""
        if not self.closed:
            self.news += 1
            self.batch.post(Progress(self.position, partial))

    def told(self) -> None:
        """One piece of progress has been told to every listener."""
        self.news -= 1
        if self.news == 0 and self.delivered is not None and not self.delivered.done():
            self.delivered.set_result(None)

    def _done(self, task: asyncio.Task[Outcome]) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.signal.release()
        if self.position not in self.batch.calls or self.batch.calls[self.position] is not self:
            if not task.cancelled():
                task.exception()  # abandoned: nobody else will look at it
            return
        if task.cancelled():
            self._finish(self._cut(self.reason or "cancelled"))
            return
        error = task.exception()
        if error is None:
            self._finish(task.result())
            return
        self.batch.exits(error)
        self._finish(self._cut("fault"))

    def _cut(self, reason: CutReason) -> Outcome:
        elapsed = round((self.batch.clock.monotonic() - self.started) * 1000)
        return cut_off(self.ready.call, reason, max(0, elapsed))

    def _finish(self, outcome: Outcome) -> None:
        self.closed = True
        del self.batch.calls[self.position]
        self.batch.post(Finished(self.position, outcome, self.batch.clock.now_ms()))

    # -- stopping -------------------------------------------------------------------------------------------------

    def _timed_out(self) -> None:
        if self.reason is None:
            self.reason = "timeout"
            self.signal.abort("timeout")
            self.stop_after(self.grace(self.batch.policy.abort_grace or 0.0))

    def grace(self, usual: float) -> float:
        own = getattr(self.ready.tool, "abort_grace", None)
        return usual if own is None else own

    def stop_after(self, seconds: float) -> None:
        """Cancel the task when its grace is over."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.batch.loop.call_later(seconds, self.pull)

    def pull(self) -> None:
        if self.pulled == PULLS:
            self._abandon()
            return
        self.pulled += 1
        self.task.cancel()
        self.timer = self.batch.loop.call_later(PULL_EVERY, self.pull)

    def _abandon(self) -> None:
        self.batch.abandoned.append(f"tool {self.ready.call.name} ({self.ready.call.id})")
        self._finish(self._cut(self.reason or "cancelled"))


@final
class RunningCalls:
    """All running calls of a run."""

    __slots__ = ("abandoned", "after_hook", "calls", "clock", "context", "exits", "loop", "message", "policy", "post")

    def __init__(
        self,
        *,
        post: Post,
        exits: Callable[[BaseException], None],
        policy: Any,
        clock: Clock,
        after_hook: AfterHook | None,
        context: Callable[[], Context],
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.calls: dict[int, RunningCall] = {}
        self.post = post
        self.exits = exits
        self.policy = policy
        self.clock = clock
        self.after_hook = after_hook
        self.context = context
        self.message: AssistantMessage = _NO_MESSAGE
        self.abandoned: list[str] = []

    def start(self, position: int, ready: Ready, parent: Signal) -> None:
        self.calls[position] = RunningCall(self, position, ready, parent)

    def told(self, position: int) -> None:
        call = self.calls.get(position)
        if call is not None:
            call.told()

    def stop(self, reason: CutReason, grace: float | None) -> None:
        """Every running call has this long to hear its signal; then it is cancelled. `None`: it is never cancelled."""
        for call in list(self.calls.values()):
            if call.reason is None or call.reason == "timeout":
                call.reason = call.reason or reason
            if grace is not None and (call.pulled == 0 or grace == 0):
                call.stop_after(call.grace(grace) if grace else 0.0)

    async def leave(self) -> None:
        """Cancel what still runs: the run is over in a way that leaves calls open. Waits for those that obey."""
        tasks = [call.task for call in self.calls.values()]
        self.calls.clear()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=PULL_EVERY)


_NO_MESSAGE = AssistantMessage(content=(), stop_reason="stop")

__all__ = ["RunningCall", "RunningCalls"]
