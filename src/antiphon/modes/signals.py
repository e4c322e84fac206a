"""Signals that ask the process to end: the first one in order, the second one at once.

Before there is an event loop, a signal ends whatever goes on by an exception. A signal that was ignored when the
process began stays ignored, as `nohup` and shells expect.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal came while nothing could be put in order."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def listen() -> None:
    """From now on a signal raises `Stopped` in the main thread."""
    _install(_leave)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def _install(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


class Goodbye:
    """Signals while an event loop runs. `first` is called once, in the loop, with the number of the first signal.

    `interrupt` is asked at a Ctrl-C, outside of the loop: does it mean something else than the end of the program?
    The second signal ends the process where it stands, even if the loop is held by somebody.
    """

    def __init__(self, first: Callable[[int], None], interrupt: Callable[[], bool] | None = None) -> None:
        import asyncio

        self._first = first
        self._interrupt = interrupt
        self._loop = asyncio.get_running_loop()
        self.number: int | None = None
        _install(self._came)

    @property
    def exit_code(self) -> int | None:
        """What the process ends with, if a signal came."""
        return None if self.number is None else 128 + self.number

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if self.number is not None:
            os._exit(128 + number)
        if number == signal.SIGINT and self._interrupt is not None and self._interrupt():
            return
        self.number = number
        try:
            self._loop.call_soon_threadsafe(self._first, number)
        except RuntimeError:  # the loop is closed: everything was let go of already
            os._exit(128 + number)
