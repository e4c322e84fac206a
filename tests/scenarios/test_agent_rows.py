"""Rows about the agent around the loop: state, exclusion, listeners, idle, and the event stream form."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

import pytest
from tests.scenarios.state_changes import CHANGES

from antiphon import (
    Agent,
    AgentEvent,
    AgentState,
    AssistantMessage,
    Context,
    EventStream,
    LoopConfig,
    Model,
    ModelRequest,
    RunOutcome,
    ToolResult,
    agent_loop,
    agent_loop_continue,
    run_agent_loop_continue,
)
from antiphon.core.content import Text
from antiphon.core.events import AgentEnd
from antiphon.core.messages import SystemMessage, user
from antiphon.core.session_events import SessionEvent
from antiphon.errors import AgentBusy, CannotContinue, NothingToContinue
from antiphon.testing import SCRIPTED_MODEL, ScriptedModel, World, call, calls, fails, says, who

requirement = pytest.mark.requirement
CONFIG = LoopConfig(model=SCRIPTED_MODEL)


@requirement("S3-20", "S3-21")
async def test_the_state_says_everything_at_once() -> None:
    world = World([calls("A"), says("done")], system_prompt="Be brief.", thinking_level="low")
    seen: list[AgentState] = []
    world.while_running("A", lambda: seen.append(world.agent.state))

    await world.prompt("go")

    (during,) = seen
    assert (during.system_prompt, during.thinking_level, during.is_streaming) == ("Be brief.", "low", True)
    assert (during.pending_tool_calls, during.streaming_message, during.error_message) == (frozenset({"A"}), None, None)
    assert [t.name for t in during.tools] == ["A"]
    assert [who(m) for m in during.messages] == ["system", "user", "assistant"]
    assert len(world.messages) == 5
    types = (LoopConfig, AssistantMessage, AgentState, ToolResult, Context, Model, ModelRequest, RunOutcome)
    assert all(isinstance(kind, type) for kind in types)


@requirement("S3-89", "S3-101")
async def test_the_state_changes_before_anybody_is_told() -> None:
    """What a listener finds in the state when it hears of an event."""
    world = World([calls("A"), fails("overloaded", after=says("hm"))])
    found: dict[str, Any] = {}

    def look(event: Any, _signal: Any) -> None:
        agent = world.agent
        found[event.type] = (
            len(world.messages),
            None if agent.streaming_message is None else who(agent.streaming_message),
            sorted(agent.pending_tool_calls),
            agent.error_message,
            agent.is_streaming,
        )

    world.agent.subscribe(look)
    world.agent.subscribe(lambda e, _s: checks[e.type](e) if e.type in checks else None)
    checks: dict[str, Any] = {
        "message_start": lambda e: _same(world.agent.streaming_message, e.message),
        "message_end": lambda e: _same(world.messages[-1], e.message),
    }

    await world.prompt("go")

    assert found == {event: change.after for event, change in CHANGES.items()}
    assert world.agent.error_message == "overloaded"
    assert not world.agent.is_streaming
    assert world.outcome.faults == ()


def _same(left: object, right: object) -> None:
    assert left is right


@requirement("S3-101", "S0-1", "S3-103")
async def test_two_scripted_answers_prove_the_chain() -> None:
    """Six checks: messages, roles, result, second request, pending calls at start and end, idle afterwards."""
    world = World([call("A", {"n": 1}), says("done")])
    pending: list[frozenset[str]] = []
    kinds = ("tool_execution_start", "tool_execution_end")
    world.agent.subscribe(lambda e, _s: pending.append(world.agent.pending_tool_calls) if e.type in kinds else None)

    messages = await world.prompt("go")

    assert len(messages) == 4
    assert [who(m) for m in messages] == ["user", "assistant", "result A", "assistant"]
    assert messages[2].content == (Text(text="ok A"),)
    assert world.requests[1][-1] is messages[2]
    assert pending == [frozenset({"A"}), frozenset()]
    assert not world.agent.is_streaming


@requirement("S3-31", "S3-33", "S3-9", "S3-10", "S3-92")
async def test_a_second_prompt_is_refused_until_the_listeners_of_agent_end_are_done() -> None:
    world = World([says("one"), says("two")])
    refusals: list[str] = []

    async def ask_again(event: Any, _signal: Any) -> None:
        if event.type in ("turn_start", "agent_end"):
            with pytest.raises(AgentBusy) as refused:
                await world.agent.prompt("me too")
            refusals.append(str(refused.value))
            assert world.agent.is_streaming

    leave = world.agent.subscribe(ask_again)
    await world.prompt("go")
    assert len(refusals) == 2
    assert all("steer" in text and "follow_up" in text for text in refusals)

    leave()
    await world.prompt("now")
    assert world.outcome.reason == "stop"


@requirement("S3-32")
async def test_two_agents_run_at_once() -> None:
    first, second = World([calls("A"), says("done")]), World([says("done")])
    gate = first.hold("A")
    running = first.start("go")
    await gate.reached()

    await second.prompt("go")

    assert first.agent.is_streaming
    gate.open()
    await running


@requirement("S3-36")
async def test_streaming_means_that_a_run_is_active() -> None:
    """While a tool works no text arrives, and still the agent is streaming."""
    world = World([calls("A"), says("done")])
    gate = world.hold("A")
    running = world.start("go")
    await gate.reached()

    assert world.agent.is_streaming
    assert world.agent.streaming_message is None

    gate.open()
    await running
    assert not world.agent.is_streaming


@requirement("S3-87", "S3-90", "S3-30", "S3-102", "S3-94")
async def test_listeners_are_awaited_one_by_one_and_may_leave() -> None:
    world = World([says("done"), says("again")])
    order: list[str] = []

    async def slow(event: Any, _signal: Any) -> None:
        await asyncio.sleep(0)
        order.append(f"slow {event.type}")

    world.agent.subscribe(slow)
    leave = world.agent.subscribe(lambda e, _s: order.append(f"fast {e.type}"))
    await world.prompt("go")
    assert order[:4] == ["slow agent_start", "fast agent_start", "slow turn_start", "fast turn_start"]

    leave()
    order.clear()
    await world.prompt("go")
    assert all(line.startswith("slow") for line in order)


@requirement("S3-92", "S3-10", "S3-30", "S3-102", "S3-4")
async def test_idle_is_behind_the_listeners_of_the_last_event() -> None:
    world = World([says("done")])
    done: list[str] = []

    async def store(event: Any, _signal: Any) -> None:
        if event.type == "agent_end":
            for _ in range(3):
                await asyncio.sleep(0)
            done.append("stored")

    world.agent.subscribe(store)
    running = world.start("go")
    await world.recording.heard("agent_start")

    await world.agent.wait_for_idle()

    assert done == ["stored"]
    await running


@requirement("S3-24")
async def test_reset_keeps_prompt_and_tools_in_one_message() -> None:
    world = World([calls("A"), says("done")], system_prompt="Be brief.")
    await world.prompt("go")
    world.agent.follow_up("later")

    world.agent.reset()

    (kept,) = world.messages
    assert isinstance(kept, SystemMessage)
    assert [t.name for t in kept.tools_added] == ["A"]
    assert world.agent.system_prompt == "Be brief."
    assert not world.agent.has_queued_messages


@requirement("S3-25", "S3-28")
async def test_who_refuses_to_continue_and_when() -> None:
    model = ScriptedModel([says("from system messages alone")])
    with pytest.raises(NothingToContinue):
        await Agent(stream=model, system_prompt="Be brief.").continue_()
    with pytest.raises(CannotContinue):
        await Agent(stream=model, messages=[user("hi"), says("yes").message()]).continue_()

    for refused, history in ((NothingToContinue, []), (CannotContinue, [says("yes").message()])):
        with pytest.raises(refused):
            agent_loop_continue(Context(history), CONFIG, None, model)

    only_system = Context([SystemMessage(content="Be brief.")])
    outcome = await run_agent_loop_continue(only_system, CONFIG, lambda _event: None, None, model)
    assert [who(m) for m in outcome.new_messages] == ["assistant"]


@requirement("S3-119", "S3-30", "S3-6")
async def test_continue_adds_nothing_of_its_own() -> None:
    world = World([says("answered")], messages=[user("unanswered")])

    messages = await world.continue_()

    assert [who(m) for m in messages] == ["assistant"]
    assert [m.content for m in world.requests[0]] == ["unanswered"]
    assert (world.recording.types[0], world.recording.types[-1]) == ("agent_start", "agent_end")
    assert len(world.recording.runs()) == 1


@requirement("S3-23")
async def test_assignments_reach_the_next_run_only() -> None:
    world = World([calls("A"), says("one"), says("two")])
    world.while_running("A", lambda: setattr(world.agent, "tools", []))

    await world.prompt("go")
    assert [who(m) for m in world.requests[1]] == ["system", "user", "assistant", "result A"]

    await world.prompt("again")
    assert world.requests[2][-2].role == "system"
    assert [t.name for t in world.requests[2][-2].tools_removed] == ["A"]


@requirement("S3-28", "S3-94", "S3-95", "S3-96", "S3-98")
async def test_the_stream_form_gives_every_event_and_the_outcome() -> None:
    stream = agent_loop([user("hi")], Context(), CONFIG, None, ScriptedModel([says("hello")]))

    types = [event.type async for event in stream]
    outcome = await stream.result()

    assert (types[0], types[-1]) == ("agent_start", "agent_end")
    assert [who(m) for m in outcome.new_messages] == ["user", "assistant"]


@requirement("S3-96", "S3-97", "S3-98")
async def test_an_event_waits_for_its_reader_or_wakes_it() -> None:
    stream: EventStream[int, int] = EventStream(lambda n: n == 0, lambda n: n * 10)
    stream.push(3)
    reader = aiter(stream)
    assert await anext(reader) == 3

    waiting = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(0)
    stream.push(2)
    assert await waiting == 2

    stream.push(0)
    assert [n async for n in stream] == [0]
    assert await stream.result() == 0


@requirement("S3-94", "S3-99")
async def test_the_agent_waits_for_its_listeners_and_a_stream_does_not_wait_for_its_reader() -> None:
    stream = agent_loop([user("hi")], Context(), CONFIG, None, ScriptedModel([says("hello")]))
    await stream.result()
    assert [event.type async for event in stream][-1] == "agent_end"

    world = World([says("hello")])
    gate, reached = asyncio.Event(), asyncio.Event()

    async def hold(event: Any, _signal: Any) -> None:
        if event.type == "message_end":
            reached.set()
            await gate.wait()

    world.agent.subscribe(hold)
    running = world.start("hi")
    await reached.wait()
    assert world.requests == []
    gate.set()
    await running


@requirement("S3-111")
@pytest.mark.parametrize("level", ["off", "high"])
async def test_an_answer_records_the_level_it_was_asked_with(level: Any) -> None:
    world = World([says("done")], thinking_level=level)

    await world.prompt("go")

    assert world.messages[-1].thinking_level == level


@requirement("S1-17")
def test_a_session_tells_the_events_of_its_runs_and_not_others_for_the_same() -> None:
    """Whoever listens to an agent, to a session, or to its records meets the same events; only the end says more."""
    told_by_runs = set(get_args(AgentEvent))
    told_by_sessions = set(get_args(SessionEvent))

    assert told_by_runs - told_by_sessions == {AgentEnd}
    assert {kind.type for kind in told_by_runs} <= {kind.type for kind in told_by_sessions}
