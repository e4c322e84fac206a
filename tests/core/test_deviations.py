"""Every deviation from the reference is a row of data with its reason, and shown on a scenario in both profiles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace
from tests.loop.rig import GRACE, PlainTool, Stubborn, details, result_texts, results, within

from antiphon.agent import Agent
from antiphon.core.content import text_of
from antiphon.core.events import MessageEnd, MessageStart, TurnEnd
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage, user
from antiphon.core.policy import DEFAULT, DEVIATIONS, NO_LIMITS, PI, VERY_MANY_TURNS, Policy, RunLimits
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, ResponseEvent, Start
from antiphon.core.trace import check_trace
from antiphon.errors import ProtocolError, StreamEnded, WrongArgument
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import agent_loop, run_agent_loop_continue
from antiphon.loop.event_stream import response_stream
from antiphon.testing import (
    SCRIPTED_MODEL,
    CallScript,
    ScriptedModel,
    ScriptedTool,
    World,
    breaks,
    calls,
    cut_off,
    fails,
    raises,
    says,
    settle,
    who,
)
from antiphon.testing.script import events_of

OURS = replace(DEFAULT, abort_grace=GRACE)
PROFILES = [PI, OURS]
SHOWN: set[str] = set()
F = TypeVar("F", bound=Callable[..., Any])


def shows(row: str) -> Callable[[F], F]:
    """This test shows what the row says."""

    def mark(test: F) -> F:
        SHOWN.add(row)
        return test

    return mark


def test_every_field_that_differs_is_named_by_a_row_and_no_other() -> None:
    differing = {name for name in Policy.__struct_fields__ if getattr(PI, name) != getattr(DEFAULT, name)} - {"name"}
    named = {field for row in DEVIATIONS for field in row.fields}

    assert named == differing


def test_every_row_has_an_id_of_its_own_a_reason_and_a_test() -> None:
    ids = [row.id for row in DEVIATIONS]
    assert len(set(ids)) == len(ids)
    assert {f"D{number}" for number in range(1, 16)} <= set(ids)
    for row in DEVIATIONS:
        assert row.reference
        assert row.ours
        assert row.reason
    assert set(ids) == SHOWN


async def both(script: list[Any], arrange: Callable[[World], Any] | None = None, **options: Any) -> list[World]:
    """The same scenario in profile `pi` and in ours."""
    worlds = []
    for policy in PROFILES:
        world = World(list(script), **{"policy": policy, "close_timeout": 0.02, **options})
        if arrange is not None:
            arrange(world)
        await within(world.prompt("go"))
        worlds.append(world)
    return worlds


# -- abort -------------------------------------------------------------------------------------------------------------


@shows("D1")
async def test_after_an_abort_no_request_leaves() -> None:
    def aborts(world: World) -> None:
        world.abort_while_running("A")
        world.steer_while_running("A", user("steering"))

    pi, ours = await both([calls("A"), says("went on").ignoring_abort(), says("and on").ignoring_abort()], aborts)

    assert (len(pi.requests), pi.outcome.reason) == (2, "stop")
    assert (len(ours.requests), ours.outcome.reason) == (1, "aborted")
    assert [who(message) for message in ours.messages][-1] == "result A"
    assert ours.agent.peek_queued_messages() == (user("steering"),)


@shows("D1")
async def test_a_turn_that_was_aborted_before_its_request_is_closed_by_an_event_only() -> None:
    def aborts(world: World) -> None:
        world.agent.subscribe(lambda event, _: world.agent.abort() if event.type == "turn_start" else None)

    pi, ours = await both([says("never")], aborts)

    assert [who(message) for message in pi.messages] == ["user", "assistant"]
    assert [who(message) for message in ours.messages] == ["user"]
    assert (len(pi.requests), len(ours.requests)) == (1, 0)
    told = ours.recording.of(TurnEnd)[0].message
    assert told.stop_reason == "aborted"
    assert told not in ours.outcome.new_messages


@shows("D2")
async def test_code_that_ignores_the_signal_is_cut_off() -> None:
    for policy in PROFILES:
        foreign = Stubborn(0)

        async def execute(*_: Any, foreign: Stubborn = foreign) -> str:
            await foreign.wait()
            return "in its own time"

        world = World([calls("A"), says("end")], tools=[PlainTool("A", execute)], policy=policy)
        prompt = world.start("go")
        await within(world.recording.heard("tool_execution_start A"))
        await settle()
        world.agent.abort()
        if policy is PI:
            await asyncio.sleep(GRACE * 3)
            assert not prompt.done()
            foreign.released.set()
        await within(prompt)
        assert result_texts(world.messages) != [] or policy is PI
        assert (details(world.messages) == [{"cutOff": True, "reason": "aborted"}]) == (policy is OURS)


# -- queues ------------------------------------------------------------------------------------------------------------


@shows("D3")
async def test_messages_that_were_taken_and_not_announced_are_returned() -> None:
    def fails_now(*_: Any) -> None:
        raise ValueError("mine")

    def steers(world: World) -> None:
        world.steer_while_running("A", user("s1"))
        world.steer_while_running("A", user("s2"))

    pi, ours = await both([calls("A"), says("never")], steers, prepare_next_turn=fails_now, steering_mode="all")

    assert not pi.agent.has_queued_messages
    assert ours.agent.peek_queued_messages() == (user("s1"), user("s2"))
    for world in (pi, ours):
        assert "s1" not in str(list(world.messages))


@shows("D10")
async def test_what_a_listener_of_the_last_event_queued_is_on_the_outcome() -> None:
    def queues(world: World) -> None:
        def listener(event: Any, _signal: Any) -> None:
            if event.type == "agent_end":
                world.agent.follow_up("more")

        world.agent.subscribe(listener)

    for world in await both([says("one")], queues):
        assert world.outcome.has_queued_messages


# -- pairs -------------------------------------------------------------------------------------------------------------


@shows("D4")
async def test_calls_of_a_failed_answer_get_results() -> None:
    pi, ours = await both([fails("overloaded", after=calls("A", "B"))])

    assert results(pi.messages) == []
    assert [message.tool_call_id for message in results(ours.messages)] == ["A", "B"]
    assert details(ours.messages) == [{"skipped": True, "reason": "error"}] * 2
    assert (pi.calls.executed, ours.calls.executed) == ([], [])


@shows("D6")
async def test_two_calls_with_one_id() -> None:
    pending: list[frozenset[str]] = []

    def watches(world: World) -> None:
        def listener(event: Any, _signal: Any) -> None:
            if event.type == "tool_execution_end":
                pending.append(world.agent.pending_tool_calls)

        world.agent.subscribe(listener)

    pi, ours = await both([calls("A", "A"), says("end")], watches, tool_execution="sequential")

    assert (pi.calls.executed_ids, ours.calls.executed_ids) == (["A", "A"], ["A"])
    assert result_texts(pi.messages) == ["ok A", "ok A"]
    assert details(ours.messages)[1] == {"skipped": True, "reason": "duplicate-id"}
    assert pending == [frozenset()] * 4


@shows("D6")
async def test_an_id_is_pending_until_its_last_call_has_ended() -> None:
    from antiphon.agent.view import View
    from antiphon.core.calls import ToolResult
    from antiphon.core.events import ToolExecutionEnd, ToolExecutionStart
    from antiphon.core.transcript import Transcript

    for in_reference, expected in ((True, frozenset()), (False, frozenset({"A"}))):
        view = View(Transcript(), ids_are_a_set=in_reference)
        for position in (0, 1):
            view.apply(ToolExecutionStart(tool_call_id="A", tool_name="A", args={}, position=position))
        view.apply(ToolExecutionEnd(tool_call_id="A", tool_name="A", result=ToolResult(), is_error=False, position=0))
        assert view.pending_tool_calls == expected


@shows("equal_tool_names")
async def test_two_tools_of_one_name() -> None:
    first, second = ScriptedTool("A", CallScript()), ScriptedTool("A", CallScript())

    assert Agent(stream=ScriptedModel([]), tools=[first, second], policy=PI).tools == (first, second)
    with pytest.raises(WrongArgument, match="two tools named 'A'"):
        Agent(stream=ScriptedModel([]), tools=[first, second])


@shows("skip_details")
async def test_results_of_calls_that_did_not_run_say_why() -> None:
    pi, ours = await both([cut_off(calls("A")), says("end")])

    assert details(pi.messages) == [{}]
    assert details(ours.messages) == [{"skipped": True, "reason": "length"}]
    assert result_texts(pi.messages) == result_texts(ours.messages)


# -- listeners ---------------------------------------------------------------------------------------------------------


@shows("D5")
async def test_a_failing_listener_is_no_controller() -> None:
    heard: dict[str, list[str]] = {"pi": [], "default": []}

    def listens(world: World) -> None:
        name = world.agent.policy.name  # type: ignore[attr-defined]

        def fails_once(event: Any, _signal: Any) -> None:
            if event.type == "tool_execution_start":
                raise ValueError("observer")

        world.agent.subscribe(fails_once)
        world.agent.subscribe(lambda event, _: heard[name].append(event.type))

    pi, ours = await both([calls("A"), says("end")], listens)

    assert (pi.outcome.reason, pi.outcome.error) == ("error", "observer")
    assert "tool_execution_start" not in heard["pi"]
    assert (ours.outcome.reason, len(ours.outcome.faults)) == ("stop", 1)
    assert heard["default"] == ours.recording.types


@shows("D14")
async def test_an_event_goes_to_the_subscriptions_of_its_moment() -> None:
    for policy in PROFILES:
        heard: list[str] = []

        def listener(event: Any, _signal: Any, heard: list[str] = heard) -> None:
            heard.append(event.type)

        def adds(event: Any, _signal: Any, listener: Any = listener) -> None:
            if event.type == "agent_end":
                world.agent.subscribe(listener)

        world = World([says("x")], policy=policy)
        world.agent.subscribe(adds)
        world.agent.subscribe(listener)
        world.agent.subscribe(listener)
        await within(world.prompt("go"))
        assert heard == [event for event in world.recording.types for _ in range(2)]


@shows("D15")
async def test_closing_goes_on_although_a_listener_fails_again() -> None:
    def fails_twice(event: Any, _signal: Any) -> None:
        if event.type in ("tool_execution_start", "turn_end"):
            raise ValueError(event.type)

    for policy in PROFILES:
        world = World([calls("A"), says("never")], policy=policy)
        world.agent.subscribe(fails_twice, critical=True)
        if policy is PI:
            with pytest.raises(ValueError, match="turn_end"):
                await within(world.agent.prompt("go"))
            assert world.recording.types[-1] == "turn_end"
        else:
            await within(world.prompt("go"))
            assert world.recording.types[-1] == "agent_end"
            check_trace(world.recording.events, policy)


# -- faults ------------------------------------------------------------------------------------------------------------


@shows("D7")
async def test_a_stream_that_raises_leaves_nothing_open() -> None:
    pi, ours = await both([breaks(says("Hel", "lo"), ValueError("lost"), before=3)])

    with pytest.raises(ProtocolError):
        check_trace(pi.recording.events, OURS)
    check_trace(ours.recording.events, OURS)
    assert [text_of(message.content) for message in pi.outcome.new_messages] == [""]
    assert [who(message) for message in ours.outcome.new_messages] == ["user", "assistant"]
    assert text_of(ours.messages[-1].content) == "Hel"  # type: ignore[arg-type]
    starts = [len(world.recording.of(MessageStart)) - len(world.recording.of(MessageEnd)) for world in (pi, ours)]
    assert starts == [1, 0]


@shows("D8")
async def test_an_event_stream_ends_whatever_happens_to_its_producer() -> None:
    for policy in PROFILES:
        config = LoopConfig(model=SCRIPTED_MODEL, policy=policy)
        stream = agent_loop([user("go")], Context(), config, None, ScriptedModel([raises(ValueError("lost"))]))

        async def read(stream: Any = stream) -> None:
            async for _ in stream:
                pass
            (await stream.result()).raise_for_fault()

        with pytest.raises(Exception, match="lost"):
            await within(read())

    ended = response_stream()
    readers = [asyncio.ensure_future(anext(ended.__aiter__())) for _ in range(3)]
    await settle()
    ended.end()
    assert {type(error) for error in await asyncio.gather(*readers, return_exceptions=True)} == {StopAsyncIteration}
    with pytest.raises(StreamEnded):
        await within(ended.result())


@shows("D9")
async def test_lists_of_the_caller_are_not_changed() -> None:
    for policy in PROFILES:
        history = [user("before")]
        config = LoopConfig(model=SCRIPTED_MODEL, policy=policy)
        outcome = await run_agent_loop_continue(
            Context(history), config, lambda event: None, None, ScriptedModel([says("x")])
        )
        assert len(outcome.new_messages) == 1
        assert history == [user("before")]


@shows("D11")
async def test_an_endless_loop_has_a_brake() -> None:
    assert (PI.limits, DEFAULT.limits) == (NO_LIMITS, RunLimits(max_turns=VERY_MANY_TURNS))

    for policy, turns in ((PI, 9), (replace(OURS, limits=RunLimits(max_turns=3)), 3)):
        world = World([calls("A")] * 8, policy=policy)
        await within(world.prompt("go"))
        assert (world.outcome.turns, world.outcome.reason) == (turns, "error" if policy is PI else "max_turns")


@shows("D12")
async def test_one_response_is_announced_once() -> None:
    events = events_of(says("Hel", "lo"), SCRIPTED_MODEL)
    begun = AssistantMessage(content=(), stop_reason="pending")

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        for event in (*events[:3], Start(message=begun), *events[1:]):
            yield event

    for policy in PROFILES:
        world = World(policy=policy)
        world.agent.stream = stream  # type: ignore[attr-defined]
        await within(world.prompt("go"))
        assert sum(who(event.message) == "assistant" for event in world.recording.of(MessageStart)) == 1
        assert [who(message) for message in world.messages] == ["user", "assistant"]


@shows("D13")
async def test_an_edit_of_the_list_that_a_hook_got() -> None:
    def edits(messages: Any, _signal: Any) -> Any:
        if isinstance(messages, list):
            messages.append(user("smuggled"))
        return messages

    pi, ours = await both([calls("A"), says("end")], transform_context=edits)

    assert "smuggled" in str(pi.requests[1][:-1])
    assert "smuggled" not in str(ours.requests[1])


@shows("on_unknown_stop")
@pytest.mark.parametrize("stop_reason", ["pending", "whatever"])
async def test_a_stop_reason_that_nobody_knows(stop_reason: Any) -> None:
    answer = AssistantMessage(content=(), stop_reason=stop_reason)

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield Done(reason="stop", message=answer)

    def asks(world: World) -> None:
        world.agent.stream = stream  # type: ignore[attr-defined]

    pi, ours = await both([], asks)

    assert pi.outcome.reason == "stop"
    assert ours.outcome.reason == "error"
    assert stop_reason in (ours.outcome.error or "")


@shows("nameless_error")
async def test_an_exception_without_words() -> None:
    pi, ours = await both([calls("A"), says("end")], results={"A": ValueError()})

    assert (result_texts(pi.messages), result_texts(ours.messages)) == ([""], ["ValueError"])
