"""Reading the answer of a model that was asked for JSON: a call, or words (pure).

Chunks of a Chat Completions stream are rewritten into what a server with tools would have sent, so the ordinary decoder
reads them. The text of a call's arguments, and the words of an answer, pass through as they come. A text that is
nothing of the kind stays text: some servers ignore the schema.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, cast, final

from antiphon.core.wire import JsonObject
from antiphon.providers import wire_json
from antiphon.providers.emulated_tools import ANSWER_KEY, ARGUMENTS_KEY, TOOL_KEY
from antiphon.providers.ids import new_id

_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_FENCE: Final = r"\s*(?:```(?:json)?\s*)?"
_CALL = re.compile(rf'{_FENCE}\{{\s*"{TOOL_KEY}"\s*:\s*({_STRING})\s*,\s*"{ARGUMENTS_KEY}"\s*:\s*(?=\{{)')
_ANSWER = re.compile(rf'{_FENCE}\{{\s*"{ANSWER_KEY}"\s*:\s*"')
_MAYBE_JSON = re.compile(r"\s*(?:`{0,2}$|```|\{|$)")
_WHOLE_FENCED = re.compile(r"\s*```(?:json)?(.*?)(?:```\s*)?", re.DOTALL)
_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LONGEST_HEAD: Final = 2000


@final
class ChoiceReader:
    """One answer. Feed it every chunk; it gives back chunks."""

    def __init__(self) -> None:
        self._state: Literal["head", "call", "words", "text", "over"] = "head"
        self._head = ""
        self._called = False
        self._depth = 0
        self._in_string = False
        self._escape = ""

    def rewrite(self, chunk: JsonObject) -> JsonObject:
        """The chunk as a server with tools would have sent it."""
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return chunk
        choice = cast("JsonObject", choices[0])
        given = choice.get("delta")
        delta: JsonObject = dict(cast("JsonObject", given)) if isinstance(given, dict) else {}
        content = delta.pop("content", None)
        pieces = self._read(content) if isinstance(content, str) else []
        finish = choice.get("finish_reason")
        if finish:
            pieces += self._rest()
        if finish == "stop" and self._called:
            finish = "tool_calls"
        delta.update(_joined(pieces))
        return {**chunk, "choices": [{**choice, "delta": delta, "finish_reason": finish}]}

    def rest(self) -> JsonObject | None:
        """A chunk with what was held back, if the answer ends without a finish reason."""
        pieces = self._rest()
        return {"choices": [{"index": 0, "delta": _joined(pieces)}]} if pieces else None

    def _read(self, piece: str) -> list[JsonObject]:
        match self._state:
            case "text":
                return [{"content": piece}]
            case "words":
                return [{"content": self._unescaped(piece)}]
            case "call":
                return [_arguments(self._scanned(piece))]
            case "over":
                return []
            case "head":
                self._head += piece
                return self._decided()

    def _decided(self) -> list[JsonObject]:
        """What the head says, once it is clear what it begins."""
        head = self._head
        if not _MAYBE_JSON.match(head):
            self._state, self._head = "text", ""
            return [{"content": head}]
        if len(head) > _LONGEST_HEAD:
            return []  # of another shape; looked at when it is whole
        call = _CALL.match(head)
        if call is not None:
            self._state, self._head = "call", ""
            return [self._start(str(wire_json.read(call[1]))), _arguments(self._scanned(head[call.end() :]))]
        answer = _ANSWER.match(head)
        if answer is not None:
            self._state, self._head = "words", ""
            return [{"content": self._unescaped(head[answer.end() :])}]
        return []

    def _rest(self) -> list[JsonObject]:
        """What is held back at the end: JSON whose members stand in another order, or plain text after all."""
        head, self._head = self._head, ""
        if self._state != "head" or not head:
            return []
        self._state = "over"
        fenced = _WHOLE_FENCED.fullmatch(head)
        value = wire_json.read_object(fenced[1] if fenced else head) or {}
        name, arguments, answer = value.get(TOOL_KEY), value.get(ARGUMENTS_KEY, {}), value.get(ANSWER_KEY)
        if isinstance(name, str) and isinstance(arguments, dict):
            return [self._start(name), _arguments(wire_json.encode_text(arguments))]
        return [{"content": answer if isinstance(answer, str) else head}]

    def _start(self, name: str) -> JsonObject:
        self._called = True
        return {"tool_calls": [{"index": 0, "id": new_id("call_"), "function": {"name": name, "arguments": ""}}]}

    def _scanned(self, piece: str) -> str:
        """The part of the piece that belongs to the arguments object."""
        for at, char in enumerate(piece):
            if self._in_string:
                if self._escape:
                    self._escape = ""
                elif char == "\\":
                    self._escape = char
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

    def _unescaped(self, piece: str) -> str:
        """The words of a JSON string as far as they are certain. Halves of a surrogate pair come one by one."""
        words: list[str] = []
        for char in piece:
            if self._escape:
                self._escape += char
                if self._escape[1] != "u":
                    words.append(_ESCAPES.get(char, char))
                    self._escape = ""
                elif len(self._escape) == _UNICODE_ESCAPE:
                    words.append(_character(self._escape[2:]))
                    self._escape = ""
            elif char == "\\":
                self._escape = char
            elif char == '"':
                self._state = "over"
                break
            else:
                words.append(char)
        return "".join(words)


_UNICODE_ESCAPE: Final = len("\\u0000")


def _character(digits: str) -> str:
    try:
        return chr(int(digits, 16))
    except ValueError:
        return "\ufffd"


def _arguments(text: str) -> JsonObject:
    return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


def _joined(pieces: list[JsonObject]) -> JsonObject:
    """The pieces as one delta."""
    calls: list[Any] = [call for piece in pieces for call in piece.get("tool_calls", ())]
    words = "".join(piece.get("content", "") for piece in pieces)
    return {**({"tool_calls": calls} if calls else {}), **({"content": words} if words else {})}
