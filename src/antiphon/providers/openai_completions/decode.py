"""A Chat Completions stream as response events (pure). Source: providers specification 4.2 and 12.

All blocks end when the stream is over, in content order. Text, thinking: one block each, opened when their first piece
comes. Servers differ in everything else, so each field is looked at on its own and nonsense in one is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast, final

from msgspec import Struct

from antiphon.core.messages import StopReason
from antiphon.core.model import Model
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import failures, wire_json
from antiphon.providers.custom_input import CustomInput
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.draft import AnswerDraft, GrowingCall, GrowingText, GrowingThinking
from antiphon.providers.failures import Failure, Malformed
from antiphon.providers.ids import new_id
from antiphon.providers.openai_completions.reasoning_details import ReasoningDetails
from antiphon.providers.openai_completions.usage import read_usage
from antiphon.providers.sse import SseEvent

DONE: Final = "[DONE]"

STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "stop": "stop",
    "end": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")


class _StreamedCall(Struct):
    """A call as it streams. `custom`: its free text input, if it is a call of a grammar tool."""

    block: GrowingCall
    custom: CustomInput | None = None


@final
class ChatDecoder:
    """One answer. `custom_arguments`: for each grammar tool the name of its single argument."""

    def __init__(self, model: Model, started_ms: int, custom_arguments: Mapping[str, str] | None = None) -> None:
        self._model = model
        self._flags = chat_dialect(model)
        self._draft = AnswerDraft(model, started_ms)
        self._custom_arguments = custom_arguments or {}
        self._text: GrowingText | None = None
        self._thinking: GrowingThinking | None = None
        self._details = ReasoningDetails()
        self._plain_reasoning = False
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int, _StreamedCall] = {}
        self._by_id: dict[str, _StreamedCall] = {}
        self._finish: str | None = None

    # -- Decoder

    @property
    def finished(self) -> bool:
        return self._draft.finished

    @property
    def failure(self) -> Failure | None:
        return self._draft.failure

    def parse(self, event: SseEvent) -> JsonValue | None:
        if event.data.strip() == b"[DONE]":
            return DONE
        try:
            return wire_json.read(event.data)
        except ValueError as error:
            raise Malformed(f"not JSON ({error}): {failures.cut(event.data.decode('utf-8', 'replace'), 200)}") from None

    def whole(self, answer: JsonObject) -> Sequence[JsonValue] | None:
        choices = [
            {**choice, "delta": choice["message"]} for choice in _objects(answer, "choices") if "message" in choice
        ]
        return [{**answer, "choices": choices}, DONE] if choices else None

    def start(self) -> list[ResponseEvent]:
        self._draft.start()
        return self._draft.take()

    def feed(self, value: JsonValue) -> list[ResponseEvent]:
        if value == DONE:
            self._finish_answer(complete=True)
        elif isinstance(value, dict):
            self._chunk(cast("JsonObject", value))
        return self._draft.take()

    def end(self) -> list[ResponseEvent]:
        self._finish_answer(complete=not self._flags.supports_finish_reason)
        return self._draft.take()

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        self._name_calls()
        if failure.kind == "aborted":
            self._close_blocks()
        self._draft.failed(failure)
        return self._draft.take()

    # -- chunks

    def _chunk(self, chunk: JsonObject) -> None:
        draft = self._draft
        if not draft.response_id and (id_ := _text(chunk, "id")):
            draft.response_id = id_
        if (
            not draft.response_model
            and isinstance(name := chunk.get("model"), str)
            and name not in ("", self._model.id)
        ):
            draft.response_model = name
        choice = _first_choice(chunk)
        self._usage(chunk, choice)
        error = chunk.get("error")
        if error:
            draft.failed(_stream_error(error))
        elif choice is not None:
            self._choice(choice)

    def _usage(self, chunk: JsonObject, choice: JsonObject | None) -> None:
        groq = chunk.get("x_groq")
        for holder in (chunk, choice, groq):
            raw = cast("JsonObject", holder).get("usage") if isinstance(holder, dict) else None
            if isinstance(raw, dict):
                self._draft.usage = read_usage(cast("JsonObject", raw), self._model)
                return

    def _choice(self, choice: JsonObject) -> None:
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish
            self._draft.raw_stop_reason = finish
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        given = cast("JsonObject", delta)
        self._reasoning(given)
        for entry in _list(given, "reasoning_details"):
            self._detail(entry)
        content = given.get("content")
        if isinstance(content, str):
            self._add_text(content)
        elif isinstance(content, list):
            self._parts(content)
        refusal = given.get("refusal")
        if isinstance(refusal, str):
            self._add_text(refusal)
        for piece in _objects(given, "tool_calls"):
            self._tool_call(piece)

    # -- text and thinking

    def _add_text(self, piece: str) -> None:
        if piece:
            if self._text is None:
                self._text = self._draft.open_text()
            self._text.add(piece)

    def _add_thinking(self, piece: str, signature: str) -> None:
        if self._thinking is None:
            self._thinking = self._draft.open_thinking()
            self._thinking.signature = signature
        if piece:
            self._thinking.add(piece)

    def _reasoning(self, delta: JsonObject) -> None:
        for name in _REASONING_FIELDS:
            piece = delta.get(name)
            if isinstance(piece, str) and piece:
                self._plain_reasoning = True
                if name == "reasoning" and self._model.provider == "opencode-go":
                    name = "reasoning_content"
                self._add_thinking(piece, name)
                return

    def _detail(self, entry: Any) -> None:
        """An entry of structured reasoning; its words are shown while the answer has no plain field for them."""
        words = self._details.add(entry)
        if words is not None:
            self._add_thinking("" if self._plain_reasoning else words, "")

    def _parts(self, parts: list[Any]) -> None:
        """Content as a list of parts: thoughts with texts inside, and texts."""
        for part in parts:
            if isinstance(part, str):
                self._add_text(part)
            elif isinstance(part, dict):
                for kind, words in _part_words(cast("JsonObject", part)):
                    if kind == "thinking":
                        self._add_thinking(words, "content")
                    else:
                        self._add_text(words)

    # -- calls

    def _tool_call(self, piece: JsonObject) -> None:
        custom = piece.get("custom")
        function = cast("JsonObject", custom if isinstance(custom, dict) else _object(piece, "function"))
        id_, name = _text(piece, "id"), _text(function, "name")
        call = self._find_call(piece.get("index"), id_)
        if call is None:
            call = self._open_call(piece.get("index"), id_, name)
        if id_ and not call.block.id:
            call.block.id = id_
            self._by_id[id_] = call
        if name and not call.block.name:
            call.block.name = name
        if isinstance(custom, dict):
            if call.custom is None:
                call.custom = CustomInput(call.block, self._custom_arguments.get(call.block.name, "input"))
            call.custom.add(_text(function, "input"))
        else:
            call.block.add(_argument_text(function.get("arguments")))

    def _find_call(self, index: Any, id_: str) -> _StreamedCall | None:
        """By index, else by id. A new id on a used index is a new call; a piece with neither continues the last."""
        if isinstance(index, int) and not isinstance(index, bool):
            call = self._by_index.get(index)
            if call is not None and id_ and call.block.id and call.block.id != id_:
                return self._by_id.get(id_)
            if call is not None:
                return call
        if id_:
            call = self._by_id.get(id_)
            if call is not None and isinstance(index, int):
                self._by_index[index] = call
            return call
        if index is None and self._calls:
            return self._calls[-1]
        return None

    def _open_call(self, index: Any, id_: str, name: str) -> _StreamedCall:
        call = _StreamedCall(self._draft.open_call(id_, name))
        self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        if id_:
            self._by_id[id_] = call
        return call

    # -- the end

    def _close_blocks(self) -> None:
        if self._thinking is not None and self._details:
            self._thinking.signature = wire_json.encode_text(self._details.entries())
        self._name_calls()
        customs = {call.block.index: call.custom for call in self._calls}
        for block in self._draft.blocks:
            custom = customs.get(block.index)
            if custom is not None and not block.closed:
                custom.complete()
            block.close()

    def _name_calls(self) -> None:
        """A call that never got an id gets one of ours."""
        for call in self._calls:
            if not call.block.id:
                call.block.id = new_id("call_")

    def _finish_answer(self, *, complete: bool) -> None:
        """`complete`: an end without a finish reason is an end, too."""
        if self._draft.finished:
            return
        self._close_blocks()
        if self._finish is None:
            if complete:
                self._draft.done("toolUse" if self._calls else "stop")
            else:
                self._draft.failed(failures.truncated("a finish reason"))
            return
        reason = STOP_REASONS.get(self._finish)
        if reason is None:
            self._draft.failed(failures.finish_error(self._finish))
        else:
            self._draft.done(reason)


def _argument_text(arguments: Any) -> str:
    """Argument text; some servers send the object itself."""
    if isinstance(arguments, str):
        return arguments
    return wire_json.encode_text(arguments) if isinstance(arguments, dict) else ""


def _part_words(part: JsonObject) -> Iterator[tuple[str, str]]:
    """The words of a content part, with their kind."""
    kind = "thinking" if part.get("type") == "thinking" else "text"
    words = part.get(kind)
    if isinstance(words, str):
        yield kind, words
    elif isinstance(words, list):
        for inner in words:
            text = _text(cast("JsonObject", inner), "text") if isinstance(inner, dict) else inner
            if isinstance(text, str):
                yield kind, text


def _first_choice(chunk: JsonObject) -> JsonObject | None:
    """The choice with index 0; one without an index is it, too."""
    return next((choice for choice in _objects(chunk, "choices") if choice.get("index") in (0, None)), None)


def _stream_error(error: Any) -> Failure:
    if isinstance(error, dict):
        return failures.provider_error(failures.error_words(cast("JsonObject", error)))
    return failures.provider_error(error if isinstance(error, str) else wire_json.encode_text(error))


def _objects(holder: JsonObject, name: str) -> list[JsonObject]:
    return [item for item in _list(holder, name) if isinstance(item, dict)]


def _list(holder: JsonObject, name: str) -> list[Any]:
    value = holder.get(name)
    return value if isinstance(value, list) else []


def _object(holder: JsonObject, name: str) -> JsonObject:
    value = holder.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _text(holder: JsonObject, name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""
