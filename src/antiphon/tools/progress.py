"""Reports about a growing output, at a bounded rate and never late."""

from __future__ import annotations

import asyncio
import threading

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.ports import OnUpdate
from antiphon.tools.accumulate import Output

UPDATE_SECONDS = 0.1


class Progress:
    """Feeds the output and reports it on the way, at most every `UPDATE_SECONDS`; the first report is empty.

    `feed` belongs to the thread of the command, all else to the event loop.
    """

    def __init__(self, output: Output, on_update: OnUpdate) -> None:
        self._output = output
        self._on_update = on_update
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._last = float("-inf")
        self._news = False
        self._timed = False
        self._finished = False
        on_update(ToolResult())

    def feed(self, chunk: bytes) -> None:
        """Take output; tell at once if it is time, otherwise let a timer tell."""
        self._output.feed(chunk)
        with self._lock:
            self._news = True
            due = self._loop.time() >= self._last + UPDATE_SECONDS
            if due:
                self._news = False
                self._last = self._loop.time()
            timer_wanted = not due and not self._timed
            self._timed = self._timed or timer_wanted
        if due:
            self._loop.call_soon_threadsafe(self._tell, self._report())
        elif timer_wanted:
            self._loop.call_soon_threadsafe(self._set_timer)

    def finish(self) -> None:
        """Tell what has not been told; nothing after that."""
        if self._news:
            self._tell(self._report())
        self._finished = True

    def _set_timer(self) -> None:
        self._loop.call_at(self._last + UPDATE_SECONDS, self.at_time)

    def at_time(self) -> None:
        """The timer has run out: tell what is new."""
        with self._lock:
            self._timed = False
            news, self._news = self._news, False
            if news:
                self._last = self._loop.time()
        if news:
            self._tell(self._report())

    def _tell(self, report: ToolResult) -> None:
        if not self._finished:
            self._on_update(report)

    def _report(self) -> ToolResult:
        shown = self._output.shown()
        return ToolResult(content=(Text(text=shown.truncation.content),), details=shown.details() or {})
