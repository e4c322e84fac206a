"""Tools for a server that has none, by asking for JSON of a fixed shape (pure).

When it is the model's turn to act, the request names the tools in its text and carries a JSON schema that admits a
call of one tool, or an answer. The text that comes back is read as that while it streams. When a tool has answered,
the model is asked in free text, in one message that holds the question and the result: small models repeat whatever
history they see, and with "call or answer" after each result they would call for ever. So there is at most one round
of tools for each message of the user.

Nothing is needed from the server but `response_format`. Which wording works was measured: docs/decisions/0007.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, final

from antiphon.core.content import text_of
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers.ids import new_id
from antiphon.providers.wire_json import clean


@dataclass(frozen=True, slots=True)
class Room:
    """How much text a request may hold, in bytes of UTF-8. `brief`: the window is small, so tools are told in short."""

    total: int
    brief: bool


def room_of(window: int, answer_tokens: int, *, bytes_per_token: int) -> Room:
    """The room that a context window (tokens) leaves beside the answer. A byte-level token is at least one byte."""
    brief = 0 < window <= 8192
    tokens = max(256, window - answer_tokens - 128) if window > 0 else 16_384
    return Room(tokens * bytes_per_token, brief)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to send: messages, further fields of the body, and whether the answer is JSON that may be a call."""

    messages: list[JsonObject]
    fields: JsonObject
    is_choice: bool


def ask(messages: Sequence[Message], state: SystemState, room: Room, tool_choice: Any = None) -> Asked:
    """The request for what stands at the end of a conversation."""
    turns = [m for m in messages if isinstance(m, UserMessage | AssistantMessage | ToolResultMessage)]
    if turns and type(turns[-1]) is ToolResultMessage:
        return Asked([{"role": "user", "content": _answer_prompt(turns, room)}], {}, is_choice=False)
    tools = () if tool_choice == "none" else state.tools
    if not tools:
        return Asked(_dialogue(state.prompt, turns, room), {}, is_choice=False)
    prompt = _tools_prompt(tools, room)
    fields = {"response_format": _response_format(tools, room)}
    return Asked(_dialogue(prompt, turns, room), fields, is_choice=True)


def _tools_prompt(tools: Sequence[ToolDeclaration], room: Room) -> str:
    lines = [f"- {tool.name}({', '.join(_properties(tool, room))}): {_description(tool, room)}" for tool in tools]
    return "You can call these tools:\n" + "\n".join(lines)


def _description(tool: ToolDeclaration, room: Room) -> str:
    text = " ".join(tool.description.split())
    return _SENTENCE.split(text, maxsplit=1)[0] if room.brief else text


_SENTENCE = re.compile(r"(?<=[.!?])\s")


def _properties(tool: ToolDeclaration, room: Room) -> JsonObject:
    """Argument names and schemas; in a small window only those that a call needs."""
    given = tool.parameters.get("properties")
    properties = cast("JsonObject", given) if isinstance(given, dict) else {}
    required = tool.parameters.get("required")
    if room.brief and isinstance(required, list) and required:
        return {name: properties.get(name, {}) for name in required}
    return properties


def _response_format(tools: Sequence[ToolDeclaration], room: Room) -> JsonObject:
    schema = {"anyOf": [_call_schema(tool, room) for tool in tools]}
    return {"type": "json_schema", "json_schema": {"name": "call", "strict": True, "schema": schema}}


