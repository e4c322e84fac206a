"""What has come of a prompt, and how one may wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.limits import LimitReached
from antiphon.core.messages import Message, final_text
from antiphon.core.policy import EndReason
from antiphon.loop.outcome import RunOutcome

Disposition: TypeAlias = Literal["started", "queued", "handled"]
OnAccepted: TypeAlias = Callable[["Disposition | BaseException"], None]


@final
class Settlement(Struct, frozen=True, kw_only=True):
    """The end of a prompt. `disposition` queued or handled: no run was started for it, all else is empty.

    `outcome` is that of the last low-level run; `new_messages` are those of all of them, failed attempts included.
    """

    disposition: Disposition
    aborted: bool = False
    outcome: RunOutcome | None = None
    new_messages: tuple[Message, ...] = ()
    queued_id: str | None = None

    @property
    def reason(self) -> EndReason | None:
        return None if self.outcome is None else self.outcome.reason

    @property
    def error(self) -> str | None:
        return None if self.outcome is None else self.outcome.error

    @property
    def limit(self) -> LimitReached | None:
        return None if self.outcome is None else self.outcome.limit

    @property
    def abandoned(self) -> Sequence[str]:
        """Foreign code that did not stop when it was told to."""
        return () if self.outcome is None else self.outcome.abandoned

    @property
    def final_text(self) -> str:
        """The words of the last answer; empty if there is none."""
        return final_text(self.new_messages)


@final
class Submission:
    """A prompt that was handed in. Its acceptance, and what comes of it, can be waited for by anybody."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._accepted: asyncio.Future[Disposition] = loop.create_future()
        self._settled: asyncio.Future[Settlement] = loop.create_future()
        self._callbacks: list[OnAccepted] = []

    async def accepted(self) -> Disposition:
        """Whether it started a run, was queued, or was handled by an extension.

        Raises:
            AntiphonError: it was refused; the text says why.
        """
        return await asyncio.shield(self._accepted)

    async def settled(self) -> Settlement:
        """What came of it, once nothing follows.

        Raises:
            AntiphonError: it was refused, or the conversation could not be stored.
        """
        return await asyncio.shield(self._settled)

    def on_accepted(self, callback: OnAccepted) -> None:
        """Call at the very moment of acceptance or refusal, before anything else is told; at once if it has passed."""
        if self._accepted.done():
            callback(self._accepted.exception() or self._accepted.result())
        else:
            self._callbacks.append(callback)

    # -- for the session ------------------------------------------------------------------------------------------

    def accept(self, disposition: Disposition) -> None:
        if not self._accepted.done():
            self._accepted.set_result(disposition)
            self._call_back(disposition)

    def settle(self, settlement: Settlement) -> None:
        self.accept(settlement.disposition)
        if not self._settled.done():
            self._settled.set_result(settlement)

    def fail(self, error: BaseException) -> None:
        """Whoever waits gets this error; if nobody does, it is not complained about."""
        if not self._accepted.done():
            self._accepted.set_exception(error)
            self._accepted.exception()
            self._call_back(error)
        if not self._settled.done():
            self._settled.set_exception(error)
            self._settled.exception()

    def _call_back(self, answer: Disposition | BaseException) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(answer)
