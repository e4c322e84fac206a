"""Scripted tools: results, failures, gates, actions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.core.calls import ToolResult
from antiphon.core.wire import JsonObject
from antiphon.testing import CallScript, Executed, ScriptedTool

from .test_model import Switch


async def execute(script: CallScript, call_id: str, args: JsonObject | None = None, **more: Any) -> Any:
    signal = more.get("signal") or Switch()
    return await ScriptedTool("look", script).execute(call_id, args or {}, signal, more.get("on_update", print))


async def test_a_call_without_a_script_says_ok() -> None:
    script = CallScript()

    assert await execute(script, "A", {"key": 1}) == "ok A"
    assert script.executed == [Executed("A", "look", {"key": 1})]


async def test_a_call_gives_back_what_its_script_says() -> None:
    async def later(args: JsonObject) -> str:
        return f"got {args['key']}"

    script = CallScript({"A": ToolResult(details={"x": 1}), "B": ValueError("broken"), "C": later})

    assert await execute(script, "A") == ToolResult(details={"x": 1})
    assert await execute(script, "C", {"key": 7}) == "got 7"
    with pytest.raises(ValueError, match="broken"):
        await execute(script, "B")


async def test_a_held_call_waits_for_its_gate() -> None:
    script = CallScript()
    gate = script.hold("A")
    running = asyncio.create_task(execute(script, "A"))
    await script.running("A")
    assert not running.done()

    gate.open()

    assert await running == "ok A"


@pytest.mark.parametrize(("stubborn", "ends"), [(False, True), (True, False)])
async def test_an_abort_ends_the_waiting_unless_the_call_is_stubborn(stubborn: bool, ends: bool) -> None:
    script, signal = CallScript(), Switch()
    gate = script.hold("A", stubborn=stubborn)
    running = asyncio.create_task(execute(script, "A", signal=signal))
    await gate.reached()

    signal.abort()

    for _ in range(10):
        await asyncio.sleep(0)
    assert running.done() is ends
    gate.open()
    await running


async def test_actions_and_updates_come_before_the_result() -> None:
    script, seen = CallScript(), []

    async def act() -> None:
        seen.append("acted")

    script.while_running("A", act)
    script.updates["A"] = ["half"]

    seen.append(await execute(script, "A", on_update=seen.append))

    assert seen == ["acted", "half", "ok A"]
