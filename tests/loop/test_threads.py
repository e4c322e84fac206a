"""Plain functions run in daemon threads that are used again."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.loop.rig import within

from antiphon.loop import threads
from antiphon.loop.threads import ThreadPool, in_thread
from antiphon.testing import settle

SOURCE = Path(threads.__file__).parents[2]
NAME = contextvars.ContextVar("name", default="nobody")


async def test_the_function_runs_elsewhere_with_the_context_of_its_caller() -> None:
    NAME.set("caller")

    def work(given: int) -> tuple[int, str, bool, bool]:
        name = NAME.get()
        NAME.set("thread")
        thread = threading.current_thread()
        return given, name, thread is threading.main_thread(), thread.daemon

    assert await within(in_thread(work, 7)) == (7, "caller", False, True)
    assert NAME.get() == "caller"


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), asyncio.CancelledError()])
async def test_what_it_raises_comes_out(error: BaseException) -> None:
    def fails() -> None:
        raise error

    with pytest.raises(type(error)):
        await within(in_thread(fails))


async def test_a_stop_iteration_cannot_travel_in_a_future() -> None:
    def stops() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await within(in_thread(stops))


async def test_idle_threads_are_used_again() -> None:
    first = await within(in_thread(threading.get_ident))
    for _ in range(50):  # the thread is idle a moment after its result has arrived
        if await within(in_thread(threading.get_ident)) == first:
            return
    pytest.fail("a new thread each time")


async def test_work_that_runs_together_gets_as_many_threads() -> None:
    barrier = threading.Barrier(8)

    waits = await within(asyncio.gather(*(in_thread(barrier.wait, 5) for _ in range(8))))

    assert sorted(waits) == list(range(8))


def test_a_thread_that_waits_too_long_for_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    pool, ran = ThreadPool(), threading.Event()
    seen: list[threading.Thread] = []

    def work() -> None:
        seen.append(threading.current_thread())
        ran.set()

    pool.submit(work)
    ran.wait(5)
    seen[0].join(5)
    assert not seen[0].is_alive()

    ran.clear()
    pool.submit(work)
    assert ran.wait(5)


async def test_a_caller_that_has_left_is_not_told() -> None:
    working, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def work(fails: bool) -> None:
        working.set()
        go_on.wait(5)
        over.set()
        if fails:
            raise ValueError("nobody hears this")

    for fails in (True, False):
        for event in (working, go_on, over):
            event.clear()
        future = in_thread(work, fails)
        while not working.is_set():
            await asyncio.sleep(0.001)
        future.cancel()
        go_on.set()
        while not over.is_set():
            await asyncio.sleep(0.001)
        await settle()
        assert future.cancelled()


def test_a_loop_that_is_closed_is_not_told() -> None:
    go_on, over = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(5)
        over.set()

    async def main() -> Any:
        return in_thread(work)

    asyncio.run(main())
    go_on.set()

    assert over.wait(5)
    time.sleep(0.01)  # a failing hand-over would be an error of the thread


def test_a_stuck_thread_keeps_no_process_alive() -> None:
    """The event loop's own executor would wait for it."""
    script = (
        "import asyncio, threading\n"
        "from antiphon.loop.threads import in_thread\n"
        "async def main():\n"
        "    in_thread(threading.Event().wait)\n"
        "    await asyncio.sleep(0.01)\n"
        "asyncio.run(main())\n"
        "print('over')\n"
    )
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=False, env=environ
    )

    assert (ended.returncode, ended.stdout) == (0, "over\n")
