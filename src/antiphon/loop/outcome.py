"""How a run ended, with everything that a host may want to act on."""

from __future__ import annotations

from typing import final

from msgspec import Struct

from antiphon.core.events import AgentEvent
from antiphon.core.limits import LimitReached
from antiphon.core.messages import Message, final_text
from antiphon.core.policy import EndReason
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.errors import RunFault


@final
class FaultRecord(Struct, frozen=True):
    """Foreign code that failed: where, what it raised, and the event it was told, if it was a listener."""

    where: str
    error: BaseException
    event: AgentEvent | None = None


@final
class RunOutcome(Struct, frozen=True):
    """The one typed outcome of a run. With a budget, what earlier runs have used is part of the counts.

    `abandoned` names foreign code that did not stop when it was cancelled. `undelivered` are messages that were
    accepted and neither announced nor returned to a queue. `has_queued_messages`: something waits for a further run.
    """

    reason: EndReason
    new_messages: tuple[Message, ...]
    turns: int = 0
    tool_calls: int = 0
    usage: Usage = NO_USAGE
    error: str | None = None
    abort_reason: str | None = None
    limit: LimitReached | None = None
    faults: tuple[FaultRecord, ...] = ()
    abandoned: tuple[str, ...] = ()
    undelivered: tuple[Message, ...] = ()
    has_queued_messages: bool = False

    @property
    def final_text(self) -> str:
        """The words of the last answer of this run; empty if there is none."""
        return final_text(self.new_messages)

    def raise_for_fault(self) -> None:
        """Raise `RunFault`, caused by the first thing that failed, if anything did."""
        if self.faults:
            first = self.faults[0]
            raise RunFault(f"{first.where} failed: {first.error}") from first.error
