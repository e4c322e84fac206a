"""Listeners hear every event, in order, one after the other; an observer is no controller, a store is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.rig import QUICK, legal, never, within

from antiphon.agent.listeners import Listeners
from antiphon.core.events import AgentEvent, MessageUpdate, TurnStart
from antiphon.core.policy import PI
from antiphon.loop.abort import never_aborted
from antiphon.testing import Gate, World, calls, says, settle
from antiphon.testing.check import no_tasks_left


def a_world(**options: Any) -> World:
    return World([calls("A"), says("end")], **{"policy": QUICK, "close_timeout": 0.02, **options})


@pytest.mark.requirement("S3-90")
async def test_events_come_in_order_of_subscription_and_each_is_waited_for() -> None:
    order: list[str] = []

    def listener(name: str, turns: int) -> Callable[..., Any]:
        async def listen(event: AgentEvent, _signal: Any) -> None:
            order.append(f"{name} {event.type} begins")
            await settle(turns)
            order.append(f"{name} {event.type} ends")

        return listen

    world = World([says("x")])
    for name, turns in (("slow", 5), ("quick", 0), ("middle", 2)):
        world.agent.subscribe(listener(name, turns))
    await within(world.prompt("go"))

    expected = [
        f"{name} {event} {what}"
        for event in world.recording.types
        for name in ("slow", "quick", "middle")
        for what in ("begins", "ends")
    ]
    assert order == expected


async def test_plain_and_async_listeners_mix() -> None:
    order: list[str] = []

    async def later(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        order.append("async")

    def now(event: AgentEvent, _signal: Any) -> None:
        order.append("plain")

    world = World([says("x")])
    for listener in (now, later, now, later):
        world.agent.subscribe(listener)
    await within(world.prompt("go"))

    assert order == ["plain", "async", "plain", "async"] * len(world.recording)


@pytest.mark.requirement("S3-85", "S3-87")
async def test_a_listener_gets_the_signal_of_its_run() -> None:
    seen: list[Any] = []
    world = World([says("x")])
    world.agent.subscribe(lambda event, signal: seen.append(signal is world.agent.signal))
    await world.prompt("go")

    assert set(seen) == {True}


# -- subscriptions -----------------------------------------------------------------------------------------------------


async def test_one_function_subscribed_twice_is_two_listeners() -> None:
    """D14."""
    heard: list[str] = []

    def listener(event: AgentEvent, _signal: Any) -> None:
        heard.append(event.type)

    world = World([says("x"), says("y")])
    first = world.agent.subscribe(listener)
    world.agent.subscribe(listener)
    await world.prompt("go")
    assert heard == [event for event in world.recording.types for _ in range(2)]

    heard.clear()
    world.recording.clear()
    first()
    first()
    await world.prompt("again")
    assert heard == world.recording.types


async def test_who_is_added_during_an_event_hears_from_the_next_one_on() -> None:
    """D14: delivery uses the subscriptions of the moment the event was emitted."""
    for is_async in (False, True):
        heard: list[str] = []

        async def later(event: AgentEvent, _signal: Any, heard: list[str] = heard) -> None:
            await asyncio.sleep(0)
            if event.type == "turn_start":
                world.agent.subscribe(lambda event, _: heard.append(event.type))

        def now(event: AgentEvent, _signal: Any, heard: list[str] = heard) -> None:
            if event.type == "turn_start":
                world.agent.subscribe(lambda event, _: heard.append(event.type))

        world = World([says("x")])
        world.agent.subscribe(later if is_async else now)
        await within(world.prompt("go"))
        assert heard == world.recording.types[2:]


async def test_who_is_taken_away_during_an_event_does_not_get_it_any_more() -> None:
    for is_async in (False, True):
        heard: list[str] = []
        removes: list[Callable[[], None]] = []

        async def later(event: AgentEvent, _signal: Any, removes: Any = removes) -> None:
            await asyncio.sleep(0)
            if event.type == "turn_start":
                removes[0]()

        def now(event: AgentEvent, _signal: Any, removes: Any = removes) -> None:
            if event.type == "turn_start":
                removes[0]()

        world = World([says("x")])
        world.agent.subscribe(later if is_async else now)
        removes.append(world.agent.subscribe(lambda event, _, heard=heard: heard.append(event.type)))
        await within(world.prompt("go"))
        assert heard == ["agent_start"]


async def test_a_listener_may_take_itself_away() -> None:
    heard: list[str] = []
    world = World([says("x")])

    def listener(event: AgentEvent, _signal: Any) -> None:
        heard.append(event.type)
        remove()

    remove = world.agent.subscribe(listener)
    await world.prompt("go")

    assert heard == ["agent_start"]


async def test_a_single_listener_is_told_like_many() -> None:
    heard: list[str] = []
    world = World([says("x"), says("y")])
    agent: Any = world.agent
    agent._listeners._set(())  # the recording of the world is gone: nobody listens
    await agent.prompt("unheard")
    remove = agent.subscribe(lambda event, _: heard.append(event.type))
    await agent.prompt("heard")
    remove()
    await agent.prompt("unheard")

    assert (heard[0], heard[-1], heard.count("agent_start")) == ("agent_start", "agent_end", 1)


# -- failures ----------------------------------------------------------------------------------------------------------


def failing(error: BaseException, *, is_async: bool, at: str | None = None) -> Callable[..., Any]:
    def now(event: AgentEvent, _signal: Any) -> None:
        if at in (None, event.type):
            raise error

    async def later(event: AgentEvent, signal: Any) -> None:
        await asyncio.sleep(0)
        now(event, signal)

    return later if is_async else now


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [ValueError("mine"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_a_failing_listener_is_recorded_and_nobody_else_notices(error: BaseException, is_async: bool) -> None:
    """D5: later listeners get the event, the run goes on."""
    reported: list[Any] = []
    heard: list[str] = []
    world = a_world(on_fault=reported.append)
    world.agent.subscribe(failing(error, is_async=is_async))
    world.agent.subscribe(lambda event, _: heard.append(event.type))
    await within(world.prompt("go"))

    assert heard == world.recording.types
    assert world.outcome.reason == "stop"
    assert [fault.event for fault in world.outcome.faults] == world.recording.events
    assert {fault.where for fault in world.outcome.faults} == {"listener"}
    assert reported == list(world.outcome.faults)
    legal(world.recording)


@pytest.mark.requirement("S3-91")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_failing_critical_listener_ends_the_run_and_all_hear_the_closing_events(is_async: bool) -> None:
    """D5, D15."""
    heard: list[str] = []
    world = a_world()
    world.agent.subscribe(failing(ValueError("disk full"), is_async=is_async, at="turn_end"), critical=True)
    world.agent.subscribe(failing(ValueError("observer"), is_async=is_async))
    world.agent.subscribe(lambda event, _: heard.append(event.type))
    await within(world.prompt("go"))

    assert heard == world.recording.types
    assert (world.outcome.reason, world.outcome.error) == ("error", "disk full")
    assert len(world.requests) == 1
    wheres = [fault.where for fault in world.outcome.faults]
    assert wheres.count("critical listener") == 2  # the failure has a turn of its own, whose end is told too
    legal(world.recording)


async def test_of_two_critical_failures_at_one_event_the_last_is_told() -> None:
    for first, second in ((False, True), (True, False), (True, True)):
        world = a_world()
        for number, is_async in enumerate((first, second)):
            world.agent.subscribe(
                failing(ValueError(f"store {number}"), is_async=is_async, at="turn_start"), critical=True
            )
        await within(world.prompt("go"))
        assert (world.outcome.reason, world.outcome.error) == ("error", "store 1")


async def test_a_critical_listener_may_finish_whatever_happens_to_the_run() -> None:
    """D2: a store may finish writing."""
    for how in ("abort", "cancel", "cancel twice"):
        gate = Gate()
        written: list[str] = []

        async def store(event: AgentEvent, _signal: Any, gate: Gate = gate, written: list[str] = written) -> None:
            if event.type == "message_end":
                await gate.passed()
            written.append(event.type)

        world = a_world()
        world.agent.subscribe(store, critical=True)
        async with no_tasks_left():
            prompt = world.start("go")
            await within(gate.reached())
            for _ in range(2 if how == "cancel twice" else 1):
                world.agent.abort() if how == "abort" else prompt.cancel()
                await asyncio.sleep(0.03)
            assert not prompt.done()
            gate.open()
            await asyncio.wait([prompt], timeout=5)

        assert prompt.cancelled() == (how != "abort")
        assert written == world.recording.types
        legal(world.recording)


async def test_a_listener_that_hangs_is_cut_after_an_abort_and_the_next_ones_hear() -> None:
    heard: list[str] = []
    world = World([says("Hel", "lo")], policy=QUICK)

    async def hangs(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, MessageUpdate):
            await never()

    world.agent.subscribe(hangs)
    world.agent.subscribe(lambda event, _: heard.append(event.type))
    prompt = world.start("go")
    await within(world.recording.heard("message_update"))
    await settle()
    world.agent.abort()
    await within(prompt)

    assert heard == world.recording.types
    assert world.outcome.reason == "aborted"
    assert "listener" in {fault.where for fault in world.outcome.faults}


async def test_in_a_hurry_only_critical_listeners_are_waited_for() -> None:
    begun: list[str] = []
    written: list[str] = []

    def observer(event: AgentEvent, _signal: Any) -> Any:
        begun.append(event.type)
        if event.type == "turn_end":
            return never()
        return asyncio.get_running_loop().create_future() if event.type == "agent_end" else None

    async def store(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        written.append(event.type)

    world = World([says("x")], policy=QUICK, close_timeout=60)
    remove = world.agent.subscribe(observer)
    world.agent.subscribe(store, critical=True)
    prompt = world.start("go")
    await within(world.recording.heard("turn_end"))
    await settle()
    for _ in range(2):
        prompt.cancel()
        await settle()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert begun == written == world.recording.types

    remove()
    waited: list[str] = []

    async def patient(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        waited.append(event.type)

    world.agent.subscribe(patient)
    world.recording.clear()
    world.model.script += [says("again")]
    await within(world.prompt("again"))
    assert waited == world.recording.types  # nobody is in a hurry any more


async def test_in_profile_pi_any_failure_of_a_listener_ends_the_run() -> None:
    for is_async in (False, True):
        heard: list[str] = []
        world = World([calls("A"), says("never")], policy=PI)
        errors = iter([ValueError("observer")])

        def once(event: AgentEvent, _signal: Any, errors: Any = errors) -> None:
            if event.type == "message_end" and (error := next(errors, None)):
                raise error

        async def later(event: AgentEvent, signal: Any, once: Any = once) -> None:
            await asyncio.sleep(0)
            once(event, signal)

        world.agent.subscribe(later if is_async else once)
        world.agent.subscribe(lambda event, _, heard=heard: heard.append(event.type))
        await within(world.prompt("go"))
        assert world.outcome.error == "observer"
        assert len(heard) == len(world.recording.types) - 1


# -- exclusion ---------------------------------------------------------------------------------------------------------


async def test_a_listener_may_steer_follow_up_abort_and_subscribe() -> None:
    heard: list[str] = []
    world = World([says("one"), says("two"), says("three"), says("four")], policy=QUICK)

    def listener(event: AgentEvent, _signal: Any) -> None:
        if event.type == "turn_end":
            remove()
            world.agent.steer("s")
            world.agent.follow_up("f")
            world.agent.subscribe(lambda event, _: heard.append(event.type))

    remove = world.agent.subscribe(listener)
    await within(world.prompt("go"))

    assert world.outcome.turns == 3
    assert heard[0] == "turn_start"


def listening(*functions: Callable[..., Any]) -> Listeners:
    """Plain listeners, told without a run."""
    listeners = Listeners(raises=False)
    for function in functions:
        listeners.subscribe(function, critical=False)
    return listeners


def test_plain_listeners_are_told_without_anything_to_wait_for() -> None:
    heard: list[str] = []
    listeners = listening(lambda *_: removes[0](), lambda *_: heard.append("never"), lambda *_: heard.append("third"))
    second = listeners.subscriptions[1]
    removes = [lambda: setattr(second, "live", False)]

    assert listeners.tell(TurnStart(), never_aborted()) is None
    assert heard == ["third"]


def test_outside_of_a_run_a_failure_is_noted_by_nobody() -> None:
    assert listening(lambda *_: 1 // 0, lambda *_: None).tell(TurnStart(), never_aborted()) is None
