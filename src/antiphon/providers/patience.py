"""Waiting that an abort or a time limit ends at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar, final

from antiphon.core.ports import AbortSignal
from antiphon.providers import failures
from antiphon.providers.failures import Failure

T = TypeVar("T")


class CallOver(Exception):
    """The call has come to this end."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


@final
class Patience:
    """The waits of one call, one at a time. It watches the abort signal until `forget`."""

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self._scope: asyncio.Timeout | None = None
        self._forget = signal.on_abort(self._stop_waiting)

    def forget(self) -> None:
        """Stop watching the signal."""
        self._forget()

    def check(self) -> None:
        """Raises `CallOver` if the call was aborted."""
        if self._signal.aborted:
            raise CallOver(failures.aborted(self._signal.reason))

    def verdict(self, failure: Failure) -> Failure:
        """The failure, or the abort that happened with it."""
        return failures.aborted(self._signal.reason) if self._signal.aborted else failure

    async def within(self, work: Awaitable[T], ms: float | None, what: str) -> T:
        """The result of `work`. `ms` 0 or None: no limit.

        Raises:
            CallOver: it was aborted, or took longer; `what` did not come.
        """
        self._scope = scope = asyncio.timeout(ms / 1000 if ms else None)
        try:
            async with scope:
                if self._signal.aborted:
                    self._stop_waiting()
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            self.check()
            raise CallOver(failures.timed_out(what, ms or 0)) from None
        finally:
            self._scope = None

    def _stop_waiting(self) -> None:
        """End the wait that is going on, if any, as if its time were up."""
        if self._scope is not None:
            with suppress(RuntimeError):  # it is over already
                self._scope.reschedule(0)
