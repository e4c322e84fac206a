"""Real child processes: the command with a home of its own, in front of a fake provider on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.providers.fake_server import FakeServer, Step

SOURCE = Path(__file__).resolve().parents[2] / "src"
SECONDS = 20.0
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


class Child:
    """A running command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._out = bytearray()
        self._err = bytearray()
        self._news = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._collect(process.stdout, self._out)),
            asyncio.create_task(self._collect(process.stderr, self._err)),
        ]

    async def _collect(self, stream: asyncio.StreamReader | None, into: bytearray) -> None:
        while stream is not None and (data := await stream.read(65536)):
            into += data
            self._news.set()
        self._news.set()

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
        self.process.stdin.write(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")
        await self.process.stdin.drain()

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
        await asyncio.gather(*self._tasks)
        return Done(code, bytes(self._out), self._err.decode("utf-8", "replace"))


@asynccontextmanager
async def started(
    place: Place,
    *arguments: str,
    stdin: int | None = asyncio.subprocess.PIPE,
    stdout: int | None = asyncio.subprocess.PIPE,
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    argv: Sequence[str] | None = None,
) -> AsyncIterator[Child]:
    """A child that is killed at the end, if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(command(*arguments) if argv is None else argv),
        stdin=stdin,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        cwd=cwd or place.cwd,
        env={**place.environ, **(more or {})},
    )
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def run(
    place: Place,
    *arguments: str,
    given: bytes | None = None,
    more: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = SECONDS,
) -> Done:
    """Run a command to its end. `given`: standard input (None: nothing)."""
    stdin = asyncio.subprocess.DEVNULL if given is None else asyncio.subprocess.PIPE
    async with started(place, *arguments, stdin=stdin, more=more, cwd=cwd) as child:
        if given is not None:

            async def feed() -> None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    await child.write(given)
                child.close_stdin()

            feeding = asyncio.create_task(feed())
            done = await child.done(seconds)
            await feeding
            return done
        return await child.done(seconds)


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
