"""The other side of the line, for Python programs.

    async with RpcClient("--model", "openai/gpt-5.4-mini") as agent:
        reply = await agent.ask("What is in this folder?")
        print(reply.text)

Events are records as they stand on the wire. A client listens before it sends, so nothing is missed. If the process
ends while somebody waits, `AgentGone` says so, with the last words of its standard error.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeAlias, cast, final

from antiphon.core.content import Image
from antiphon.core.wire import JsonObject, decode, encode, to_wire
from antiphon.errors import AntiphonError
from antiphon.modes.rpc.lines import LineCutter, TooLong

Disposition: TypeAlias = Literal["started", "queued", "handled"]
Dialog: TypeAlias = Callable[[JsonObject], "JsonObject | None"]
READ_BYTES = 1 << 16
MOST_LINE_BYTES = 1 << 30
STOP_SECONDS = 5.0
_TAIL_BYTES = 4096


class CommandFailed(AntiphonError):
    """The agent refused a command; the text is its reason."""


class AgentGone(AntiphonError):
    """The process of the agent has ended."""


@final
@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a prompt. `events` are all records from its acceptance to its end, `agent_settled` included.

    `stop_reason` and `error` are those of the last answer; None if there was none.
    """

    text: str
    aborted: bool
    stop_reason: str | None
    error: str | None
    events: tuple[JsonObject, ...]


@final
class Events:
    """Records from now on, as an asynchronous iterator. `close` ends it."""

    def __init__(self, forget: Callable[[Events], None]) -> None:
        self._records: deque[JsonObject] = deque()
        self._news = asyncio.Event()
        self._over: BaseException | None = None
        self._ended = False
        self._forget = forget

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> JsonObject:
        while not self._records:
            if self._over is not None:
                raise self._over
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        return self._records.popleft()

    def close(self) -> None:
        """No further records; those that came already can still be taken."""
        self._ended = True
        self._news.set()
        self._forget(self)

    def push(self, record: JsonObject) -> None:
        self._records.append(record)
        self._news.set()

    def fail(self, error: BaseException) -> None:
        self._over = error
        self._news.set()


