"""Each limit of a run ends it at a boundary, with an outcome of its own, and nothing half done."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import details, legal, never, result_texts, within

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.hooks import BeforeDecision
from antiphon.core.messages import user
from antiphon.core.policy import DEFAULT, STRICT, RunLimits
from antiphon.core.usage import Cost, Usage
from antiphon.errors import LimitStillReached
from antiphon.testing import World, brief, calls, says, settle, who

ANSWERED = "message_end assistant"
USED = Usage(input=60, output=40, total_tokens=100, cost=Cost(total=1.0))


def counted(world: World) -> None:
    """Tool A never gives the same twice."""
    seen: list[int] = []

    def give(_args: Any) -> ToolResult:
        seen.append(1)
        return ToolResult(content=(Text(text=f"result {len(seen)}"),))

    world.calls.results["A"] = give


LIMITS = [
    (RunLimits(max_turns=3), "max_turns", 3, 3),
    (RunLimits(max_tokens=250), "max_tokens", 250, 300),
    (RunLimits(max_cost=2.5), "max_cost", 2.5, 3.0),
]


@pytest.mark.parametrize(("limits", "name", "allowed", "reached"), LIMITS, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
async def test_a_limit_ends_the_run_behind_a_complete_turn(
    limits: RunLimits, name: str, allowed: float, reached: float, policy: Any
) -> None:
    world = World([calls("A").costing(USED)] * 9, policy=policy, limits=limits)
    counted(world)
    await within(world.prompt("go"))
    outcome = world.outcome

    assert outcome.reason == name
    assert outcome.limit is not None
    assert (outcome.limit.name, outcome.limit.allowed, outcome.limit.reached) == (name, allowed, reached)
    assert (outcome.turns, len(world.requests)) == (3, 3)
    assert who(world.messages[-1]) == "result A"
    assert world.recording.types[-2:] == ["turn_end", "agent_end"]
    legal(world.recording, policy)


LAST_EVENTS = ["tool_execution_end A", "message_start result A", "message_end result A", "turn_end"]


@pytest.mark.parametrize("moment", LAST_EVENTS)
@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
async def test_an_abort_out_of_the_last_turn_is_named_before_its_limit(moment: str, policy: Any) -> None:
    """Precedence: aborted comes before a limit, whoever hears last, and whether a hook is set or not."""
    world = World([calls("A")] * 9, policy=policy, limits=RunLimits(max_turns=1))

    def abort(event: Any, _signal: object) -> None:
        if brief(event) == moment:
            world.agent.abort("enough")

    world.agent.subscribe(abort)
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.abort_reason, world.outcome.limit) == ("aborted", "enough", None)


async def test_usage_of_results_counts_too() -> None:
    world = World([calls("A"), says("never")], limits=RunLimits(max_tokens=50))
    world.calls.results["A"] = ToolResult(usage=USED)
    await within(world.prompt("go"))

    assert world.outcome.reason == "max_tokens"


async def test_a_turn_that_ends_by_itself_on_the_last_allowed_request_is_a_stop() -> None:
    world = World([calls("A"), says("end")], limits=RunLimits(max_turns=2))
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.limit) == ("stop", None)


async def test_the_last_turn_is_asked_whether_it_is_finished() -> None:
    asked: list[str] = []
    world = World(
        [calls("A"), says("never")], limits=RunLimits(max_turns=1), finish_turn=lambda *_: asked.append("asked")
    )
    await within(world.prompt("go"))

    assert (asked, world.outcome.reason) == (["asked"], "max_turns")


async def test_a_host_that_asks_for_more_is_refused_by_the_limit() -> None:
    world = World([says("one"), says("never")], limits=RunLimits(max_turns=1), finish_turn=lambda *_: "continue")
    await within(world.prompt("go"))

    assert world.outcome.reason == "max_turns"


@pytest.mark.parametrize("queue", ["steer", "follow_up"])
async def test_a_limit_returns_what_only_a_queue_asked_for(queue: str) -> None:
    """10.2: it is asked before queues are leased when tools ask for the request; if only a queue does, the lease
    is returned.
    """
    for script in ([says("one"), says("never")], [calls("A"), says("never")]):
        world = World(script, limits=RunLimits(max_turns=1))
        add = getattr(world.agent, queue)
        world.agent.subscribe(lambda event, _, add=add: add(user("later")) if brief(event) == ANSWERED else None)
        await within(world.prompt("go"))
        assert (world.outcome.reason, world.outcome.has_queued_messages) == ("max_turns", True)
        assert world.agent.peek_queued_messages() == (user("later"),)
        assert "later" not in str(list(world.messages))
        legal(world.recording)


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_surplus_calls_of_a_batch_are_skipped_and_the_others_keep_their_results(mode: str) -> None:
    world = World([calls("A", "B", "C"), says("never")], limits=RunLimits(max_tool_calls=2), tool_execution=mode)
    await within(world.prompt("go"))

    assert world.calls.executed_ids == ["A", "B"]
    assert result_texts(world.messages)[:2] == ["ok A", "ok B"]
    assert details(world.messages)[2] == {"skipped": True, "reason": "limit"}
    assert (world.outcome.reason, world.outcome.tool_calls) == ("max_tool_calls", 2)
    assert world.outcome.limit.allowed == 2  # type: ignore[union-attr]
    legal(world.recording)


async def test_calls_that_were_never_executed_do_not_count() -> None:
    world = World(
        [calls("A"), calls("A"), says("end")],
        limits=RunLimits(max_tool_calls=1),
        before_tool_call=lambda *_: BeforeDecision(block=True),
    )
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.tool_calls) == ("stop", 0)


async def test_a_limit_of_one_tool_is_none_of_the_others() -> None:
    world = World([calls("A", "B"), calls("B", "A", "C"), says("never")], limits=RunLimits(max_calls_of=(("A", 1),)))
    await within(world.prompt("go"))

    assert world.calls.executed_ids == ["A", "B", "B", "C"]
    assert world.outcome.reason == "max_tool_calls"
    assert world.outcome.limit.reached == 1  # type: ignore[union-attr]


# -- no progress -------------------------------------------------------------------------------------------------------


async def test_the_same_call_with_the_same_result_in_a_row_is_no_progress() -> None:
    world = World([calls("A")] * 9, limits=RunLimits(repeat_limit=3))
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.turns) == ("no_progress", 3)
    assert world.outcome.limit.reached == 3  # type: ignore[union-attr]


async def test_a_changed_result_is_progress_so_polling_is_no_repetition() -> None:
    world = World([*[calls("A")] * 5, says("end")], limits=RunLimits(repeat_limit=3))
    counted(world)
    await within(world.prompt("go"))

    assert world.outcome.reason == "stop"


async def test_another_call_in_between_is_progress() -> None:
    world = World([calls("A"), calls("A"), calls("B"), calls("A"), says("end")], limits=RunLimits(repeat_limit=3))
    await within(world.prompt("go"))

    assert world.outcome.reason == "stop"


async def test_repetition_counts_inside_of_a_batch_in_call_order() -> None:
    same = calls("A", "A", "A")
    world = World(
        [same, says("never")], limits=RunLimits(repeat_limit=3), policy=replace(DEFAULT, duplicate_call_id="allow")
    )
    await within(world.prompt("go"))

    assert world.outcome.reason == "no_progress"


# -- continuing --------------------------------------------------------------------------------------------------------


async def test_continuing_keeps_the_counters_and_needs_a_raised_limit() -> None:
    """10.4."""
    world = World([calls("A"), calls("A"), says("end"), says("next")], limits=RunLimits(max_turns=1))
    await within(world.prompt("go"))
    before = (len(world.messages), len(world.recording))

    with pytest.raises(LimitStillReached, match="max_turns"):
        await world.continue_()
    assert (len(world.messages), len(world.recording), world.agent.is_streaming) == (*before, False)

    world.agent.limits = RunLimits(max_turns=2)  # type: ignore[attr-defined]
    await within(world.continue_())
    assert (world.outcome.reason, world.outcome.turns) == ("max_turns", 2)

    world.agent.limits = None  # type: ignore[attr-defined]
    await within(world.continue_())
    assert (world.outcome.reason, world.outcome.turns) == ("stop", 3)


async def test_a_prompt_starts_at_zero() -> None:
    world = World([calls("A"), says("end"), says("next")], limits=RunLimits(max_turns=1))
    await within(world.prompt("go"))
    await within(world.prompt("go on"))

    assert (world.outcome.reason, world.outcome.turns) == ("stop", 1)


async def test_a_limit_of_a_run_is_forgotten_by_the_next_one_however_that_ended() -> None:
    world = World([calls("A"), says("held"), says("end")], limits=RunLimits(max_turns=1))
    await within(world.prompt("go"))
    assert world.outcome.reason == "max_turns"

    async def hangs(*_: Any) -> None:
        await never()

    world.agent.prepare_request = hangs  # type: ignore[attr-defined]
    prompt = world.start("again")
    await settle()
    prompt.cancel()
    await asyncio.wait([prompt])
    world.agent.prepare_request = None  # type: ignore[attr-defined]

    await within(world.continue_())
    assert world.outcome.reason == "stop"


async def test_run_until_idle_does_not_go_on_behind_a_limit() -> None:
    world = World([says("one"), says("two"), says("never")], limits=RunLimits(max_turns=1))
    world.agent.follow_up(user("a"))
    world.agent.follow_up(user("b"))
    await within(world.prompt("go"))
    assert (world.outcome.reason, world.outcome.has_queued_messages) == ("max_turns", True)

    world.agent.limits = RunLimits(max_turns=2)  # type: ignore[attr-defined]
    outcome = await within(world.agent.run_until_idle())
    assert (outcome.reason, outcome.turns, outcome.has_queued_messages) == ("max_turns", 2, True)


NOTHING = [("max_turns", 0), ("max_tool_calls", 0), ("max_tokens", -1), ("repeat_limit", 0), ("max_cost", 0)]


@pytest.mark.parametrize(("name", "value"), [*NOTHING, ("max_seconds", 0)])
def test_a_limit_that_allows_nothing_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        RunLimits(**{name: value})
