"""Waiting for foreign code in the run's own task, without being at its mercy.

Hooks, polls, listeners, model streams and lone tool calls are awaited in the task that drives the run: a task for each
would cost more than all decisions of a turn. But foreign code may hang, swallow its cancellation, raise
`CancelledError` for reasons of its own, or cancel the task it runs in (that is how time-outs and task groups work).
`hold` steps the foreign coroutine by hand, so that the run can

* cut the foreign code when an abort was not heard within its grace, and let go of it if it does not stop even then,
  whatever it waits for: a future of its own stands between the run and a task that may swallow its cancellation;
* tell a cancellation of the run from one that the foreign code made up: what it takes back before it returns was its
  own.

Two timers pull. One belongs to the run (an abort whose grace is over) and goes on from wait to wait. The other belongs
to one wait (a silent stream, a cancellation that was neither taken back nor obeyed) and ends with it. A cancellation
that was taken back is forgiven at once: connecting to a server makes and takes back some, and the wait goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from types import coroutine
from typing import Any, Protocol, TypeVar, cast, final

T = TypeVar("T")

PULL_EVERY = 0.05
"""Seconds between two attempts to cancel the same foreign code."""

PULLS = 3
"""Attempts before it is abandoned."""


class Cut(Exception):
    """The foreign code was cancelled by the run and stopped."""


class LetGo(Cut):
    """The foreign code did not stop; nobody waits for it any more."""


_CANCELLED = "CancelledError although nobody had cancelled"


class ForeignCancelled(Exception):
    """Foreign code raised `CancelledError` of its own accord."""


def foreign_cancelled(own: BaseException) -> ForeignCancelled:
    """The fault that stands for a `CancelledError`, or `GeneratorExit`, which nobody but the foreign code wanted."""
    what = "GeneratorExit although nobody had closed" if isinstance(own, GeneratorExit) else _CANCELLED
    error = ForeignCancelled(f"it raised {what} it")
    error.__cause__ = own
    return error


class Foreign(Protocol):
    """A started awaitable, as the event loop steps it."""

    def send(self, value: None, /) -> Any: ...
    def throw(self, error: BaseException, /) -> Any: ...
    def close(self) -> None: ...


@final
class Leash:
    """Cancels what the driving task waits for, on behalf of the run. One per run.

    `patience`: seconds that foreign code has after a cancellation from outside, until it is pulled. It may have been
    its own time-out; then nothing is left of it when this wait is over.
    """

    __slots__ = (
        "_deadline",
        "_held",
        "_impatience",
        "_on_cancelled",
        "_outside",
        "_own",
        "_patience",
        "_pulled",
        "_task",
        "_timer",
        "exempt",
        "loop",
        "stream_is_open",
    )

    def __init__(self, on_cancelled: Callable[[], None], patience: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self.loop = asyncio.get_running_loop()
        self._outside = task.cancelling()
        self._own = 0
        self._held = 0
        self._pulled = 0
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._impatience: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._on_cancelled = on_cancelled
        self.exempt: Callable[[], bool] = _never
        self.stream_is_open = False
        """A stream may have a time-out around its events. If it strikes while a listener is waited for, the stream can
        take it back only when it is closed: until then nobody can know whom a cancellation means."""

    # -- pulling --------------------------------------------------------------------------------------------------

    def pull_after(self, seconds: float) -> None:
        """From then on, cancel whatever the run waits for, until `rest` is called. An earlier time wins."""
        when = self.loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._pull)

    def rest(self) -> None:
        """Stop pulling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pull(self) -> None:
        self._timer = self.loop.call_later(PULL_EVERY, self._pull)
        if not self.exempt():
            self.pull_now()

    def lose_patience_after(self, seconds: float) -> None:
        """From then on, cancel what the run waits for now, until that wait is over. An earlier time wins."""
        when = self.loop.time() + seconds
        if self._impatience is not None:
            if self._impatience.when() <= when:
                return
            self._impatience.cancel()
        self._impatience = self.loop.call_at(when, self._lose_patience)

    def _lose_patience(self) -> None:
        if self._forgiven():
            self._impatience = None
            if self._deadline is not None:
                self._impatience = self.loop.call_at(self._deadline, self._lose_patience)
            return
        self._impatience = self.loop.call_later(PULL_EVERY, self._lose_patience)
        if not self.exempt():
            self.pull_now()

    def _forgiven(self) -> bool:
        """Was the cancellation that cost the patience taken back, and is there time left?"""
        if self._pulled or self.cancelled():
            return False
        return self._deadline is None or self.loop.time() < self._deadline

    def pull_now(self) -> None:
        """Cancel what the run waits for, once."""
        if self._held:
            self._pulled += 1
            self._own += 1
            self._task.cancel()

    def dissolve(self) -> None:
        """The run is over: refer back to it no more."""
        self._on_cancelled = _nothing
        self.exempt = _never

    # -- holding --------------------------------------------------------------------------------------------------

    def hold(self, awaitable: Awaitable[T], within: float | None = None) -> Awaitable[T]:
        """Await foreign code. `within`: seconds until it is cancelled.

        Raises:
            Cut: the run cancelled it, and it stopped.
            LetGo: the run cancelled it, and it did not stop.
            ForeignCancelled: it raised `CancelledError` although nobody cancelled it.
        """
        return self._step(started(awaitable), None, within, True)

    def go_on(
        self, foreign: Foreign, future: Any, within: float | None = None, context: Context | None = None
    ) -> Awaitable[Any]:
        """The same for foreign code that was stepped once already and waits for `future`. `context`: its variables."""
        return self._step(foreign, future, within, False, context)

    @coroutine
    def _step(
        self, foreign: Foreign, future: Any, within: float | None, stepping: bool, context: Context | None = None
    ) -> Generator[Any, None, Any]:
        """Step the foreign code as a task would: what it yields is waited for, what arrives is thrown into it."""
        error: BaseException | None = None
        self._begin(within)
        try:
            while True:
                if stepping:
                    try:
                        if context is not None:
                            future = context.run(_stepped, foreign, error)
                        else:
                            future = foreign.send(None) if error is None else foreign.throw(error)
                    except StopIteration as stop:
                        return stop.value
                    except asyncio.CancelledError as own:
                        if self.was_cut():
                            raise Cut("cancelled by the run") from None
                        raise foreign_cancelled(own) from own
                    except GeneratorExit as own:  # not the end of this run: that comes where it waits
                        raise foreign_cancelled(own) from own
                stepping, error = True, None
                try:
                    yield future if future is None or type(future) is asyncio.Future else _relay(future, self.loop)
                except asyncio.CancelledError as arrived:
                    if self.caught():
                        _abandon(foreign)
                        raise LetGo("it ignored every cancellation") from None
                    if _passed_on(future):
                        stepping = False
                    else:
                        error = arrived
                except GeneratorExit:  # the run itself is closed, without an event loop to wait in
                    _abandon(foreign)
                    raise
                except BaseException as thrown:  # noqa: BLE001 - what its future failed with is the foreign code's
                    error = thrown
        finally:
            self._end()

    def _begin(self, within: float | None) -> None:
        self._held += 1
        if within is not None:
            when = self.loop.time() + within
            self._deadline = when if self._deadline is None else min(when, self._deadline)
            self.lose_patience_after(within)

    def _end(self) -> None:
        """Nobody is held any more: whatever cancellation is left is one of the run, unless a stream is open."""
        self._held -= 1
        if self._held == 0:
            self._pulled = 0
            self._deadline = None
            if self._impatience is not None:
                self._impatience.cancel()
                self._impatience = None
            if not self.stream_is_open:
                self.judge()

    def caught(self) -> bool:
        """A cancellation arrived while foreign code is held. True if that code has had its chances."""
        if self._own:
            self._take_back()
        else:  # from outside, or from a time-out of the foreign code itself: it will take that back
            self.lose_patience_after(self._patience)
        return self._pulled > PULLS

    def cancelled(self) -> bool:
        """Is there a cancellation that was neither taken back nor noticed so far?"""
        return self._task.cancelling() > self._outside

    def was_cut(self) -> bool:
        """Was what is held now cancelled by the run, or from outside?"""
        return self._pulled > 0 or self._task.cancelling() > self._outside

    def judge(self) -> None:
        """Notice cancellations of the run that have arrived since the last look."""
        self._take_back()
        while self._outside < self._task.cancelling():
            self._outside += 1
            self._on_cancelled()

    def _take_back(self) -> None:
        while self._own:
            self._own -= 1
            self._task.uncancel()


