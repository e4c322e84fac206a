"""Conversations to play again: as they would be stored, with everything a run may meet."""

from __future__ import annotations

import asyncio
from functools import cache

from antiphon.core.messages import Message
from antiphon.testing import Answer, World, call, calls, cut_off, fails, says, stops_short


async def recorded(script: list[Answer], *prompts: str) -> list[Message]:
    """A conversation of an agent, as it would be stored."""
    world = World(script)
    for prompt in prompts:
        await world.prompt(prompt)
    return list(world.messages)


async def steered() -> list[Message]:
    """Messages that came while a tool ran."""
    world = World([calls("A", "B"), says("b"), says("c"), says("d")])
    world.steer_while_running("A", "turn left")
    world.follow_up_while_running("A", "and then")
    world.follow_up_while_running("B", "and at last")
    await world.prompt("go")
    return list(world.messages)


@cache
def conversations() -> tuple[list[Message], ...]:
    """One of each kind."""

    async def all_of_them() -> tuple[list[Message], ...]:
        return (
            await recorded([says("a") + calls("A", "B"), calls("C"), says("done"), says("more")], "one", "two"),
            await recorded([fails("overloaded"), says("fine"), cut_off(call("A")), says("end")], "1", "2", "3"),
            await recorded([fails("overloaded", after=calls("A")), says("fine")], "one", "two"),
            await recorded([call("A", id="1") + call("B", id="1"), says("end")], "one"),
            await recorded([stops_short(calls("A")), says("end")], "one"),
            await steered(),
        )

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(all_of_them())
    finally:
        loop.close()
