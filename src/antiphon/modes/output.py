"""The streams of a process: records and answers on standard output, words for a person on standard error.

Standard output belongs to the program alone: `take_over` keeps a private handle and points descriptor 1 and
`sys.stdout` at standard error, so that whatever a library, an extension or a child prints cannot get into an answer.
Everything is written whole and in order. Writing waits without holding the event loop, so a reader that is slow slows
the run, and signals are heard meanwhile.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import sys
from collections import deque

TYPE_CHECKING = False  # spelled out, so that the help can be shown without loading `typing` and `asyncio`
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

_UNSEEN = dict.fromkeys(
    {*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {ord("\n"), ord("\t")}
)
"""Control characters, and those that turn the direction of what follows: a command would not be what one reads."""

PIECE_BYTES = 4096  # as much as a pipe takes at once if it says that it is writable


class OutputFailed(Exception):
    """Standard output cannot be written any more; the text is one line for a person."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output cannot be written: {error.strerror or error}")
        self.error = error


class Output:
    """Standard output and standard error as bytes. Text may hold anything, also halves of characters."""

    def __init__(self, out: int = 1, err: int = 2) -> None:
        self._out = out
        self._err = err
        self._waiting: deque[tuple[memoryview, asyncio.Future[None]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self.backlog_bytes = 0
        """How much of what was offered waits to be written."""
        self.failure: OutputFailed | None = None
        """Why standard output is closed for good, if it is."""
        self.out_is_terminal = is_terminal(out)
        self.err_is_terminal = is_terminal(err)
        self._err_open = _is_open(err)
        self._polled = _can_wait(out)

    # -- standard output

    def write(self, data: bytes) -> None:
        """To standard output, now.

        Raises:
            OutputFailed: it cannot be written.
        """
        self._check()
        try:
            _write_all(self._out, data)
        except OSError as error:
            raise self._failed(error) from error

    def text(self, text: str) -> None:
        """Text to standard output, now. A terminal gets no control characters: sessions and files name things."""
        self.write(as_bytes(printable(text) if self.out_is_terminal else text))

    def offer(self, data: bytes) -> Awaitable[None] | None:
        """To standard output, behind everything before it. Gives what is left to wait for, if the reader is slow.

        Needs an event loop. Data that was offered is written whole, whether anybody waits for it or not.

        Raises:
            OutputFailed: it cannot be written.
        """
        import asyncio

        self._check()
        view = memoryview(data)
        if not self._waiting:
            try:
                view = self._written_at_once(view)
            except OSError as error:
                raise self._failed(error) from error
            if not view:
                return None
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((view, taken))
        self.backlog_bytes += len(view)
        if self._pump is None:
            self._pump = asyncio.get_running_loop().create_task(self._write_waiting(), name="standard output")
        return asyncio.shield(taken)

    async def send(self, data: bytes) -> None:
        """To standard output, behind everything before it. Returns when the system has taken all of it.

        Raises:
            OutputFailed: it cannot be written.
        """
        waiting = self.offer(data)
        if waiting is not None:
            await waiting

    async def flush(self, seconds: float | None = None) -> None:
        """Wait until everything offered is written, or has failed; at most so long."""
        import asyncio

        if self._pump is not None:
            await asyncio.wait([self._pump], timeout=seconds)

    def give_up(self) -> None:
        """Wait for the reader no longer: what is not written now is lost."""
        if not self._waiting:
            return
        error = self._failed(OSError(errno.EAGAIN, "nobody reads it"))
        for _, taken in self._waiting:
            _break(taken, error)
        self._waiting.clear()
        self.backlog_bytes = 0
        if self._pump is not None:
            self._pump.cancel()
            self._pump = None

    def _written_at_once(self, view: memoryview) -> memoryview:
        """Write as long as nobody has to wait; gives the rest."""
        while view and (not self._polled or _is_writable(self._out)):
            try:
                view = view[os.write(self._out, view[:PIECE_BYTES] if self._polled else view) :]
            except BlockingIOError:  # somebody else made it non-blocking
                break
        return view

    async def _write_waiting(self) -> None:
        """The task that writes what could not be written at once, in order."""
        while self._waiting:
            view, taken = self._waiting[0]
            size = len(view)
            try:
                while self.failure is None and (view := self._written_at_once(view)):
                    await _writable(self._out)
            except OSError as failed:
                self._failed(failed)
            self._waiting.popleft()
            self.backlog_bytes -= size
            if self.failure is not None:
                _break(taken, self.failure)
            elif not taken.done():
                taken.set_result(None)
        self._pump = None

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _failed(self, error: OSError) -> OutputFailed:
        self.failure = OutputFailed(error)
        return self.failure

    # -- standard error

    def say(self, text: str) -> None:
        """Words for a person, to standard error; if even that is gone, nowhere. Control characters as in `text`."""
        self._say(printable(text) if self.err_is_terminal else text)

    def dim(self, text: str) -> None:
        """The same in a pale colour, where there are colours."""
        self._say(f"\x1b[2m{printable(text)}\x1b[0m" if self.err_is_terminal else text)

    def _say(self, text: str) -> None:
        if not self._err_open:
            return
        try:
            _write_all(self._err, as_bytes(text))
        except OSError:
            self._err_open = False

    def error(self, text: str) -> None:
        """One line that says what went wrong."""
        self.say(f"Error: {one_line(text)}\n")

    def warning(self, text: str) -> None:
        self.say(f"Warning: {one_line(text)}\n")


def _break(taken: asyncio.Future[None], error: OutputFailed) -> None:
    if not taken.done():
        taken.set_exception(error)
        taken.exception()  # nobody may wait for it any more


def secure_descriptors() -> OSError | None:
    """Make sure that 0, 1 and 2 are open, so that no file we open later is taken for one of them.

    Gives the reason if standard output was closed.
    """
    closed: OSError | None = None
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError as error:
            if number == 1:
                closed = error
            os.open(os.devnull, os.O_RDWR)  # the lowest free number: this one
            os.set_inheritable(number, True)
    return closed


def take_over() -> Output:
    """Keep standard output for ourselves; whatever anybody else writes to it goes to standard error from now on."""
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - it is None in a process without one
        sys.stdout.flush()
    private = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    return Output(private, 2)


def printable(text: str) -> str:
    """The text without characters that drive a terminal, so that no model, file or session can."""
    return text.translate(_UNSEEN)


def one_line(text: str) -> str:
    """The text without line breaks and control characters, so that a report stays one line."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def as_bytes(text: str) -> bytes:
    """UTF-8; what cannot be encoded becomes U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def stdin_is_terminal() -> bool:
    """Does a person type into standard input? Without one there is nothing to read either."""
    try:
        return sys.stdin is None or os.isatty(0)  # pyright: ignore[reportUnnecessaryComparison]
    except OSError:
        return True


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _can_wait(descriptor: int) -> bool:
    """Can one wait until it takes bytes? Regular files always take them, or fail."""
    try:
        return not stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _is_writable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


async def _writable(descriptor: int) -> None:
    """Returns when the descriptor takes bytes or has failed."""
    import asyncio

    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    mine = os.dup(descriptor)  # an event loop knows one reader or writer per number
    try:
        loop.add_writer(mine, lambda: None if ready.done() else ready.set_result(None))
        await ready
    finally:
        loop.remove_writer(mine)
        os.close(mine)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
