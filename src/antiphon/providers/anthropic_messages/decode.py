"""Stream events of Anthropic Messages -> response events and the final message.

A message is bracketed by `message_start` and `message_stop`. Between them blocks start, grow and stop, told apart by
`index` (several may be open at once); `message_delta` brings the stop reason and the final counts. What we do not know
(server tools, citations, compaction, whatever comes next) is skipped with all its deltas.

Servers that imitate this protocol leave things out: an index, an id, the closing of a block, the `event:` line. Each
such gap has one answer here, and none of them is an exception. Source: provider specification, 4.7, 5.3 and 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

from msgspec import UNSET

from antiphon.core.messages import StopReason
from antiphon.core.model import Model
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import house_texts
from antiphon.providers.anthropic_messages.counts import Counts
from antiphon.providers.draft import AnswerDraft, Growing, GrowingCall, GrowingText, GrowingThinking
from antiphon.providers.failures import (
    Failure,
    Malformed,
    error_words,
    finish_error,
    malformed,
    provider_error,
    refusal,
    truncated,
    unknown_finish,
    unsupported_fallback,
)
from antiphon.providers.ids import new_id
from antiphon.providers.sse import SseEvent
from antiphon.providers.wire_json import encode_text, read

STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "stop",
    "pause_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
    "refusal": "error",
    "sensitive": "error",
}


@final
class _Block:
    """One open block of the wire: where its pieces go, and what it brought besides text."""

    __slots__ = ("draft", "index", "input", "signature")

    def __init__(self, draft: Growing, signature: str = "", given: Any = None) -> None:
        self.draft = draft
        self.index: int | None = None
        self.signature = [signature]
        self.input = given

    def settle(self) -> None:
        """Hand over what has arrived beside the text, so that a message cut off now shows it."""
        if isinstance(self.draft, GrowingThinking) and not self.draft.redacted:
            self.draft.signature = "".join(self.signature)

    def close(self) -> None:
        """End the block. A call whose whole input stood in its start says it now, as one piece."""
        self.settle()
        if isinstance(self.draft, GrowingCall) and self.input and not self.draft.text.strip():
            given = self.input
            self.draft.add(given if isinstance(given, str) else encode_text(given))
        self.draft.close()


@final
class MessagesDecoder:
    """One answer. `new_id` makes the id of a call that came without one."""

    def __init__(self, model: Model, draft: AnswerDraft, new_id: Callable[[str], str] = new_id) -> None:
        self.finished = False
        self.draft = draft
        self._model = model
        self._new_id = new_id
        self._open: dict[int | None, _Block] = {}  # by wire index, in order of their starts
        self._latest: _Block | None = None
        self._started = False
        self._stop: StopReason | None = None
        self._explanation = ""
        self._counts = Counts(model)
        self._transformations: list[Any] = []

    # --- the four moments of an answer ---

    def parse(self, event: SseEvent) -> JsonValue | None:
        """The event as an object that says what it is in `type`; None if there is nothing in it for us."""
        if event.name == "error":
            return _error_event(event.data)
        if event.data.startswith(b"[DONE]"):
            return None
        try:
            value = read(event.data)
        except ValueError as error:
            raise Malformed(f"an event is not JSON: {error}") from error
        if not isinstance(value, dict):
            return None
        data = cast("JsonObject", value)
        return data if isinstance(data.get("type"), str) else {**data, "type": event.name}

    def whole(self, answer: JsonObject) -> list[JsonValue] | None:
        """The events of an answer that was not streamed."""
        content = answer.get("content")
        if answer.get("type") != "message" or not isinstance(content, list):
            return None
        events: list[JsonValue] = [{"type": "message_start", "message": answer}]
        for index, block in enumerate(content):
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            events.append({"type": "content_block_stop", "index": index})
        return [*events, {"type": "message_delta", "delta": answer}, {"type": "message_stop"}]

    def start(self) -> list[ResponseEvent]:
        self.draft.start()
        return self.draft.take()

    def feed(self, value: JsonValue) -> list[ResponseEvent]:
        event = cast("JsonObject", value)
        handle = _HANDLERS.get(event["type"])
        if handle is not None and not self.finished:
            handle(self, event)
        return self.draft.take()

    def end(self) -> list[ResponseEvent]:
        """The body is over. An answer that was complete has said so before."""
        return self.fail(truncated("message_stop"))

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        if not self.finished:
            self._failed(failure)
        return self.draft.take()

    def _failed(self, failure: Failure) -> None:
        for block in self._open.values():
            block.settle()
        self.finished = True
        self.draft.failed(failure)

    # --- the message ---

    def message_start(self, event: JsonObject) -> None:
        message = _object(event.get("message"))
        id_ = _text(message.get("id"))
        if self._started:
            if id_ and self.draft.response_id is not UNSET and id_ != self.draft.response_id:
                text = f"message {id_} started while message {self.draft.response_id} was open"
                self._failed(malformed(text, retryable=True))
            return
        self._started = True
        if id_:
            self.draft.response_id = id_
        answering = _text(message.get("model"))
        if answering and answering != self._model.id:
            self.draft.response_model = answering
            self._counts.answered_by(answering)
        if isinstance(noted := message.get("input_transformations"), list):
            self._transformations += noted
        self._count(message.get("usage"))

    def message_delta(self, event: JsonObject) -> None:
        delta = _object(event.get("delta"))
        reason = delta.get("stop_reason")
        if reason is not None:
            self.draft.raw_stop_reason = reason if isinstance(reason, str) else encode_text(reason)
            self._stop = STOP_REASONS.get(self.draft.raw_stop_reason)
            if self._stop is None:
                self._failed(unknown_finish(self.draft.raw_stop_reason))
                return
        if explanation := _text(_object(delta.get("stop_details")).get("explanation")):
            self._explanation = explanation
        self._count(event.get("usage"))

    def message_stop(self, event: JsonObject) -> None:
        reason = self._stop
        if reason is None:
            self._failed(truncated("a stop reason"))
        elif reason == "error":
            raw = self.draft.raw_stop_reason
            self._failed(refusal(self._explanation) if raw == "refusal" else finish_error(str(raw)))
        else:
            for block in list(self._open.values()):
                block.close()
            if self._transformations:
                details = {"transformations": self._transformations}
                self.draft.diagnostics.append(diagnostic("anthropic_input_transformations", self.draft, details))
            self.finished = True
            self.draft.done(reason)

    def error(self, event: JsonObject) -> None:
        error = event.get("error")
        words = error if isinstance(error, str) else error_words(_object(error)) or encode_text(error or event)
        self._failed(provider_error(words))

    # --- its blocks ---

    def block_start(self, event: JsonObject) -> None:
        index = _index(event)
        if (before := self._open.pop(index, None)) is not None:
            before.close()  # the index is used again: its first block cannot grow any more
        block = _object(event.get("content_block"))
        begin = _BLOCKS.get(_text(block.get("type")))
        self._latest = None if begin is None else begin(self, block)
        if self._latest is not None:
            self._latest.index = index
            self._open[index] = self._latest

    def _text_block(self, block: JsonObject) -> _Block:
        return _Block(self.draft.open_text(_text(block.get("text"))))

    def _thinking_block(self, block: JsonObject) -> _Block:
        return _Block(self.draft.open_thinking(_text(block.get("thinking"))), _text(block.get("signature")))

    def _redacted_block(self, block: JsonObject) -> _Block:
        draft = self.draft.open_thinking(house_texts.REDACTED, redacted=True, signature=_text(block.get("data")))
        return _Block(draft)

    def _tool_block(self, block: JsonObject) -> _Block:
        id_ = _text(block.get("id")) or self._new_id("call_")
        return _Block(self.draft.open_call(id_, _text(block.get("name"))), given=block.get("input"))

    def _fallback_block(self, block: JsonObject) -> None:
        if self.draft.blocks:
            self._failed(unsupported_fallback("a fallback block came behind other content"))

    def block_delta(self, event: JsonObject) -> None:
        block = self._find(event)
        delta = event.get("delta")
        if block is None or not isinstance(delta, dict):
            return
        piece = cast("JsonObject", delta)
        wanted = _DELTAS.get(_text(piece.get("type")))
        if wanted is None or type(block.draft) is not wanted[0]:
            return
        text = piece.get(wanted[1])
        if not isinstance(text, str):
            return
        if wanted[1] == "signature":
            block.signature.append(text)
        else:
            block.draft.add(text)

    def block_stop(self, event: JsonObject) -> None:
        block = self._find(event)
        if block is not None:
            del self._open[block.index]
            block.close()

    def _find(self, event: JsonObject) -> _Block | None:
        """The open block that an event speaks of; without an index, the one that started last."""
        index = _index(event)
        if index is not None:
            return self._open.get(index)
        latest = self._latest
        return latest if latest is not None and not latest.draft.closed else None

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self.draft.usage = self._counts.take(cast("JsonObject", usage))


_HANDLERS: dict[str, Callable[[MessagesDecoder, JsonObject], None]] = {
    "content_block_delta": MessagesDecoder.block_delta,
    "content_block_start": MessagesDecoder.block_start,
    "content_block_stop": MessagesDecoder.block_stop,
    "message_start": MessagesDecoder.message_start,
    "message_delta": MessagesDecoder.message_delta,
    "message_stop": MessagesDecoder.message_stop,
    "error": MessagesDecoder.error,
}

_BLOCKS: dict[str, Callable[[MessagesDecoder, JsonObject], _Block | None]] = {
    "text": MessagesDecoder._text_block,
    "thinking": MessagesDecoder._thinking_block,
    "redacted_thinking": MessagesDecoder._redacted_block,
    "tool_use": MessagesDecoder._tool_block,
    "fallback": MessagesDecoder._fallback_block,
}

_DELTAS: dict[str, tuple[type, str]] = {
    "text_delta": (GrowingText, "text"),
    "thinking_delta": (GrowingThinking, "thinking"),
    "signature_delta": (GrowingThinking, "signature"),
    "input_json_delta": (GrowingCall, "partial_json"),
}


def _error_event(data: bytes) -> JsonObject:
    """What an `event: error` says, in its documented shape: some servers send the bare error, or mere words."""
    try:
        value = read(data)
    except ValueError:
        value = data.decode("utf-8", "replace")
    if isinstance(value, dict) and cast("JsonObject", value).get("type") == "error":
        return cast("JsonObject", value)
    return {"type": "error", "error": value}


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(event: JsonObject) -> int | None:
    index = event.get("index")
    return index if type(index) is int else None


def diagnostic(kind: str, draft: AnswerDraft, details: JsonObject) -> JsonObject:
    """Something that a reader of the answer should know."""
    return {"type": kind, "timestamp": draft.started_ms, "details": details}
