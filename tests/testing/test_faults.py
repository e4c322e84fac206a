"""Faults: boundaries are counted, and exactly one of them goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from antiphon.core.events import TurnStart
from antiphon.testing import (
    CallScript,
    Fault,
    Faults,
    InjectedFault,
    ScriptedModel,
    ScriptedTool,
    faults_of,
    places_of,
    says,
)

from .test_model import Switch, request


async def scene(faults: Faults) -> list[object]:
    """One of each kind of foreign code."""
    model = faults.stream(ScriptedModel([says("a")]))
    events = [event.type async for event in model(request())]  # type: ignore[union-attr]
    result = await faults.tool(ScriptedTool("look", CallScript())).execute("A", {}, Switch(), print)  # type: ignore[arg-type]
    await faults.listener()(TurnStart(), Switch())
    hooked = await faults.hook("finish_turn", lambda *_given: "end")("turn", Switch())
    polled = await faults.poll("steering", list)()
    return [events, result, hooked, polled]


async def test_without_a_plan_everything_works_and_every_place_is_counted() -> None:
    assert await scene(Faults()) == [["start", "text_start", "text_delta", "text_end", "done"], "ok A", "end", []]
    assert await places_of(scene) == [
        "stream asked",
        "stream start",
        "stream text_start",
        "stream text_delta",
        "stream text_end",
        "stream done",
        "tool A begins",
        "tool A ends",
        "listener turn_start",
        "hook finish_turn",
        "hook poll steering",
    ]


async def test_each_place_can_be_made_to_raise() -> None:
    for place, fault in zip(await places_of(scene), faults_of(await places_of(scene), ["raise"]), strict=True):
        faults = Faults(fault)
        with pytest.raises(InjectedFault, match=f"injected at {place}"):
            await scene(faults)
        assert faults.has_struck


async def test_an_error_of_ones_own_can_be_injected() -> None:
    with pytest.raises(OSError, match="disk"):
        await Faults(Fault(1, "raise", OSError("disk"))).reach("here")


async def test_a_cancelled_error_comes_although_nobody_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        await Faults(Fault(1, "cancelled")).reach("here")
    assert (current := asyncio.current_task()) is not None and current.cancelling() == 0


async def struck(kind: str, signal: Switch | None = None) -> tuple[Faults, asyncio.Task[None]]:
    faults = Faults(Fault(1, kind))  # type: ignore[arg-type]
    waiting = asyncio.create_task(faults.reach("here", signal))  # type: ignore[arg-type]
    await faults.struck()
    await asyncio.sleep(0)
    assert not waiting.done()
    return faults, waiting


async def test_a_hang_ends_with_the_abort() -> None:
    signal = Switch()
    _faults, waiting = await struck("hang", signal)

    signal.abort()

    await waiting


async def test_who_ignores_the_signal_ends_when_cancelled() -> None:
    signal = Switch()
    _faults, waiting = await struck("ignore signal", signal)
    signal.abort()
    await asyncio.sleep(0)
    assert not waiting.done()

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_ignores_cancellation_ends_when_released() -> None:
    faults, waiting = await struck("ignore cancel")
    for _ in range(3):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()

    faults.release()

    await waiting


async def test_the_run_can_be_cancelled_or_aborted_from_a_boundary() -> None:
    calls: list[str] = []
    faults = Faults(Fault(1, "abort"))
    faults.abort = lambda: calls.append("abort")
    await faults.reach("here")
    assert calls == ["abort"]

    never = asyncio.create_task(asyncio.Event().wait())
    faults = Faults(Fault(1, "cancel run"))
    faults.victim = never
    await faults.reach("here")
    await asyncio.wait([never])
    assert never.cancelled()


async def test_a_plain_tool_function_runs_in_a_thread_between_its_boundaries() -> None:
    class Plain:
        name, description, parameters = "plain", "", {"type": "object"}
        label = "kept"

        def execute(self, call_id: str, *_given: object) -> str:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return call_id

    faults = Faults()
    tool = faults.tool(Plain())  # type: ignore[arg-type]
    execute: Callable[..., Awaitable[str]] = tool.execute

    assert await execute("A", {}, Switch(), print) == "A"
    assert faults.places == ["tool A begins", "tool A ends"]
    assert tool.label == "kept"  # type: ignore[attr-defined]
