"""What the machine of phases is told (inputs), and what it wants done (commands)."""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.session_events import AutoRetryEnd, AutoRetryStart, CompactionEnd, CompactionReason
from antiphon.session.retry import Retry

# ---- inputs ---------------------------------------------------------------------------------------------------------

Judgement: TypeAlias = Literal["nothing", "recover", "give up", "compact"]
CompactionOutcome: TypeAlias = Literal["done", "nothing", "failed", "aborted"]


@final
class Accept(Struct, frozen=True):
    """A prompt, or the wish to go on. Reserves the conversation."""


@final
class Withdrawn(Struct, frozen=True):
    """The prompt was consumed or refused before anything was told: as if it had never come."""


@final
class Started(Struct, frozen=True):
    """The first low-level run begins now."""


@final
class Answered(Struct, frozen=True):
    """An answer is complete. `good`: it is no failure."""

    good: bool


@final
class RunEnded(Struct, frozen=True):
    """The low-level run is over. `retry`: the plan for another try, if it is worth one. `error`: of a failed answer.

    `stop`: it must not go on, whatever waits (a budget is used up, a person has to decide).
    """

    aborted: bool = False
    retry: Retry | None = None
    error: str | None = None
    stop: bool = False


@final
class WaitOver(Struct, frozen=True):
    """The time before a retry has passed, or (`cancelled`) was cut short."""

    cancelled: bool = False


@final
class Judged(Struct, frozen=True):
    """Whether the context fits. `reason` says what a compaction is for; `cut`: the answer was cut off, not refused."""

    judgement: Judgement
    reason: CompactionReason = "threshold"
    cut: bool = False


@final
class CompactionBegan(Struct, frozen=True):
    """A compaction on request, before a prompt, or between turns."""


@final
class Compacted(Struct, frozen=True):
    outcome: CompactionOutcome


@final
class Counted(Struct, frozen=True):
    queued: bool


@final
class BoundaryAnswered(Struct, frozen=True):
    """`goes_on`: one more request is wanted. `queued`: something was queued meanwhile."""

    goes_on: bool
    queued: bool


@final
class SettledTold(Struct, frozen=True):
    """Every listener knows."""


@final
class SummaryBegan(Struct, frozen=True):
    pass


@final
class SummaryEnded(Struct, frozen=True):
    pass


@final
class Abort(Struct, frozen=True):
    """The work is no longer wanted. Legal always; where there is no work it changes nothing."""

    reason: str


@final
class Crashed(Struct, frozen=True):
    """Our own code failed, or the task that does the work was cancelled: settle, whatever was going on."""


@final
class Dispose(Struct, frozen=True):
    """The end of everything. Legal always."""


Input: TypeAlias = (
    Accept
    | Withdrawn
    | Started
    | Answered
    | RunEnded
    | WaitOver
    | Judged
    | CompactionBegan
    | Compacted
    | Counted
    | BoundaryAnswered
    | SettledTold
    | SummaryBegan
    | SummaryEnded
    | Abort
    | Crashed
    | Dispose
)

# ---- commands -------------------------------------------------------------------------------------------------------


@final
class OmitAttempt(Struct, frozen=True):
    """Take the last answer and its results out of the context."""


@final
class RestoreAttempt(Struct, frozen=True):
    """The answer that was taken out was cut off, and nothing could be done: put it back."""


@final
class Wait(Struct, frozen=True):
    delay_ms: int


@final
class Judge(Struct, frozen=True):
    """Find out whether the context still fits."""


@final
class Compact(Struct, frozen=True):
    reason: CompactionReason
    repeat: bool


@final
class CountQueue(Struct, frozen=True):
    """Find out whether something waits."""


@final
class AskBoundary(Struct, frozen=True):
    """Ask those who may want one more request."""


@final
class Continue(Struct, frozen=True):
    """Begin another low-level run from where the conversation stands."""


@final
class Settle(Struct, frozen=True):
    """Store what was held back, then tell that nothing follows."""

    aborted: bool


Command: TypeAlias = (
    AutoRetryStart
    | AutoRetryEnd
    | CompactionEnd
    | OmitAttempt
    | RestoreAttempt
    | Wait
    | Judge
    | Compact
    | CountQueue
    | AskBoundary
    | Continue
    | Settle
)
