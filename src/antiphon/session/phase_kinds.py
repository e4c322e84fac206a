"""The phases of a conversation: what goes on between and around its runs, and what is known of the prompt meanwhile."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, final

from msgspec import UNSET, Struct

PhaseName: TypeAlias = Literal[
    "idle", "starting", "running", "retry_wait", "compacting", "summarizing", "settling", "disposed"
]


@final
class Life(Struct, frozen=True, gc=False):
    """What is known of the prompt that is being worked on. `attempt`: retries since the last good answer.

    `stopped`: the reason of an abort. `rounds`: how often the boundary in front of the settlement asked for more.
    """

    attempt: int = 0
    stopped: str | None = None
    rounds: int = 0


# ---- phases ---------------------------------------------------------------------------------------------------------


@final
class Idle(Struct, frozen=True):
    """Nothing goes on. Waits for `Accept`, `CompactionBegan`, `SummaryBegan`."""

    name: ClassVar[PhaseName] = "idle"


@final
class Starting(Struct, frozen=True):
    """A prompt is accepted and being prepared. Waits for `Started` or `Withdrawn`."""

    name: ClassVar[PhaseName] = "starting"
    life: Life


@final
class Running(Struct, frozen=True):
    """A low-level run goes on. Waits for `Answered` and `RunEnded`."""

    name: ClassVar[PhaseName] = "running"
    life: Life


@final
class RetryWait(Struct, frozen=True):
    """A failed answer will be asked for again. Waits for `WaitOver`."""

    name: ClassVar[PhaseName] = "retry_wait"
    life: Life


@final
class Judging(Struct, frozen=True):
    """The run is over and not repeated for a failure. Waits for `Judged`: does the context still fit?"""

    name: ClassVar[PhaseName] = "running"
    life: Life


@final
class Compacting(Struct, frozen=True):
    """A summary is being written. Waits for `Compacted`; then `back`. `repeat`: the last answer is asked for again."""

    name: ClassVar[PhaseName] = "compacting"
    back: Idle | Starting | Running | Judging
    repeat: bool = False


@final
class Summarizing(Struct, frozen=True):
    """A branch that is left is being summarised. Waits for `SummaryEnded`."""

    name: ClassVar[PhaseName] = "summarizing"


@final
class Counting(Struct, frozen=True):
    """Nothing is left to repair. Waits for `Counted`: does anything wait in a queue?"""

    name: ClassVar[PhaseName] = "running"
    life: Life


@final
class Closing(Struct, frozen=True):
    """Nothing waits. Waits for `BoundaryAnswered`: somebody may ask for one more request."""

    name: ClassVar[PhaseName] = "running"
    life: Life


@final
class Settling(Struct, frozen=True):
    """It is being told that nothing follows. Waits for `SettledTold`."""

    name: ClassVar[PhaseName] = "settling"
    life: Life


@final
class Disposed(Struct, frozen=True):
    """The conversation is closed for good."""

    name: ClassVar[PhaseName] = "disposed"


Phase: TypeAlias = (
    Idle
    | Starting
    | Running
    | RetryWait
    | Judging
    | Compacting
    | Summarizing
    | Counting
    | Closing
    | Settling
    | Disposed
)


def life_of(phase: Phase) -> Life | None:
    """The prompt that is being worked on, if there is one."""
    if isinstance(phase, Compacting):
        return life_of(phase.back)
    life = getattr(phase, "life", UNSET)
    return None if life is UNSET else life
