"""Every way a process is ended from outside, at every phase of its work, in every mode: one table, one check.

Orderly: the exit code says what happened, no process of ours is left, every call in the session has its result, what
was told is closed by one `agent_settled`, and the session can be continued. The default part takes a few rows.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from tests.modes.children import NOTHING, PIPE, Child, Done, Place, children_of, run, served, started
from tests.providers.fake_server import Answer, FakeServer, Hold, Refuse, Step

from antiphon.core.pairing import unanswered
from antiphon.session_log.store import SessionStore

Mode = Literal["print", "json", "rpc"]
Phase = Literal["idle", "streaming", "tool", "retry", "compaction"]
End = Literal["SIGINT", "SIGTERM", "SIGHUP", "EOF", "EPIPE"]
MODES: tuple[Mode, ...] = ("print", "json", "rpc")
PHASES: tuple[Phase, ...] = ("idle", "streaming", "tool", "retry", "compaction")
ENDS: tuple[End, ...] = ("SIGINT", "SIGTERM", "SIGHUP", "EOF", "EPIPE")
ARGUMENTS: dict[Mode, tuple[str, ...]] = {
    "print": ("-p", "go"),
    "json": ("--mode", "json", "go"),
    "rpc": ("--mode", "rpc"),
}
CODES: dict[End, int] = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "EOF": 0, "EPIPE": 1}
COMMAND = "sleep 100 & echo $! > pids; echo $$ >> pids; while [ ! -e go ]; do sleep 0.02; done; kill %1"
FULL = 10_000_000
"""Tokens that no window holds."""

USUAL = {
    ("print", "idle", "SIGINT"),
    ("print", "streaming", "SIGTERM"),
    ("print", "tool", "SIGINT"),
    ("print", "compaction", "EPIPE"),
    ("json", "tool", "SIGHUP"),
    ("json", "retry", "EPIPE"),
    ("json", "compaction", "SIGTERM"),
    ("rpc", "idle", "EPIPE"),
    ("rpc", "tool", "EOF"),
    ("rpc", "retry", "SIGINT"),
}


def exists(mode: Mode, phase: Phase, end: End) -> bool:
    """One shot modes have read their input to its end before they begin, so it can only end while they are idle."""
    return end != "EOF" or mode == "rpc" or phase == "idle"


ROWS = [row for row in product(MODES, PHASES, ENDS) if exists(*row)]


@dataclass
class Scene:
    """A child in a phase of its work. `go` lets the world go on."""

    child: Child
    server: FakeServer
    place: Place
    held: Hold
    reading: int
    below: list[int]

    def go(self) -> None:
        self.held.gate.set()
        (self.place.cwd / "go").touch()


def script(phase: Phase, held: Hold) -> list[Step]:
    match phase:
        case "idle":
            return []
        case "streaming":
            return [held]
        case "tool":
            return [Answer(calls=(("bash", {"command": COMMAND}),))]
        case "retry":
            return [Refuse(503, "overloaded")]
        case "compaction":
            return [Answer(text="long " * 100, input_tokens=FULL), held]


@asynccontextmanager
async def scene(place: Place, mode: Mode, phase: Phase, end: End) -> AsyncIterator[Scene]:
    """A child that has come to this phase; its reader is a pipe of ours if it is to go."""
    place.settings(
        retry={"baseDelayMs": 500 if end == "EPIPE" else 60_000, "maxAgentDelayMs": 60_000},
        compaction={"keepRecentTokens": 1},
    )
    held = Hold(Answer(text="Hello there"), events=0 if phase == "compaction" else 3)
    reading, writing = os.pipe() if end == "EPIPE" else (-1, PIPE)
    stdin = PIPE if mode == "rpc" or phase == "idle" else NOTHING
    async with (
        served(place, *script(phase, held)) as server,
        started(place, *ARGUMENTS[mode], stdin=stdin, stdout=writing) as child,
    ):
        if end == "EPIPE":
            os.close(writing)
        if mode == "rpc" and phase != "idle":
            await child.write({"id": "go", "type": "prompt", "message": "go"})
        await reached(place, child, server, mode, phase, held)
        yield Scene(child, server, place, held, reading, children_of(child.process.pid))


async def reached(place: Place, child: Child, server: FakeServer, mode: Mode, phase: Phase, held: Hold) -> None:
    match phase:
        case "idle" if mode == "rpc":
            await child.write({"id": "there", "type": "get_state"})
            await (child.said(b'"there"') if child.process.descriptors[0] >= 0 else until(lambda: reads(child)))
        case "idle":
            await until(lambda: reads(child))
        case "streaming":
            await held.held.wait()
            if mode != "print" and child.process.descriptors[0] >= 0:
                await child.said(b'"text_delta"')
        case "tool":
            await until(lambda: len((place.cwd / "pids").read_text().split()) == 2)
        case "retry":
            await until(lambda: "context_edit" in [line["type"] for line in place.session_lines()])
        case "compaction":
            await until(lambda: len(server.seen) == 2)


def reads(child: Child) -> bool:
    """Does the main thread of the child wait for its standard input?"""
    waits_in = Path("/proc", str(child.process.pid), "wchan").read_text()
    return any(name in waits_in for name in ("pipe_read", "pipe_wait", "poll", "select"))


async def until(condition: Callable[[], bool]) -> None:
    """Look now and then, for things outside of this process that give no sign."""
    for _ in range(4000):
        with suppress(OSError, ValueError):
            if condition():
                return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to that")


async def ended(scene: Scene, mode: Mode, phase: Phase, end: End) -> Done:
    """Bring the end about, and wait for it."""
    if end == "EOF":
        scene.child.close_stdin()
    elif end == "EPIPE":
        os.close(scene.reading)
        scene.go()
        if phase == "idle":
            await (scene.child.write({"type": "get_state"}) if mode == "rpc" else asyncio.sleep(0))
            if mode != "rpc":
                scene.child.close_stdin()
    else:
        scene.child.send(getattr(signal, end))
    return await scene.child.done(10)


@pytest.mark.parametrize(
    ("mode", "phase", "end"),
    [row if row in USUAL else pytest.param(*row, marks=pytest.mark.slow) for row in ROWS],
)
async def test_it_ends_in_order(place: Place, mode: Mode, phase: Phase, end: End) -> None:
    async with scene(place, mode, phase, end) as at:
        done = await ended(at, mode, phase, end)
    assert done.code == CODES[end], done.err
    assert "Traceback" not in done.err
    assert ("standard output cannot be written: Broken pipe" in done.err) == (end == "EPIPE"), done.err
    assert len(done.error_lines) <= 2, done.err
    for pid in [*at.below, *pids(place)]:
        assert not lives(pid), f"{pid} is left"
    if mode != "print" and end != "EPIPE" and phase != "idle":
        is_closed(done)
    if place.session_files():
        is_whole(place)
        await goes_on(place)
    else:
        assert phase == "idle"


def lives(pid: int | str) -> bool:
    """Does this process run? (One that has ended may wait for somebody to ask for its status.)"""
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pids(place: Place) -> list[str]:
    file = place.cwd / "pids"
    return file.read_text().split() if file.exists() else []


def is_closed(done: Done) -> None:
    """What was told of the aborted run has its end, and nothing follows."""
    told = [record["type"] for record in done.records]
    assert told.count("agent_settled") == 1
    assert done.records[-1] in ({"type": "agent_settled", "aborted": True}, {"type": "agent_settled", "aborted": False})
    assert told.count("agent_start") == told.count("agent_end")
    assert told.count("tool_execution_start") == told.count("tool_execution_end")
    assert told.count("compaction_start") == told.count("compaction_end")
    assert told.count("auto_retry_start") == told.count("auto_retry_end")


def is_whole(place: Place) -> None:
    """Every line can be read, and every call has its result."""
    (path,) = place.session_files()
    store = SessionStore(path.parent, cwd=str(place.cwd))
    before = path.read_bytes()
    with store.open(path, access="read") as log:
        assert log.report.damages == ()
        assert unanswered(log.messages()) == ()
        assert log.open_calls() == []
    store.open(path).close()
    assert path.read_bytes() == before, "opening it repaired something"


async def goes_on(place: Place) -> None:
    async with served(place):
        done = await run(place, "-c", "-p", "and now?")
    assert (done.code, done.text) == (0, "ok\n"), done.err
    lines = [json.loads(line) for line in place.session_files()[0].read_bytes().split(b"\n") if line]
    assert len([line for line in lines if line["type"] == "session"]) == 1
