"""The embedded model as a guest of a process: silent, and gone when the process goes."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE

import pytest

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("installed")]

HEAD = """
import asyncio
from antiphon.core.messages import user
from antiphon.core.ports import ModelRequest
from antiphon.loop.abort import never_aborted
from antiphon.providers import stream_for
from antiphon.providers.local.model import EMBEDDED

def ask(text, **options):
    return stream_for(EMBEDDED)(ModelRequest(EMBEDDED, [user(text)], "off", never_aborted(), options=options))
"""

ANSWERS = """
async def main():
    async for event in ask("Hi", max_tokens=2):
        pass
    print(event.type)

asyncio.run(main())
"""

LEAVES = """
async def main():
    async def read():
        async for event in ask("Tell me a very long story."):
            pass
    asyncio.create_task(read())
    await asyncio.sleep(float({seconds}))
    print("left", flush=True)

asyncio.run(main())
"""

IS_INTERRUPTED = """
async def main():
    async for event in ask("Tell me a very long story."):
        print("some", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

FORKS = """
import multiprocessing, sys

async def main(name):
    async for event in ask("Hi", max_tokens=2):
        pass
    print(name, event.type, flush=True)

def child():
    asyncio.run(main("child"))

asyncio.run(main("parent"))
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
asyncio.run(main("parent"))
sys.exit(process.exitcode)
"""


async def start(code: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", HEAD + code, stdout=PIPE, stderr=PIPE)


async def test_nothing_is_said_on_stdout_or_stderr() -> None:
    process = await start(ANSWERS)
    out, err = await process.communicate()
    assert (out, err, process.returncode) == (b"done\n", b"", 0)


@pytest.mark.parametrize("seconds", [0, 0.3])
async def test_a_process_may_end_while_it_is_loaded_or_answers(seconds: float) -> None:
    process = await start(LEAVES.replace("{seconds}", str(seconds)))
    out, err = await process.communicate()
    assert (out, err, process.returncode) == (b"left\n", b"", 0)


async def test_ctrl_c_ends_it_at_once() -> None:
    process = await start(IS_INTERRUPTED)
    assert process.stdout is not None
    while (await process.stdout.readline()).strip() != b"some":
        pass
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    out, err = await process.communicate()
    assert out.splitlines()[-1] == b"interrupted"
    assert (err, process.returncode) == (b"", 0)
    assert time.monotonic() - sent < 5


async def test_a_fork_loads_its_own() -> None:
    process = await start(FORKS)
    out, err = await process.communicate()
    assert out.splitlines() == [b"parent done", b"child done", b"parent done"]
    assert (err, process.returncode) == (b"", 0)
