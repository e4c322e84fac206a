"""The driver: deadlines, faults between two commands, exits, and the one outcome of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import QUICK, PlainTool, details, legal, never, results, within

from antiphon.agent import Agent
from antiphon.core.calls import ToolResult
from antiphon.core.content import Text, ToolCall
from antiphon.core.events import AgentEvent
from antiphon.core.hooks import BeforeDecision, RequestUpdate
from antiphon.core.messages import AssistantMessage, user
from antiphon.core.policy import PI, RunLimits
from antiphon.core.response_events import Done
from antiphon.core.usage import Cost, Usage
from antiphon.loop.config import SYSTEM_CLOCK
from antiphon.testing import (
    SCRIPTED_MODEL,
    Gate,
    Recording,
    VirtualClock,
    World,
    calls,
    cut_off,
    fails,
    says,
    settle,
    who,
)
from antiphon.testing.check import no_tasks_left

USED = Usage(input=10, output=5, total_tokens=15, cost=Cost(total=0.5))


async def hangs(*_: Any) -> str:
    await never()
    return "never"


# -- outcome -----------------------------------------------------------------------------------------------------------


async def test_an_outcome_counts_what_the_run_has_used() -> None:
    result = ToolResult(content=(Text(text="a"),), usage=Usage(input=1, cost=Cost(total=0.25)))
    world = World([calls("A", "B").costing(USED), says("end").costing(USED)], results={"A": result}, policy=QUICK)
    await world.prompt("go")
    outcome = world.outcome

    assert (outcome.reason, outcome.turns, outcome.tool_calls) == ("stop", 2, 2)
    assert (outcome.usage.input, outcome.usage.output, outcome.usage.cost.total) == (21, 10, 1.25)
    assert (outcome.error, outcome.abort_reason, outcome.limit, outcome.faults) == (None, None, None, ())
    assert (outcome.undelivered, outcome.abandoned, outcome.has_queued_messages) == ((), (), False)
    assert outcome.final_text == "end"


@pytest.mark.parametrize(
    ("script", "options", "reason"),
    [
        ([says("end")], {}, "stop"),
        ([cut_off(says("trunc"))], {}, "length"),
        ([fails("overloaded")], {}, "error"),
        ([calls("A"), says("never")], {"results": {"A": ToolResult(terminate=True)}}, "terminated"),
        ([calls("A"), says("never")], {"finish_turn": lambda *_: "end"}, "ended_by_host"),
        ([calls("A"), says("never")], {"limits": RunLimits(max_turns=1)}, "max_turns"),
        (
            [calls("A"), says("never")],
            {"limits": RunLimits(max_turns=1), "finish_turn": lambda *_: "end"},
            "ended_by_host",
        ),
        (
            [fails("overloaded")],
            {"limits": RunLimits(max_turns=1), "finish_turn": lambda *_: "end"},
            "error",
        ),
    ],
)
async def test_the_reason_of_an_outcome(script: list[Any], options: dict[str, Any], reason: str) -> None:
    world = World(script, policy=QUICK, **options)
    await world.prompt("go")

    assert world.outcome.reason == reason
    legal(world.recording)


async def test_a_critical_listener_comes_before_an_abort_that_comes_before_everything() -> None:
    def critical(event: AgentEvent, _signal: Any) -> None:
        if event.type == "tool_execution_end":
            raise OSError("disk full")

    for fails_too in (False, True):
        world = World([calls("A"), says("never")], policy=QUICK, limits=RunLimits(max_turns=1))
        world.abort_while_running("A")
        if fails_too:
            world.agent.subscribe(critical, critical=True)
        await world.prompt("go")
        assert world.outcome.reason == ("error" if fails_too else "aborted")
        legal(world.recording)


# -- deadlines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", ["system", "virtual"])
@pytest.mark.parametrize("place", ["tool", "tools", "stream", "hook"])
async def test_a_deadline_aborts_inside_of_a_turn(place: str, clock: str) -> None:
    async def hook(*_: Any) -> None:
        await never()

    names = ("A", "B") if place == "tools" else ("A",)
    tools = [PlainTool(name, hangs if "tool" in place else lambda *_: "x") for name in ("A", "B")]
    gate = Gate()
    first = says("x").held(gate).ignoring_abort() if place == "stream" else calls(*names)
    world = World(
        [first, says("never")],
        tools=tools,
        policy=QUICK,
        limits=RunLimits(max_seconds=0.02),
        clock=SYSTEM_CLOCK if clock == "system" else VirtualClock(),
        **({"before_tool_call": hook} if place == "hook" else {}),
    )
    async with no_tasks_left():
        prompt = world.start("go")
        if isinstance(world.clock, VirtualClock):
            await settle()
            assert world.clock.sleeping == 1
            await world.clock.advance(0.03)
        await within(prompt)

    assert (world.outcome.reason, world.outcome.abort_reason) == ("deadline", "deadline")
    assert len(world.requests) == 1
    if "tool" in place:
        assert [each["reason"] for each in details(world.messages)] == ["deadline"] * len(names)
    legal(world.recording)


async def test_a_deadline_that_is_not_reached_leaves_nothing_behind() -> None:
    clock = VirtualClock()
    world = World([says("in time")], limits=RunLimits(max_seconds=10), clock=clock)
    await world.prompt("go")

    assert "run deadline" not in {task.get_name() for task in asyncio.all_tasks()}
    assert world.outcome.reason == "stop"
    assert clock.sleeping == 0


# -- faults between two commands --------------------------------------------------------------------------------------


MOMENTS = [
    "agent_start",
    "turn_start",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "turn_end",
    "agent_end",
]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_critical_failure_at_any_event_closes_what_is_open(moment: str, mode: str, is_async: bool) -> None:
    """D5: the run ends `error` once the open batch is closed and paired, and prompts no further request."""
    for at in range(1, 8):
        seen: list[str] = []

        def now(event: AgentEvent, _signal: Any, seen: list[str] = seen, at: int = at) -> None:
            if event.type == moment:
                seen.append(event.type)
                if len(seen) == at:
                    raise OSError("disk full")

        async def later(event: AgentEvent, signal: Any, now: Any = now) -> None:
            await asyncio.sleep(0)
            now(event, signal)

        world = World([says("look") + calls("A", "B"), calls("C"), says("end")], policy=QUICK, tool_execution=mode)
        world.calls.updates.update(A=["half"], C=["half"])
        world.agent.subscribe(later if is_async else now, critical=True)
        async with no_tasks_left():
            await within(world.prompt("go"))
        if len(seen) < at:
            return
        assert world.outcome.reason == "error"
        assert [fault.where for fault in world.outcome.faults] == ["critical listener"]
        legal(world.recording)
        world.model.script += [says("again")] * 3
        await within(world.agent.prompt("again"))


async def test_calls_that_were_allowed_and_not_begun_are_answered_when_a_listener_fails() -> None:
    def critical(event: AgentEvent, _signal: Any) -> None:
        if event.type == "tool_execution_end" and event.tool_call_id == "unknown":  # type: ignore[union-attr]
            raise OSError("disk full")

    world = World([calls("A", "unknown", "B"), says("never")], policy=QUICK)
    world.agent.tools = [tool for tool in world.agent.tools if tool.name != "unknown"]  # type: ignore[attr-defined]
    world.agent.subscribe(critical, critical=True)
    await within(world.prompt("go"))

    assert world.calls.executed_ids == []
    assert [message.tool_call_id for message in results(world.messages)] == ["A", "unknown", "B"]
    assert [each.get("reason") for each in details(world.messages)] == ["fault", None, "fault"]
    assert world.outcome.tool_calls == 0
    legal(world.recording)


async def test_a_listener_that_wants_the_process_to_end_is_heard_behind_the_end_of_the_run() -> None:
    for moment in MOMENTS:
        world = World([says("look") + calls("A", "B"), says("end")], policy=QUICK)
        world.calls.updates["A"] = ["half"]

        def exits(event: AgentEvent, _signal: Any, moment: str = moment) -> None:
            if event.type == moment:
                raise KeyboardInterrupt

        world.agent.subscribe(exits)
        with pytest.raises(KeyboardInterrupt):
            await world.agent.prompt("go")
        assert world.recording.types[-1] == "agent_end"
        assert len(world.requests) <= (2 if moment == "agent_end" else 1)
        legal(world.recording)


# -- the machine stumbles ----------------------------------------------------------------------------------------------


async def test_growth_that_cannot_be_read_is_dropped_when_the_stream_fails() -> None:
    from tests.loop.test_reading import EVENTS, yields

    from antiphon.core.response_events import TextDelta

    poison = TextDelta(content_index=0, delta=None)  # type: ignore[arg-type]
    agent = Agent(stream=lambda request: yields(*EVENTS[:3], poison, ValueError("lost")), policy=QUICK)
    recording = Recording()
    agent.subscribe(recording)
    outcome = await within(agent.prompt("go"))

    assert (outcome.reason, outcome.error) == ("error", "lost")
    assert outcome.new_messages[-1].content == ()
    legal(recording)


async def test_an_answer_whose_blocks_are_none_is_a_failure() -> None:
    from tests.loop.test_reading import yields

    odd = AssistantMessage(content=(Text(text="x"),), stop_reason="stop", usage="much")  # type: ignore[arg-type]
    agent = Agent(stream=lambda request: yields(Done(reason="stop", message=odd)), policy=QUICK)
    recording = Recording()
    agent.subscribe(recording)
    outcome = await within(agent.prompt("go"))

    assert outcome.reason == "error"
    assert [fault.where for fault in outcome.faults] == ["model stream"]
    legal(recording)
    assert (await within(agent.prompt("again"))).reason == "error"


# -- profile pi -------------------------------------------------------------------------------------------------------


async def test_in_profile_pi_a_failing_listener_ends_the_run_with_the_failure_sequence() -> None:
    def fails_once(event: AgentEvent, _signal: Any) -> None:
        if event.type == "tool_execution_start":
            raise ValueError("observer")

    world = World([calls("A"), says("never")], policy=PI)
    world.agent.subscribe(fails_once)
    await within(world.prompt("go"))

    assert world.outcome.reason == "error"
    assert [who(message) for message in world.outcome.new_messages] == ["assistant"]
    assert world.recording.types[-4:] == ["message_start", "message_end", "turn_end", "agent_end"]


async def test_in_profile_pi_the_failure_names_the_model_of_the_agent_whatever_hooks_chose() -> None:
    def refuses(_context: Any, _signal: Any = None) -> Any:
        raise ValueError("hook")

    other = replace(SCRIPTED_MODEL, id="other", provider="elsewhere")
    chosen = RequestUpdate(model=other)
    options = {"prepare_request": lambda *_: chosen, "transform_context": refuses}
    expected = {PI: (SCRIPTED_MODEL.provider, SCRIPTED_MODEL.id), QUICK: ("elsewhere", "other")}

    for policy, names in expected.items():
        world = World([says("never")], policy=policy, **options)
        await within(world.prompt("go"))
        failure = world.messages[-1]
        assert (failure.provider, failure.model) == names  # type: ignore[union-attr]
        assert failure.error_message == "hook"  # type: ignore[union-attr]


async def test_in_profile_pi_a_second_failure_while_closing_is_raised() -> None:
    def fails(event: AgentEvent, _signal: Any) -> None:
        if event.type in ("tool_execution_start", "turn_end"):
            raise ValueError(f"at {event.type}")

    world = World([calls("A"), says("never")], policy=PI)
    world.agent.subscribe(fails)
    with pytest.raises(ValueError, match="at turn_end"):
        await within(world.agent.prompt("go"))
    assert not world.agent.is_streaming


async def test_what_a_run_of_profile_pi_took_and_lost_is_not_given_out_later() -> None:
    """The reference loses it; but it must not turn up in the lease of the next run."""
    told: list[str] = []

    def fails(event: AgentEvent, _signal: Any) -> None:
        if event.type == "message_start" and "steer" in str(event.message) and not told:  # type: ignore[union-attr]
            told.append("failed")
            raise ValueError("observer")

    world = World([says("one"), says("two"), says("three"), says("four")], policy=PI, steering_mode="all")
    world.agent.subscribe(fails)
    world.agent.steer(user("steer 1"))
    world.agent.steer(user("steer 2"))
    await within(world.prompt("go"))
    assert told == ["failed"]

    world.agent.steer(user("steer 3"))
    assert world.agent.clear_all_queues() == (user("steer 3"),)
    world.agent.steer(user("steer 4"))
    await within(world.prompt("again"))
    assert [str(m.content) for m in world.messages if "steer" in str(m.content)][-1:] == ["steer 4"]
    assert not world.agent.has_queued_messages


async def test_a_grace_of_nothing_is_the_shortest() -> None:
    world = World([calls("A"), says("never")], tools=[PlainTool("A", hangs)], policy=replace(QUICK, abort_grace=0))
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start A"))
    await settle()
    world.agent.abort()
    await within(prompt)

    assert details(world.messages) == [{"cutOff": True, "reason": "aborted"}]


# -- withdrawn, closed, exited -----------------------------------------------------------------------------------------


async def test_ready_calls_are_withdrawn_when_a_listener_fails_in_front_of_their_start() -> None:
    def critical(event: AgentEvent, _signal: Any) -> None:
        if event.type == "tool_execution_end" and event.tool_call_id == "unknown":  # type: ignore[union-attr]
            raise OSError("disk full")

    world = World([calls("A", "B", "unknown"), says("never")], policy=QUICK)
    world.agent.tools = [tool for tool in world.agent.tools if tool.name != "unknown"]  # type: ignore[attr-defined]
    world.agent.subscribe(critical, critical=True)
    await within(world.prompt("go"))

    assert world.calls.executed_ids == []
    assert [each.get("reason") for each in details(world.messages)] == ["fault", "fault", None]
    assert world.outcome.tool_calls == 0
    legal(world.recording)


async def test_an_exit_behind_a_poll_gives_back_what_was_taken() -> None:
    def exits(*_: Any) -> None:
        raise KeyboardInterrupt

    world = World([says("one"), says("never")], policy=QUICK, prepare_next_turn=exits)

    def steers(event: AgentEvent, _signal: Any) -> None:
        if event.type == "turn_end":
            world.agent.steer(user("s1"))

    remove = world.agent.subscribe(steers)
    with pytest.raises(KeyboardInterrupt):
        await world.agent.prompt("go")
    remove()

    assert "s1" not in str(list(world.messages))
    assert user("s1") in world.agent.clear_all_queues()
    legal(world.recording)


@pytest.mark.parametrize("place", ["hook", "listener", "tool", "tools", "stream", "stream function", "news"])
async def test_a_run_that_is_closed_without_an_event_loop_lets_go_of_everything(place: str) -> None:
    """What happens to a coroutine that is collected: it cannot wait any more, and must not try to."""

    async def waits(*_: Any) -> Any:
        await never()

    async def listener(event: AgentEvent, _signal: Any) -> None:
        if event.type == "turn_start":
            await never()

    async def silent(_request: Any) -> Any:
        await never()
        yield

    names = ("A", "B") if place in ("tools", "news") else ("A",)
    world = World(
        [calls(*names), says("end")],
        policy=QUICK,
        tools=[PlainTool(name, hangs if "tool" in place or place == "news" else lambda *_: "x") for name in names],
        **({"before_tool_call": waits} if place == "hook" else {}),
    )
    agent: Any = world.agent
    if place == "listener":
        agent.subscribe(listener)
    if place.startswith("stream"):
        agent.stream = silent if place == "stream" else waits
    running = agent.prompt("go")
    running.send(None)
    running.close()

    assert not agent.is_streaming
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await settle()
    agent.stream = world.model
    world.model.script = [says("again")] * 9
    agent.before_tool_call = None
    agent._listeners._set(())
    assert (await within(agent.prompt("again"))).reason == "stop"


async def test_arguments_that_are_no_json_do_not_stop_the_count_of_repetitions() -> None:
    odd = ToolCall(id="A", name="A", arguments={"set": {1, 2}})
    message = AssistantMessage(content=(odd,), stop_reason="toolUse")

    async def stream(_request: Any) -> Any:
        yield Done(reason="toolUse", message=message)

    world = World(policy=QUICK, limits=RunLimits(repeat_limit=3), tools=[PlainTool("A", hangs)])
    world.agent.stream = stream  # type: ignore[attr-defined]
    world.agent.before_tool_call = lambda *_: BeforeDecision(block=True)  # type: ignore[attr-defined]
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.turns) == ("no_progress", 3)
    legal(world.recording)