@final
class RpcClient:
    """A child process that runs an agent, driven by commands.

    `arguments` are those of the command line, `executable` what is started (default: this Python's own `antiphon`).
    `dialog` answers questions of extensions: it gets the request and gives the fields of the answer, or None to
    dismiss it.
    """

    def __init__(
        self,
        *arguments: str,
        executable: Sequence[str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dialog: Dialog | None = None,
    ) -> None:
        command = [sys.executable, "-m", "antiphon"] if executable is None else list(executable)
        self._command = [*command, "--mode", "rpc", *arguments]
        self._cwd = cwd
        self._env = None if env is None else dict(env)
        self._dialog = dialog
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: dict[str, asyncio.Future[JsonObject]] = {}
        self._listeners: list[Events] = []
        self._count = 0
        self._tail = bytearray()
        self._tasks: list[asyncio.Task[None]] = []
        self._gone: AgentGone | None = None

    # -- life

    async def __aenter__(self) -> RpcClient:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the process."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._cwd, env=self._env
        )
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read_answers()), loop.create_task(self._read_errors())]

    async def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Close the line and wait for the end; after a time, end the process. Gives its exit code."""
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except asyncio.TimeoutError:  # noqa: UP041
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), seconds)
            except asyncio.TimeoutError:  # noqa: UP041
                process.kill()
        code = await process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return code

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def stderr_tail(self) -> str:
        """The last words of the process's standard error."""
        return self._tail.decode("utf-8", "replace")

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise AgentGone("the agent was not started; use `async with`, or await start()")
        return self._process

    # -- commands

    async def call(self, command: str, **fields: Any) -> Any:
        """Send a command and wait for its answer; gives its data, or None. Fields may be spelled as in Python.

        Raises:
            CommandFailed: the agent refused it.
            AgentGone: the process has ended.
        """
        answer = await self._sent(command, fields)
        if not answer.get("success"):
            raise CommandFailed(str(answer.get("error", "refused without a reason")))
        return answer.get("data")

    async def _sent(self, command: str, fields: Mapping[str, Any]) -> JsonObject:
        if self._gone is not None:
            raise self._gone
        self._count += 1
        id_ = f"c{self._count}"
        given = {_camel(name): to_wire(value) for name, value in fields.items() if value is not None}
        waiting: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = waiting
        try:
            await self.send({"id": id_, "type": command, **given})
            return await waiting
        finally:
            self._waiting.pop(id_, None)

    async def send(self, record: JsonObject) -> None:
        """Send a line as it is; its answer is not waited for."""
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(encode(record) + b"\n")
        with suppress(ConnectionError):  # the reading side says why
            await stdin.drain()

    async def prompt(
        self, message: str, images: Iterable[Image] = (), *, streaming_behavior: str | None = None
    ) -> Disposition:
        """Say something; gives whether it started a run, was queued, or was handled by an extension."""
        data = await self.call(
            "prompt", message=message, images=list(images) or None, streaming_behavior=streaming_behavior
        )
        return cast("Disposition", data["disposition"])

    async def ask(self, message: str, images: Iterable[Image] = ()) -> Reply:
        """Say something and wait until nothing follows."""
        events = self.events()
        try:
            if await self.prompt(message, images) != "started":
                return Reply("", False, None, None, ())
            records: list[JsonObject] = []
            async for record in events:
                records.append(record)
                if record["type"] == "agent_settled":
                    break
            return _reply(records)
        finally:
            events.close()

    async def steer(self, message: str) -> Disposition:
        """Say something before the next turn."""
        return cast("Disposition", (await self.call("steer", message=message))["disposition"])

    async def follow_up(self, message: str) -> Disposition:
        """Say something when the run would end."""
        return cast("Disposition", (await self.call("follow_up", message=message))["disposition"])

    async def abort(self) -> None:
        """Stop what goes on; returns when it has settled."""
        await self.call("abort")

    async def state(self) -> JsonObject:
        """What goes on now."""
        return cast("JsonObject", await self.call("get_state"))

    async def messages(self) -> list[JsonObject]:
        """The messages of the conversation."""
        return cast("list[JsonObject]", (await self.call("get_messages"))["messages"])

    # -- events

    def events(self) -> Events:
        """Records of events from now on."""
        events = Events(self._forget)
        if self._gone is not None:
            events.fail(self._gone)
        self._listeners.append(events)
        return events

    async def wait_for(self, type_: str) -> JsonObject:
        """The next event of a type."""
        events = self.events()
        try:
            async for record in events:
                if record["type"] == type_:
                    return record
        finally:
            events.close()
        raise AgentGone("the events are over")

    def _forget(self, events: Events) -> None:
        with suppress(ValueError):
            self._listeners.remove(events)

    # -- reading

    async def _read_answers(self) -> None:
        stdout = self._running().stdout
        assert stdout is not None
        async for found in _lines(stdout):
            record = decode(found)
            if record.get("type") == "response":
                waiting = self._waiting.get(record.get("id"))
                if waiting is not None and not waiting.done():
                    waiting.set_result(record)
            elif record.get("type") == "extension_ui_request":
                await self._answer_dialog(record)
            else:
                for events in list(self._listeners):
                    events.push(record)
        await self._ended()

    async def _answer_dialog(self, request: JsonObject) -> None:
        for events in list(self._listeners):
            events.push(request)
        if request.get("method") not in ("select", "confirm", "input", "editor"):
            return
        answer = None if self._dialog is None else self._dialog(request)
        fields: JsonObject = {"cancelled": True} if answer is None else answer
        await self.send({"type": "extension_ui_response", "id": request["id"], **fields})

    async def _ended(self) -> None:
        """Whoever waits is told that nothing comes any more."""
        code = await self._running().wait()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[1]), 1)
        words = self.stderr_tail.strip()
        self._gone = AgentGone(f"the agent has ended with {code}" + (f": {words}" if words else ""))
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self._gone)
        for events in self._listeners:
            events.fail(self._gone)

    async def _read_errors(self) -> None:
        stderr = self._running().stderr
        assert stderr is not None
        while data := await stderr.read(READ_BYTES):
            self._tail += data
            del self._tail[:-_TAIL_BYTES]


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    cutter = LineCutter(MOST_LINE_BYTES)
    while data := await stream.read(READ_BYTES):
        for found in cutter.feed(data):
            if not isinstance(found, TooLong):
                yield found


def _reply(records: Sequence[JsonObject]) -> Reply:
    answers = [r["message"] for r in records if r["type"] == "message_end" and r["message"].get("role") == "assistant"]
    last: JsonObject = answers[-1] if answers else {}
    text = "".join(block.get("text", "") for block in last.get("content", ()) if block.get("type") == "text")
    aborted = any(r["type"] == "agent_settled" and r.get("aborted") for r in records)
    return Reply(text, aborted, last.get("stopReason"), last.get("errorMessage"), tuple(records))


def _camel(name: str) -> str:
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


__all__ = ["AgentGone", "CommandFailed", "Events", "Reply", "RpcClient"]
