"""Real child processes: the command with a home of its own, in front of a fake provider on this machine."""

from __future__ import annotations

import array
import asyncio
import atexit
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from tests.providers.fake_server import FakeServer, Step

SOURCE = Path(__file__).resolve().parents[2] / "src"
SECONDS = 90.0  # a machine may stand still for a while
NURSERY_SECONDS = 120.0
KEY = "sk-test-0123456789abcdef"


@dataclass
class Place:
    """A home folder, a working folder, an agent folder, and the environment that names them."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cwd.mkdir(parents=True, exist_ok=True)
        self.agent.mkdir(parents=True, exist_ok=True)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def cwd(self) -> Path:
        return self.home / "project"

    @property
    def agent(self) -> Path:
        return self.root / "agent"

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "ANTIPHON_AGENT_DIR": str(self.agent),
            "PYTHONPATH": str(SOURCE),
            "PYTHONWARNINGS": "error",
            **self.variables,
        }

    def use(self, server: FakeServer) -> None:
        """Ask this server in place of OpenAI."""
        self.variables |= {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "ANTIPHON_LOCAL_MODEL": "/none"}

    def settings(self, **values: Any) -> None:
        (self.agent / "settings.json").write_text(json.dumps(values))

    def session_files(self) -> list[Path]:
        return sorted((self.agent / "sessions").rglob("*.jsonl"))

    def session_lines(self) -> list[dict[str, Any]]:
        """The lines of the only session."""
        (path,) = self.session_files()
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]

    def roles(self) -> list[str]:
        """Who speaks in the only session."""
        return [line["message"]["role"] for line in self.session_lines() if line["type"] == "message"]


@dataclass
class Done:
    """What a child left behind."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8", "replace")

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output as lines of JSON; every line must be one."""
        assert self.out.endswith(b"\n") or not self.out, self.out[-200:]
        return [json.loads(line) for line in self.out.split(b"\n") if line]

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.split("\n") if line]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "antiphon", *arguments]


class Process:
    """A child of the nursery, with the face of a process of asyncio."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.ended = asyncio.Event()
        self.stdin = None if stdin < 0 else Feeder(stdin)
        self.descriptors = (stdout, stderr)

    async def wait(self) -> int:
        await self.ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Feeder:
    """The writing end of a pipe; writing waits in a thread."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, data: bytes) -> None:
        await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class Nursery:
    """One for all tests: the process that forks children. Ends of children are heard by a thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        environ = {**os.environ, "PYTHONPATH": f"{SOURCE}:{SOURCE.parent}", "PYTHONWARNINGS": "error"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.modes.nursery", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=environ,
            cwd=SOURCE.parent,
        )
        theirs.close()
        self._line = ours
        self._births: queue.Queue[tuple[int, int]] = queue.Queue()
        self._requests = count(1)
        self._living: dict[int, tuple[Process, asyncio.AbstractEventLoop]] = {}
        self._early: dict[int, int] = {}
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()
        atexit.register(self.close)

    def close(self) -> None:
        self._line.shutdown(socket.SHUT_RDWR)
        self._line.close()
        self._server.wait(5)

    def born(self, arguments: Sequence[str], environ: Mapping[str, str], cwd: Path, descriptors: Sequence[int]) -> int:
        """Have a child; gives its number."""
        request = next(self._requests)
        wanted = json.dumps(
            {"request": request, "arguments": list(arguments), "env": dict(environ), "cwd": str(cwd)}
        ).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        self._line.sendmsg([wanted], rights)
        while (born := self._births.get(timeout=NURSERY_SECONDS))[0] != request:
            pass  # of a test that did not wait for it
        return born[1]

    def watch(self, process: Process) -> None:
        """Tell this process of its end, in the running event loop."""
        with self._lock:
            status = self._early.pop(process.pid, None)
            if status is None:
                self._living[process.pid] = (process, asyncio.get_running_loop())
        if status is not None:
            _over(process, status)

    def _listen(self) -> None:
        for data in self._line.makefile("rb"):
            told = json.loads(data)
            if "status" not in told:
                self._births.put((told["request"], told["pid"]))
                continue
            with self._lock:
                living = self._living.pop(told["pid"], None)
                if living is None:
                    self._early[told["pid"]] = told["status"]
            if living is not None:
                process, loop = living
                with suppress(RuntimeError):  # a test that is over
                    loop.call_soon_threadsafe(_over, process, told["status"])


def _over(process: Process, status: int) -> None:
    process.returncode = status
    process.ended.set()