def _call_schema(tool: ToolDeclaration, room: Room) -> JsonObject:
    properties = _properties(tool, room)
    required = tool.parameters.get("required")
    arguments: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": required if isinstance(required, list) else [],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"tool": {"const": tool.name}, "arguments": arguments},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _dialogue(prompt: str, turns: Sequence[Message], room: Room) -> list[JsonObject]:
    """Prompt and what was said, the newest parts first until the room is full; tool traffic is left out."""
    last = turns[-1] if turns else None
    left = room.total
    prompt = cut(clean(prompt), room.total // 2)
    left -= _bytes(prompt)
    items: list[JsonObject] = []
    for message in reversed(turns):
        if isinstance(message, ToolResultMessage):
            continue
        text = clean(text_of(message.content))
        if not text.strip() and message is not last:
            continue
        if message is last:
            text = cut(text, left)
        left -= _bytes(text)
        if left < 0 and items:
            break
        items.append({"role": message.role, "content": text})
    items.reverse()
    return [{"role": "system", "content": prompt}, *items] if prompt else items


def _answer_prompt(turns: Sequence[Message], room: Room) -> str:
    results: list[str] = []
    question = ""
    for message in reversed(turns):
        if isinstance(message, ToolResultMessage):
            results.append(clean(text_of(message.content)))
        elif isinstance(message, UserMessage):
            question = clean(text_of(message.content))
            break
    result = cut("\n\n".join(reversed(results)), min(room.total // 2, 2400 if room.brief else room.total))
    return f"{cut(question, room.total // 4)}\nThe answer is in this text: {result}\nAnswer in one short sentence."


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def cut(text: str, limit: int) -> str:
    """The text, or its head and tail of about `limit` bytes together."""
    if _bytes(text) <= limit:
        return text
    data = text.encode("utf-8", "replace")
    half = max(0, limit // 2 - 8)
    head = data[:half].decode("utf-8", "ignore")
    tail = data[len(data) - half :].decode("utf-8", "ignore")
    return f"{head}\n...\n{tail}"


# -- reading -----------------------------------------------------------------------------------------------------------

_HEAD = re.compile(r'\s*\{\s*"tool"\s*:\s*("(?:[^"\\]|\\.)*")\s*(?:,\s*"arguments"\s*:\s*(?=\{)|\})')
_HEAD_LIMIT: Final = 2000


@final
class ChoiceReader:
    """Rewrites the chunks of an answer that is JSON of our shape: a call's text becomes a streamed tool call.

    Text that is nothing of the kind stays text.
    """

    def __init__(self) -> None:
        self._head = ""
        self._state = "head"
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def rewrite(self, chunk: JsonObject) -> JsonObject:
        """The chunk as a server with tools would have sent it."""
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return chunk
        choice = cast("JsonObject", choices[0])
        delta = choice.get("delta")
        changed: JsonObject = dict(cast("JsonObject", delta)) if isinstance(delta, dict) else {}
        content = changed.pop("content", None)
        if isinstance(content, str):
            changed.update(self._read(content))
        finish = choice.get("finish_reason")
        if finish:
            if self._state == "head" and self._head:
                changed["content"] = self._head
                self._head = ""
            if finish == "stop" and self._state in ("call", "over"):
                finish = "tool_calls"
        return {**chunk, "choices": [{**choice, "delta": changed, "finish_reason": finish}]}

    def _read(self, piece: str) -> JsonObject:
        if self._state == "text":
            return {"content": piece}
        if self._state == "call":
            return self._arguments(piece)
        if self._state == "over":
            return {}
        self._head += piece
        stripped = self._head.lstrip()
        found = _HEAD.match(self._head)
        if found:
            name = json.loads(found[1])
            rest = self._head[found.end() :]
            self._head = ""
            self._state = "over" if found[0].endswith("}") else "call"
            text = "{}" if self._state == "over" else self._scan(rest)
            function = {"name": name, "arguments": text}
            return {"tool_calls": [{"index": 0, "id": new_id("call_"), "function": function}]}
        if (stripped and not stripped.startswith("{")) or len(self._head) > _HEAD_LIMIT:
            self._state = "text"
            text, self._head = self._head, ""
            return {"content": text}
        return {}

    def _arguments(self, piece: str) -> JsonObject:
        return {"tool_calls": [{"index": 0, "function": {"arguments": self._scan(piece)}}]}

    def _scan(self, piece: str) -> str:
        """The part of the piece that belongs to the arguments object."""
        for at, char in enumerate(piece):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif char == "\\":
                    self._escaped = True
                elif char == '"':
                    self._in_string = False
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._state = "over"
                    return piece[: at + 1]
        return piece
