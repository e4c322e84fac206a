"""What an awaited future fails with belongs to the code that awaits it, wherever that code runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import tool
from antiphon.core.content import text_of
from antiphon.core.messages import ToolResultMessage
from antiphon.testing import World, call, says


def failing(error: BaseException) -> asyncio.Future[Any]:
    """A future that fails while somebody waits for it."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, error)
    return future


ERRORS = [ValueError("no"), OSError(2, "gone"), KeyError("k"), ExceptionGroup("many", [ValueError("one")])]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
async def test_a_lone_tool_whose_future_fails_is_answered(error: Exception) -> None:
    @tool
    async def fetch() -> str:
        """Wait for something that fails."""
        return str(await failing(error))

    world = World([call("fetch", {}), says("I see")], tools=[fetch])
    await world.prompt("go")
    result = next(m for m in world.messages if isinstance(m, ToolResultMessage))
    assert result.is_error
    assert text_of(result.content) == str(error)
    assert world.outcome.reason == "stop"


async def test_a_lone_plain_function_that_raises_in_its_thread_is_answered() -> None:
    @tool
    def divide(a: int, b: int) -> str:
        """Divide."""
        return str(a // b)

    world = World([call("divide", {"a": 1, "b": 0}), says("I see")], tools=[divide])
    await world.prompt("go")
    result = next(m for m in world.messages if isinstance(m, ToolResultMessage))
    assert "division" in text_of(result.content)
    assert world.outcome.reason == "stop"


async def test_the_tool_can_handle_it_itself() -> None:
    seen: list[str] = []

    @tool
    async def fetch() -> str:
        """Try, and fall back."""
        try:
            await failing(ConnectionRefusedError("refused"))
        except ConnectionRefusedError:
            seen.append("handled")
        finally:
            seen.append("cleaned")
        return "fallback"

    world = World([call("fetch", {}), says("fine")], tools=[fetch])
    await world.prompt("go")
    assert seen == ["handled", "cleaned"]
    assert text_of(next(m for m in world.messages if isinstance(m, ToolResultMessage)).content) == "fallback"


async def test_a_hook_and_a_listener_can_handle_it_themselves() -> None:
    handled: list[str] = []

    async def key(_provider: str) -> str | None:
        try:
            await failing(OSError("vault is closed"))
        except OSError:
            handled.append("hook")
        return "k"

    async def listen(event: Any, _signal: Any) -> None:
        if event.type == "turn_start":
            try:
                await failing(ValueError("x"))
            except ValueError:
                handled.append("listener")

    world = World([says("fine")], get_api_key=key)
    world.agent.subscribe(listen)
    await world.prompt("go")
    assert handled == ["listener", "hook"]
    assert (world.outcome.reason, world.outcome.faults) == ("stop", ())


async def test_a_hook_that_does_not_handle_it_is_a_fault() -> None:
    async def key(_provider: str) -> str | None:
        await failing(OSError("vault is closed"))
        return None

    world = World([says("never")], get_api_key=key)
    await world.prompt("go")
    assert (world.outcome.reason, world.outcome.error) == ("error", "vault is closed")
