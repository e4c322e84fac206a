"""One agent: what it accepts, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import QUICK, PlainTool, legal, never, within

from antiphon.agent import Agent, AgentState
from antiphon.core.content import Image, Text, text_of
from antiphon.core.hooks import Context, NextTurn, Turn
from antiphon.core.limits import Budget
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, host_message, user
from antiphon.core.model import UNKNOWN_MODEL
from antiphon.core.policy import RunLimits
from antiphon.core.system_state import replay
from antiphon.core.transcript import Transcript
from antiphon.errors import (
    AgentBusy,
    CannotContinue,
    LimitStillReached,
    MisuseError,
    NothingToContinue,
    WouldDeadlock,
    WrongArgument,
)
from antiphon.loop.config import SystemClock
from antiphon.testing import (
    SCRIPTED_MODEL,
    CallScript,
    Gate,
    ScriptedModel,
    ScriptedTool,
    World,
    calls,
    fails,
    says,
    settle,
    who,
)

ANSWER = AssistantMessage(content=(Text(text="before"),), stop_reason="stop")
PNG = Image(data="AAAA", mime_type="image/png")


def roles(messages: Any) -> list[str]:
    return [who(message) for message in messages]


def glimpse(agent: Any) -> tuple[Any, ...]:
    """Everything that a refusal must not change."""
    state = agent.state
    queued = agent.clear_all_queues()
    for message in queued:
        agent.steer(message)
    return (*(getattr(state, name) for name in AgentState.__slots__), len(state.messages), queued, agent.steering_mode)


# -- construction ------------------------------------------------------------------------------------------------------


def test_without_anything_there_is_a_placeholder_of_a_model_and_no_message() -> None:
    agent = Agent(stream=ScriptedModel())

    assert agent.model is UNKNOWN_MODEL
    assert (UNKNOWN_MODEL.id, UNKNOWN_MODEL.provider, UNKNOWN_MODEL.api) == ("unknown", "unknown", "unknown")
    assert (len(agent.messages), agent.tools, agent.system_prompt, agent.thinking_level) == (0, (), "", "off")
    assert (agent.steering_mode, agent.follow_up_mode) == ("one-at-a-time", "one-at-a-time")
    assert (agent.is_streaming, agent.signal, agent.error_message, agent.streaming_message) == (False, None, None, None)
    assert agent.pending_tool_calls == frozenset()


@pytest.mark.requirement("S3-15")
def test_prompt_and_tools_become_one_leading_system_message() -> None:
    agent = Agent(
        stream=ScriptedModel(), system_prompt="be kind", tools=[PlainTool("A", never)], messages=[user("before")]
    )

    assert roles(agent.messages) == ["system", "user"]
    first = agent.messages[0]
    assert isinstance(first, SystemMessage)
    assert (first.content, [tool.name for tool in first.tools_added or ()]) == ("be kind", ["A"])
    assert agent.system_prompt == "be kind"


def test_a_transcript_that_begins_with_a_system_message_wins_over_the_prompt() -> None:
    agent = Agent(stream=ScriptedModel(), system_prompt="ignored", messages=[SystemMessage(content="kept")], tools=())

    assert (agent.system_prompt, len(agent.messages)) == ("kept", 1)


async def test_tools_beside_such_a_transcript_are_declared_by_the_first_run() -> None:
    agent = Agent(
        stream=ScriptedModel([says("x")]), messages=[SystemMessage(content="kept")], tools=[PlainTool("A", never)]
    )
    outcome = await agent.prompt("go")

    assert roles(outcome.new_messages) == ["system", "user", "assistant"]
    assert agent.system_prompt == "kept"


async def test_what_a_hook_made_of_the_tools_is_declared_again_by_the_next_run() -> None:
    """The hook's context is not the agent's: its transcript keeps only what was announced."""
    tools = [PlainTool("A", lambda *_: "done")]
    model = ScriptedModel([says("one"), calls("A"), says("without tools"), says("with tools again")])

    def hook(turn: Turn, _signal: Any = None) -> NextTurn:
        return NextTurn(context=Context(messages=[*turn.context.messages, user("other")], tools=None))

    agent = Agent(stream=model, tools=tools, prepare_next_turn=hook)
    for text in ("first", "second", "third"):
        outcome = await agent.prompt(text)

    assert roles(outcome.new_messages) == ["system", "user", "assistant"]
    assert [tool.name for tool in replay(agent.messages).tools] == ["A"]


# -- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-34")
async def test_a_text_becomes_a_user_message_with_its_images_behind() -> None:
    agent = Agent(stream=ScriptedModel([says("x")]))
    await agent.prompt("look", images=[PNG])

    assert agent.messages[0].content == (Text(text="look"), PNG)
    assert agent.messages[0].timestamp > 0


@pytest.mark.requirement("S3-34")
@pytest.mark.parametrize("kind", [list, tuple, deque, Transcript])
async def test_messages_are_taken_as_they_are(kind: Callable[..., Any]) -> None:
    one, two = user("one"), host_message("note", text="two")
    agent = Agent(stream=ScriptedModel([says("x"), says("y"), says("z")]))
    given = kind([one, two])

    outcome = await agent.prompt(given if kind is not deque else given)
    assert (outcome.new_messages[0] is one, outcome.new_messages[1] is two) == (True, True)
    outcome = await agent.prompt(one)
    assert outcome.new_messages[0] is one
    assert len(given) == 2


async def test_an_empty_list_asks_from_the_transcript_as_it_is() -> None:
    agent = Agent(stream=ScriptedModel([says("x")]), messages=[ANSWER])
    outcome = await agent.prompt([])

    assert roles(outcome.new_messages) == ["assistant"]


@pytest.mark.parametrize("bad", [5, None, ["text"], [user("x"), 5], {"role": "user"}, b"bytes", [None]])
async def test_what_is_no_message_is_refused_with_its_type(bad: Any) -> None:
    world = World([says("x")])
    before = glimpse(world.agent)
    for call in (world.agent.prompt, world.agent.steer, world.agent.follow_up):
        with pytest.raises(TypeError, match="is no message"):
            done = call(bad)
            await done  # type: ignore[misc]
    assert glimpse(world.agent) == before
    assert world.recording.events == []


async def test_what_a_host_reads_while_a_run_is_active() -> None:
    gate = Gate()
    world = World([says("Hel", "lo").held(gate, before=3)], policy=QUICK)
    agent = world.agent
    prompt = world.start("go")
    await within(world.recording.heard("message_update"))
    await settle()

    assert agent.is_streaming
    assert agent.signal is not None
    assert agent.streaming_message is not None
    assert text_of(agent.streaming_message.content) == "Hel"
    assert roles(agent.messages) == ["user"]
    gate.open()
    await within(prompt)
    assert (agent.is_streaming, agent.signal, agent.streaming_message) == (False, None, None)
    assert roles(agent.messages) == ["user", "assistant"]


@pytest.mark.requirement("S3-31")
async def test_of_two_prompts_in_one_tick_the_second_one_is_refused() -> None:
    agent = Agent(stream=ScriptedModel([says("x"), says("y")]))
    first, second = await asyncio.gather(agent.prompt("one"), agent.prompt("two"), return_exceptions=True)
    assert not isinstance(first, BaseException)
    assert isinstance(second, MisuseError) or roles(second.new_messages) == ["user", "assistant"]

    async def waits(_request: Any) -> Any:
        await settle()
        return ScriptedModel([says("x")])(_request)

    agent = Agent(stream=waits)
    first, second = await asyncio.gather(agent.prompt("one"), agent.prompt("two"), return_exceptions=True)
    assert isinstance(second, AgentBusy)
    assert "steer" in str(second)
    assert "follow_up" in str(second)
    assert roles(agent.messages) == ["user", "assistant"]


@pytest.mark.requirement("S3-32")
async def test_agents_do_not_refuse_each_other() -> None:
    async def waits(request: Any) -> Any:
        await settle()
        return ScriptedModel([says("x")])(request)

    outcomes = await asyncio.gather(*(Agent(stream=waits).prompt("go") for _ in range(5)))
    assert [outcome.reason for outcome in outcomes] == ["stop"] * 5


# -- refusals inside of a run ------------------------------------------------------------------------------------------


async def refused(world: World, what: str) -> BaseException | None:
    """What the agent raises at once, without waiting, if asked for this now."""
    agent = world.agent
    calls_: dict[str, Callable[[], Any]] = {
        "prompt": lambda: agent.prompt("more"),
        "continue_": agent.continue_,
        "reset": agent.reset,
        "wait_for_idle": agent.wait_for_idle,
        "run": lambda: anext(agent.run("more").__aiter__()),
        "run_until_idle": agent.run_until_idle,
    }
    before = glimpse(agent)
    try:
        running = calls_[what]()
        if running is not None:
            await running
    except MisuseError as error:
        assert glimpse(agent) == before
        return error
    return None


@pytest.mark.requirement("S3-33")
@pytest.mark.parametrize("moment", ["agent_start", "message_update", "tool_execution_start", "turn_end", "agent_end"])
@pytest.mark.parametrize("what", ["prompt", "continue_", "reset", "wait_for_idle", "run", "run_until_idle"])
@pytest.mark.parametrize("critical", [False, True])
async def test_a_listener_may_not_begin_or_await_a_run(what: str, moment: str, critical: bool) -> None:
    """Also after `agent_end`, until its listeners are done."""
    world = World([says("x") + calls("A"), says("end")], policy=QUICK)
    seen: list[BaseException | None] = []

    async def listener(event: Any, _signal: Any) -> None:
        if event.type == moment and not seen:
            seen.append(await refused(world, what))

    world.agent.subscribe(listener, critical=critical)
    await within(world.prompt("go"))

    assert [type(error) for error in seen] == [WouldDeadlock if what == "wait_for_idle" else AgentBusy]
    assert (world.outcome.reason, world.outcome.faults) == ("stop", ())
    legal(world.recording)


@pytest.mark.parametrize("names", [("A",), ("A", "B")])
async def test_a_tool_or_hook_may_not_either(names: tuple[str, ...]) -> None:
    seen: list[type] = []

    async def asks(*_: Any) -> None:
        for what in ("prompt", "continue_", "reset", "wait_for_idle"):
            seen.append(type(await refused(world, what)))

    tools = [PlainTool(name, asks) for name in names]
    world = World([calls(*names), says("end")], tools=tools, finish_turn=asks, after_tool_call=asks)
    await within(world.prompt("go"))

    assert set(seen) == {AgentBusy, WouldDeadlock}
    assert len(seen) == 4 * (2 * len(names) + 2)


async def test_the_listener_of_progress_may_not_wait_for_its_run() -> None:
    """It runs in the task that tells progress of a lone call."""
    seen: list[BaseException | None] = []

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("half")
        await settle()
        return "done"

    async def listener(event: Any, _signal: Any) -> None:
        if event.type == "tool_execution_update":
            seen.append(await refused(world, "wait_for_idle"))

    world = World([calls("A"), says("end")], tools=[PlainTool("A", execute)])
    world.agent.subscribe(listener)
    await within(world.prompt("go"))

    assert [type(error) for error in seen] == [WouldDeadlock]


async def test_in_a_task_of_its_own_a_listener_may_wait_for_idle() -> None:
    order: list[str] = []

    async def waits() -> None:
        await world.agent.wait_for_idle()
        order.append(f"idle {world.agent.is_streaming}")

    waiting: list[asyncio.Task[None]] = []

    def listener(event: Any, _signal: Any) -> None:
        if event.type == "turn_start":
            waiting.append(asyncio.create_task(waits()))
        order.append(event.type)

    world = World([says("x")])
    world.agent.subscribe(listener)
    await world.prompt("go")
    await within(waiting[0])

    assert order[-2:] == ["agent_end", "idle False"]


async def test_cancelling_one_who_waits_for_idle_cancels_only_the_waiting() -> None:
    gate = Gate()
    world = World([says("x").held(gate)])
    prompt = world.start("go")
    await settle()
    waiting = asyncio.create_task(world.agent.wait_for_idle())
    await settle()
    waiting.cancel()
    await settle()
    assert waiting.cancelled()
    assert not prompt.done()

    gate.open()
    await within(prompt)
    await within(world.agent.wait_for_idle())


# -- continue ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-25")
@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], NothingToContinue),
        ([SystemMessage(content="be kind")], NothingToContinue),
        ([user("x"), ANSWER], CannotContinue),
    ],
)
async def test_continuing_is_refused_before_anything_happens(messages: list[Message], error: type[Exception]) -> None:
    world = World([says("x")], messages=messages)
    before = glimpse(world.agent)
    for call in (world.agent.continue_, world.agent.run_until_idle):
        with pytest.raises(error):
            await call()
    assert glimpse(world.agent) == before
    assert (world.recording.events, world.requests) == ([], [])


async def test_a_refused_continue_takes_nothing_from_a_queue() -> None:
    world = World([says("x")], limits=RunLimits(max_turns=1), messages=[SystemMessage(content="be kind")])
    world.agent.steer(user("waits"))
    with pytest.raises(NothingToContinue):
        await world.continue_()
    assert world.agent.peek_queued_messages() == (user("waits"),)


@pytest.mark.requirement("S3-119")
@pytest.mark.parametrize("tail", [user("x"), host_message("note")])
async def test_every_other_tail_is_continued(tail: Message) -> None:
    world = World([says("end")], messages=[tail])
    assert roles(await world.continue_()) == ["assistant"]


async def test_behind_an_answer_steering_becomes_the_prompt_and_only_the_first_poll_is_skipped() -> None:
    """B16."""
    world = World([says("one"), says("two"), says("three")], messages=[user("x"), ANSWER])
    for text in ("s1", "s2"):
        world.agent.steer(user(text))
    world.agent.follow_up(user("f1"))
    await world.continue_()

    assert [text_of(m.content) if m.role == "assistant" else str(m.content) for m in world.outcome.new_messages] == [
        "s1",
        "one",
        "s2",
        "two",
        "f1",
        "three",
    ]


async def test_behind_an_answer_follow_ups_become_the_prompt_and_steering_is_polled_first() -> None:
    world = World([says("one"), says("two")], messages=[user("x"), ANSWER])
    world.agent.follow_up(user("f1"))
    world.agent.subscribe(
        lambda event, _: world.agent.steer(user("s1")) and None if event.type == "turn_start" else None
    )
    world.agent.follow_up_mode = "all"  # type: ignore[misc]
    world.agent.follow_up(user("f2"))
    await world.continue_()

    assert [str(m.content) for m in world.outcome.new_messages if m.role == "user"][:3] == ["f1", "f2", "s1"]
    assert len(world.requests) >= 1


async def test_a_run_that_could_not_begin_gives_back_what_it_took() -> None:
    class Stopped(SystemClock):
        def now_ms(self) -> int:
            raise OSError("no time")

    world = World([says("one")], messages=[user("x"), ANSWER], policy=QUICK)
    world.agent.steer(user("s1"))
    clock, world.agent.clock = world.agent.clock, Stopped()
    with pytest.raises(OSError, match="no time"):
        await world.continue_()

    assert world.agent.peek_queued_messages() == (user("s1"),)
    assert not world.agent.is_streaming
    world.agent.clock = clock
    assert roles(await world.continue_()) == ["user", "assistant"]


# -- queues ------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-68")
async def test_queues_take_messages_at_any_time_and_give_them_out_by_their_mode() -> None:
    world = World([says("one"), says("two"), says("three")])
    agent = world.agent
    ids = [agent.steer("s1"), agent.steer(user("s2")), agent.follow_up("f1"), agent.follow_up(user("f2"))]
    assert len(set(ids)) == 4
    assert agent.has_queued_messages
    assert text_of(agent.peek_queued_messages()[0].content) == "s1"  # type: ignore[union-attr]
    agent.steering_mode = "all"  # type: ignore[misc]
    assert len(agent.peek_queued_messages()) == 2
    agent.clear_steering_queue()
    assert text_of(agent.peek_queued_messages()[0].content) == "f1"  # type: ignore[union-attr]

    await world.prompt("go")
    assert not agent.has_queued_messages
    assert agent.peek_queued_messages() == ()
    assert world.outcome.turns == 3


def test_clearing_gives_what_was_dropped() -> None:
    agent = Agent(stream=ScriptedModel())
    agent.steer(user("s1"))
    agent.follow_up(user("f1"))
    assert agent.clear_follow_up_queue() == (user("f1"),)
    agent.follow_up(user("f2"))
    assert agent.clear_all_queues() == (user("s1"), user("f2"))
    assert (agent.clear_all_queues(), agent.has_queued_messages) == ((), False)


async def test_a_mode_counts_from_the_next_poll() -> None:
    world = World([says("one"), says("two"), says("three")])
    agent = world.agent
    for text in ("f1", "f2", "f3"):
        agent.follow_up(user(text))

    def listener(event: Any, _signal: Any) -> None:
        if event.type == "turn_end":
            agent.follow_up_mode = "all"  # type: ignore[misc]

    agent.subscribe(listener)
    await world.prompt("go")

    assert world.outcome.turns == 2
    assert agent.follow_up_mode == "all"  # type: ignore[attr-defined]


async def test_clearing_takes_back_what_was_leased_and_not_announced() -> None:
    """7: `clear_*` during a lease also clears leased, unannounced messages."""

    def hook(*_: Any) -> None:
        dropped.extend(world.agent.clear_steering_queue())

    dropped: list[Message] = []
    world = World([says("one"), says("never")], prepare_next_turn=hook)
    world.agent.subscribe(lambda event, _: world.agent.steer(user("s1")) and None if event.type == "turn_end" else None)
    await within(world.prompt("go"))

    assert dropped == [user("s1")]
    assert (world.outcome.reason, world.outcome.turns, world.outcome.undelivered) == ("stop", 1, ())
    legal(world.recording)


async def test_what_is_being_announced_can_no_longer_be_cleared() -> None:
    world = World([says("one"), says("two")], steering_mode="all")
    dropped: list[Any] = []

    def listener(event: Any, _signal: Any) -> None:
        if event.type == "message_start" and event.message == user("s1"):
            dropped.extend(world.agent.clear_all_queues())

    world.agent.subscribe(listener)
    world.agent.steer(user("s1"))
    world.agent.steer(user("s2"))
    await within(world.prompt("go"))

    assert dropped == []
    assert roles(world.messages) == ["user", "user", "user", "assistant"]


# -- settings during a run --------------------------------------------------------------------------------------------


@pytest.mark.requirement("S3-23")
async def test_what_a_host_assigns_reaches_the_next_run() -> None:
    """B21: replacing messages only moves where later ones are appended."""
    world = World([calls("A"), says("one"), says("two")], policy=QUICK)
    agent: Any = world.agent
    other = replace(SCRIPTED_MODEL, id="other")

    def assigns() -> None:
        agent.model = other
        agent.thinking_level = "high"
        agent.tools = []
        agent.messages = [user("replaced")]

    world.while_running("A", assigns)
    await within(world.prompt("go"))

    assert [request.model.id for request in world.model.requests] == ["scripted-1", "scripted-1"]
    assert [request.thinking_level for request in world.model.requests] == ["off", "off"]
    assert roles(world.requests[1]) == ["system", "user", "assistant", "result A"]
    assert roles(agent.messages) == ["user", "result A", "assistant"]
    assert len(world.outcome.new_messages) == 4

    await within(world.prompt("next"))
    assert (world.model.requests[2].model.id, world.model.requests[2].thinking_level) == ("other", "high")


@pytest.mark.requirement("S3-22")
def test_assigned_lists_are_copied() -> None:
    agent = Agent(stream=ScriptedModel())
    messages, tools = [user("x")], [PlainTool("A", never)]
    agent.messages, agent.tools = messages, tools  # type: ignore[assignment]
    messages.append(user("y"))
    tools.clear()

    assert (len(agent.messages), len(agent.tools)) == (1, 1)


# -- abort, reset, state ----------------------------------------------------------------------------------------------


async def test_an_abort_when_idle_does_nothing_and_twice_is_once() -> None:
    world = World([calls("A"), says("never")], policy=QUICK)
    world.agent.abort("idle")
    world.while_running("A", lambda: (world.agent.abort("first"), world.agent.abort("second")))
    await within(world.prompt("go"))

    assert (world.outcome.reason, world.outcome.abort_reason) == ("aborted", "first")
    world.model.script += [says("again")] * 2
    await within(world.prompt("again"))
    assert world.outcome.reason == "stop"


async def test_an_abort_without_a_reason_says_aborted() -> None:
    world = World([calls("A"), says("never")], policy=QUICK)
    world.abort_while_running("A")
    await within(world.prompt("go"))

    assert world.outcome.abort_reason == "aborted"


@pytest.mark.requirement("S3-24")
async def test_a_reset_keeps_the_system_state_folded_and_forgets_the_rest() -> None:
    world = World(
        [fails("overloaded"), says("x")],
        system_prompt="be kind",
        messages=(),
        limits=RunLimits(max_turns=1),
    )
    agent: Any = world.agent
    agent.messages = [*agent.messages, SystemMessage(content="and brief", sections={"date": "today"})]
    agent.steer("s1")
    agent.follow_up("f1")
    await world.prompt("go")
    assert agent.error_message == "overloaded"

    agent.reset()

    assert roles(agent.messages) == ["system"]
    assert agent.system_prompt == "be kind\n\nand brief\n\ntoday"
    assert (agent.error_message, agent.has_queued_messages, agent.streaming_message) == (None, False, None)
    with pytest.raises(NothingToContinue):
        await agent.continue_()
    await world.prompt("go")
    assert world.outcome.reason == "stop"


async def test_a_reset_forgets_the_limit_of_the_last_run() -> None:
    world = World([calls("A"), says("end")], limits=RunLimits(max_turns=1), policy=QUICK)
    await world.prompt("go")
    with pytest.raises(LimitStillReached):
        await world.continue_()
    world.agent.reset()
    world.agent.messages = [user("x")]  # type: ignore[misc]
    await world.continue_()
    assert world.outcome.reason == "stop"


def test_a_reset_of_nothing() -> None:
    agent = Agent(stream=ScriptedModel(), messages=[user("x")])
    agent.reset()
    assert len(agent.messages) == 0


@pytest.mark.requirement("S3-21")
def test_a_state_is_a_snapshot_of_everything() -> None:
    agent = Agent(stream=ScriptedModel(), system_prompt="be kind", model=SCRIPTED_MODEL)
    before = agent.state
    agent.messages = []

    assert (before.system_prompt, before.model, len(before.messages)) == ("be kind", SCRIPTED_MODEL, 1)
    assert (before.is_streaming, before.pending_tool_calls, before.tools) == (False, frozenset(), ())
    assert agent.state.system_prompt == ""


async def test_an_error_is_kept_until_the_next_run() -> None:
    """B22: it survives later turns of its run, and is cleared by the next one."""
    world = World([fails("overloaded"), says("x")])
    cleared: list[Any] = []
    await world.prompt("go")
    assert world.agent.error_message == "overloaded"
    world.agent.subscribe(lambda event, _: cleared.append(world.agent.error_message))
    await world.prompt("again")

    assert cleared[0] is None
    assert world.agent.error_message is None


async def test_run_until_idle_delivers_what_an_end_listener_queued() -> None:
    """D10."""
    world = World([says("one"), says("two"), says("three")])
    waiting = ["f1", "f2"]

    def listener(event: Any, _signal: Any) -> None:
        if event.type == "agent_end" and waiting:
            world.agent.follow_up(user(waiting.pop(0)))

    world.agent.subscribe(listener)
    await world.prompt("go")
    assert world.outcome.has_queued_messages

    outcome = await within(world.agent.run_until_idle())
    assert (outcome.reason, outcome.has_queued_messages) == ("stop", False)
    assert [str(m.content) for m in world.messages if m.role == "user"] == ["go", "f1", "f2"]


@pytest.mark.parametrize("ending", ["aborted", "error", "ended_by_host"])
async def test_run_until_idle_stops_behind_an_end_that_is_none_of_its_own(ending: str) -> None:
    def finish(*_: Any) -> str | None:
        if ending == "aborted":
            world.agent.abort()
        return "end" if ending == "ended_by_host" else None

    script = [fails("x") if ending == "error" else says("x"), says("never")]
    world = World(script, messages=[user("x"), ANSWER], finish_turn=finish)
    world.agent.follow_up(user("f1"))
    world.agent.follow_up(user("f2"))
    outcome = await within(world.agent.run_until_idle())

    assert (outcome.reason, outcome.has_queued_messages) == (ending, True)


async def test_an_agent_goes_on_in_another_event_loop() -> None:
    agent = Agent(stream=ScriptedModel([calls("A"), says("one"), says("two")]), tools=[PlainTool("A", lambda *_: "a")])

    def elsewhere() -> list[str]:
        return [asyncio.run(agent.prompt(text)).final_text for text in ("go", "again")]

    assert await asyncio.to_thread(elsewhere) == ["one", "two"]


async def test_continuing_counts_into_a_budget() -> None:
    budget = Budget()
    world = World([says("one"), says("two")], messages=[user("x")], limits=RunLimits(max_turns=2), budget=budget)
    await world.continue_()
    assert budget.used.turns == 1
    world.agent.steer("s1")
    await world.continue_()
    world.agent.steer("s2")
    with pytest.raises(LimitStillReached):
        await world.continue_()
    assert len(world.agent.clear_all_queues()) == 1


async def test_a_continued_run_tells_changed_tools_and_a_given_change_of_the_prompt() -> None:
    """Tools are compared at every run; a change of the prompt is a message that the host gives, in front."""
    world = World([says("one"), says("two"), says("three")], system_prompt="be kind")
    agent: Any = world.agent
    await world.prompt("go")
    agent.messages = [*agent.messages, user("next")]
    agent.tools = [ScriptedTool("new", CallScript())]
    assert roles(await world.continue_()) == ["system", "assistant"]
    assert [tool.name for tool in agent.messages[-2].tools_added] == ["new"]

    agent.tools = []
    agent.steer(user("more"))
    outcome = await agent.continue_(system=SystemMessage(sections={"mood": "calm"}))
    assert roles(outcome.new_messages) == ["system", "user", "assistant"]
    assert [tool.name for tool in outcome.new_messages[0].tools_removed] == ["new"]
    assert agent.system_prompt == "be kind\n\ncalm"

    with pytest.raises(WrongArgument, match=r"continue_\(system=\.\.\.\) cannot be a str"):
        agent.messages = [user("x")]
        await agent.continue_(system="calm")
