"""Blocking work in threads: the loop stays free, an abort is noticed at once, nothing waits for a stuck thread."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import threading

import pytest
from tests.tools.children import command, environment

from antiphon.loop.abort import AbortController
from antiphon.tools.blocking import in_thread
from antiphon.tools.faults import OperationAborted


async def test_it_gives_what_the_work_gives_or_raises() -> None:
    assert await in_thread(divmod, None, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, None, 7, 0)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await in_thread(next, None, iter(()))


async def test_context_variables_are_carried_over() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("here")
    assert await in_thread(variable.get, None) == "here"


async def test_an_abort_is_noticed_while_the_thread_is_stuck() -> None:
    aborting, stuck, entered = AbortController(), threading.Event(), threading.Event()

    def work() -> None:
        entered.set()
        stuck.wait()

    task = asyncio.create_task(in_thread(work, aborting.signal))
    await asyncio.to_thread(entered.wait)
    loop = asyncio.get_running_loop()
    before = loop.time()
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task
    assert loop.time() - before < 0.1
    stuck.set()


async def test_nothing_begins_after_an_abort() -> None:
    aborting = AbortController()
    aborting.abort()
    begun: list[int] = []
    with pytest.raises(OperationAborted):
        await in_thread(begun.append, aborting.signal, 1)
    assert begun == []


async def test_stuck_work_does_not_hold_up_other_work() -> None:
    stuck = threading.Event()
    tasks = [asyncio.create_task(in_thread(stuck.wait, None)) for _ in range(50)]
    await asyncio.sleep(0)
    assert await asyncio.wait_for(in_thread(lambda: "through", None), 5) == "through"
    stuck.set()
    await asyncio.gather(*tasks)


async def test_threads_are_used_again() -> None:
    names = {await in_thread(lambda: threading.current_thread().name, None) for _ in range(5)}
    before = threading.active_count()
    for _ in range(200):
        await in_thread(int, None)
    assert threading.active_count() <= before + 1
    assert names


STUCK = """
import asyncio, time
from antiphon.tools.blocking import in_thread
async def main():
    task = asyncio.create_task(in_thread(time.sleep, None, 60))
    await asyncio.sleep(0.05)
    task.cancel()
asyncio.run(main())
print("ended")
"""


def test_a_program_ends_although_a_thread_is_stuck() -> None:
    ran = subprocess.run(command(STUCK), capture_output=True, text=True, timeout=20, env=environment())
    assert (ran.stdout, ran.returncode) == ("ended\n", 0)
