"""One writer per file at a time, in the order of the requests; writers of different files do not wait for each other.

The order is that in which `writing` is entered: finding out which file a path means takes a visit to a thread, so these
visits happen one after the other. A file is known by its real path. Between processes an advisory lock is taken for the
time of the work itself; it cannot order writers, only keep them apart.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Literal, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from antiphon.core.ports import AbortSignal
from antiphon.tools.blocking import in_thread
from antiphon.tools.faults import OperationAborted, ToolFault
from antiphon.tools.port import Commit, Files

P = ParamSpec("P")
T = TypeVar("T")

OTHER_PROCESS_POLL_SECONDS = 0.02
OTHER_PROCESS_WAIT_SECONDS = 30.0


class _Lines(Struct):
    """The waiting writers of one event loop: the last one that asked, and a line for each file."""

    last_asked: asyncio.Future[None] | None = None
    of_file: dict[str, deque[asyncio.Future[None]]] = field(default_factory=dict[str, "deque[asyncio.Future[None]]"])


class _OtherProcess(Exception):
    """Another process writes the file at this moment."""


class MutationQueue:
    """The lines of writers for one set of files. Event loops in other threads have lines of their own.

    `key` gives what the real paths of one file have in common, on systems where several do.
    """

    def __init__(self, key: Callable[[str], str] = str) -> None:
        self._key = key
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lines] = WeakKeyDictionary()

    @asynccontextmanager
    async def writing(
        self, files: Files, find: Callable[[], Awaitable[str]], signal: AbortSignal | None
    ) -> AsyncGenerator[FileTurn]:
        """Wait for the turn at the file whose real path `find` gives.

        Raises:
            OperationAborted: the signal was aborted before the turn came.
        """
        lines = self._loops.setdefault(asyncio.get_running_loop(), _Lines())
        path, key, mine = await _ask(lines, find, self._key, signal)
        turn = FileTurn(path, key, files, signal, lambda: _leave(lines, key, mine))
        try:
            await _until(mine, signal)
            yield turn
        finally:
            turn.leave()


async def _ask(
    lines: _Lines, find: Callable[[], Awaitable[str]], key_of: Callable[[str], str], signal: AbortSignal | None
) -> tuple[str, str, asyncio.Future[None]]:
    """Join the line of a file. Whoever asked earlier has joined before."""
    loop = asyncio.get_running_loop()
    before, lines.last_asked = lines.last_asked, loop.create_future()
    asked = lines.last_asked
    try:
        if before is not None:
            await _until(before, signal)
        path = await find()
        mine: asyncio.Future[None] = loop.create_future()
        key = key_of(path)
        line = lines.of_file.setdefault(key, deque())
        line.append(mine)
        if line[0] is mine:
            mine.set_result(None)
        return path, key, mine
    finally:
        if before is None or before.done():
            _settle(asked)
        else:  # cancelled while waiting: those behind still wait for those before
            before.add_done_callback(lambda _: _settle(asked))


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _leave(lines: _Lines, key: str, mine: asyncio.Future[None]) -> None:
    line = lines.of_file[key]
    first = line[0] is mine
    line.remove(mine)
    if not line:
        del lines.of_file[key]
    elif first:
        _settle(line[0])


async def _until(turn: asyncio.Future[None], signal: AbortSignal | None) -> None:
    if signal is not None and signal.aborted:
        raise OperationAborted
    if turn.done():
        return
    if signal is None:
        await asyncio.shield(turn)
        return
    aborted = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait((turn, aborted), return_when=asyncio.FIRST_COMPLETED)
    finally:
        aborted.cancel()
    if signal.aborted:
        raise OperationAborted


class _Gate:
    """Either the thread makes its change or the caller gives it up, whoever comes first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: Literal["open", "committed", "given up"] = "open"

    def commit(self) -> bool:
        with self._lock:
            if self._state == "open":
                self._state = "committed"
            return self._state == "committed"

    def give_up(self) -> bool:
        """True: nothing will change any more. False: too late, the change is being made."""
        with self._lock:
            if self._state == "open":
                self._state = "given up"
            return self._state == "given up"


def _forget(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()


async def _settled(running: asyncio.Future[T]) -> None:
    """Wait for a change that cannot be stopped any more; it takes the time of a rename."""
    while not running.done():
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            continue
    _forget(running)


class FileTurn:
    """The right to change one file; given up when the context is left and the last work in a thread has ended."""

    def __init__(
        self, path: str, key: str, files: Files, signal: AbortSignal | None, give_up: Callable[[], None]
    ) -> None:
        self.path = path
        self._key = key
        self._files = files
        self._signal = signal
        self._give_up: Callable[[], None] | None = give_up
        self._at_work = 0
        self._left = False
        self._loop = asyncio.get_running_loop()

    async def call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """See `port.Writing`.

        Raises:
            OperationAborted: at once on abort; only for work that changes nothing, see `change`.
            ToolFault: another process has been writing the file for half a minute.
        """
        return await self._alone(lambda: work(*args, **kwargs), self._signal)

    async def change(self, work: Callable[[Commit], T], /) -> T:
        """See `port.Writing`. Raises the same as `call`, but never `OperationAborted` for a change that was made."""
        gate = _Gate()
        running = asyncio.ensure_future(self._alone(lambda: work(gate.commit), None))
        aborted = asyncio.ensure_future(self._signal.wait()) if self._signal is not None else None
        try:
            await asyncio.wait((running, aborted) if aborted else (running,), return_when=asyncio.FIRST_COMPLETED)
            if not running.done() and gate.give_up():
                running.add_done_callback(_forget)
                raise OperationAborted
            return await running
        except asyncio.CancelledError:
            if gate.give_up():
                running.add_done_callback(_forget)
            else:
                await _settled(running)
            raise
        finally:
            if aborted is not None:
                aborted.cancel()

    async def _alone(self, work: Callable[[], T], signal: AbortSignal | None) -> T:
        def locked() -> T:
            try:
                with self._files.lock(self._key) as free:
                    if not free:
                        raise _OtherProcess
                    return work()
            finally:
                self._ended_in_thread()

        deadline = self._loop.time() + OTHER_PROCESS_WAIT_SECONDS
        while True:
            if self._signal is not None and self._signal.aborted:
                raise OperationAborted
            self._at_work += 1
            try:
                return await in_thread(locked, signal)
            except _OtherProcess:
                if self._loop.time() > deadline:
                    raise ToolFault(f"Another process keeps writing {self.path}; try again later.") from None
                await asyncio.sleep(OTHER_PROCESS_POLL_SECONDS)

    def leave(self) -> None:
        self._left = True
        self._release_if_idle()

    def _ended_in_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ended)
        except RuntimeError:  # the loop is closed, and its lines with it
            return

    def _ended(self) -> None:
        self._at_work -= 1
        self._release_if_idle()

    def _release_if_idle(self) -> None:
        if self._left and not self._at_work and self._give_up is not None:
            give_up, self._give_up = self._give_up, None
            give_up()
