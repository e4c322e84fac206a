"""The machine between runs: every phase takes every input it can meet, and every way leads to a settlement."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec import structs

from antiphon.core.session_events import AutoRetryEnd, AutoRetryStart, CompactionEnd
from antiphon.errors import ProtocolError
from antiphon.session import phases as p
from antiphon.session.retry import Retry

PLAN = Retry(1, 3, 2_000, "overloaded")


def after(*inputs: p.Input) -> tuple[p.Phase, list[p.Command]]:
    """Where a fresh conversation stands after these inputs, and what the last one asked for."""
    phase: p.Phase = p.Idle()
    commands: list[p.Command] = []
    for given in inputs:
        phase, commands = p.step(phase, given)
    return phase, commands


RUN = (p.Accept(), p.Started())


def test_a_plain_prompt_settles_once() -> None:
    phase, commands = after(*RUN, p.RunEnded(), p.Judged("nothing"), p.Counted(False), p.BoundaryAnswered(False, False))
    assert commands == [p.Settle(aborted=False)]
    assert p.step(phase, p.SettledTold()) == (p.Idle(), [])


def test_a_second_prompt_finds_the_first() -> None:
    """The reservation is made before anything is awaited."""
    phase, _ = after(p.Accept())
    with pytest.raises(ProtocolError, match="Starting cannot receive Accept"):
        p.step(phase, p.Accept())


def test_a_failure_worth_a_retry_is_announced_then_left_out_then_waited_for() -> None:
    _, commands = after(*RUN, p.RunEnded(retry=PLAN, error="overloaded"))
    assert [type(command) for command in commands] == [AutoRetryStart, p.OmitAttempt, p.Wait]


def test_an_abort_in_front_of_the_wait_is_noticed_by_it() -> None:
    """The phase changes before its commands are performed: whoever hears of the retry can still stop it."""
    waiting, _ = after(*RUN, p.RunEnded(retry=PLAN, error="overloaded"))
    stopped, _ = p.step(waiting, p.Abort("enough"))
    _, commands = p.step(stopped, p.WaitOver())
    assert commands == [AutoRetryEnd(success=False, attempt=1, final_error=p.RETRY_CANCELLED), p.Settle(aborted=True)]


def test_the_first_good_answer_ends_a_series_of_retries() -> None:
    phase, commands = after(*RUN, p.RunEnded(retry=PLAN, error="x"), p.WaitOver(), p.Answered(good=True))
    assert commands == [AutoRetryEnd(success=True, attempt=1)]
    assert p.life_of(phase) == p.Life()


def test_a_series_that_failed_is_closed_before_anything_else() -> None:
    _, commands = after(*RUN, p.RunEnded(retry=PLAN, error="x"), p.WaitOver(), p.RunEnded(error="still"))
    assert commands == [AutoRetryEnd(success=False, attempt=1, final_error="still"), p.Judge()]


def test_a_context_that_did_not_fit_is_compacted_and_asked_again() -> None:
    phase, commands = after(*RUN, p.RunEnded(error="too long"), p.Judged("recover", "overflow"))
    assert commands == [p.OmitAttempt(), p.Compact("overflow", repeat=True)]
    assert p.step(phase, p.Compacted("done"))[1] == [p.Continue()]


@pytest.mark.parametrize("outcome", ["nothing", "failed"])
def test_a_recovery_that_could_not_be_made_gives_the_answer_back(outcome: p.CompactionOutcome) -> None:
    phase, _ = after(*RUN, p.RunEnded(), p.Judged("recover", "overflow", cut=True))
    assert p.step(phase, p.Compacted(outcome))[1] == [p.RestoreAttempt(), p.CountQueue()]


def test_a_second_recovery_is_only_reported() -> None:
    _, commands = after(*RUN, p.RunEnded(error="too long"), p.Judged("give up", "overflow"))
    assert isinstance(commands[0], CompactionEnd)
    assert commands[0].error_message == p.OVERFLOW_GIVE_UP
    assert commands[1:] == [p.CountQueue()]


def test_what_waits_is_answered_before_the_settlement() -> None:
    _, commands = after(*RUN, p.RunEnded(), p.Judged("nothing"), p.Counted(True))
    assert commands == [p.Continue()]


def test_a_used_up_budget_stops_whatever_waits() -> None:
    _, commands = after(*RUN, p.RunEnded(stop=True))
    assert commands == [p.Settle(aborted=False)]


def test_a_boundary_may_ask_for_more_only_so_often() -> None:
    phase, commands = after(*RUN)
    rounds = 0
    while commands != [p.Settle(aborted=False)]:
        for given in (p.RunEnded(), p.Judged("nothing"), p.Counted(False), p.BoundaryAnswered(True, False)):
            phase, commands = p.step(phase, given)
        rounds += 1
    assert rounds == p.MOST_ROUNDS + 1


@pytest.mark.parametrize("back", [p.Idle(), p.Starting(p.Life()), p.Running(p.Life())])
def test_a_compaction_leads_back_to_where_it_was_called_for(back: p.Idle | p.Starting | p.Running) -> None:
    for outcome in ("done", "nothing", "failed", "aborted"):
        assert p.step(p.Compacting(back), p.Compacted(outcome)) == (back, [])


LIVES = [p.Life(), p.Life(attempt=1), p.Life(stopped="enough"), p.Life(attempt=2, stopped="enough")]
INPUTS: list[p.Input] = [
    p.Started(),
    p.Withdrawn(),
    p.Answered(True),
    p.Answered(False),
    p.CompactionBegan(),
    p.SettledTold(),
    p.SummaryBegan(),
    p.SummaryEnded(),
    p.Accept(),
    p.WaitOver(),
    p.WaitOver(cancelled=True),
    *(p.RunEnded(a, r, e, s) for a, r, e, s in product((False, True), (None, PLAN), (None, "x"), (False, True))),
    *(p.Judged(j, "overflow", c) for j, c in product(("nothing", "recover", "give up", "compact"), (False, True))),
    *(p.Compacted(o) for o in ("done", "nothing", "failed", "aborted")),
    p.Counted(False),
    p.Counted(True),
    *(p.BoundaryAnswered(g, q) for g, q in product((False, True), (False, True))),
    p.Abort("enough"),
    p.Crashed(),
    p.Dispose(),
]


def every_phase() -> set[p.Phase]:
    """All phases that can be reached, attempts and rounds kept small."""
    found: set[p.Phase] = {p.Idle()}
    front = list(found)
    while front:
        phase = front.pop()
        for given in INPUTS:
            try:
                following, _ = p.step(phase, given)
            except ProtocolError:
                continue
            life = p.life_of(following)
            if following not in found and (life is None or life.rounds < 2):
                found.add(following)
                front.append(following)
    return found


def test_every_phase_can_be_aborted_crashed_and_disposed() -> None:
    for phase in every_phase():
        p.step(phase, p.Abort("enough"))
        p.step(phase, p.Crashed())
        assert p.step(phase, p.Dispose()) == (p.Disposed(), [])


def test_a_crash_settles_every_prompt_that_was_being_worked_on() -> None:
    for phase in every_phase():
        following, commands = p.step(phase, p.Crashed())
        if p.life_of(phase) is not None and not isinstance(phase, p.Settling):
            assert isinstance(following, p.Settling)
            assert commands[-1] == p.Settle(aborted=True)
        else:
            assert commands == []


def test_a_stopped_conversation_starts_no_further_run() -> None:
    """Whatever the answers are: after an abort nothing is asked, waited for or compacted any more."""
    for phase in every_phase():
        life = p.life_of(phase)
        if life is None or life.stopped is None or isinstance(phase, p.Starting):
            continue
        for given in INPUTS:
            try:
                _, commands = p.step(phase, given)
            except ProtocolError:
                continue
            assert not any(isinstance(c, p.Continue | p.Wait | p.Compact | p.AskBoundary) for c in commands)


def test_no_settlement_without_an_accepted_prompt_and_no_second_one() -> None:
    for phase in every_phase():
        for given in INPUTS:
            try:
                following, commands = p.step(phase, given)
            except ProtocolError:
                continue
            settles = sum(isinstance(command, p.Settle) for command in commands)
            assert settles <= 1
            assert settles == (isinstance(following, p.Settling) and not isinstance(phase, p.Settling))


def test_a_life_is_told_from_every_phase_that_has_one() -> None:
    life = p.Life(attempt=1)
    assert p.life_of(p.Compacting(p.Judging(life))) == life
    assert p.life_of(p.Compacting(p.Idle())) is None
    assert structs.replace(life, attempt=0) == p.Life()
