"""kill -9 of the real command, behind every durable write, at every phase and at random moments.

The session is whole, everything that its reader was told is in it, and it goes on. The story of a run has all phases: a
streamed answer, three calls at once, a refusal with the wait behind it, another call, an answer too long for the window
and the summary that follows.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.modes.children import Done, Place, run, served, started
from tests.modes.nursery import KILL_AT_WRITE
from tests.modes.test_every_end import FULL, PHASES, Phase, scene
from tests.providers.fake_server import Answer, Hold, Refuse, Step

from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of
from antiphon.core.pairing import unanswered
from antiphon.session_log.store import SessionStore

PACE_SECONDS = 0.04
THREE = (
    ("bash", {"command": f"sleep {PACE_SECONDS}; echo one"}),
    ("write", {"path": "made.txt", "content": "two\n"}),
    ("read", {"path": "made.txt"}),
)
AGAIN = "and now?"


def story() -> list[Step]:
    """What the provider says; held answers go on by themselves."""
    return [
        Hold(Answer(text="Looking.", calls=THREE), events=2),
        Refuse(503, "overloaded"),
        Answer(calls=THREE[:1]),
        Answer(text="long " * 100, input_tokens=FULL),
        Hold(Answer(text="What was said."), events=2),
    ]


async def pace(steps: list[Step]) -> None:
    """Let each held answer go on a little later."""
    loop = asyncio.get_running_loop()
    for step in steps:
        if isinstance(step, Hold):
            await step.held.wait()
            loop.call_later(PACE_SECONDS, step.gate.set)


async def told(place: Place, *, at_write: int = 0, after_seconds: float | None = None) -> Done:
    """Let the command live through the story, until it is killed or over."""
    pause_ms = 1 if at_write else int(PACE_SECONDS * 1000)
    place.settings(retry={"baseDelayMs": pause_ms}, compaction={"keepRecentTokens": 1})
    steps = story()
    async with (
        served(place, *steps),
        started(place, "--mode", "json", "do it", more={KILL_AT_WRITE: str(at_write)}) as child,
    ):
        child.close_stdin()
        pacing = asyncio.create_task(pace(steps))
        if after_seconds is not None:
            asyncio.get_running_loop().call_later(after_seconds, child.process.kill)
        done = await child.done()
        pacing.cancel()
        with suppress(asyncio.CancelledError):
            await pacing
    assert done.code in (0, -signal.SIGKILL), done.err
    return done


def phase_of(done: Done) -> str:
    """Where the run was, as far as its reader knows."""
    kinds = [record["type"] for record in records(done)]
    opened = [kind for kind in kinds if kind not in ("message_update", "queue_update", "entry_appended")]
    if "agent_settled" in kinds:
        return "settled"
    match opened[-1] if opened else "":
        case "":
            return "starting"
        case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
            return "tool"
        case "auto_retry_start":
            return "retry wait"
        case "compaction_start":
            return "compaction"
        case "message_start":
            return "streaming"
        case _:
            return "between"


def records(done: Done) -> list[dict[str, Any]]:
    """Whole lines of standard output."""
    return [json.loads(line) for line in done.out.split(b"\n")[:-1]]


async def goes_on(place: Place, done: Done) -> str:
    """What must hold behind a kill. Says what the reopened session had to do."""
    file = next(iter(place.session_files()), None)
    if file is None:
        told = [record["message"]["role"] for record in records(done) if record["type"] == "message_end"]
        assert set(told) <= {"system"}, "a file begins with what somebody says; the prompt alone is none"
        return "nothing was said yet"
    stored = [line["message"] for line in place.session_lines() if line["type"] == "message"]
    for record in records(done):
        assert record["type"] != "message_end" or record["message"] in stored, "told and not stored"
    async with served(place):
        after = await run(place, "-c", "-p", AGAIN)
    assert (after.code, after.text) == (0, "ok\n"), after.err
    store = SessionStore(file.parent, cwd=str(place.cwd))
    with store.open(file, access="read") as log:
        messages = log.messages()
        assert (unanswered(messages), log.open_calls(), log.report.damages) == ((), [], ())
        kept = [e["message"] for e in place.session_lines() if e["type"] == "message"]
        asked = [call for m in messages if isinstance(m, AssistantMessage) for call in calls_of(m)]
        results = [m for m in messages if isinstance(m, ToolResultMessage)]
        assert [m.tool_call_id for m in results] == [call.id for call in asked]
    assert kept[: len(stored)] == stored, "something that was stored has changed"
    whole = file.read_bytes()
    store.open(file).close()
    assert file.read_bytes() == whole, "a second opening repaired something"
    return "closed open calls" if b"nterrupted" in whole or b"could start" in whole else "was whole"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
async def test_killed_behind_durable_writes(tmp_path: Path, step: int) -> None:
    outcomes: Counter[str] = Counter()
    for write in range(3, 100, step) if step > 1 else range(1, 100):
        place = Place(tmp_path / str(write))
        done = await told(place, at_write=write)
        outcomes[await goes_on(place, done)] += 1
        if done.code == 0:
            break
    print(f"killed behind {outcomes.total() - 1} writes: {dict(outcomes)}")
    assert write > 10
    assert outcomes["closed open calls"]


@pytest.mark.parametrize("phase", [phase for phase in PHASES if phase != "idle"])
async def test_killed_at_a_phase(tmp_path: Path, phase: Phase) -> None:
    place = Place(tmp_path)
    async with scene(place, "json", phase, "SIGTERM") as at:
        at.child.process.kill()
        done = await at.child.done()
    for pid in (place.cwd / "pids").read_text().split() if phase == "tool" else []:
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    assert done.code == -signal.SIGKILL
    await goes_on(place, done)


async def kills(tmp_path: Path, count: int, seed: int) -> Counter[str]:
    """So many kills at random moments of the story; gives where they met it, and what the next start had to do."""
    chance = random.Random(seed)
    seconds = 0.0
    for number in range(2):  # the first one pays for what the second one finds ready
        begun = time.monotonic()
        done = await told(Place(tmp_path / f"whole{number}"))
        seconds = time.monotonic() - begun
        assert (done.code, phase_of(done)) == (0, "settled")
    found: Counter[str] = Counter()
    for number in range(count):
        place = Place(tmp_path / f"random{number}")
        done = await told(place, after_seconds=chance.uniform(0, seconds))
        outcome = await goes_on(place, done)
        found[f"{phase_of(done)}, {outcome}"] += 1
    return found


async def test_killed_at_some_random_moments(tmp_path: Path) -> None:
    assert (await kills(tmp_path, 3, seed=1)).total() == 3


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    found = await kills(tmp_path, 500, seed=7)
    print("500 kills:", *(f"\n{number:4} {what}" for what, number in sorted(found.items())))
    assert {"starting", "streaming", "tool", "retry wait", "compaction"} <= {what.split(",")[0] for what in found}
