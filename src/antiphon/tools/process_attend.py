"""One command from its start to its end, as one thread sees it."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import IO, Literal, TypeAlias

from antiphon.tools.port import Command, CommandEnd
from antiphon.tools.process_pipes import Pipes
from antiphon.tools.process_tree import MARK, Traces, end_family, family, read_process

QUIET_SECONDS = 0.1
"""So long nobody prints after the program has ended: then the command is over although somebody still could."""

EndedBy: TypeAlias = Literal["exit", "timeout", "abort"]


class Attended:
    """A command and everything that is known about it while it runs.

    `mark` is what its processes are known by, `graces` how long they have between TERM and KILL, by reason.
    """

    def __init__(
        self, command: Command, on_output: Callable[[bytes], None], mark: str, graces: Mapping[EndedBy, float]
    ) -> None:
        self._command = command
        self._on_output = on_output
        self._mark = mark
        self._graces = graces
        self._lock = threading.Lock()
        self._bell: int | None = None
        self._stopped = False
        self._exited_at: float | None = None
        self._pipes: Pipes | None = None
        self.traces: Traces | None = None

    def stop(self) -> None:
        """Ask the attending thread to end the command. From any thread, any number of times."""
        with self._lock:
            if not self._stopped and self._bell is not None:
                os.write(self._bell, b"!")
            self._stopped = True

    def attend(self) -> CommandEnd:
        """Start the command and stay until its end.

        Raises:
            OSError: it cannot be started.
        """
        begun = time.monotonic()
        with self._door() as door:
            if self._stopped:
                return CommandEnd(ended_by="abort", exit_code=None, seconds=0.0)
            self._pipes = pipes = Pipes(self._on_output, self._command.stderr)
            try:
                child = self._start(pipes)
            finally:
                pipes.hand_over()
            try:
                ended_by = self._watch(child, pipes, door, begun)
                if ended_by != "exit":
                    self.end_everything(ended_by)
                    pipes.read_rest(QUIET_SECONDS)
                return self._end(child, pipes, ended_by, begun)
            except BaseException:
                pipes.discard()
                self.end_everything("abort")
                self._collect(child)
                raise

    def linger(self) -> None:
        """Let what the command left running print into nothing, until the last of it is gone."""
        if self._pipes is not None:
            self._pipes.drain_unseen()

    @contextlib.contextmanager
    def _door(self) -> Generator[int]:
        """A handle that becomes readable when somebody rings, see `stop`."""
        door, bell = os.pipe()
        with self._lock:
            self._bell = bell
        try:
            yield door
        finally:
            with self._lock:
                self._bell = None
            os.close(door)
            os.close(bell)

    def _start(self, pipes: Pipes) -> subprocess.Popen[bytes]:
        command = self._command
        with _input(command.stdin) as stdin:
            child = subprocess.Popen(  # noqa: S603 - running commands is the purpose
                command.argv,
                cwd=command.cwd,
                env=self._environment(),
                stdin=stdin,
                stdout=pipes.stdout_end,
                stderr=pipes.for_stderr,
                start_new_session=True,
            )
        row = read_process(child.pid)
        self.traces = Traces(mark=self._mark, since=row.started if row else 0, session=child.pid, pipe=pipes.inode)
        return child

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ if self._command.env is None else self._command.env)
        outer = os.environ.get(MARK)
        env[MARK] = f"{outer}:{self._mark}" if outer else self._mark
        return env

    def _watch(self, child: subprocess.Popen[bytes], pipes: Pipes, door: int, begun: float) -> EndedBy:
        """Pass on output until the command is over, its time is up, or nobody wants it any more."""
        timeout = self._command.timeout
        deadline = begun + timeout if timeout is not None else None
        with _exit_handle(child) as exit_handle:
            poll = select.poll()
            for handle in (*pipes.handles, door, *([] if exit_handle is None else [exit_handle])):
                poll.register(handle, select.POLLIN)
            while True:
                for handle, _ in poll.poll(self._patience_ms(pipes, deadline, exit_handle)):
                    if handle == exit_handle:
                        self._exited_at = time.monotonic()
                        poll.unregister(handle)
                    elif handle != door and not pipes.read(handle):
                        poll.unregister(handle)
                if exit_handle is None and self._exited_at is None and child.poll() is not None:
                    self._exited_at = time.monotonic()
                if self._is_over(pipes):
                    return "exit"
                if self._stopped:
                    return "abort"
                if deadline is not None and time.monotonic() >= deadline:
                    return "timeout"

    def _patience_ms(self, pipes: Pipes, deadline: float | None, exit_handle: int | None) -> float | None:
        moments = [deadline] if deadline is not None else []
        if self._exited_at is not None:
            moments.append(self._quiet_at(pipes))
        elif exit_handle is None:
            moments.append(time.monotonic() + 0.01)  # nothing will tell of the end: look often
        if not moments:
            return None
        return max(0.0, min(moments) - time.monotonic()) * 1000 + 0.5  # poll rounds down: not too early

    def _quiet_at(self, pipes: Pipes) -> float:
        return max(self._exited_at or 0.0, pipes.last_output_at) + QUIET_SECONDS

    def _is_over(self, pipes: Pipes) -> bool:
        if self._exited_at is None:
            return False
        return not pipes.handles or time.monotonic() >= self._quiet_at(pipes)

    def end_everything(self, ended_by: EndedBy) -> None:
        """End every process of the command, in peace if it can."""
        traces, pipes = self.traces, self._pipes
        if traces is not None and pipes is not None:
            end_family(
                lambda known: family(traces, known), grace_seconds=self._graces[ended_by], meanwhile=pipes.read_for
            )

    def _end(self, child: subprocess.Popen[bytes], pipes: Pipes, ended_by: EndedBy, begun: float) -> CommandEnd:
        code = self._collect(child)
        exited_at = self._exited_at
        return CommandEnd(
            ended_by=ended_by,
            exit_code=code if exited_at is not None else None,
            seconds=time.monotonic() - begun,
            exited_after=exited_at - begun if exited_at is not None else None,
            stderr=pipes.stderr,
        )

    def _collect(self, child: subprocess.Popen[bytes]) -> int | None:
        """The exit code, 128 + s after signal s; None if the child hangs in the kernel and cannot end."""
        self.traces = None  # from now on its number may become somebody else's
        try:
            code = child.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            return None
        return 128 - code if code < 0 else code


@contextlib.contextmanager
def _exit_handle(child: subprocess.Popen[bytes]) -> Generator[int | None]:
    """A handle that becomes readable at the end of the child, which is not collected by that; None: not to be had.

    An uncollected child keeps its number, so that its group and session cannot mean anybody else's.
    """
    try:
        handle = os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _input(content: bytes) -> Generator[int | IO[bytes]]:
    """What the command reads: a file, so that nobody needs to feed it."""
    if not content:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file
