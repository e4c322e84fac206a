"""Our ends of a command's output: read while it runs, and afterwards drained for those who still print."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import time
from collections.abc import Callable
from typing import Literal

STDERR_MAX_BYTES = 64 * 1024
_READ_BYTES = 256 * 1024


class Pipes:
    """The output of one command, and its error output where that is kept apart. Used by one thread at a time.

    `on_output` gets the chunks in order of arrival. `last_output_at` is a reading of the monotonic clock.
    """

    def __init__(self, on_output: Callable[[bytes], None], stderr: Literal["merge", "apart", "drop"]) -> None:
        self.last_output_at = 0.0
        self._apart = bytearray()
        self._sinks: dict[int, Callable[[bytes], None]] = {}  # our open ends, and who gets what comes out of them
        self.stdout_end = self._make(on_output)  # the ends for the command, until it has them
        self._stderr = stderr
        self._stderr_end = self._make(self._keep_apart) if stderr == "apart" else None
        self.inode = os.fstat(self.stdout_end).st_ino

    def _make(self, sink: Callable[[bytes], None]) -> int:
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        with contextlib.suppress(OSError, AttributeError):  # more room: fewer changes of the running process
            fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, _READ_BYTES)
        self._sinks[ours] = sink
        return theirs

    def _keep_apart(self, chunk: bytes) -> None:
        self._apart += chunk[: max(0, STDERR_MAX_BYTES - len(self._apart))]

    @property
    def for_stderr(self) -> int:
        """What to give the command as its error output."""
        if self._stderr_end is not None:
            return self._stderr_end
        return subprocess.STDOUT if self._stderr == "merge" else subprocess.DEVNULL

    @property
    def stderr(self) -> bytes:
        """The error output that was kept apart."""
        return bytes(self._apart)

    @property
    def handles(self) -> tuple[int, ...]:
        """Our ends that have not come to their end of file."""
        return tuple(self._sinks)

    def hand_over(self) -> None:
        """The command has its ends, or will never want them: close ours of them, so that an end of file can come."""
        os.close(self.stdout_end)
        if self._stderr_end is not None:
            os.close(self._stderr_end)

    def discard(self) -> None:
        """Whoever wanted the output has failed: read on for nobody."""
        self._sinks = dict.fromkeys(self._sinks, lambda _chunk: None)

    def read(self, handle: int) -> bool:
        """Pass on one chunk; false at the end of file, after which the handle is closed."""
        try:
            chunk = os.read(handle, _READ_BYTES)
        except BlockingIOError:
            return True
        if chunk:
            self.last_output_at = time.monotonic()
            self._sinks[handle](chunk)
            return True
        del self._sinks[handle]
        os.close(handle)
        return False

    def read_for(self, seconds: float) -> None:
        """Spend the time with reading, so that a process which must print before it can end does end."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._sinks:
                self._read_ready(left)
            else:
                time.sleep(left)

    def read_rest(self, seconds: float) -> None:
        """What is in the pipes already, for at most `seconds`."""
        until = time.monotonic() + seconds
        while self._sinks and self._read_ready(0) and time.monotonic() < until:
            pass

    def _read_ready(self, seconds: float) -> bool:
        poll = select.poll()
        for handle in self._sinks:
            poll.register(handle, select.POLLIN)
        ready = poll.poll(seconds * 1000)
        for handle, _ in ready:
            self.read(handle)
        return bool(ready)

    def drain_unseen(self) -> None:
        """Block until nobody can write any more; what is written meanwhile is for nobody.

        So a server that a command left running does not die of a broken pipe at its next line.
        """
        for handle in self.handles:
            with contextlib.suppress(OSError), open(os.devnull, "wb") as nowhere:
                os.set_blocking(handle, True)
                while (
                    os.splice(handle, nowhere.fileno(), 1 << 20) if hasattr(os, "splice") else os.read(handle, 1 << 16)
                ):
                    pass
            del self._sinks[handle]
            os.close(handle)
