"""A conversation at a terminal, line by line: a plain loop, no screen of its own.

The terminal edits the line. What is typed while the model works is said before its next step; Ctrl-C stops the work,
and ends the program when nothing goes on. Several lines that come at once, as when something is pasted, are one
message; a command ends with its line.
"""

from __future__ import annotations

import asyncio
import os
import select
from typing import final

from antiphon import __version__
from antiphon.errors import AntiphonError
from antiphon.modes.line_commands import Leave, Place, carry_out, is_known
from antiphon.modes.live import LiveView
from antiphon.modes.output import Output, OutputFailed, printable
from antiphon.modes.print_mode import NOBODY_READS, report
from antiphon.modes.start import House
from antiphon.modes.telling import guarded
from antiphon.session.runtime import AgentSessionRuntime
from antiphon.session.settlement import Settlement, Submission

PROMPT = "> "
READ_BYTES = 1 << 16
PASTE_SECONDS = 0.03
EXIT_INTERRUPTED = 130


async def run_lines(house: House, runtime: AgentSessionRuntime, output: Output, *, stopped: asyncio.Event) -> int:
    """Talk until the person leaves; gives the exit code."""
    talk = LineTalk(house, runtime, output)
    runtime.subscribe(guarded(LiveView(output), lambda: runtime.session.request_abort(NOBODY_READS)))
    return await talk.run(stopped)


@final
class LineTalk:
    """The loop: lines in, prompts and commands out."""

    def __init__(self, house: House, runtime: AgentSessionRuntime, output: Output) -> None:
        self._runtime = runtime
        self._output = output
        self._place = Place(house, runtime, output.text)
        self._running: set[asyncio.Task[None]] = set()

    async def run(self, stopped: asyncio.Event) -> int:
        """Until end of input, `/quit`, a signal, or a terminal that is gone."""
        model = self._runtime.session.model
        name = "no model" if model is None else f"{model.provider}/{model.id}"
        self._output.text(f"antiphon {__version__}, {name}; /help lists commands, Ctrl-D ends\n")
        lines = _Lines()
        over = asyncio.create_task(stopped.wait())
        try:
            while self._output.failure is None:
                if self._runtime.session.is_idle:
                    self._output.text(PROMPT)
                reading = asyncio.create_task(lines.next())
                await asyncio.wait((reading, over), return_when=asyncio.FIRST_COMPLETED)
                if over.done():
                    reading.cancel()
                    return 0
                text = reading.result()
                if text is None:
                    self._output.text("\n")
                    return 0
                await self._take_all(text)
        except (Leave, OutputFailed):
            return 0 if self._output.failure is None else 1
        finally:
            over.cancel()
            lines.close()
        return 1

    def _ask_again(self) -> None:
        if self._runtime.session.is_idle and self._output.failure is None:
            try:
                self._output.text(PROMPT)
            except OutputFailed:
                return

    async def _take_all(self, text: str) -> None:
        """Commands line by line, as long as there are some; what is left is one message."""
        rest = text.strip()
        while rest.startswith(("/", "!")):
            first, _, rest = rest.partition("\n")
            await self._take(first.strip())
            rest = rest.strip()
        await self._take(rest)

    async def _take(self, text: str) -> None:
        if not text:
            return
        if text.startswith("!"):
            self._begin(self._shell(text))
        elif text.startswith("/") and await carry_out(self._place, text):
            return
        elif text.startswith("/") and "/" not in text[1:].split(" ", 1)[0] and not is_known(self._place, text):
            self._output.text(f"there is no command {text.split(' ', 1)[0]}; /help lists them\n")
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        session = self._runtime.session
        busy = not session.is_idle
        submission = session.submit(text, streaming_behavior="steer" if busy else None)
        if busy:
            self._output.text("(said before the next step)\n")
        self._begin(self._settled(submission))

    async def _settled(self, submission: Submission) -> None:
        try:
            settlement: Settlement = await submission.settled()
        except AntiphonError as error:
            self._output.error(str(error))
            self._ask_again()
            return
        if settlement.disposition == "queued":
            return
        if settlement.aborted:
            self._output.text("(stopped)\n")
        else:
            report(settlement, self._output)
        self._ask_again()

    async def _shell(self, text: str) -> None:
        """Run a command of the person, and show what it prints."""
        hidden = text.startswith("!!")
        try:
            result = await self._runtime.session.execute_bash(
                text.lstrip("!").strip(),
                exclude_from_context=hidden,
                on_chunk=lambda chunk: self._output.text(printable(chunk)),
            )
        except AntiphonError as error:
            self._output.error(str(error))
        else:
            if result.exit_code:
                self._output.text(f"(exit code {result.exit_code})\n")
        self._ask_again()

    def _begin(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)


@final
class _Lines:
    """Standard input, message by message."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()

    async def next(self) -> str | None:
        """The next message; nothing at the end of input."""
        await self._readable()
        data = self._read()
        if not data:
            return None
        while select.select([self._descriptor], [], [], PASTE_SECONDS)[0]:
            more = self._read()
            if not more:
                break
            data += more
        return data.decode("utf-8", "replace")

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, READ_BYTES)
        except OSError:
            return b""

    async def _readable(self) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._descriptor, lambda: None if ready.done() else ready.set_result(None))
        try:
            await ready
        finally:
            self._loop.remove_reader(self._descriptor)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
