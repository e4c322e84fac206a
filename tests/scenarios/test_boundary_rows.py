"""Rows about the moment between two turns: queues, hooks, limits, and when a run stops."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios.stops import STOPS

from antiphon import NextTurn, RequestUpdate, RunLimits, ToolResult
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage, HostMessage, host_message, user
from antiphon.core.model import Model
from antiphon.testing import World, calls, fails, says, who

requirement = pytest.mark.requirement
OTHER = Model(id="other", provider="scripted", api="scripted")


@requirement("S3-78", "S3-80", "S3-40", "S3-64", "S3-70")
@pytest.mark.parametrize("name", STOPS)
async def test_when_a_run_stops(name: str) -> None:
    """One world for each line of the table."""
    stop = STOPS[name]
    world = stop.world()

    await world.prompt("go")

    assert len(world.requests) == stop.requests
    assert world.outcome.reason == stop.reason
    assert world.agent.has_queued_messages == stop.left_queued


@requirement("S3-68")
@pytest.mark.parametrize(("mode", "turns"), [("all", 2), ("one-at-a-time", 3)])
async def test_a_queue_gives_all_or_one(mode: Any, turns: int) -> None:
    world = World([says("a"), says("b"), says("c")], follow_up_mode=mode)
    world.agent.follow_up("one")
    world.agent.follow_up("two")

    await world.prompt("go")

    assert world.outcome.turns == turns
    assert not world.agent.has_queued_messages


@requirement("S3-39", "S3-69", "S3-70", "S3-121", "X16")
async def test_the_finish_hook_of_a_failed_answer_is_told_and_not_obeyed() -> None:
    told: list[str] = []

    def finish(turn: Any, _signal: Any) -> str:
        told.append(turn.message.stop_reason)
        return "continue"

    world = World([fails("overloaded"), says("never")], finish_turn=finish)
    world.agent.follow_up("later")

    await world.prompt("go")

    assert told == ["error"]
    assert len(world.requests) == 1
    assert world.agent.has_queued_messages


@requirement("S3-77", "S3-38", "S3-52", "S3-69", "S3-71", "S3-75", "S3-102", "S3-4", "S1-3")
async def test_the_order_of_the_hooks() -> None:
    told: list[str] = []

    def hook(name: str, answer: Any = None) -> Any:
        def ask(*given: Any) -> Any:
            told.append(name)
            return given[0] if answer == "same" else answer

        return ask

    def stream_asked(_request: Any) -> Any:
        told.append("stream")
        return says("done")

    world = World(
        [calls("A"), stream_asked],
        finish_turn=hook("finish"),
        prepare_next_turn=hook("next turn", NextTurn(messages=[user("by the way")])),
        prepare_request=hook("request"),
        transform_context=hook("transform", "same"),
        convert_to_llm=hook("convert", "same"),
    )
    world.agent.subscribe(lambda e, _s: told.append(e.type) if e.type.startswith(("turn", "agent")) else None)
    world.agent.subscribe(lambda e, _s: told.append(f"says {who(e.message)}") if e.type == "message_end" else None)

    await world.prompt("go")

    assert told == [
        "agent_start",
        "turn_start",
        "says user",
        "request",
        "transform",
        "convert",
        "says assistant",
        "says result A",
        "finish",
        "turn_end",
        "next turn",
        "turn_start",
        "says user",
        "request",
        "transform",
        "convert",
        "stream",
        "says assistant",
        "finish",
        "turn_end",
        "agent_end",
    ]


@requirement("S3-72")
async def test_steering_that_comes_during_preparation_is_read_too() -> None:
    def prepare(_turn: Any, _signal: Any) -> None:
        world.agent.steer("one more thing")

    world = World([calls("A"), says("ok")], prepare_next_turn=prepare)

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "user", "assistant"]


@requirement("S3-75", "S3-74", "S3-23")
async def test_a_model_changes_between_requests_and_not_by_assignment_during_a_run() -> None:
    world = World([calls("A"), says("b"), says("c")])
    asked = iter([None, RequestUpdate(model=OTHER)])
    world.agent.prepare_request = lambda _info, _signal: next(asked, None)
    world.while_running("A", lambda: setattr(world.agent, "model", Model(id="x", provider="x", api="x")))
    world.agent.follow_up("more")

    await world.prompt("go")

    assert [r.model.id for r in world.model.requests] == ["scripted-1", "other", "other"]
    answers = [m for m in world.messages if isinstance(m, AssistantMessage)]
    assert [m.model for m in answers] == ["scripted-1", "other", "other"]


@requirement("S3-71", "S3-26")
async def test_a_host_may_give_another_context_for_the_next_turn() -> None:
    shorter = Context([user("summary of what was said")])
    world = World([calls("A"), says("ok")], prepare_next_turn=lambda _t, _s: NextTurn(context=shorter))

    messages = await world.prompt("go")

    assert [who(m) for m in world.requests[1] if m.role != "system"] == ["user"]
    assert [who(m) for m in messages if m.role != "system"] == ["user", "assistant", "result A", "assistant"]


@requirement("S3-16", "S3-52")
async def test_messages_of_the_host_are_left_out_or_converted() -> None:
    note = host_message("note", text="remember the milk")
    world = World([says("a")])
    await world.prompt([user("go"), note])
    assert [who(m) for m in world.requests[0]] == ["user"]
    assert world.messages[1] == note

    def convert(messages: Any) -> list[Any]:
        return [user(m.data["text"]) if isinstance(m, HostMessage) else m for m in messages]

    world = World([says("a")], convert_to_llm=convert)
    await world.prompt([user("go"), note])
    assert world.requests[0][-1] == user("remember the milk")


@requirement("X7", "S0-53", "S0-54", "S3-81", "X15")
async def test_a_limit_of_turns_keeps_the_results_of_the_last_one_and_invents_nothing() -> None:
    world = World([calls("A"), calls("B"), says("never")], limits=RunLimits(max_turns=2))
    world.agent.follow_up("later")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "assistant", "result B"]
    assert (world.outcome.reason, world.outcome.turns) == ("max_turns", 2)
    assert world.agent.has_queued_messages


@requirement("S3-81")
async def test_other_bounds_are_asked_at_the_turn_border() -> None:
    world = World([*[calls("A")] * 9], limits=RunLimits(repeat_limit=3))
    await world.prompt("go")
    assert (world.outcome.reason, world.outcome.turns) == ("no_progress", 3)

    world = World([*[calls("A")] * 9], limits=RunLimits(max_tool_calls=2))
    await world.prompt("go")
    assert (world.outcome.reason, world.outcome.tool_calls) == ("max_tool_calls", 2)


@requirement("S3-11")
async def test_a_run_may_end_with_messages_still_queued() -> None:
    world = World([calls("A"), says("for the queue")], finish_turn=lambda _t, _s: "end")
    world.steer_while_running("A", "what about B?")

    await world.prompt("go")

    assert world.outcome.reason == "ended_by_host"
    assert world.outcome.has_queued_messages
    assert world.agent.peek_queued_messages() == (user("what about B?"),)


@requirement("S3-64")
async def test_a_queue_goes_on_behind_an_early_stop() -> None:
    world = World([calls("A"), says("and more")], results={"A": ToolResult(terminate=True)})
    world.follow_up_while_running("A", "one more")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "user", "assistant"]


@requirement("S0-55", "S3-81")
async def test_a_bound_of_turns_is_no_bound_of_time() -> None:
    """A tool that takes for ever is not ended by it; a deadline, on the clock that was given, reaches into the turn."""
    world = World([calls("A"), says("never")], limits=RunLimits(max_turns=1, max_seconds=60))
    world.hold("A")
    running = world.start("go")
    await world.running("A")
    await world.clock.advance(59)
    assert world.agent.is_streaming

    await world.clock.advance(2)
    messages = await running

    assert world.outcome.reason == "deadline"
    assert [who(m) for m in messages] == ["user", "assistant", "result A"]
