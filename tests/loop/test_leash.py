"""Foreign code on a leash: it cannot hold the run, and what it does to its own task is its own affair."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.loop.rig import QUICK, PlainTool, Stubborn, legal, never, result_texts, within

from antiphon.agent import Agent
from antiphon.core.events import AgentEvent
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.loop import leash as leash_module
from antiphon.loop.leash import Cut, ForeignCancelled, Leash, LetGo, started
from antiphon.testing import Recording, ScriptedModel, World, calls, says, settle

PULL = 0.002


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leash_module, "PULL_EVERY", PULL)


def a_leash(patience: float = 0.01) -> tuple[Leash, list[str]]:
    told: list[str] = []
    return Leash(lambda: told.append("cancelled"), patience), told


class Bare:
    """An awaitable whose steps are a bare iterator: no send, no throw."""

    def __init__(self, waits_for: Any = None) -> None:
        self._waits_for = waits_for

    def __await__(self) -> Any:
        return iter([self._waits_for])


# -- waiting -----------------------------------------------------------------------------------------------------------


async def test_everything_that_can_be_awaited_is_awaited() -> None:
    leash, _ = a_leash()

    async def value(given: int) -> int:
        await asyncio.sleep(0)
        return given

    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 2)

    assert await leash.hold(value(1)) == 1
    assert await leash.hold(future) == 2
    assert await leash.hold(asyncio.create_task(value(3))) == 3
    assert await leash.hold(asyncio.gather(value(4), value(5))) == [4, 5]
    assert await leash.hold(Bare()) is None
    with pytest.raises(asyncio.CancelledError):
        started(Bare()).throw(asyncio.CancelledError())
    assert started(Bare()).close() is None  # type: ignore[func-returns-value]


async def test_what_foreign_code_raises_comes_out() -> None:
    leash, _ = a_leash()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await leash.hold(fails())
    with pytest.raises(ValueError, match="mine"):
        await leash.hold(asyncio.create_task(fails()))


async def test_a_cancelled_error_of_its_own_is_told_apart() -> None:
    leash, told = a_leash()

    async def pretends() -> None:
        raise asyncio.CancelledError

    async def awaits_a_cancelled_task() -> None:
        task = asyncio.create_task(never())
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    for foreign in (pretends(), awaits_a_cancelled_task()):
        with pytest.raises(ForeignCancelled):
            await leash.hold(foreign)
    assert told == []


async def test_code_that_yields_no_future_gets_the_error_that_a_task_would_give() -> None:
    leash, _ = a_leash()
    seen: list[str] = []

    class Odd:
        def __await__(self) -> Generator[Any, None, str]:
            try:
                yield "no future"
            except RuntimeError as error:
                seen.append(str(error))
            return "went on"

    assert await leash.hold(Odd()) == "went on"
    assert "bad yield" in seen[0]


async def test_a_future_of_another_event_loop_is_refused_like_everywhere() -> None:
    leash, _ = a_leash()
    elsewhere = asyncio.new_event_loop()
    try:
        with pytest.raises(RuntimeError, match="different loop"):
            await within(leash.hold(asyncio.gather(elsewhere.create_future())))
    except (ValueError, TypeError):
        pytest.fail("gather itself refused")
    finally:
        elsewhere.close()


# -- pulling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", [0, 1, 2, 3, 4, 9])
async def test_after_three_swallowed_cancellations_it_is_let_go(patience: int) -> None:
    leash, told = a_leash()
    foreign = Stubborn(patience)
    leash.pull_after(0)

    with pytest.raises(Cut) as caught:
        await within(leash.hold(foreign.wait()))

    leash.rest()
    assert isinstance(caught.value, LetGo) == (patience >= 3)
    assert foreign.swallowed == min(patience, 3)
    assert told == []
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["task", "gather", "group"])
async def test_a_stubborn_task_behind_the_foreign_code_does_not_hold_the_run(how: str) -> None:
    """Cancelling a task that waits for another task only asks the other one; if that refuses, nobody wakes."""
    leash, _ = a_leash()
    inner = Stubborn()

    async def outer() -> None:
        match how:
            case "task":
                await asyncio.create_task(inner.wait())
            case "gather":
                await asyncio.gather(inner.wait(), inner.wait())
            case _:
                async with asyncio.TaskGroup() as group:
                    group.create_task(inner.wait())

    leash.pull_after(0)
    with pytest.raises(LetGo):
        await within(leash.hold(outer()))
    leash.rest()
    inner.released.set()
    await settle()


async def test_a_task_behind_the_foreign_code_is_cancelled_and_joined_as_usual() -> None:
    leash, _ = a_leash()
    ended: list[str] = []

    async def inner() -> None:
        try:
            await never()
        finally:
            await asyncio.sleep(0)
            ended.append("inner")

    async def outer() -> None:
        try:
            await asyncio.create_task(inner())
        finally:
            ended.append("outer")

    leash.pull_after(0)
    with pytest.raises(Cut):
        await within(leash.hold(outer()))
    leash.rest()
    assert ended == ["inner", "outer"]


async def test_code_that_refuses_even_its_close_is_let_go() -> None:
    leash, _ = a_leash()

    async def refuses() -> None:
        for _ in range(6):
            try:
                await asyncio.sleep(100)
            except BaseException:  # noqa: BLE001, S112 - the point of this test
                continue

    foreign = refuses()
    leash.pull_after(0)
    with pytest.raises(LetGo):
        await within(leash.hold(foreign))
    leash.rest()
    with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
        foreign.close()


async def test_the_earlier_time_wins_and_rest_stops_it() -> None:
    leash, _ = a_leash()
    leash.pull_after(100)
    leash.pull_after(0.001)
    leash.pull_after(100)
    begun = time.monotonic()
    with pytest.raises(Cut):
        await within(leash.hold(never()))
    assert time.monotonic() - begun < 5

    leash.rest()
    await leash.hold(asyncio.sleep(PULL * 3))


async def test_what_is_exempt_is_not_pulled() -> None:
    leash, _ = a_leash()
    exempt = [True]
    leash.exempt = lambda: exempt[0]
    leash.pull_after(0)
    leash.lose_patience_after(0)
    await leash.hold(asyncio.sleep(PULL * 3))

    exempt[0] = False
    with pytest.raises(Cut):
        await within(leash.hold(never()))
    leash.rest()


async def test_a_limit_of_one_wait_ends_with_that_wait() -> None:
    leash, _ = a_leash()
    with pytest.raises(Cut):
        await within(leash.hold(never(), within=0.001))
    await leash.hold(asyncio.sleep(PULL * 3))
    with pytest.raises(LetGo):
        await within(leash.hold(Stubborn().wait(), within=0.001))
    await leash.hold(asyncio.sleep(PULL * 3))


# -- cancellation from outside and from within -------------------------------------------------------------------------


async def test_a_cancellation_from_outside_is_noticed_once_the_wait_is_over() -> None:
    async def run() -> tuple[list[str], str]:
        leash, told = a_leash()
        try:
            await leash.hold(never())
        except Cut:
            ending = "cut"
        else:
            ending = "went on"
        return told, ending

    task = asyncio.create_task(run())
    await settle()
    task.cancel()

    assert await within(task) == (["cancelled"], "cut")


async def test_code_that_swallows_one_from_outside_is_pulled_when_patience_is_over() -> None:
    foreign = Stubborn(2)

    async def run() -> list[str]:
        leash, told = a_leash(patience=0.001)
        with pytest.raises(Cut):
            await leash.hold(foreign.wait())
        return told

    task = asyncio.create_task(run())
    await settle()
    task.cancel()

    assert await within(task) == ["cancelled"]
    assert foreign.swallowed == 2


async def connects_then_waits() -> str:
    """What a library for connections does: one attempt wins, the others and the task that waits are cancelled."""
    async with anyio.create_task_group() as attempts:
        attempts.start_soon(anyio.lowlevel.checkpoint)
        attempts.cancel_scope.cancel()
        await never()
    await asyncio.sleep(0.03)
    return "answered late"


async def test_a_cancellation_that_was_taken_back_costs_no_patience() -> None:
    """Else a server that answers later than the patience after it was connected to would never be heard."""
    leash, told = a_leash(patience=0.01)

    assert await leash.hold(connects_then_waits()) == "answered late"
    assert await leash.hold(connects_then_waits(), within=60) == "answered late"
    assert told == []


async def test_forgiven_code_is_still_cut_when_its_own_time_is_over() -> None:
    leash, _ = a_leash(patience=0.001)

    async def connects_then_hangs() -> None:
        await connects_then_waits()
        await never()

    with pytest.raises(Cut):
        await within(leash.hold(connects_then_hangs(), within=0.05))


async def test_one_from_outside_and_one_of_the_run_at_the_same_time_are_both_known() -> None:
    async def run() -> tuple[list[str], int]:
        leash, told = a_leash()
        leash.pull_after(0)
        asyncio.get_running_loop().call_later(0, task.cancel)
        with pytest.raises(Cut):
            await leash.hold(Stubborn(1).wait())
        leash.rest()
        current = asyncio.current_task()
        assert current is not None
        return told, current.cancelling()

    task = asyncio.create_task(run())

    assert await within(task) == (["cancelled"], 1)


async def test_a_run_that_is_closed_closes_what_it_waits_for() -> None:
    """An event loop that went away closes coroutines without stepping them."""
    leash, _ = a_leash()
    closed: list[str] = []

    async def foreign() -> None:
        try:
            await never()
        finally:
            closed.append("foreign")

    async def run() -> None:
        await leash.hold(foreign())

    running = run()
    running.send(None)
    running.close()

    assert closed == ["foreign"]


# -- the same through an agent -----------------------------------------------------------------------------------------


async def time_out() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await never()


async def wait_for() -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(never(), 0.001)


async def failing_group() -> None:
    async def fails() -> None:
        raise ValueError("one of the group")

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await never()
    except BaseExceptionGroup:
        pass


async def move_on() -> None:
    with anyio.move_on_after(0.001):
        await anyio.sleep(5)


async def anyio_group() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 5)
        await anyio.sleep(0.001)
        group.cancel_scope.cancel()


async def failing_anyio_group() -> None:
    async def fails() -> None:
        raise ValueError("one of the group")

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(fails)
            await anyio.sleep(5)
    except BaseExceptionGroup:
        pass


async def cancelled_inner_task() -> None:
    task = asyncio.create_task(never())
    asyncio.get_running_loop().call_soon(task.cancel)
    with suppress(asyncio.CancelledError):
        await task


async def takes_itself_back() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        task.uncancel()


OWN_AFFAIRS = [
    time_out,
    wait_for,
    failing_group,
    move_on,
    anyio_group,
    failing_anyio_group,
    cancelled_inner_task,
    takes_itself_back,
]
HOOKS = [
    "transform_context",
    "convert_to_llm",
    "get_api_key",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "before_tool_call",
    "after_tool_call",
]
PLACES = [*HOOKS, "listener", "critical listener", "lone tool", "two tools", "stream"]


def agent_that_does(affair: Callable[[], Awaitable[None]], place: str) -> tuple[Agent, Recording]:
    async def execute(*_: Any) -> str:
        if "tool" in place.split()[-1]:
            await affair()
        return "done"

    async def hook(first: Any, *_: Any) -> Any:
        await affair()
        return first if place in ("transform_context", "convert_to_llm") else None

    model = ScriptedModel([calls("A", "B") if place == "two tools" else calls("A"), says("end")])

    async def stream(request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        await affair()
        async for event in model(request):
            yield event
            await affair()

    agent = Agent(
        stream=stream if place == "stream" else model,
        tools=[PlainTool("A", execute), PlainTool("B", execute)],
        policy=QUICK,
        close_timeout=0.02,
        **({place: hook} if place in HOOKS else {}),  # type: ignore[arg-type]
    )

    async def listener(event: AgentEvent, _signal: Any) -> None:
        if event.type in ("turn_start", "tool_execution_start", "turn_end", "agent_end"):
            await affair()

    if "listener" in place:
        agent.subscribe(listener, critical=place.startswith("critical"))
    recording = Recording()
    agent.subscribe(recording)
    return agent, recording


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("affair", OWN_AFFAIRS)
async def test_time_outs_and_groups_of_foreign_code_are_no_abort(
    affair: Callable[[], Awaitable[None]], place: str
) -> None:
    agent, recording = agent_that_does(affair, place)

    outcome = await within(agent.prompt("go"))

    assert (outcome.reason, outcome.faults, outcome.abandoned) == ("stop", (), ())
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    legal(recording)


async def test_a_time_out_that_is_over_does_not_cut_what_comes_later() -> None:
    """The patience with a cancellation nobody else wanted ends with the wait in which it came."""
    agent, _ = agent_that_does(time_out, "listener")

    async def slow(*_: Any) -> str:
        await asyncio.sleep(0.06)  # three times the patience
        return "in peace"

    agent.tools = [PlainTool("A", slow)]
    outcome = await within(agent.prompt("go"))

    assert result_texts(outcome.new_messages) == ["in peace"]


async def test_a_time_out_around_the_events_of_a_stream_is_the_streams() -> None:
    """It strikes while a slow listener is waited for, and can be taken back only when the stream is closed."""
    model = ScriptedModel([says(*"abcdefgh")])

    async def stream(request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        async with asyncio.timeout(0.01):
            async for event in model(request):
                yield event

    agent = Agent(stream=stream, policy=QUICK, close_timeout=0.02)
    recording = Recording()
    agent.subscribe(recording)
    agent.subscribe(lambda event, signal: asyncio.sleep(0.006))

    outcome = await within(agent.prompt("go"))

    assert outcome.reason == "error"
    assert "cancelled the task that reads it" in (outcome.error or "")
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    legal(recording)


@pytest.mark.parametrize("place", [*HOOKS, "listener", "lone tool", "two tools", "stream"])
async def test_code_that_never_ends_is_cut_or_let_go_after_an_abort(place: str) -> None:
    foreign = Stubborn()
    agent, recording = agent_that_does(lambda: asyncio.create_task(foreign.wait()), place)
    running = asyncio.create_task(agent.prompt("go"))
    await settle(40)
    while not running.done():  # a listener refuses at every event that it hears
        agent.abort()
        await asyncio.wait([running], timeout=1)

    outcome = running.result()
    foreign.released.set()
    await settle()
    assert outcome.reason == "aborted"
    assert outcome.abandoned
    legal(recording)


async def test_listeners_behind_one_that_was_let_go_still_hear_the_event() -> None:
    world = World([says("x")], policy=QUICK)
    foreign = Stubborn()
    heard: list[str] = []
    stored: list[str] = []

    async def holds(event: AgentEvent, _signal: Any) -> None:
        if event.type == "message_end":
            await foreign.wait()

    async def hears(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        heard.append(event.type)

    async def stores(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        stored.append(event.type)
        if event.type == "turn_end":
            raise OSError("disk full")

    world.agent.subscribe(holds)
    world.agent.subscribe(hears)
    world.agent.subscribe(stores, critical=True)
    running = world.start("go")
    await settle()
    world.agent.abort()
    await within(running)

    foreign.released.set()
    assert heard == stored == world.recording.types
    assert "listener of MessageEnd" in world.outcome.abandoned
    assert [fault.where for fault in world.outcome.faults].count("critical listener") == 1
