"""kill -9 of a real process behind and inside of every durable write, and at random moments; then the session goes on.

The children are forked from a server that has imported everything, so many of them can die. `test_killed.py` does the
same to the whole command.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from tests.scenarios.kill_child import EFFECTS, PROMPT, TURNS, talk
from tests.session.stage import Stage

from antiphon.core.content import text_of
from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of
from antiphon.core.pairing import unanswered
from antiphon.session_log.store import SessionStore
from antiphon.testing import says

CALLS = sum(len(turn.tool_names) for turn in TURNS)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServerContext]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.scenarios.kill_child", "tests.session.stage"])
    yield context


def killed(
    server: ForkServerContext, folder: Path, *, at: int = 0, torn: bool = False, after: float | None = None
) -> int | None:
    """Let a child talk in this folder until it is killed; how many writes it made if it was not."""
    folder.mkdir(parents=True)
    mine, its = server.Pipe()
    child = server.Process(target=talk, args=(str(folder), at, torn, its))
    child.start()
    its.close()
    assert mine.recv() == "ready"
    if after is not None:
        time.sleep(after)
        child.kill()
    child.join(30)
    assert child.exitcode in (0, -signal.SIGKILL)
    return mine.recv() if child.exitcode == 0 else None


async def goes_on(folder: Path) -> str:
    """What must hold behind a kill. Says what the reopened session had to do."""
    files = list(folder.glob("*.jsonl"))
    if not files:
        return "nothing was said yet"
    store = SessionStore(folder, cwd=str(folder))
    log = store.open(files[0])
    torn, changed, left_open = len(log.report.damages), bool(log.report.changed_file), len(log.open_calls())
    stage = Stage([says("Going on.")], folder=folder, log=log)
    settlement = await stage.session.prompt("and now?")
    await stage.session.dispose()

    assert settlement.final_text == "Going on."
    with store.open(files[0], access="read") as log:
        messages = list(log.messages())
        assert (unanswered(messages), log.open_calls()) == ((), [])
        assert [damage.kind for damage in log.report.damages] == ["unreadable line"] * torn  # skipped, and kept
    asked = [call for message in messages if isinstance(message, AssistantMessage) for call in calls_of(message)]
    results = [message for message in messages if isinstance(message, ToolResultMessage)]
    assert [message.tool_call_id for message in results] == [call.id for call in asked]
    assert PROMPT in str(messages) or len(messages) <= 3
    done = (folder / EFFECTS).read_text() if (folder / EFFECTS).exists() else ""
    for name in "ABC":  # a call that is told as done was done, and none was done again
        told = [text_of(message.content) for message in results if message.tool_name == name]
        assert sum("has done it" in text for text in told) <= done.count(name) <= len(told)

    whole = files[0].read_bytes()
    store.open(files[0]).close()
    assert files[0].read_bytes() == whole, "a second reopening repaired something"
    return f"{'torn, ' if torn else 'changed, ' if changed else ''}{left_open} open"


@pytest.mark.parametrize("torn", [False, True], ids=["behind", "inside of"])
async def test_killed_at_every_durable_write(server: ForkServerContext, tmp_path: Path, torn: bool) -> None:
    writes = killed(server, tmp_path / "whole")
    assert writes is not None
    assert writes > CALLS
    found: Counter[str] = Counter()
    for number in range(1, writes + 1):
        folder = tmp_path / str(number)
        assert killed(server, folder, at=number, torn=torn) is None
        found[await goes_on(folder)] += 1

    print(f"killed {'inside of' if torn else 'behind'} {writes} writes: {dict(found)}")
    assert any(not outcome.endswith(" 0 open") and outcome != "0 open" for outcome in found)
    assert any(outcome.startswith("torn") for outcome in found) == torn


async def test_a_session_that_was_not_killed_is_whole(server: ForkServerContext, tmp_path: Path) -> None:
    killed(server, tmp_path / "whole")

    assert await goes_on(tmp_path / "whole") == "0 open"
    assert (tmp_path / "whole" / EFFECTS).read_text() == "ABCABC"


async def random_kills(server: ForkServerContext, tmp_path: Path, count: int, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    killed(server, tmp_path / "first")  # the server starts with it
    begun = time.monotonic()
    killed(server, tmp_path / "whole")
    seconds = time.monotonic() - begun
    found: Counter[str] = Counter()
    for number in range(count):
        folder = tmp_path / f"random{number}"
        killed(server, folder, after=chance.uniform(0, seconds))
        found[await goes_on(folder)] += 1
        await asyncio.sleep(0)
    return found


async def test_killed_at_some_random_moments(server: ForkServerContext, tmp_path: Path) -> None:
    found = await random_kills(server, tmp_path, 12, seed=1)
    assert found.total() == 12


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_killed_at_many_random_moments(server: ForkServerContext, tmp_path: Path) -> None:
    found = await random_kills(server, tmp_path, 1_000, seed=2)
    print(f"1,000 kills: {dict(found)}")
    assert len(found) > 3