def _relay(future: Any, loop: asyncio.AbstractEventLoop) -> Any:
    """A future that ends with this one. A task that waits for it can be woken although this one refuses to end."""
    if getattr(future, "_asyncio_future_blocking", None) is not True or future.get_loop() is not loop:
        return future  # no future that is awaited, or one of another loop: the event loop says so itself
    future._asyncio_future_blocking = False
    relay = loop.create_future()

    def ended(_: Any) -> None:
        if not relay.done():
            relay.set_result(None)
        elif not future.cancelled():
            future.exception()  # if it was given up, nobody else looks at it

    future.add_done_callback(ended)
    relay._asyncio_future_blocking = True
    return relay


def _passed_on(future: Any) -> bool:
    """A cancellation goes to what is waited for, if that can take it; then the wait goes on."""
    if future is None or type(future) is asyncio.Future or not hasattr(future, "cancel"):
        return False
    if not future.cancel():
        return False
    future._asyncio_future_blocking = True
    return True


def _abandon(foreign: Foreign) -> None:
    """Close what is closable; what it raises on its way out, or that it refuses even that, concerns nobody any more."""
    try:
        foreign.close()
    except BaseException:  # noqa: BLE001 - see above
        return


def _stepped(foreign: Foreign, error: BaseException | None) -> Any:
    return foreign.send(None) if error is None else foreign.throw(error)


def started(awaitable: Awaitable[Any]) -> Foreign:
    """The object that the event loop would step."""
    if hasattr(awaitable, "send"):
        return cast("Foreign", awaitable)
    inner = awaitable.__await__()
    return cast("Foreign", inner) if hasattr(inner, "send") else _Steps(inner)


@final
class _Steps:
    """A bare iterator with the interface of a generator."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def send(self, value: None, /) -> Any:
        return next(self._inner)

    def throw(self, error: BaseException, /) -> Any:
        raise error

    def close(self) -> None:
        return None


def _never() -> bool:
    return False


def _nothing() -> None:
    return None
