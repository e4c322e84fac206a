"""kill -9 of the real command, at every durable write and at random moments: the session is whole, and goes on."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from tests.providers.fake_server import Answer, FakeServer

from antiphon.core.messages import ToolResultMessage, UserMessage, calls_of
from antiphon.core.pairing import unanswered
from antiphon.session_log.store import SessionStore

SOURCE = Path(__file__).resolve().parents[2] / "src"

CHILD = """
import os, signal, sys
target = int(os.environ["KILL_AT"])
seen = 0
def watched(real):
    def write(descriptor, *rest):
        global seen
        done = real(descriptor, *rest)
        try:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
        except OSError:
            return done
        if name.endswith(".jsonl"):
            seen += 1
            if seen == target:
                os.kill(os.getpid(), signal.SIGKILL)
        return done
    return write
os.write, os.pwrite, os.writev = watched(os.write), watched(os.pwrite), watched(os.writev)
from antiphon.__main__ import main
code = main()
print("WRITES", seen, file=sys.stderr)
sys.exit(code)
"""

THREE = (
    ("bash", {"command": "echo one"}),
    ("write", {"path": "made.txt", "content": "two\\n"}),
    ("read", {"path": "made.txt"}),
)
SCRIPT = (Answer(text="Looking.", calls=THREE), Answer(calls=THREE[:1]), Answer(text="Done."))


class Place:
    def __init__(self, root: Path, url: str) -> None:
        self.cwd = root / "project"
        self.cwd.mkdir(parents=True)
        self.sessions = root / "sessions"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root / "home"),
            "ANTIPHON_AGENT_DIR": str(root / "agent"),
            "PYTHONPATH": str(SOURCE),
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "sk-test",
        }

    async def run(self, *words: str, kill_at: int = 0, kill_after: float | None = None) -> tuple[int, str]:
        """Run the command; killed at its n-th write to the session, or after some seconds."""
        arguments = [*words, "--session-dir", str(self.sessions), "--model", "openai/test"]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CHILD,
            *arguments,
            cwd=self.cwd,
            env={**self.environ, "KILL_AT": str(kill_at)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        if kill_after is not None:
            asyncio.get_running_loop().call_later(kill_after, lambda: child.returncode is None and child.kill())
        out, err = await asyncio.wait_for(child.communicate(), 60)
        assert child.returncode is not None
        return child.returncode, (out + err).decode()

    @property
    def file(self) -> Path | None:
        return next(iter(sorted(self.sessions.glob("*.jsonl"))), None) if self.sessions.is_dir() else None


async def check(place: Place) -> str:
    """What must be true after a kill. Says what had to be done."""
    before = place.file
    if before is None:
        return "nothing was said yet"
    async with FakeServer(Answer(text="Going on.")) as server:
        place.environ["OPENAI_BASE_URL"] = server.url
        code, told = await place.run("-c", "-p", "and now?")
    assert (code, "Going on." in told) == (0, True), told
    store = SessionStore(place.sessions, cwd=str(place.cwd))
    with store.open(before, access="read") as log:
        messages = log.messages()
        assert unanswered(messages) == ()
        results = [m for m in messages if isinstance(m, ToolResultMessage)]
        asked = [call for m in messages if m.role == "assistant" for call in calls_of(m)]  # type: ignore[arg-type]
        assert len(results) == len(asked)
        assert isinstance(messages[1], UserMessage)
        assert log.report.damages == ()
        assert log.open_calls() == []
    whole = before.read_bytes()
    store.open(before).close()
    assert before.read_bytes() == whole, "a second opening repaired something"
    return "closed open calls" if b"nterrupted" in whole or b"could start" in whole else "was whole"


async def killed_at(tmp_path: Path, name: str, *, write: int = 0, seconds: float | None = None) -> tuple[int, str]:
    async with FakeServer(*SCRIPT) as server:
        place = Place(tmp_path / name, server.url)
        code, told = await place.run("-p", "do it", kill_at=write, kill_after=seconds)
    assert code in (0, -signal.SIGKILL), told
    return code, await check(place)


async def test_killed_at_every_durable_write_the_session_goes_on(tmp_path: Path) -> None:
    outcomes: list[str] = []
    write = 1
    while True:
        code, found = await killed_at(tmp_path, f"at{write}", write=write)
        if code == 0:
            break
        outcomes.append(found)
        write += 1
    print(f"killed at {len(outcomes)} writes: {outcomes}")
    assert len(outcomes) >= 6
    assert "closed open calls" in outcomes


@pytest.mark.parametrize("seed", range(2))
async def test_killed_at_a_random_moment_the_session_goes_on(tmp_path: Path, seed: int) -> None:
    await killed_at(tmp_path, "random", seconds=random.Random(seed).uniform(0.3, 1.5))


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    chance = random.Random(7)
    found: dict[str, int] = {}
    for number in range(500):
        _, outcome = await killed_at(tmp_path, f"m{number}", seconds=chance.uniform(0.1, 2.0))
        found[outcome] = found.get(outcome, 0) + 1
    print(f"500 kills: {found}")
    assert sum(found.values()) == 500
