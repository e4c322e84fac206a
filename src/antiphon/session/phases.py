"""What a conversation does between and around its runs, as a pure machine: `step(phase, input) -> (phase, commands)`.

A prompt is accepted, one low-level run follows the other (repeated after a failure, after a compaction, or because
something was queued), and at the end the conversation settles, once. Read the table `ROWS` from top to bottom: it is
that story. Nothing here waits or tells; `session/driver.py` performs the commands and brings back the answers.

A phase is in force before its commands are performed. So an abort that a listener asks for while it hears of a retry
already finds the wait that it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, final

from msgspec import UNSET, Struct, structs

from antiphon.core.session_events import AutoRetryEnd, AutoRetryStart, CompactionEnd, CompactionReason
from antiphon.errors import ProtocolError
from antiphon.session.retry import Retry

PhaseName: TypeAlias = Literal[
    "idle", "starting", "running", "retry_wait", "compacting", "summarizing", "settling", "disposed"
]

RETRY_CANCELLED = "Retry cancelled"
OVERFLOW_GIVE_UP = (
    "The context was compacted and is still too long for the model; shorten the last message, or use a model with a "
    "larger window."
)
LENGTH_GIVE_UP = (
    "The context was compacted and the answer was cut off again; shorten the last message, or use a model with a "
    "larger window."
)


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
Step: TypeAlias = tuple[Phase, list[Command]]

MOST_ROUNDS = 25
"""So often a boundary may ask for one more request; then the conversation settles."""


# ---- what follows ---------------------------------------------------------------------------------------------------


def accepted(_s: Idle, _i: Accept) -> Step:
    """From here on a second prompt finds somebody at work."""
    return Starting(Life()), []


def withdrawn(_s: Starting, _i: Withdrawn) -> Step:
    return Idle(), []


def started(s: Starting, _i: Started) -> Step:
    return Running(s.life), []


def answered(s: Running, i: Answered) -> Step:
    """The first good answer ends a series of retries."""
    if not i.good or s.life.attempt == 0:
        return s, []
    told = AutoRetryEnd(success=True, attempt=s.life.attempt)
    return Running(structs.replace(s.life, attempt=0)), [told]


def run_ended(s: Running, i: RunEnded) -> Step:
    """Aborted: settle. A failure worth another try: wait. Else look whether the context still fits."""
    life = s.life
    if i.aborted or life.stopped is not None:
        return _settle(life, aborted=True)
    if i.retry is not None:
        life = structs.replace(life, attempt=i.retry.attempt)
        told = AutoRetryStart(
            attempt=i.retry.attempt,
            max_attempts=i.retry.max_attempts,
            delay_ms=i.retry.delay_ms,
            error_message=i.retry.error,
        )
        return RetryWait(life), [told, OmitAttempt(), Wait(i.retry.delay_ms)]
    commands: list[Command] = []
    if life.attempt and i.error is not None:
        commands.append(AutoRetryEnd(success=False, attempt=life.attempt, final_error=i.error))
        life = structs.replace(life, attempt=0)
    if i.stop:
        return _settle(life, aborted=False, before=commands)
    return Judging(life), [*commands, Judge()]


def wait_over(s: RetryWait, i: WaitOver) -> Step:
    """Try again, unless that is no longer wanted."""
    if i.cancelled or s.life.stopped is not None:
        return _settle(s.life, aborted=True)
    return Running(s.life), [Continue()]


def judged(s: Judging, i: Judged) -> Step:
    """Compact if there is need to; a recovery that was tried already is only reported."""
    if s.life.stopped is not None:
        return _settle(s.life, aborted=True)
    match i.judgement:
        case "recover":
            return Compacting(s, repeat=True), [OmitAttempt(), Compact(i.reason, repeat=True)]
        case "compact":
            return Compacting(s), [Compact(i.reason, repeat=False)]
        case "give up":
            text = LENGTH_GIVE_UP if i.cut else OVERFLOW_GIVE_UP
            told = CompactionEnd(reason=i.reason, aborted=False, will_retry=False, error_message=text)
            return Counting(s.life), [told, CountQueue()]
        case "nothing":
            return Counting(s.life), [CountQueue()]


def compaction_began(s: Idle | Starting | Running, _i: CompactionBegan) -> Step:
    return Compacting(s), []


def compacted(s: Compacting, i: Compacted) -> Step:
    """Back to where it was called for; after a run: repeat the request, or see what waits."""
    back = s.back
    if type(back) is not Judging:
        return back, []
    if i.outcome == "aborted" or back.life.stopped is not None:
        restored: list[Command] = [RestoreAttempt()] if s.repeat else []
        return _settle(back.life, aborted=True, before=restored)
    if s.repeat and i.outcome == "done":
        return Running(back.life), [Continue()]
    if s.repeat:
        return Counting(back.life), [RestoreAttempt(), CountQueue()]
    return Counting(back.life), [CountQueue()]


def counted(s: Counting, i: Counted) -> Step:
    if s.life.stopped is not None:
        return _settle(s.life, aborted=True)
    if i.queued:
        return Running(s.life), [Continue()]
    return Closing(s.life), [AskBoundary()]


def boundary_answered(s: Closing, i: BoundaryAnswered) -> Step:
    """What was queued meanwhile is always answered; a wish for more is granted a limited number of times."""
    life = s.life
    if life.stopped is not None:
        return _settle(life, aborted=True)
    if i.queued:
        return Running(life), [Continue()]
    if i.goes_on and life.rounds < MOST_ROUNDS:
        return Running(structs.replace(life, rounds=life.rounds + 1)), [Continue()]
    return _settle(life, aborted=False)


def settled_told(_s: Settling, _i: SettledTold) -> Step:
    return Idle(), []


def summary_began(_s: Idle, _i: SummaryBegan) -> Step:
    return Summarizing(), []


def summary_ended(_s: Summarizing, _i: SummaryEnded) -> Step:
    return Idle(), []


def _settle(life: Life, *, aborted: bool, before: list[Command] | None = None) -> Step:
    """The end; a series of retries that was cut short is closed first."""
    commands: list[Command] = [] if before is None else before
    if life.attempt:
        commands.append(AutoRetryEnd(success=False, attempt=life.attempt, final_error=RETRY_CANCELLED))
        life = structs.replace(life, attempt=0)
    return Settling(life), [*commands, Settle(aborted)]


def _noted(s: Any, i: Abort) -> Step:
    """The first reason stays."""
    if s.life.stopped is not None:
        return s, []
    return structs.replace(s, life=structs.replace(s.life, stopped=i.reason)), []


def _noted_behind(s: Compacting, i: Abort) -> Step:
    if isinstance(s.back, Idle):
        return s, []
    return structs.replace(s, back=_noted(s.back, i)[0]), []


def _unmoved(s: Any, _i: Any) -> Step:
    return s, []


def _crashed(s: Any, _i: Crashed) -> Step:
    return _settle(s.life, aborted=True)


def _crashed_behind(s: Compacting, i: Crashed) -> Step:
    return (s.back, []) if isinstance(s.back, Idle) else _crashed(s.back, i)


def _disposed(_s: Any, _i: Dispose) -> Step:
    return Disposed(), []


# ---- the table ------------------------------------------------------------------------------------------------------

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
Row: TypeAlias = tuple[type, type, Callable[[Any, Any], Step]]


def row(phase: type[S], given: type[I], then: Callable[[S, I], Step]) -> Row:
    """One line of the table; the type checker compares its three columns."""
    return phase, given, then


ROWS: tuple[Row, ...] = (
    row(Idle, Accept, accepted),
    row(Starting, Withdrawn, withdrawn),
    row(Starting, CompactionBegan, compaction_began),
    row(Starting, Started, started),
    row(Running, Answered, answered),
    row(Running, CompactionBegan, compaction_began),
    row(Running, RunEnded, run_ended),
    row(RetryWait, WaitOver, wait_over),
    row(Judging, Judged, judged),
    row(Compacting, Compacted, compacted),
    row(Counting, Counted, counted),
    row(Closing, BoundaryAnswered, boundary_answered),
    row(Settling, SettledTold, settled_told),
    row(Idle, CompactionBegan, compaction_began),
    row(Idle, SummaryBegan, summary_began),
    row(Summarizing, SummaryEnded, summary_ended),
)
AT_WORK: tuple[type, ...] = (Starting, Running, RetryWait, Judging, Counting, Closing)
"""Phases that remember an abort, and settle if our own code fails."""

PHASES: tuple[type, ...] = (*AT_WORK, Idle, Compacting, Summarizing, Settling, Disposed)


def _rules() -> dict[tuple[type, type], Callable[[Any, Any], Step]]:
    rules: dict[tuple[type, type], Callable[[Any, Any], Step]] = {(p, i): then for p, i, then in ROWS}
    for phase in PHASES:
        rules[phase, Abort] = _noted if phase in AT_WORK else _unmoved
        rules[phase, Dispose] = _disposed
    rules[Compacting, Abort] = _noted_behind
    rules.update({(phase, Crashed): _crashed for phase in AT_WORK})
    rules[Compacting, Crashed] = _crashed_behind
    rules.update({(phase, Crashed): _unmoved for phase in (Idle, Summarizing, Settling)})
    rules.update({(Disposed, type_): _unmoved for type_ in {i for _, i, _ in ROWS} | {Abort, Crashed}})
    return rules


RULES = _rules()


def step(phase: Phase, given: Input) -> Step:
    """The next phase, and what to do now.

    Raises:
        ProtocolError: this phase cannot receive this input; whoever drives it is at fault.
    """
    rule = RULES.get((type(phase), type(given)))
    if rule is None:
        raise ProtocolError(f"{type(phase).__name__} cannot receive {type(given).__name__}")
    return rule(phase, given)


def life_of(phase: Phase) -> Life | None:
    """The prompt that is being worked on, if there is one."""
    if isinstance(phase, Compacting):
        return life_of(phase.back)
    life = getattr(phase, "life", UNSET)
    return None if life is UNSET else life
