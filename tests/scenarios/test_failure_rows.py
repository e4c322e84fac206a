"""Rows about what goes wrong: streams that raise, aborts, listeners that fail, and what is true afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from antiphon import PI, STRICT, AgentEvent, AssistantMessage, Failed, ModelRequest, Policy, tool
from antiphon.core.events import MessageEnd, MessageStart, TurnEnd
from antiphon.core.policy import DEFAULT
from antiphon.core.trace import check_trace
from antiphon.testing import World, breaks, calls, fails, falls_silent, raises, says, who
from antiphon.tools import ToolContext

requirement = pytest.mark.requirement
HOOKS = ("transform_context", "convert_to_llm", "get_api_key", "prepare_request", "prepare_next_turn", "finish_turn")


@requirement("S3-19", "S3-82")
async def test_a_provider_may_fail_without_a_start() -> None:
    async def refuse(request: ModelRequest) -> AsyncIterator[Any]:
        message = AssistantMessage(content=(), stop_reason="error", error_message="no such model")
        yield Failed(reason="error", error=message)

    world = World()
    world.agent.stream = refuse

    await world.prompt("go")

    assert world.recording.log[4:6] == ["message_start assistant", "message_end assistant"]
    assert world.outcome.reason == "error"


@requirement("S1-21", "S3-83", "S3-84", "S3-35", "X14")
@pytest.mark.parametrize("answer", [raises(OSError("no route")), breaks(says("Hel", "lo"), OSError("no route"))])
async def test_a_stream_that_raises_becomes_an_answer_with_an_error(answer: Any) -> None:
    """The trace is closed, what had arrived is kept, and the next prompt works."""
    world = World([answer, says("better")])

    await world.prompt("go")

    failure = world.messages[-1]
    assert isinstance(failure, AssistantMessage)
    assert (failure.stop_reason, failure.error_message) == ("error", "no route")
    assert world.outcome.reason == "error"
    assert isinstance(world.outcome.faults[0].error, OSError)
    assert world.agent.error_message == "no route"
    check_trace(world.recording.events)

    await world.prompt("again")
    assert world.outcome.reason == "stop"
    assert world.agent.error_message is None


@requirement("X14", "S3-83", "S3-35")
@pytest.mark.parametrize(
    "hook",
    ["transform_context", "convert_to_llm", "get_api_key", "prepare_request", "prepare_next_turn", "finish_turn"],
)
async def test_a_hook_that_raises_becomes_a_failure_that_is_told(hook: str) -> None:
    def boom(*_given: object) -> Any:
        raise RuntimeError("the hook failed")

    world = World([calls("A"), says("done")], **{hook: boom})

    await world.prompt("go")

    assert world.outcome.reason == "error"
    assert world.outcome.error == "the hook failed"
    assert world.recording.of(TurnEnd)[-1].message.error_message == "the hook failed"
    check_trace(world.recording.events)
    assert not world.agent.is_streaming


@requirement("S1-23", "S3-85", "S0-31", "S3-86")
async def test_one_abort_reaches_everybody() -> None:
    """Stream, transform, hooks, tool and listeners hear of one abort, and so does what comes behind it.

    A call has a signal of its own, derived from that of the run: its time limit aborts it alone.
    """
    heard: dict[str, bool] = {}
    signals: dict[str, Any] = {}

    def note(name: str) -> Any:
        def hook(given: Any, signal: Any) -> Any:
            heard[name], signals[name] = signal.aborted, signal
            return given if name == "transform_context" else None

        return hook

    hooks = ("transform_context", "before_tool_call", "after_tool_call", "finish_turn")
    world = World([calls("A"), says("never")], **{name: note(name) for name in hooks})
    world.agent.subscribe(note("listener"))
    reached = asyncio.Event()

    @tool(name="A")
    async def work(*, ctx: ToolContext) -> str:
        """Works until it hears that it should stop."""
        signals["tool"] = ctx.signal
        reached.set()
        await ctx.signal.wait()
        return "done anyway"

    world.agent.tools = [work]
    running = world.start("go")
    await reached.wait()
    signals["stream"] = world.model.requests[0].signal
    assert heard == dict.fromkeys((*hooks[:2], "listener"), False)

    world.agent.abort("enough")
    await running

    assert signals.keys() == {*hooks, "listener", "tool", "stream"}
    assert {(signal.aborted, signal.reason) for signal in signals.values()} == {(True, "enough")}
    assert heard["after_tool_call"] and heard["finish_turn"] and heard["listener"]
    assert world.outcome.abort_reason == "enough"


@requirement("S0-51", "X8")
@pytest.mark.parametrize("policy", [DEFAULT, STRICT])
async def test_aborted_before_the_first_request_the_model_is_not_asked(policy: Policy) -> None:
    world = World([says("never")], policy=policy)
    world.agent.subscribe(lambda e, _s: world.agent.abort() if e.type == "agent_start" else None)

    await world.prompt("go")

    assert world.requests == []
    assert (world.outcome.reason, world.outcome.turns) == ("aborted", 0)
    assert [who(m) for m in world.messages] == ["user"]


@requirement("X8")
async def test_the_reference_asks_all_the_same() -> None:
    world = World([says("never")], policy=PI)
    world.agent.subscribe(lambda e, _s: world.agent.abort() if e.type == "agent_start" else None)

    await world.prompt("go")

    assert len(world.requests) == 1
    assert world.messages[-1].stop_reason == "aborted"


@requirement("S0-50", "S0-52", "X9")
@pytest.mark.parametrize("policy", [DEFAULT, STRICT])
async def test_an_abort_during_tools_keeps_the_results_and_sends_nothing_more(policy: Policy) -> None:
    world = World([calls("A", "B"), says("never")], policy=policy)
    gate = world.hold("A")
    running = world.start("go")
    await gate.reached()
    await world.recording.heard("tool_execution_end B")

    world.agent.abort()
    messages = await running

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "result B"]
    assert len(world.requests) == 1
    assert world.outcome.reason == "aborted"


@requirement("S3-86")
async def test_who_does_not_hear_an_abort_is_cut_after_a_grace() -> None:
    world = World([falls_silent(says("Hel")).ignoring_abort()], policy=Policy(name="hasty", abort_grace=0.01))
    running = world.start("go")
    await world.recording.heard(lambda e: e.type == "message_update" and "Hel" in str(e.message.content))

    world.agent.abort()
    await running

    assert world.outcome.reason == "aborted"
    assert not world.agent.is_streaming


@requirement("S3-39", "S3-83")
async def test_a_failed_answer_is_a_message_like_any_other() -> None:
    world = World([fails("overloaded", after=says("so far"))])

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant"]
    assert [e.type for e in world.recording][-2:] == ["turn_end", "agent_end"]
    assert messages[-1].stop_reason == "error"


@requirement("S3-84", "S3-91")
async def test_a_listener_that_fails_is_recorded_and_the_others_hear_everything() -> None:
    world = World([says("done")])
    heard: list[str] = []

    def broken(_event: AgentEvent, _signal: Any) -> None:
        raise RuntimeError("disk full")

    world.agent.subscribe(broken)
    world.agent.subscribe(lambda e, _s: heard.append(e.type))

    await world.prompt("go")

    assert world.outcome.reason == "stop"
    assert heard == world.recording.types
    assert {str(f.error) for f in world.outcome.faults} == {"disk full"}


@requirement("S3-91", "S3-84")
async def test_a_critical_listener_that_fails_ends_the_run_behind_the_open_batch() -> None:
    """A store that cannot store: what is open is closed and paired, and no further request leaves."""
    world = World([calls("A"), says("never")])

    def store(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, MessageEnd) and who(event.message) == "assistant":
            raise OSError("disk full")

    world.agent.subscribe(store, critical=True)

    messages = await world.prompt("go")

    assert world.outcome.reason == "error"
    assert len(world.requests) == 1
    assert [who(m) for m in messages][:3] == ["user", "assistant", "result A"]
    assert len(world.recording.of(MessageStart)) == len(world.recording.of(MessageEnd)) == len(messages)
