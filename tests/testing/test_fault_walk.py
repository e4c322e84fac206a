"""Walks through every moment of small runs: whatever goes wrong there, the run ends well.

Each scene is played once per boundary and kind of fault. What must hold afterwards are invariants of the loop: the
agent is idle, calls and results are paired, start and end events are nested, nothing accepted is lost, no task is left,
and the next prompt works.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.policy import DEFAULT, STRICT, Policy
from antiphon.testing import (
    ALL_KINDS,
    Answer,
    Fault,
    FaultKind,
    Faults,
    World,
    call,
    calls,
    faults_of,
    places_of,
    says,
    settle,
)
from antiphon.testing.check import check_runs, no_tasks_left

GRACE = 0.003

MakeWorld = Callable[[Faults, Policy], World]


def text_only(faults: Faults, policy: Policy) -> World:
    return World([says("Hel", "lo")], faults=faults, policy=policy, close_timeout=0.02)


def one_batch(faults: Faults, policy: Policy) -> World:
    world = World([calls("A", "B"), says("done")], faults=faults, policy=policy, close_timeout=0.02)
    world.calls.updates["A"] = ["half"]
    return world


def one_by_one(faults: Faults, policy: Policy) -> World:
    script: list[Answer] = [says("look") + calls("A", "B"), call("C"), says("done")]
    return World(script, faults=faults, policy=policy, tool_execution="sequential", close_timeout=0.02)


def queues(faults: Faults, policy: Policy) -> World:
    world = World([call("A"), says("x"), says("y"), says("z")], faults=faults, policy=policy, close_timeout=0.02)
    world.steer_while_running("A", "s1")
    world.follow_up_while_running("A", "f1")
    world.follow_up_while_running("A", "f2")
    return world


SCENES = {scene.__name__: scene for scene in (text_only, one_batch, one_by_one, queues)}


async def places(make: MakeWorld, policy: Policy) -> list[str]:
    async def scene(faults: Faults) -> None:
        await make(faults, policy).prompt("go")

    return await places_of(scene)


async def play(make: MakeWorld, fault: Fault, policy: Policy) -> list[str]:
    """Play a scene with one fault; what does not hold afterwards."""
    faults = Faults(fault)
    world = make(faults, replace(policy, abort_grace=GRACE))
    async with no_tasks_left():
        running = world.start("go")
        await ended(running, world)
        broken = [*how_it_returned(running, fault), *what_is_left(world), *broken_rules(world, policy)]
        faults.release()
        await settle()
        world.model.script += [says("again")] * 2
        await world.prompt("again")
    return broken if fault.kind == "ignore cancel" or world.model.open_streams == 0 else [*broken, "stream left open"]


async def ended(running: asyncio.Task[tuple[Message, ...]], world: World) -> None:
    """Wait for the end of a run; one that a fault keeps waiting is aborted."""
    await settle(100)
    if not running.done():
        world.agent.abort()
        await asyncio.wait([running], timeout=5)


def how_it_returned(running: asyncio.Task[tuple[Message, ...]], fault: Fault) -> list[str]:
    if not running.done():
        running.cancel()
        return ["prompt() did not return"]
    if running.cancelled():
        return [] if fault.kind == "cancel run" else ["prompt() was cancelled"]
    error = running.exception()
    return [] if error is None else [f"prompt() raised {error!r}"]


def what_is_left(world: World) -> list[str]:
    """Which invariants the world breaks."""
    found = {
        "agent is still busy": world.agent.is_streaming,
        "calls without results": not is_paired(world.messages),
        "accepted messages lost or doubled": "f2" in accepted(world) and accepted(world) != ["f1", "f2", "go", "s1"],
    }
    return [name for name, holds in found.items() if holds]


def broken_rules(world: World, policy: Policy) -> list[str]:
    """What the trace checker says about the events."""
    try:
        check_runs(world.recording, policy)
    except AssertionError as error:
        return [str(error)]
    return []


def accepted(world: World) -> list[str]:
    """Texts of the user messages that are in the transcript or still queued."""
    waiting = world.agent.peek_queued_messages() if world.agent.has_queued_messages else ()
    told = [message.content for message in (*world.messages, *waiting) if message.role == "user"]
    rest = ["f2"] if [*waiting] and waiting[0].content == "f1" else []
    return sorted([*map(str, told), *rest])


def is_paired(messages: object) -> bool:
    """Has every call exactly one result, directly behind its message, in call order? (I2)"""
    told = list(messages)  # type: ignore[call-overload]
    for place, message in enumerate(told):
        if isinstance(message, AssistantMessage):
            wanted = [block.id for block in calls_of(message)]
            behind = told[place + 1 : place + 1 + len(wanted)]
            if wanted != [m.tool_call_id for m in behind if isinstance(m, ToolResultMessage)]:
                return False
    return True


async def walk(scene: str, kind: FaultKind, policy: Policy) -> dict[str, list[str]]:
    """Play a scene once per boundary; what did not hold, by the place where the fault struck."""
    make = SCENES[scene]
    seen = await places(make, policy)
    broken: dict[str, list[str]] = {}
    for place, fault in zip(seen, faults_of(seen, [kind]), strict=True):
        if found := await play(make, fault, policy):
            broken[f"{place} ({fault.at})"] = found
    return broken


QUICK_KINDS = [kind for kind in ALL_KINDS if kind != "ignore cancel"]  # that one waits for real attempts to cancel


@pytest.mark.parametrize("kind", QUICK_KINDS)
@pytest.mark.parametrize("scene", ["text_only", "one_batch"])
async def test_wherever_it_strikes_the_run_ends_well(scene: str, kind: FaultKind) -> None:
    assert await walk(scene, kind, DEFAULT) == {}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("scene", SCENES)
async def test_wherever_it_strikes_in_longer_runs(scene: str, kind: FaultKind, policy: Policy) -> None:
    assert await walk(scene, kind, policy) == {}
