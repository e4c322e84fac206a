"""Waiting for foreign code in the run's own task, without being at its mercy.

Hooks, polls, listeners, model streams and lone tool calls are awaited in the task that drives the run: a task for each
would cost more than all decisions of a turn. But foreign code may hang, swallow its cancellation, raise
`CancelledError` for reasons of its own, or cancel the task it runs in (that is how time-outs and task groups work).
`hold` steps the foreign coroutine by hand, so that the run can

* cut the foreign code when an abort was not heard within its grace, and let go of it if it does not stop even then;
* tell a cancellation of the run from one that the foreign code made up: what it takes back before it returns was its
own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Protocol, TypeVar, cast, final

T = TypeVar("T")

PULL_EVERY = 0.05
"""Seconds between two attempts to cancel the same foreign code."""

PULLS = 3
"""Attempts before it is abandoned."""


class Cut(Exception):  # noqa: N818 - not an error: what the run itself did
    """The foreign code was cancelled by the run and stopped."""


class LetGo(Cut):
    """The foreign code did not stop; nobody waits for it any more."""


class ForeignCancelled(Exception):  # noqa: N818
    """Foreign code raised `CancelledError` of its own accord."""


def foreign_cancelled(own: BaseException) -> ForeignCancelled:
    """The fault that stands for a `CancelledError` which nobody but the foreign code wanted."""
    error = ForeignCancelled("it raised CancelledError although nobody had cancelled it")
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

    `patience`: seconds that foreign code has after a cancellation from outside, until it is pulled.
    """

    __slots__ = (
        "_held",
        "_loop",
        "_on_cancelled",
        "_outside",
        "_own",
        "_patience",
        "_pulled",
        "_task",
        "_timer",
        "exempt",
    )

    def __init__(self, on_cancelled: Callable[[], None], patience: float) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._outside = task.cancelling()
        self._own = 0
        self._held = 0
        self._pulled = 0
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._on_cancelled = on_cancelled
        self.exempt: Callable[[], bool] = _never

    # -- pulling --------------------------------------------------------------------------------------------------

    def pull_after(self, seconds: float) -> None:
        """From then on, cancel whatever the run waits for, until `rest` is called. An earlier time wins."""
        when = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._pull)

    def rest(self) -> None:
        """Stop pulling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pull(self) -> None:
        self._timer = self._loop.call_later(PULL_EVERY, self._pull)
        if not self.exempt():
            self.pull_now()

    def pull_now(self) -> None:
        """Cancel what the run waits for, once."""
        if self._held:
            self._pulled += 1
            self._own += 1
            self._task.cancel()

    # -- holding --------------------------------------------------------------------------------------------------

    def hold(self, awaitable: Awaitable[T]) -> Awaitable[T]:
        """Await foreign code.

        Raises:
            Cut: the run cancelled it, and it stopped.
            LetGo: the run cancelled it, and it did not stop.
            ForeignCancelled: it raised `CancelledError` although nobody cancelled it.
        """
        return _Held(self, started(awaitable), None, first=True)

    def go_on(self, foreign: Foreign, future: Any) -> Awaitable[Any]:
        """The same for foreign code that was stepped once already and waits for `future`."""
        return _Held(self, foreign, future, first=False)

    def begin(self) -> None:
        self._held += 1

    def end(self) -> None:
        """Nobody is held any more: whatever cancellation is left is one of the run."""
        self._held -= 1
        if self._held == 0:
            self._pulled = 0
            self.judge()

    def caught(self) -> bool:
        """A cancellation arrived while foreign code is held. True if that code has had its chances."""
        if self._own:
            self._take_back()
        else:  # from outside, or from a time-out of the foreign code itself: it will take that back
            self.pull_after(self._patience)
        return self._pulled > PULLS

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


@final
class _Held(Awaitable[T]):
    __slots__ = ("first", "foreign", "future", "leash")

    def __init__(self, leash: Leash, foreign: Foreign, future: Any, *, first: bool) -> None:
        self.leash, self.foreign, self.future, self.first = leash, foreign, future, first

    def __await__(self) -> Generator[Any, None, T]:
        leash, foreign, future = self.leash, self.foreign, self.future
        error: BaseException | None = None
        stepping = self.first
        leash.begin()
        try:
            while True:
                if stepping:
                    try:
                        future = foreign.send(None) if error is None else foreign.throw(error)
                    except StopIteration as stop:
                        return cast("T", stop.value)
                    except asyncio.CancelledError as own:
                        if leash.was_cut():
                            raise Cut("cancelled by the run") from None
                        raise foreign_cancelled(own) from own
                stepping, error = True, None
                try:
                    yield future
                except asyncio.CancelledError as arrived:
                    if leash.caught():
                        _abandon(foreign)
                        raise LetGo("it ignored every cancellation") from None
                    error = arrived
        finally:
            leash.end()


def _abandon(foreign: Foreign) -> None:
    """Close what is closable; what it raises on its way out, or that it refuses even that, concerns nobody any more."""
    try:
        foreign.close()
    except BaseException:  # noqa: BLE001 - see above
        return


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
