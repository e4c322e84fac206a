"""Record once, replay offline: what a model and tools gave is kept in a file, and given again from then on.

    cassette = Cassette("tests/recorded/weather.jsonl", model=stream)
    agent = Agent(model=model, stream=cassette, tools=cassette.tools(weather))

While the file is missing, the model is asked and everything is written down. Once it is there, nobody is asked: each
request must be the one that was recorded, and gets its answer; each call of a tool gets the result of then. Keys and
headers are no part of a request, so none can get into the file.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast, final

import msgspec

from antiphon.core.calls import ToolResult
from antiphon.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolResultMessage,
    message_from_wire,
    message_to_wire,
)
from antiphon.core.ports import AbortSignal, ModelRequest, ModelStream, OnUpdate, Tool
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.transcript import Transcript
from antiphon.core.wire import JsonObject, decode, encode, to_wire
from antiphon.errors import ConfigurationError
from antiphon.loop.tool_call import as_result
from antiphon.testing.recorded import answered

OF_THE_MOMENT = ("timestamp", "durationMs")
"""Members of a message that differ from run to run."""


@final
class Cassette:
    """A stream function whose answers are kept in a file. `is_recording`: is the model asked?

    Raises:
        ConfigurationError: there is no file and no model, or the file is no record.
    """

    def __init__(self, path: str | Path, model: ModelStream | None = None) -> None:
        self.path = Path(path)
        self.is_recording = not self.path.exists()
        self._model = model
        self._at = 0
        self._answers: list[JsonObject] = []
        self._results: dict[str, list[JsonObject]] = {}
        if not self.is_recording:
            self._read()
        elif model is None:
            raise ConfigurationError(f"there is no record in {self.path}; give a model to make one")

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        """The next answer: of the record, or of the model."""
        number, self._at = self._at, self._at + 1
        asked = _asked(request)
        if self._model is not None and self.is_recording:
            return self._recorded(self._model, request, asked)
        return answered(self._answer(number, asked))

    def tools(self, *tools: Tool) -> list[Tool]:
        """These tools; while nothing is recorded they are not executed, but give what they gave."""
        return [_KeptTool(tool, self) for tool in tools]

    def finished(self) -> None:
        """Was everything asked for?

        Raises:
            AssertionError: some of the record is left.
        """
        left = len(self._answers) - self._at
        assert self.is_recording or left <= 0, f"{left} recorded answers were not asked for: {self.path}"

    # -- the record

    def _read(self) -> None:
        for number, line in enumerate(self.path.read_bytes().split(b"\n"), 1):
            if not line:
                continue
            try:
                kept = cast("JsonObject", decode(line))
                if "answer" in kept:
                    self._answers.append(kept)
                else:
                    self._results.setdefault(_call_key(kept["name"], kept["args"]), []).append(kept["result"])
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigurationError(f"{self.path}, line {number}: no part of a record ({error})") from error

    def keep(self, line: JsonObject) -> None:
        """Write this down behind everything before it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(encode(line) + b"\n")

    async def _recorded(
        self, model: ModelStream, request: ModelRequest, asked: JsonObject
    ) -> AsyncIterator[ResponseEvent]:
        stream = model(request)
        events = await stream if inspect.isawaitable(stream) else stream
        async for event in events:
            if isinstance(event, Done | Failed):
                answer = event.message if isinstance(event, Done) else event.error
                self.keep({"asked": asked, "answer": message_to_wire(answer)})
            yield event

    def _answer(self, number: int, asked: JsonObject) -> AssistantMessage:
        if number >= len(self._answers):
            return _failed(f"request {number + 1} is not in the record {self.path}; delete it to record anew")
        kept = self._answers[number]
        for what in asked:
            if kept["asked"].get(what) != asked[what]:
                return _failed(
                    f"request {number + 1} is not the one that was recorded in {self.path}: other {what}; "
                    f"recorded {encode(kept['asked'].get(what)).decode()}, asked {encode(asked[what]).decode()}"
                )
        answer = message_from_wire(kept["answer"])
        return answer if isinstance(answer, AssistantMessage) else _failed(f"{self.path} is no record")

    def result(self, name: str, args: JsonObject) -> ToolResult:
        """What this call gave then; equal calls take turns.

        Raises:
            LookupError: it was not recorded.
        """
        waiting = self._results.get(_call_key(name, args))
        if not waiting:
            raise LookupError(f"this call of {name} is not in the record {self.path}; delete it to record anew")
        return msgspec.convert(waiting.pop(0), ToolResult)


@final
class _KeptTool:
    """A tool whose results are kept; all else is the tool it wraps."""

    def __init__(self, tool: Tool, cassette: Cassette) -> None:
        self._tool = tool
        self._cassette = cassette

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    @property
    def name(self) -> str:
        return self._tool.name

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def parameters(self) -> JsonObject:
        return self._tool.parameters

    async def execute(self, call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> ToolResult:
        """What it gave, or gives."""
        if not self._cassette.is_recording:
            return self._cassette.result(self.name, args)
        given = cast("JsonObject", to_wire(args))
        execute = self._tool.execute
        if inspect.iscoroutinefunction(execute):
            done = await execute(call_id, args, signal, on_update)
        else:
            done = await asyncio.to_thread(execute, call_id, args, signal, on_update)
            done = await done if inspect.isawaitable(done) else done
        result = as_result(done)
        self._cassette.keep({"name": self.name, "args": given, "result": to_wire(result)})
        return result


def _asked(request: ModelRequest) -> JsonObject:
    """What matters of a request: which model, which tools, and what was said since the last answer."""
    said: list[JsonObject] = []
    for message in reversed(request.messages):
        if isinstance(message, AssistantMessage):
            break
        if not isinstance(message, SystemMessage):
            said.append(_lasting(message))
    tools = [tool.name for tool in Transcript(request.messages).system.tools]
    return {"model": request.model.id, "tools": tools, "said": said[::-1]}


def _lasting(message: Message) -> JsonObject:
    found = {name: value for name, value in message_to_wire(message).items() if name not in OF_THE_MOMENT}
    if isinstance(message, ToolResultMessage):
        found.pop("details", None)  # for displays: no model sees them
    return found


def _failed(why: str) -> AssistantMessage:
    return AssistantMessage(content=(), stop_reason="error", error_message=why)


def _call_key(name: str, args: JsonObject) -> str:
    return encode([name, dict(sorted(args.items()))]).decode()
