"""A conversation driven over the standard streams of a process: commands in, answers and events out.

Standard input is read by a thread that goes on only when what it read was taken, and commands wait in a short queue, so
a client that sends faster than it is served is slowed down. Events are written by a listener that the run waits for.
Source: modes specification 8.1, 8.7.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import final

from msgspec import UNSET

from antiphon.core.session_events import SessionEvent
from antiphon.modes.output import Output, OutputFailed
from antiphon.modes.rpc.dialogs import Dialogs
from antiphon.modes.rpc.dispatch import Desk, Dispatcher
from antiphon.modes.rpc.lines import LineCutter, TooLong
from antiphon.modes.rpc.protocol import Asked, Refused, UiAnswer, read_command
from antiphon.modes.telling import guarded
from antiphon.modes.wire_events import line
from antiphon.session.runtime import AgentSessionRuntime

READ_BYTES = 1 << 16
MOST_WAITING = 256
MOST_BACKLOG_BYTES = 1 << 20
FINISH_SECONDS = 2.0
BLOCKED_SECONDS = 0.7  # a client kills us one second after it asked us to end


@final
class Wire:
    """Both directions of the line. `closed` is set when it is over: end of input, a signal, or a broken output."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.closed = asyncio.Event()

    def tell(self, data: bytes) -> None:
        """Write a line behind everything before it; nobody waits for it."""
        with suppress(OutputFailed):
            self._output.offer(data)
        self._look()

    def tell_event(self, event: SessionEvent) -> Awaitable[None] | None:
        """Write an event; the run waits if the reader is slow."""
        return self._output.offer(line(event))

    async def room(self) -> None:
        """Wait until most of what was told is written: answers must not pile up."""
        if self._output.backlog_bytes > MOST_BACKLOG_BYTES:
            await self._output.flush()
        self._look()

    def _look(self) -> None:
        if self._output.failure is not None:
            self.closed.set()


@final
class Reader:
    """Standard input as commands. `take` gets each one in the event loop, and may make the reader wait."""

    def __init__(self, take: Callable[[Asked | Refused | None], Awaitable[None]], descriptor: int = 0) -> None:
        self._take = take
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines = LineCutter()
        threading.Thread(target=self._read, name="antiphon-stdin", daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError:
                data = b""
            try:
                asyncio.run_coroutine_threadsafe(self._feed(data), self._loop).result()
            except BaseException:  # noqa: BLE001 - the loop is gone: there is nobody to read for
                return
            if not data:
                return

    async def _feed(self, data: bytes) -> None:
        """Take what was read; nothing at all is the end."""
        for found in self._lines.feed(data) if data else self._lines.finish():
            await self._take(_command(found))
        if not data:
            await self._take(None)


def _command(found: bytes | TooLong) -> Asked | Refused:
    if isinstance(found, TooLong):
        return Refused(UNSET, "parse", f"Failed to parse command: {found}")
    try:
        return read_command(found)
    except Exception as error:  # noqa: BLE001 - whatever a line does to us, the next one is read
        return Refused(UNSET, "parse", f"Failed to parse command: internal error: {type(error).__name__}: {error}")


async def run_rpc(
    runtime: AgentSessionRuntime,
    output: Output,
    desk: Desk,
    *,
    stopped: asyncio.Event,
    bind: Callable[[Dialogs], None] | None = None,
) -> int:
    """Serve a client until it closes the line, or `stopped` is set by a signal; gives the exit code.

    Raises:
        OutputFailed: standard output cannot be written; everything was put in order before.
    """
    wire = Wire(output)
    dialogs = Dialogs(wire.tell)
    dispatcher = Dispatcher(runtime, desk, dialogs, wire.tell)
    if bind is not None:
        bind(dialogs)
    unsubscribe = runtime.subscribe(guarded(wire.tell_event, wire.closed.set))
    waiting: asyncio.Queue[Asked | Refused | None] = asyncio.Queue(MOST_WAITING)

    async def take(given: Asked | Refused | None) -> None:
        if isinstance(given, Asked) and isinstance(given.command, UiAnswer):
            dialogs.answer(given.command)  # a command that waits for this answer may hold the queue
        else:
            await waiting.put(given)

    async def serve() -> None:
        while (given := await waiting.get()) is not None:
            if isinstance(given, Refused):
                dispatcher.refuse(given)
            else:
                await dispatcher.perform(given)
            await wire.room()
        wire.closed.set()

    Reader(take)
    server = asyncio.create_task(serve(), name="rpc commands")
    await _first_of(wire.closed, stopped)
    await _end(runtime, output, dispatcher, dialogs, server, unsubscribe, hurry=stopped.is_set())
    if output.failure is not None:
        raise output.failure
    return 0


async def _first_of(*events: asyncio.Event) -> None:
    tasks = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _end(
    runtime: AgentSessionRuntime,
    output: Output,
    dispatcher: Dispatcher,
    dialogs: Dialogs,
    server: asyncio.Task[None],
    unsubscribe: Callable[[], None],
    *,
    hurry: bool,
) -> None:
    """Abort what goes on, tell its end, answer what was asked, let go of everything. `hurry`: for a slow reader too."""
    if hurry or output.failure is not None:
        asyncio.get_running_loop().call_later(BLOCKED_SECONDS, output.give_up)
    server.cancel()
    dialogs.close()
    await runtime.session.abort("the client has gone")
    await dispatcher.finish(FINISH_SECONDS)
    await runtime.dispose()
    unsubscribe()
    await output.flush()
