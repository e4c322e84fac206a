"""Budgets: the model is told in time, the work stops at a boundary, and goes on when there is more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.session.stage import LONG, Stage, texts

from antiphon.core.policy import RunLimits
from antiphon.core.session_events import AgentSettled, BudgetReached
from antiphon.core.usage import Cost, Usage
from antiphon.errors import LimitStillReached
from antiphon.session.budget import NOTICE, Budget
from antiphon.session_log import SessionStore
from antiphon.testing import calls, fails, falls_silent, says, settle

TOKENS = Usage(input=40, output=10, total_tokens=50, cost=Cost(total=0.5))


async def test_the_model_is_told_once_when_most_of_a_budget_is_used() -> None:
    script = [calls("A") for _ in range(9)]
    stage = Stage([*script, says("done")], budget=Budget(max_turns=10, soft=0.5))
    await stage.session.prompt("go")
    told = [m for m in stage.session.messages if getattr(m, "data", {}).get("customType") == NOTICE]
    assert len(told) == 1
    assert "5 of 10 turns" in str(told[0].data)  # type: ignore[union-attr]
    assert [(event.name, event.hard) for event in stage.of(BudgetReached)] == [("turns", False)]
    assert stage.requests[5][-1] == "user"  # the notice stands in front of the sixth request


@pytest.mark.requirement("S3-81")
async def test_work_stops_at_a_boundary_and_goes_on_when_the_budget_is_raised() -> None:
    stage = Stage([calls("A"), calls("B"), says("done")], budget=Budget(max_turns=2))
    settlement = await stage.session.prompt("go")
    assert settlement.reason == "max_turns"
    assert stage.calls.executed_ids == ["A", "B"]
    assert [event.hard for event in stage.of(BudgetReached)][-1]
    with pytest.raises(LimitStillReached, match="2 of 2"):
        await stage.session.continue_()

    stage.session.set_budget(Budget(max_turns=5))
    settlement = await stage.session.continue_()
    assert settlement.final_text == "done"
    assert texts(stage.session.messages)[-1] == "assistant: done"
    assert len(stage.of(AgentSettled)) == 2


async def test_a_new_prompt_has_a_budget_of_its_own() -> None:
    stage = Stage([calls("A"), says("one"), calls("B"), says("two")], budget=Budget(max_turns=2))
    assert (await stage.session.prompt("go")).reason == "stop"
    assert (await stage.session.prompt("again")).reason == "stop"


async def test_a_budget_counts_over_retries() -> None:
    stage = Stage([calls("A"), fails("overloaded"), says("never")], budget=Budget(max_turns=2))
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("auto_retry_start")
    await settle()
    await stage.clock.virtual.advance_to_next()
    await going
    assert len(stage.model.requests) == 2
    assert stage.told[-1] == "agent_settled"


async def test_a_budget_of_the_session_holds_over_prompts_and_restarts(tmp_path: Path) -> None:
    budget = Budget(max_tokens=100, scope="session")
    stage = Stage([says("one").costing(TOKENS)], folder=tmp_path, budget=budget)
    await stage.session.prompt("go")
    await stage.session.dispose()

    log = SessionStore(tmp_path, cwd=str(tmp_path)).continue_recent()
    assert log is not None
    again = Stage([says("two").costing(TOKENS), says("never")], log=log, budget=budget)
    await again.session.prompt("go")
    with pytest.raises(LimitStillReached, match="100 of 100"):
        await again.session.prompt("go")
    assert again.told[-1] == "agent_settled"
    assert len(again.model.requests) == 1
    await again.session.dispose()


async def test_costs_are_bounded_and_summaries_cost_too() -> None:
    stage = Stage(
        [says(LONG).costing(TOKENS), says(LONG).costing(TOKENS), says("S").costing(TOKENS), says("S").costing(TOKENS)],
        budget=Budget(max_cost=1.5, scope="session"),
    )
    await stage.session.prompt(LONG)
    await stage.session.prompt(LONG)
    await stage.session.compact()
    with pytest.raises(LimitStillReached, match="max_cost 2 of 1.5"):
        await stage.session.prompt("more")


async def test_time_is_counted_over_all_runs_of_a_prompt() -> None:
    stage = Stage([calls("A"), says("never")], budget=Budget(max_seconds=10))
    stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    await stage.clock.advance(11)
    settlement = await going
    assert settlement.reason == "deadline"
    assert stage.of(BudgetReached)[-1].name == "seconds"
    with pytest.raises(LimitStillReached):
        await stage.session.continue_()


async def test_time_that_runs_out_ends_a_compaction_between_turns_too() -> None:
    full = Usage(input=99_500, output=5, total_tokens=99_505)
    first = (says(LONG) + calls("A")).costing(full)
    stage = Stage([first, falls_silent(says("S")), says("never")], budget=Budget(max_seconds=10))
    going = asyncio.ensure_future(stage.session.prompt(LONG))
    await stage.until("compaction_start")
    await settle()
    await stage.clock.advance(11)
    settlement = await asyncio.wait_for(going, 5)
    assert settlement.reason == "deadline"
    assert len(stage.model.asked) == 2
    assert stage.told[-1].startswith("agent_settled")


async def test_a_part_is_handed_on_and_cannot_be_handed_on_twice() -> None:
    stage = Stage([says("x").costing(TOKENS)], budget=Budget(max_tokens=100, scope="session"))
    await stage.session.prompt("go")
    keeper = stage.session.budget_keeper
    with keeper.carved(RunLimits(max_tokens=30)) as first:
        assert first.max_tokens == 30
        with keeper.carved(RunLimits()) as second:
            assert second.max_tokens == 20
            with pytest.raises(LimitStillReached, match="no tokens are left"), keeper.carved(RunLimits()):
                pass
    with keeper.carved(RunLimits(max_turns=3)) as third:
        assert (third.max_tokens, third.max_turns) == (50, 3)


def test_impossible_budgets_are_refused() -> None:
    for wrong in ({"soft": 0}, {"max_turns": 0}, {"max_cost": -1}):
        with pytest.raises(ValueError, match=r"must be|not"):
            Budget(**wrong)  # type: ignore[arg-type]
