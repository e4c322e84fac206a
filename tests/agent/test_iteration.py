"""A run as an iteration: lock-step with its reader, and joined however the reader leaves."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from tests.loop.rig import GRACE, QUICK, PlainTool, details, legal, never, within

from antiphon.core.policy import PI
from antiphon.errors import AgentBusy
from antiphon.testing import World, call, calls, raises, says, settle
from antiphon.testing.check import no_tasks_left


def a_world(**options: Any) -> World:
    return World([says("Hel", "lo") + calls("A"), says("end")], **{"policy": QUICK, **options})


async def test_an_iteration_gives_every_event_of_one_run() -> None:
    world = a_world()
    async with no_tasks_left():
        events = [event async for event in world.agent.run("go")]

    assert events == world.recording.events
    assert events[-1].type == "agent_end"
    assert not world.agent.is_streaming


async def test_nothing_begins_before_the_first_step() -> None:
    world = a_world()
    events = world.agent.run("go")
    await settle()
    assert world.recording.events == []

    await events.aclose()  # type: ignore[attr-defined]
    assert [event async for event in events] == []
    assert not world.agent.is_streaming


async def test_the_run_waits_for_its_reader() -> None:
    world = a_world()
    seen = 0
    async for _ in world.agent.run("go"):
        seen += 1
        await settle()
        assert len(world.recording) == seen


async def test_it_is_refused_like_a_prompt() -> None:
    world = a_world()
    async for _ in world.agent.run("go"):
        with pytest.raises(AgentBusy):
            await anext(world.agent.run("more"))  # type: ignore[call-overload]
    assert not world.agent.is_streaming


async def test_what_the_run_raises_comes_out_behind_its_events() -> None:
    world = World([raises(ValueError("lost"))], policy=PI)
    world.agent.subscribe(lambda event, _: 1 // 0 if event.type == "turn_end" else None)
    events = []
    with pytest.raises(ZeroDivisionError):
        async for event in world.agent.run("go"):
            events.append(event)  # noqa: PERF401 - it raises in between
    assert events == world.recording.events[:-1]  # the listener that failed stood in front of the reader


@pytest.mark.parametrize("how", ["aclose", "async with", "exception", "break"])
async def test_leaving_early_closes_and_joins_the_run_at_once(how: str) -> None:
    """9: the same as a cancellation. It does not wait for events that nobody reads."""

    async def hangs(*_: Any) -> str:
        await never()
        return "never"

    world = a_world(tools=[PlainTool("A", hangs)], close_timeout=60)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with no_tasks_left(100):
        if how == "aclose":
            events: Any = world.agent.run("go")
            async for event in events:
                if event.type == "tool_execution_start":
                    break
            await events.aclose()
        elif how == "break":
            async for event in world.agent.run("go"):
                if event.type == "tool_execution_start":
                    break
            gc.collect()
            await within(world.agent.wait_for_idle())
        else:
            with pytest.raises(ValueError, match="mine") if how == "exception" else pytest.raises(StopAsyncIteration):
                async with world.agent.run("go") as events:  # type: ignore[attr-defined]
                    async for event in events:
                        if event.type == "tool_execution_start":
                            raise ValueError("mine") if how == "exception" else StopAsyncIteration

    assert loop.time() - begun < 5
    assert not world.agent.is_streaming
    assert details(world.messages)[0]["reason"] in ("aborted", "cancelled")
    assert world.recording.types[-1] == "agent_end"
    legal(world.recording)


async def test_a_cancelled_reader_cancels_the_run_and_is_cancelled_when_it_is_joined() -> None:
    world = a_world()

    async def read() -> None:
        async with world.agent.run("go") as events:  # type: ignore[attr-defined]
            async for event in events:
                if event.type == "message_update":
                    await never()

    reader = asyncio.create_task(read())
    await within(world.recording.heard("message_update"))
    await settle()
    async with no_tasks_left():
        reader.cancel()
        await asyncio.wait([reader], timeout=5)

    assert reader.cancelled()
    assert not world.agent.is_streaming
    legal(world.recording)


async def test_a_second_cancellation_of_the_reader_hurries_and_joins_all_the_same() -> None:
    world = a_world(close_timeout=60)
    heard: list[str] = []

    def slow(event: Any, _signal: Any) -> Any:
        heard.append(event.type)
        return never() if event.type in ("turn_end", "agent_end") else None

    world.agent.subscribe(slow)

    async def read() -> None:
        async with world.agent.run("go") as events:  # type: ignore[attr-defined]
            async for event in events:
                if event.type == "message_update":
                    await never()

    reader = asyncio.create_task(read())
    await within(world.recording.heard("message_update"))
    await settle()
    reader.cancel()
    await settle()
    assert not reader.done()
    reader.cancel()
    async with no_tasks_left():
        reader.cancel()
        await asyncio.wait([reader], timeout=5)

    assert reader.cancelled()
    assert heard[-1] == "agent_end"
    assert not world.agent.is_streaming


async def test_a_reader_slower_than_the_grace_of_an_abort_still_gets_every_event() -> None:
    """The run does not wait for it any longer; nothing is lost, and the iteration ends."""
    world = a_world()
    seen: list[Any] = []
    async with no_tasks_left():
        async for event in world.agent.run("go"):
            seen.append(event)
            if event.type == "message_update" and not world.agent.signal.aborted:  # type: ignore[union-attr]
                world.agent.abort()
                await asyncio.sleep(GRACE * 20)
                assert not world.agent.is_streaming

    assert seen == world.recording.events
    legal(world.recording)


async def test_a_reader_that_has_caught_up_is_waited_for_again() -> None:
    world = World([call("A"), says("end")], policy=QUICK)
    events: Any = world.agent.run("go")
    seen = 0
    async for _ in events:
        seen += 1
        await settle()
        assert len(world.recording) == seen
    assert seen == len(world.recording)


async def test_what_a_run_raises_behind_a_reader_that_has_left_is_nobodys() -> None:
    class Odd(BaseException):
        pass

    def raises_at_the_end(event: Any, _signal: Any) -> None:
        if event.type == "agent_end":
            raise Odd

    world = a_world()
    world.agent.subscribe(raises_at_the_end)
    async with world.agent.run("go") as events:  # type: ignore[attr-defined]
        async for event in events:
            if event.type == "message_update":
                break

    assert not world.agent.is_streaming
    legal(world.recording)
