"""What a conversation does between and around its runs, as a pure machine: `step(phase, input) -> (phase, commands)`.

A prompt is accepted, one low-level run follows the other (repeated after a failure, after a compaction, or because
something was queued), and at the end the conversation settles, once. Read the table `ROWS` from top to bottom: it is
that story. Nothing here waits or tells; `session/driver.py` performs the commands and brings back the answers.

A phase is in force before its commands are performed. So an abort that a listener asks for while it hears of a retry
already finds the wait that it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from msgspec import structs

from antiphon.core.session_events import AutoRetryEnd, AutoRetryStart, CompactionEnd
from antiphon.errors import ProtocolError
from antiphon.session.phase_kinds import (
    Closing,
    Compacting,
    Counting,
    Disposed,
    Idle,
    Judging,
    Life,
    Phase,
    PhaseName,
    RetryWait,
    Running,
    Settling,
    Starting,
    Summarizing,
    life_of,
)
from antiphon.session.phase_words import (
    Abort,
    Accept,
    Answered,
    AskBoundary,
    BoundaryAnswered,
    Command,
    Compact,
    Compacted,
    CompactionBegan,
    CompactionOutcome,
    Continue,
    Counted,
    CountQueue,
    Crashed,
    Dispose,
    Input,
    Judge,
    Judged,
    Judgement,
    OmitAttempt,
    RestoreAttempt,
    RunEnded,
    Settle,
    SettledTold,
    Started,
    SummaryBegan,
    SummaryEnded,
    Wait,
    WaitOver,
    Withdrawn,
)

__all__ = [
    "AT_WORK",
    "LENGTH_GIVE_UP",
    "MOST_ROUNDS",
    "OVERFLOW_GIVE_UP",
    "PHASES",
    "RETRY_CANCELLED",
    "ROWS",
    "RULES",
    "Abort",
    "Accept",
    "Answered",
    "AskBoundary",
    "BoundaryAnswered",
    "Closing",
    "Command",
    "Compact",
    "Compacted",
    "Compacting",
    "CompactionBegan",
    "CompactionOutcome",
    "Continue",
    "CountQueue",
    "Counted",
    "Counting",
    "Crashed",
    "Dispose",
    "Disposed",
    "Idle",
    "Input",
    "Judge",
    "Judged",
    "Judgement",
    "Judging",
    "Life",
    "OmitAttempt",
    "Phase",
    "PhaseName",
    "RestoreAttempt",
    "RetryWait",
    "RunEnded",
    "Running",
    "Settle",
    "SettledTold",
    "Settling",
    "Started",
    "Starting",
    "Step",
    "Summarizing",
    "SummaryBegan",
    "SummaryEnded",
    "Wait",
    "WaitOver",
    "Withdrawn",
    "life_of",
    "step",
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
