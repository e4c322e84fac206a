"""A server on this machine that plays all four wire protocols over real HTTP.

    async with FakeServer(Answer(text="hi"), Refuse(429), Answer(text="again")) as server:
        model = server.model("anthropic-messages")
        ...
    server.seen[0].body

It answers from a script that knows no protocol: one step a request, in the order in which requests arrive; a script
that is used up answers `ok`. Every request is checked against the rules of its wire (`wire_rules`): one that breaks a
rule is refused with status 400 and the rule, as a real server would do.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.providers.wire_rules import FAULTS

from antiphon.core.model import Model, Prices

_PATHS = {
    "/chat/completions": "openai-completions",
    "/responses": "openai-responses",
    "/v1/messages": "anthropic-messages",
}
_GEMINI = ":streamGenerateContent"


@dataclass(frozen=True)
class Answer:
    """What the model says: thinking, then text, then calls. `cut`: the token limit was reached."""

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    cut: bool = False
    input_tokens: int = 11
    output_tokens: int = 7


@dataclass(frozen=True)
class Refuse:
    """An answer other than 2xx."""

    status: int
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """The connection is closed without an answer."""


@dataclass(frozen=True)
class Break:
    """The stream of an answer stops after some events, and the connection is reset or goes silent."""

    answer: Answer
    events: int
    silent: bool = False


@dataclass(frozen=True)
class Hold:
    """The stream of an answer stops after some events (`held` is set), and goes on when the gate is opened."""

    answer: Answer
    events: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    held: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Flood:
    """An answer that does not end: its first words come again and again, as long as somebody takes them."""

    words: str
    times: int = 0


Step = Answer | Refuse | Drop | Break | Hold | Flood


@dataclass
class Seen:
    """A request as it arrived, and the rules that it breaks."""

    api: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    faults: list[str]


class FakeServer:
    """Use it as an async context manager."""

    def __init__(self, *script: Step, piece_bytes: int = 0) -> None:
        self.script = list(script)
        self.seen: list[Seen] = []
        self._piece_bytes = piece_bytes  # 0: every event is written whole
        self._server: asyncio.Server | None = None
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> FakeServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def model(self, api: str, **fields: Any) -> Model:
        """A model of this server that speaks `api`."""
        ids = {"google-generative-ai": "gemini-3-flash-preview", "anthropic-messages": "claude-test"}
        given: dict[str, Any] = {
            "id": ids.get(api, f"{api}-test"),
            "provider": api.split("-")[0],
            "api": api,
            "base_url": self.url,
            "reasoning": True,
            "input": ("text", "image"),
            "cost": Prices(input=1, output=2),
            "context_window": 200_000,
            "max_tokens": 32_000,
        }
        return Model(**(given | fields))

    # -- HTTP

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._answer(reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(Exception):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; False if the connection is over."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        data = await reader.readexactly(int(headers.get("content-length", "0")))
        step, seen = self._take(request.split(" ")[1], headers, data)
        if isinstance(step, Drop):
            return False
        if isinstance(step, Refuse):
            await self._refuse(writer, seen.api, step)
            return True
        if isinstance(step, Flood):
            return await self._flood(writer, step, seen)
        answer = step.answer if isinstance(step, Break | Hold) else step
        events = list(self._events(seen.api, answer, seen.body))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        begun = step.events if isinstance(step, Break | Hold) else 0
        for event in events[:begun]:
            await self._write(writer, event)
        if isinstance(step, Hold):
            step.held.set()
            await step.gate.wait()
        if isinstance(step, Break):
            if step.silent:
                await reader.read()  # until the client gives up
            else:
                writer.transport.abort()
            return False
        for event in events[begun:]:
            await self._write(writer, event)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _flood(self, writer: asyncio.StreamWriter, step: Flood, seen: Seen) -> bool:
        first, words = list(self._events(seen.api, Answer(text=step.words * 2), seen.body))[:2]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await self._write(writer, first)
        while True:
            await self._write(writer, words)
            step.times += 1

    def _take(self, path: str, headers: dict[str, str], data: bytes) -> tuple[Step, Seen]:
        route = path.split("?")[0]
        api = "google-generative-ai" if route.endswith(_GEMINI) else _PATHS.get(route, "")
        body = json.loads(data)
        faults = list(FAULTS[api](body)) if api else [f"no such path: {path}"]
        seen = Seen(api, path, headers, body, faults)
        self.seen.append(seen)
        if faults:
            return Refuse(404 if not api else 400, "; ".join(faults)), seen
        return (self.script.pop(0) if self.script else Answer(text="ok")), seen

    async def _refuse(self, writer: asyncio.StreamWriter, api: str, step: Refuse) -> None:
        body = json.dumps(error_body(api, step.status, step.message)).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **step.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {step.status} Refused\r\n{lines}\r\n".encode() + body)
        await writer.drain()

    async def _write(self, writer: asyncio.StreamWriter, event: bytes) -> None:
        size = self._piece_bytes or len(event)
        for start in range(0, len(event), size):
            piece = event[start : start + size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()

    # -- protocols

    def _events(self, api: str, answer: Answer, body: dict[str, Any]) -> Iterator[bytes]:
        for event in RENDER[api](answer, str(body.get("model", "")), self._next_id):
            name = f"event: {event['type']}\n" if api in ("openai-responses", "anthropic-messages") else ""
            yield f"{name}data: {json.dumps(event)}\n\n".encode()
        if api == "openai-completions":
            yield b"data: [DONE]\n\n"

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._count:04d}"


NextId = Callable[[], str]
Events = Iterable[dict[str, Any]]


def error_body(api: str, status: int, message: str) -> dict[str, Any]:
    """An error as this protocol tells it."""
    if api == "anthropic-messages":
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    if api == "google-generative-ai":
        return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


def halves(text: str) -> list[str]:
    """A text in two deltas."""
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def chat_events(answer: Answer, model: str, next_id: NextId) -> Events:
    def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "model": model, "choices": [choice]}

    number = next_id()
    yield chunk(role="assistant", content=None)
    yield from (chunk(reasoning_content=piece) for piece in halves(answer.thinking) if piece)
    yield from (chunk(content=piece) for piece in halves(answer.text) if piece)
    for index, (name, arguments) in enumerate(answer.calls):
        first, rest = halves(json.dumps(arguments))
        start = {"index": index, "id": f"call_{next_id()}", "type": "function"}
        yield chunk(tool_calls=[{**start, "function": {"name": name, "arguments": first}}])
        yield chunk(tool_calls=[{"index": index, "function": {"arguments": rest}}])
    yield chunk(finish="length" if answer.cut else "tool_calls" if answer.calls else "stop")
    total = answer.input_tokens + answer.output_tokens
    usage = {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": total,
    }
    yield {"id": f"chatcmpl-{number}", "model": model, "choices": [], "usage": usage}


def responses_events(answer: Answer, model: str, next_id: NextId) -> Events:
    number = next_id()
    response = {"id": f"resp_{number}", "model": model, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    index = 0
    if answer.thinking:
        item = {"type": "reasoning", "id": f"rs_{next_id()}", "summary": []}
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        for piece in halves(answer.thinking):
            yield {"type": "response.reasoning_summary_text.delta", "output_index": index, "delta": piece}
        done = {**item, "summary": [{"type": "summary_text", "text": answer.thinking}], "encrypted_content": "gAAAA"}
        yield {"type": "response.output_item.done", "output_index": index, "item": done}
        index += 1
    if answer.text:
        item = {"type": "message", "id": f"msg_{next_id()}", "role": "assistant", "content": []}
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        for piece in halves(answer.text):
            yield {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": piece}
        part = {"type": "output_text", "text": answer.text, "annotations": []}
        yield {"type": "response.output_item.done", "output_index": index, "item": {**item, "content": [part]}}
        index += 1
    for name, arguments in answer.calls:
        text = json.dumps(arguments)
        given = {"type": "function_call", "id": f"fc_{next_id()}", "call_id": f"call_{next_id()}", "name": name}
        yield {"type": "response.output_item.added", "output_index": index, "item": {**given, "arguments": ""}}
        for piece in halves(text):
            yield {"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": {**given, "arguments": text}}
        index += 1
    usage = {
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }
    status = "incomplete" if answer.cut else "completed"
    ended = {**response, "status": status, "usage": usage}
    if answer.cut:
        ended["incomplete_details"] = {"reason": "max_output_tokens"}
    yield {"type": f"response.{status}", "response": ended}


def messages_events(answer: Answer, model: str, next_id: NextId) -> Events:
    usage = {"input_tokens": answer.input_tokens, "output_tokens": 1}
    message = {"id": f"msg_{next_id()}", "type": "message", "role": "assistant", "model": model, "usage": usage}
    yield {"type": "message_start", "message": message}
    index = 0

    def block(start: dict[str, Any], deltas: list[dict[str, Any]]) -> Events:
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}

    if answer.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in halves(answer.thinking)]
        signed = {"type": "signature_delta", "signature": f"sig-{next_id()}"}
        yield from block({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed])
        index += 1
    if answer.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in halves(answer.text)]
        yield from block({"type": "text", "text": ""}, deltas)
        index += 1
    for name, arguments in answer.calls:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(json.dumps(arguments))]
        yield from block({"type": "tool_use", "id": f"toolu_{next_id()}", "name": name, "input": {}}, deltas)
        index += 1
    reason = "max_tokens" if answer.cut else "tool_use" if answer.calls else "end_turn"
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": answer.output_tokens},
    }
    yield {"type": "message_stop"}


def gemini_events(answer: Answer, model: str, next_id: NextId) -> Events:
    number = next_id()
    counts = {"promptTokenCount": answer.input_tokens, "candidatesTokenCount": answer.output_tokens}

    def chunk(part: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part] if part else []}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": counts, "responseId": f"r{number}"}

    yield from (chunk({"text": piece, "thought": True}) for piece in halves(answer.thinking) if piece)
    yield from (chunk({"text": piece}) for piece in halves(answer.text) if piece)
    for index, (name, arguments) in enumerate(answer.calls):
        part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments, "id": f"f{next_id()}"}}
        yield chunk({**part, "thoughtSignature": "QUJD"} if index == 0 else part)
    yield chunk(None, "MAX_TOKENS" if answer.cut else "STOP")


RENDER: dict[str, Callable[[Answer, str, NextId], Events]] = {
    "openai-completions": chat_events,
    "openai-responses": responses_events,
    "anthropic-messages": messages_events,
    "google-generative-ai": gemini_events,
}
"""api → the stream events that tell an answer."""
