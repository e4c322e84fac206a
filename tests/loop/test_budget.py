"""One budget for several runs: what one has used counts for the next."""

from __future__ import annotations

import pytest

from antiphon.core.limits import Budget
from antiphon.core.policy import RunLimits
from antiphon.errors import LimitStillReached
from antiphon.testing import World, calls, says


async def test_two_agents_share_a_budget() -> None:
    budget = Budget()
    limits = RunLimits(max_turns=3)
    first = World([calls("A"), says("done")], limits=limits, budget=budget)
    second = World([calls("A"), says("never asked")], limits=limits, budget=budget)

    await first.prompt("go")
    await second.prompt("go")
    assert (first.outcome.reason, second.outcome.reason) == ("stop", "max_turns")
    assert budget.used.turns == 3


async def test_a_budget_that_is_used_up_refuses_before_anything_happens() -> None:
    budget = Budget()
    world = World([calls("A"), says("raised")], limits=RunLimits(max_turns=1), budget=budget)
    await world.prompt("go")
    before = len(world.agent.messages)

    with pytest.raises(LimitStillReached, match=r"max_turns is still reached \(1 of 1\)"):
        await world.prompt("again")
    assert len(world.agent.messages) == before

    world.agent.limits = RunLimits(max_turns=2)
    await world.prompt("again")
    assert world.outcome.final_text == "raised"
