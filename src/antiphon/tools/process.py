"""Commands on this machine: start one, pass on what it prints, and leave nothing of it behind.

Each command runs in a session of its own and is attended by one daemon thread (`process_attend.py`), which waits for
three things at once: output, the end of the program, and the wish to stop. No event loop is needed for that, and a busy
one does not slow it.

A command is over when its program has ended and nobody can write to its output any more, or nobody has for 100 ms: a
quiet background process does not hold the call. Time-out and abort end everything the command has started
(`process_tree.py`). What finished commands left running lives as long as this process and no longer; after a violent
death the next process sees to that (`process_records.py`).

Source: tools specification, 5.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Collection
from typing import Literal, TypeAlias

from antiphon.core.ports import AbortSignal
from antiphon.tools.port import Command, CommandEnd
from antiphon.tools.process_attend import Attended, EndedBy
from antiphon.tools.process_guard import Guard
from antiphon.tools.process_records import Record
from antiphon.tools.process_tree import Identity, Traces, end_family, family, read_process

Leftovers: TypeAlias = Literal["end", "keep"]

_EXIT_GRACE_SECONDS = 0.2
_CANCEL_PATIENCE_SECONDS = 2.0


class LocalProcesses:
    """Runs commands as children of this process; see `port.Processes`.

    `state_folder`: where a record is kept so that a later process can end what this one could not
    (`process_records.end_left_behind`). The graces are the seconds between asking a command to end and killing it.
    `leftovers`: what becomes, at `close` or at exit, of processes that finished commands left running. `guard`: a small
    process of 9 MB waits for the death of this one and then ends its commands at once, even after `kill -9`.
    """

    def __init__(
        self,
        *,
        state_folder: str | None = None,
        abort_grace: float = 0.05,
        timeout_grace: float = 0.5,
        leftovers: Leftovers = "end",
        guard: bool = False,
    ) -> None:
        self._mark = secrets.token_hex(8)
        self._graces: dict[EndedBy, float] = {"abort": abort_grace, "timeout": timeout_grace}
        self._leftovers = leftovers
        self._record = Record(state_folder, self._mark) if state_folder is not None else None
        self._wants_guard = guard
        self._guard: Guard | None = None
        self._lock = threading.RLock()  # a signal handler may come to `close` while this thread is inside `run`
        self._running: set[Attended] = set()
        self._count = 0
        self._begun = False
        self._owner = os.getpid()
        self._since = 0

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        """Run to the end. A caller that is cancelled gets its cancellation when the command has been ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[CommandEnd] = loop.create_future()
        attended = self._prepare(command, on_output)
        forget = signal.on_abort(attended.stop) if signal is not None else None  # before the start: it may be too late
        threading.Thread(
            target=self._attend, args=(attended, _Delivery(loop, ended)), name="antiphon-command", daemon=True
        ).start()
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            attended.stop()
            await asyncio.wait([ended], timeout=_CANCEL_PATIENCE_SECONDS)
            raise
        finally:
            if forget is not None:
                forget()

    def close(self) -> None:
        """End what is running, and what finished commands left running. Blocks for a fraction of a second."""
        with self._lock:
            if self._owner != os.getpid() or not self._begun:
                return
            self._begun = False
            running = [attended.traces for attended in self._running if attended.traces is not None]
        if self._leftovers == "end":
            running.append(Traces(mark=f"{self._mark}.", since=self._since))
        if running:
            end_family(lambda known: _families(running, known), grace_seconds=_EXIT_GRACE_SECONDS)
        if self._record is not None:
            self._record.remove()
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
        _to_close.pop(self._mark, None)

    def _prepare(self, command: Command, on_output: Callable[[bytes], None]) -> Attended:
        with self._lock:
            self._count += 1
            if not self._begun:
                self._begin()
            attended = Attended(command, on_output, f"{self._mark}.{self._count}.", self._graces)
            self._running.add(attended)
        return attended

    def _begin(self) -> None:
        """What must be ready before the first command, and before the first after `close`."""
        self._begun = True
        own = read_process(os.getpid())
        self._since = own.started if own else 0
        with contextlib.suppress(OSError):  # precautions: if they fail, commands must run all the same
            if self._record is not None:
                self._record.write()
            if self._wants_guard:
                self._guard = Guard(f"{self._mark}.", self._since)
        if not _to_close:
            atexit.register(close_all)
        _to_close[self._mark] = self

    def _attend(self, attended: Attended, deliver: _Delivery) -> None:
        """What the attending thread does: the end is delivered first, then what is left of the output is drained."""
        end: CommandEnd | BaseException
        try:
            end = attended.attend()
        except BaseException as error:  # noqa: BLE001 - the boundary of the thread: the caller gets whatever it is
            end = error
        with self._lock:
            self._running.discard(attended)
        deliver(end)
        attended.linger()


_to_close: dict[str, LocalProcesses] = {}


def close_all() -> None:
    """End every command of this process. Happens at exit; a host that dies of a signal calls it before."""
    for processes in list(_to_close.values()):
        processes.close()


def _families(traces: Collection[Traces], known: Collection[Identity]) -> set[Identity]:
    return set[Identity]().union(*(family(each, known) for each in traces))


class _Delivery:
    """Brings the end of a command into an event loop, which may be gone by then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[CommandEnd]) -> None:
        self._loop = loop
        self._future = future

    def __call__(self, end: CommandEnd | BaseException) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._settle, end)

    def _settle(self, end: CommandEnd | BaseException) -> None:
        if self._future.done():
            return
        if isinstance(end, BaseException):
            self._future.set_exception(end)
            self._future.exception()  # a cancelled caller does not look any more
        else:
            self._future.set_result(end)
