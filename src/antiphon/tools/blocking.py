"""Blocking work off the event loop, in daemon threads that are reused and never waited for at exit.

The default executor of an event loop is not used: closing a loop waits for its threads, and a thread that reads from a
dead network drive cannot be ended. Here an aborted caller goes on at once and the thread ends whenever it can.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from antiphon.core.ports import AbortSignal
from antiphon.tools.faults import OperationAborted

P = ParamSpec("P")
T = TypeVar("T")

IDLE_SECONDS = 10.0

_Job = Callable[[], None]
_idle: deque[SimpleQueue[_Job]] = deque()


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        try:
            job = jobs.get(timeout=IDLE_SECONDS)
        except Empty:
            try:
                _idle.remove(jobs)
            except ValueError:  # somebody has just taken this queue: a job is on its way
                jobs.get()()
                _idle.append(jobs)
                continue
            return
        job()
        _idle.append(jobs)


def _start(job: _Job) -> None:
    """Run `job` in an idle thread, or in a new one: work never queues up behind a thread that hangs."""
    try:
        jobs = _idle.pop()
    except IndexError:
        jobs = SimpleQueue()
        threading.Thread(target=_serve, args=(jobs,), name="antiphon-tool", daemon=True).start()
    jobs.put(job)


async def in_thread(work: Callable[P, T], signal: AbortSignal | None, /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work(*args, **kwargs)` gives, called in a thread with the caller's context variables.

    Raises:
        OperationAborted: the signal was or became aborted. The thread may still be at work; its outcome is dropped.
    """
    if signal is not None and signal.aborted:
        raise OperationAborted
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]  # the value of `work`
        else:
            future.set_exception(error)

    def job() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(work, *args, **kwargs)
        except StopIteration as fault:  # a future cannot carry it
            error = RuntimeError(f"work in a thread raised {fault!r}")
        except BaseException as fault:  # noqa: BLE001 - carried over to the caller
            error = fault
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop has been closed: nobody waits any more
            return

    remove = signal.on_abort(lambda: _abort_soon(loop, future)) if signal is not None else None
    _start(job)
    try:
        return await future
    finally:
        if remove is not None:
            remove()


def _abort_soon(loop: asyncio.AbstractEventLoop, future: asyncio.Future[T]) -> None:
    def abort() -> None:
        if not future.done():
            future.set_exception(OperationAborted())

    loop.call_soon_threadsafe(abort)
