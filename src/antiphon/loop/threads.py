"""Daemon threads for plain functions.

Not the event loop's default executor: its shutdown waits for threads that are stuck, and a stuck tool must not keep the
process alive. A thread cannot be stopped; whoever gives up on one ignores its later return.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, final

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""How long an idle thread waits for work before it ends."""


@final
class ThreadPool:
    """As many threads as there is concurrent work; idle ones are used again."""

    __slots__ = ("_idle", "_lock", "_ready", "_work")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._work: deque[Callable[[], None]] = deque()
        self._idle = 0

    def submit(self, work: Callable[[], None]) -> None:
        """Run `work`, which must not raise, in some thread."""
        with self._lock:
            self._work.append(work)
            if self._idle >= len(self._work):
                self._ready.notify()
                return
        threading.Thread(target=self._serve, name="antiphon-tool", daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                try:
                    if not self._work and not self._ready.wait_for(lambda: bool(self._work), IDLE_SECONDS):
                        return
                    work = self._work.popleft()
                finally:
                    self._idle -= 1
            work()
            del work  # an idle thread keeps nothing of its last call


_POOL = ThreadPool()


def in_thread(function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Call a plain function in a thread, with the context variables of the caller."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            value = context.run(function, *args)
        except BaseException as error:  # noqa: BLE001 - the fault belongs to whoever awaits the future
            _hand_over(loop, _fail, future, error)
        else:
            _hand_over(loop, _succeed, future, value)

    _POOL.submit(work)
    return future


def _hand_over(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], *args: Any) -> None:
    try:
        loop.call_soon_threadsafe(settle, *args)
    except RuntimeError:  # the loop is closed: nobody is interested any more
        return


def _succeed(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration | GeneratorExit):  # a future cannot carry the one, and closes with the other
        error = RuntimeError(f"the function raised {type(error).__name__}")
    future.set_exception(error)
