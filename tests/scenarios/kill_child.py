"""What a child process does that will be killed: one prompt of several turns, written down by a real session."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from antiphon.testing import calls, says

PROMPT = "do it"
TURNS = (says("Looking. ") + calls("A", "B", "C"), calls("A"), calls("B", "C"), says("Done."))
EFFECTS = "effects.txt"


def talk(folder: str, kill_at: int, torn: bool, parent: Connection) -> None:
    """Say the prompt in a new session of this folder.

    At its n-th write to the session file the process is killed: behind the write, or (`torn`) in the middle of it.
    Without a kill it tells its parent how many writes there were.
    """
    from tests.session.stage import Stage

    writes = _watched(kill_at, torn)
    place = Path(folder)
    results = {name: _with_effect(place, name) for name in "ABC"}
    parent.send("ready")
    stage = Stage(list(TURNS), folder=place, results=results)
    asyncio.run(_prompted(stage))
    parent.send(writes())
    parent.close()


async def _prompted(stage: Any) -> None:
    await stage.session.prompt(PROMPT)
    await stage.session.dispose()


def _with_effect(place: Path, name: str) -> Callable[..., Any]:
    async def execute(_args: Any) -> str:
        with (place / EFFECTS).open("a") as file:
            file.write(name)
        await asyncio.sleep(0.002)
        return f"{name} has done it"

    return execute


def _watched(kill_at: int, torn: bool) -> Callable[[], int]:
    """Count writes to session files; die at the chosen one."""
    real = os.write
    seen = [0]

    def write(descriptor: int, data: Any, /) -> int:
        if not os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl"):
            return real(descriptor, data)
        seen[0] += 1
        if seen[0] != kill_at:
            return real(descriptor, data)
        real(descriptor, bytes(data)[: len(data) // 2] if torn else data)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    os.write = write  # type: ignore[assignment]
    return lambda: seen[0]