@cache
def nursery() -> Nursery:
    return Nursery()


class Child:
    """A running command."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._out = bytearray()
        self._err = bytearray()
        self._news = asyncio.Event()
        streams = zip(process.descriptors, (self._out, self._err), strict=True)
        self._tasks = [asyncio.create_task(self._collect(d, into)) for d, into in streams if d >= 0]

    async def _collect(self, descriptor: int, into: bytearray) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        pipe = os.fdopen(descriptor, "rb", 0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        while data := await reader.read(65536):
            into += data
            self._news.set()
        self._news.set()
        transport.close()

    async def said(self, words: str | bytes) -> None:
        """Returns when these words stand on standard output or standard error."""
        wanted = words.encode() if isinstance(words, str) else words

        async def look() -> None:
            while wanted not in self._out and wanted not in self._err:
                assert self.process.returncode is None or not all(task.done() for task in self._tasks), (
                    f"ended without saying {wanted!r}: {bytes(self._out)[-2000:]!r} {bytes(self._err)[-2000:]!r}"
                )
                self._news.clear()
                await self._news.wait()

        await asyncio.wait_for(look(), SECONDS)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def write(self, data: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def done(self, seconds: float = SECONDS) -> Done:
        """Wait for the end."""
        try:
            code = await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            self.process.kill()
            raise AssertionError(f"did not end: {bytes(self._out)[-2000:]!r} {bytes(self._err)[-2000:]!r}") from None
        await asyncio.wait_for(asyncio.gather(*self._tasks), SECONDS)
        return Done(code, bytes(self._out), self._err.decode("utf-8", "replace"))

    async def end(self) -> None:
        """Kill it if it still runs, and let go of its streams."""
        self.process.kill()
        await self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        await asyncio.wait_for(asyncio.gather(*self._tasks), SECONDS)


PIPE, NOTHING = -1, -3


@asynccontextmanager
async def started(
    place: Place,
    *arguments: str,
    stdin: int = PIPE,
    stdout: int = PIPE,
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> AsyncIterator[Child]:
    """A child that is killed at the end, if it still runs. `stdin`, `stdout`: a descriptor of yours, or a new pipe."""
    child_in, our_in = (os.open(os.devnull, os.O_RDONLY), -1) if stdin == NOTHING else (stdin, -1)
    if stdin == PIPE:
        child_in, our_in = os.pipe()
    our_out, child_out = os.pipe() if stdout == PIPE else (-1, stdout)
    our_err, child_err = os.pipe()
    environ = {**place.environ, **(more or {})}
    pid = nursery().born(arguments, environ, cwd or place.cwd, (child_in, child_out, child_err))
    for given, descriptor in ((stdin, child_in), (stdout, child_out), (PIPE, child_err)):
        if given in (PIPE, NOTHING):
            os.close(descriptor)
    process = Process(pid, our_in, our_out, our_err)
    nursery().watch(process)
    child = Child(process)
    try:
        yield child
    finally:
        await child.end()


async def run(
    place: Place,
    *arguments: str,
    given: bytes | None = None,
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = SECONDS,
) -> Done:
    """Run a command to its end. `given`: standard input (None: nothing)."""
    stdin = NOTHING if given is None else PIPE
    async with started(place, *arguments, stdin=stdin, more=more, cwd=cwd) as child:
        if given is not None:

            async def feed() -> None:
                with suppress(BrokenPipeError):
                    await child.write(given)
                child.close_stdin()

            feeding = asyncio.create_task(feed())
            done = await child.done(seconds)
            await feeding
            return done
        return await child.done(seconds)


async def shell(place: Place, line: str) -> asyncio.subprocess.Process:
    """A child that is started anew by a shell, for what only a shell can do; `$COMMAND` is the program."""
    pipe = asyncio.subprocess.PIPE
    environ = {**place.environ, "COMMAND": " ".join(command())}
    return await asyncio.create_subprocess_exec(
        "sh", "-c", line, stdin=pipe, stdout=pipe, stderr=pipe, env=environ, cwd=place.cwd
    )


@asynccontextmanager
async def served(place: Place, *script: Step) -> AsyncIterator[FakeServer]:
    """A fake provider that plays a script to the children of a place."""
    async with FakeServer(*script) as server:
        place.use(server)
        yield server


def children_of(pid: int) -> list[int]:
    """Living processes that were started by this one."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] not in "ZX":
                found.append(int(entry))
    return found


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
