"""Many real tools at once: one failure is one failure, and after an abort nothing runs on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.messages import ToolResultMessage
from antiphon.core.ports import Tool
from antiphon.testing import World, call, calls, says
from antiphon.tools import LocalWorkspace, bash_tool, edit_tool, find_tool, grep_tool, ls_tool, read_tool, write_tool

MARK = "antiphon-many-calls-mark"


def results(world: World) -> list[ToolResultMessage]:
    return [message for message in world.messages if isinstance(message, ToolResultMessage)]


def all_tools(folder: Path) -> list[Tool]:
    workspace = LocalWorkspace(str(folder))
    made = [read_tool(workspace), write_tool(workspace), edit_tool(workspace), bash_tool(workspace)]
    return [*made, grep_tool(workspace), find_tool(workspace), ls_tool(workspace)]


async def test_of_27_calls_the_fifth_fails_and_26_succeed(tmp_path: Path) -> None:
    for number in range(27):
        if number != 4:
            (tmp_path / f"{number}.txt").write_text(f"text {number}")
    asked = calls(*[call("read", {"path": f"{number}.txt"}, id=f"c{number}") for number in range(27)])
    world = World([asked, says("done")], tools=all_tools(tmp_path))
    await world.prompt("read them all")
    assert [r.tool_call_id for r in results(world)] == [f"c{number}" for number in range(27)]
    assert [r.tool_call_id for r in results(world) if r.is_error] == ["c4"]


def mixed(folder: Path) -> list[Any]:
    """100 calls of all kinds; the commands would run for a minute if nobody stopped them."""
    kinds = [
        lambda n: ("read", {"path": "seed.txt"}),
        lambda n: ("write", {"path": f"w{n}.txt", "content": "x"}),
        lambda n: ("bash", {"command": f": {MARK} {os.getpid()}; sleep 60"}) if n % 4 == 0 else ("ls", {}),
        lambda n: ("grep", {"pattern": "seed"}),
        lambda n: ("find", {"pattern": "*.txt"}),
    ]
    made = [kinds[number % len(kinds)](number) for number in range(100)]
    return [call(name, arguments, id=f"c{number}") for number, (name, arguments) in enumerate(made)]


def still_running() -> list[str]:
    """Commands of this test that are alive."""
    found: list[str] = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                line = (place / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if MARK in line and str(os.getpid()) in line and int(place.name) != os.getpid():
                found.append(line)
    return found


async def aborted_at(folder: Path, boundary: int) -> None:
    """Abort when so many events of tools have been told; then everything has stopped and everybody is answered."""
    folder.mkdir()
    (folder / "seed.txt").write_text("seed")
    world = World([calls(*mixed(folder)), says("never")], tools=all_tools(folder))
    seen = 0

    def listen(event: Any, _signal: Any) -> None:
        nonlocal seen
        seen += event.type.startswith("tool_execution")
        if seen == boundary:
            world.agent.abort()

    world.agent.subscribe(listen)
    before = asyncio.all_tasks()
    await asyncio.wait_for(world.prompt("go"), 30)
    assert world.outcome.reason == "aborted"
    assert [r.tool_call_id for r in results(world)] == [f"c{number}" for number in range(100)]
    assert world.outcome.abandoned == ()
    assert asyncio.all_tasks() <= before
    assert still_running() == []
    written = sorted(place.name for place in folder.iterdir())
    await asyncio.sleep(0)
    assert sorted(place.name for place in folder.iterdir()) == written


@pytest.mark.parametrize("boundary", [1, 60, 101, 140])
async def test_after_an_abort_nothing_of_100_calls_runs_on(tmp_path: Path, boundary: int) -> None:
    await aborted_at(tmp_path / "here", boundary)


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_after_an_abort_at_any_boundary_nothing_runs_on(tmp_path: Path) -> None:
    for boundary in range(1, 180):
        await aborted_at(tmp_path / str(boundary), boundary)
