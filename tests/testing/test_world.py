"""A whole agent in a scripted world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.core.content import Image, Text
from antiphon.core.messages import ToolResultMessage, user
from antiphon.testing import Fault, Faults, Gate, World, call, calls, faults_of, places_of, says, who


@pytest.mark.requirement("S3-66")
async def test_steering_waits_for_every_call_of_the_batch() -> None:
    """A message typed while A runs must not land between the results of A and B: the pairing would break."""
    world = World([calls("A", "B"), says("changed course")])
    world.steer_while_running("A", "do this instead")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "result B", "user", "assistant"]
    assert world.requests[1][-1] == user("do this instead")
    assert world.calls.executed_ids == ["A", "B"]


@pytest.mark.requirement("S3-67")
async def test_a_follow_up_waits_for_the_end() -> None:
    world = World([calls("A"), says("done"), says("more")])
    world.follow_up_while_running("A", "and then")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "assistant", "user", "assistant"]


async def test_results_come_from_the_script_of_the_calls() -> None:
    world = World([calls("A", "B"), says("ok")], results={"A": "found it", "B": ValueError("no such file")})

    messages = await world.prompt("go")

    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert [(m.content, m.is_error) for m in results] == [
        ((Text(text="found it"),), False),
        ((Text(text="no such file"),), True),
    ]


async def test_an_abort_reaches_a_held_call() -> None:
    world = World([calls("A"), says("never")])
    gate = world.hold("A")
    running = world.start("go")
    await world.running("A")
    await gate.reached()

    world.agent.abort()
    await running

    assert len(world.requests) == 1
    assert world.outcome.reason == "aborted"


async def test_given_tools_are_used_as_they_are() -> None:
    class Add:
        name, description = "add", "adds"
        parameters: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}

        async def execute(self, _call_id: str, args: dict[str, Any], *_given: object) -> str:
            return str(args["a"] + 1)

    world = World([call("add", {"a": 1}, id="c1"), says("2")], tools=[Add()])
    world.steer_while_running("c1", "thanks")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result c1", "user", "assistant"]
    assert messages[2].content == (Text(text="2"),)


async def test_a_prompt_can_show_a_picture() -> None:
    world = World([says("nice")])
    picture = Image(data="AAAA", mime_type="image/png")

    await world.prompt("look", [picture])

    assert world.requests[0][-1] == user([Text(text="look"), picture])


async def test_an_answer_can_be_held_in_the_middle() -> None:
    gate = Gate()
    world = World([says("Hel", "lo").held(gate, before=3)])
    running = world.start("go")
    await gate.reached()
    assert (
        "message_update assistant" in [*map(str, world.recording.types)]
        or world.recording.types[-1] == "message_update"
    )

    gate.open()
    await running

    assert world.recording.types[-1] == "agent_end"


async def scene(faults: Faults) -> World:
    world = World([calls("A"), says("done")], faults=faults)
    await world.prompt("go")
    return world


async def test_a_world_with_faults_passes_every_kind_of_boundary() -> None:
    places = await places_of(scene)

    for kind in (
        "listener agent_start",
        "hook transform_context",
        "stream text_delta",
        "tool A begins",
        "hook finish_turn",
    ):
        assert kind in places


@pytest.mark.parametrize("kind", ["raise", "abort"])
async def test_after_any_fault_the_agent_is_idle_and_can_be_prompted(kind: str) -> None:
    """Invariant I14, walked over every boundary of a small run."""
    for fault in faults_of(await places_of(scene), [kind]):  # type: ignore[list-item]
        world = await scene(Faults(fault))

        assert not world.agent.is_streaming, fault
        await world.prompt("again")


async def test_cancelling_the_run_is_felt_by_who_awaits_it() -> None:
    places = await places_of(scene)
    fault = Fault(places.index("tool A begins") + 1, "cancel run")

    with pytest.raises(asyncio.CancelledError):
        await scene(Faults(fault))
    current = asyncio.current_task()
    assert current is not None
    current.uncancel()
