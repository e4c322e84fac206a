"""Runs the table packs of the recorded core: small tables for single functions, no loop involved.

`run_pack(name, lines)` executes the lines of one pack and says for each whether it passed. The runner computes what
the product answers, brings it into the JSON form of the record, and compares.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec import UNSET
from tests.conformance.core_compare import normal

from antiphon.core.content import ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, message_from_wire
from antiphon.core.model import Model
from antiphon.core.partial_json import NOTHING, PartialReader, read_arguments
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent, Start
from antiphon.core.system_state import (
    collapse,
    declaration_of,
    initial_system_message,
    normalize_context,
    replay,
    same_declaration,
    tool_changes,
)
from antiphon.core.wire import to_wire
from antiphon.loop.abort import AbortController
from antiphon.loop.arguments import ArgumentsRefused, check_arguments
from antiphon.loop.event_stream import EventReader, EventStream, response_stream
from antiphon.providers.scripted import ScriptedProvider

Json = Any


def run_pack(name: str, lines: Iterable[dict[str, Json]]) -> Iterator[tuple[str, str | None]]:
    """Id of each line, and nothing if it passed or else the first difference as text."""
    answer = PACKS[name]
    for line in lines:
        try:
            got = answer(line["scenario"])
        except Exception as fault:  # noqa: BLE001 - whatever it is, the line failed
            yield line["id"], f"raised {type(fault).__name__}: {fault}"
        else:
            yield line["id"], difference(judged(line["expected"]), judged(got))


# -- comparing -------------------------------------------------------------------------------------------------------


def difference(expected: Json, got: Json, path: str = "$") -> str | None:
    """The first place where two normal JSON values differ."""
    if isinstance(expected, dict) and expected == {"$any": "string"}:
        return None if isinstance(got, str) and got else f"{path}: expected some text, got {got!r}"
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(k for k in got if k not in expected)]:
            if key not in got or key not in expected:
                return f"{path}.{key}: only {'expected' if key in expected else 'got'}"
            if found := difference(expected[key], got[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f"{path}: expected {len(expected)} items, got {len(got)}: {expected!r} / {got!r}"
        pairs = enumerate(zip(expected, got, strict=True))
        return next((d for i, (e, g) in pairs if (d := difference(e, g, f"{path}[{i}]"))), None)
    return None if _same_scalar(expected, got) else f"{path}: expected {expected!r}, got {got!r}"


def _same_scalar(a: Json, b: Json) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return float(a) == float(b)  # the record knows doubles only; ours keeps large integers exact
    return bool(a == b)


def message(given: dict[str, Json]) -> Message:
    """A message as the record writes it; usage 0 stands for zeros everywhere."""
    return message_from_wire({key: item for key, item in given.items() if (key, item) != ("usage", 0)})


def record(value: Message) -> Json:
    """A message as JSON."""
    return to_wire(value)


def judged(answer: Json) -> Json:
    """What counts of an answer, in one spelling; `paths` is advice."""
    return normal(timeless({key: item for key, item in answer.items() if key != "paths"}))


def timeless(value: Json) -> Json:
    """The same without the times of messages."""
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if not isinstance(value, dict):
        return value
    times = ("timestamp", "durationMs") if "role" in value else ()
    return {key: timeless(item) for key, item in value.items() if key not in times}


# -- transcript ------------------------------------------------------------------------------------------------------


def transcript(scenario: dict[str, Json]) -> Json:
    messages = [message(m) for m in scenario.get("messages", ())]
    prompt = scenario.get("systemPrompt", "")
    match scenario["call"]:
        case "currentTools":
            return {"tools": to_wire(replay(messages).tools)}
        case "currentSystemMessage":
            current = replay(messages).as_message()
            return {"message": current and record(current)}
        case "currentSystemPrompt":
            return {"prompt": replay(messages).prompt}
        case "toolChanges":
            added, removed = tool_changes(_tools(scenario["previous"]), _tools(scenario["current"]))
            return {"toolsAdded": to_wire(added), "toolsRemoved": to_wire(removed)}
        case "sameDeclaration":
            left, right = _tools([scenario["left"], scenario["right"]])
            return {"same": same_declaration(left, right)}
        case "initialSystemMessage":
            first = initial_system_message(prompt, _tools(scenario.get("tools", ())))
            return {"message": first and record(first)}
        case "normalizeContext":
            return {
                "messages": [record(m) for m in normalize_context(prompt, _tools(scenario.get("tools", ())), messages)]
            }
        case "collapse":
            return {"messages": [record(m) for m in collapse(messages)]}
        case other:
            raise ValueError(f"unknown call {other}")


def _tools(given: Iterable[dict[str, Json]]) -> tuple[ToolDeclaration, ...]:
    return tuple(declaration_of(msgspec.convert(tool, ToolDeclaration)) for tool in given)


# -- validation ------------------------------------------------------------------------------------------------------


def validation(scenario: dict[str, Json]) -> Json:
    given = copy.deepcopy(scenario["args"])
    call = ToolCall(id="c1", name="tool", arguments=given, arguments_error=scenario.get("argumentsError", UNSET))
    try:
        value = check_arguments(call, scenario["schema"])
    except ArgumentsRefused as refused:
        answer = {"ok": False, "error": str(refused)}
    else:
        answer = {"ok": True, "value": value}
    if given != scenario["args"]:
        raise AssertionError("the given arguments were changed")
    return answer


# -- partial JSON ----------------------------------------------------------------------------------------------------


def partial_json(scenario: dict[str, Json]) -> Json:
    pieces = scenario["chunks"] if "chunks" in scenario else [scenario["text"]]
    reader, steps = PartialReader(), []
    for piece in pieces:
        reader.feed(piece)
        steps.append(_seen(reader))
    arguments, error = read_arguments("".join(pieces))
    answer = {
        "partial": _seen(reader),
        "args": reader.arguments,
        "final": {"arguments": arguments} | ({} if error is UNSET else {"argumentsError": error}),
    }
    return answer | ({"steps": steps} if "chunks" in scenario else {})


def _seen(reader: PartialReader) -> Json:
    value = reader.snapshot()
    return {"$none": True} if value is NOTHING else {"value": value}


# -- event stream ----------------------------------------------------------------------------------------------------

READY = 20  # rounds of the event loop after which everything that could run has run


def event_stream(scenario: dict[str, Json]) -> Json:
    return asyncio.run(StreamScript(scenario["kind"]).play(scenario["ops"]))


class StreamScript:
    """Executes the operations of one line on a stream and logs what settled during each."""

    def __init__(self, kind: str) -> None:
        self.stream: EventStream[Any, Any]
        if kind == "assistant":
            self.stream, self.encode, self.decode = response_stream(), response_event, record
            self.stream._waits_for_result = True
        else:
            self.stream = EventStream(
                lambda event: event["type"] == "finish", lambda event: event.get("value", UNSET), waits_for_result=True
            )
            self.encode = self.decode = lambda value: value
        self.readers: dict[str, EventReader[Any]] = {}
        self.pushed: list[tuple[Any, Json]] = []
        self.log: list[Json] = []
        self.waiting: dict[str, asyncio.Task[None]] = {}

    async def play(self, ops: list[dict[str, Json]]) -> Json:
        logs = []
        for op in ops:
            self.log = []
            await self.perform(op)
            for _ in range(READY):
                await asyncio.sleep(0)
            logs.append(self.log)
        pending = sorted(label for label, task in self.waiting.items() if not task.done())
        for task in self.waiting.values():
            task.cancel()
        return {"log": logs, "pending": pending}

    async def perform(self, op: dict[str, Json]) -> None:
        match op["op"]:
            case "push":
                event = self.encode(op["event"])
                self.pushed.append((event, op["event"]))
                self.stream.push(event)
            case "end":
                self.stream.end(*([self.encode_result(op["result"])] if "result" in op else []))
            case "next":
                self.start(f"next {op['it']}", self.next(op["it"]))
            case "close":
                await self.reader(op["it"]).aclose()
                self.log.append({"it": op["it"], "closed": True})
            case "result":
                self.start(f"result {op['as']}", self.result(op["as"]))
            case other:
                raise ValueError(f"unknown operation {other}")

    def start(self, label: str, work: Coroutine[Any, Any, None]) -> None:
        self.waiting[label] = asyncio.ensure_future(work)

    def reader(self, name: str) -> EventReader[Any]:
        return self.readers.setdefault(name, self.stream.__aiter__())

    async def next(self, name: str) -> None:
        try:
            event = await self.reader(name).__anext__()
        except StopAsyncIteration:
            self.log.append({"it": name, "done": True})
        else:
            self.log.append({"it": name, "value": next(given for pushed, given in self.pushed if pushed is event)})

    async def result(self, label: str) -> None:
        value = self.decode(await self.stream.result())
        self.log.append({"result": label} | ({} if value is UNSET else {"value": value}))

    def encode_result(self, value: Json) -> Any:
        return message(value) if isinstance(value, dict) and "role" in value else value


def response_event(given: dict[str, Json]) -> ResponseEvent:
    """The event of a record, without the partial message that travels in it there."""
    match given["type"]:
        case "start":
            return Start(message=cast("AssistantMessage", message(given["partial"])))
        case "done":
            return Done(reason=given["reason"], message=cast("AssistantMessage", message(given["message"])))
        case "error":
            return Failed(reason=given["reason"], error=cast("AssistantMessage", message(given["error"])))
        case _:
            return msgspec.convert({key: item for key, item in given.items() if key != "partial"}, ResponseEvent)


# -- fake provider -----------------------------------------------------------------------------------------------------

FAKE = Model(id="fake-1", provider="fake", api="fake")


def fake_provider(scenario: dict[str, Json]) -> Json:
    return asyncio.run(play_fake(scenario))


async def play_fake(scenario: dict[str, Json]) -> Json:
    answers = [fake_answer(response) for response in scenario["responses"]]
    provider = ScriptedProvider(answers, tokens_per_delta=scenario["tokens"], estimates_usage=True)
    streams = [await fake_stream(provider, request) for request in scenario["requests"]]
    return {"streams": streams, "responsesLeft": provider.responses_left}


def fake_answer(response: dict[str, Json]) -> AssistantMessage:
    content = response["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    given = {"role": "assistant", "content": blocks, "stopReason": "stop"} | response["fields"]
    return cast("AssistantMessage", message(given))


async def fake_stream(provider: ScriptedProvider, asked: dict[str, Json]) -> Json:
    stop = AbortController()
    if asked.get("aborted"):
        stop.abort()
    request = ModelRequest(
        model=FAKE,
        messages=[message(each) for each in asked["messages"]],
        thinking_level="off",
        signal=stop.signal,
        session_id=asked.get("sessionId"),
        options={"cache_retention": asked["cacheRetention"]} if "cacheRetention" in asked else {},
    )
    return [without_partial(to_wire(event)) async for event in await provider(request)]


def without_partial(event: dict[str, Json]) -> Json:
    """The record leaves out the partial message, and with it what only the partial message tells there."""
    hidden = {"start": {"message"}, "toolcall_start": {"id", "name"}}.get(event["type"], set())
    return {key: item for key, item in event.items() if key not in hidden}


PACKS: dict[str, Callable[[dict[str, Json]], Json]] = {
    "event_stream": event_stream,
    "fake_provider": fake_provider,
    "partial_json": partial_json,
    "transcript": transcript,
    "validation": validation,
}
