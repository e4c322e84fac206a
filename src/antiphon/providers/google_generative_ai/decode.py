"""Stream chunks of Gemini -> response events and the final message.

A chunk holds parts. Text continues the current block of its kind; a function call is whole in one part, unless the
server streams its arguments (`willContinue`), which `partial_args` puts together. There is no last event: the answer is
over when the body is, and complete if some chunk named a finish reason. Source: provider specification, 4.5, 5.4, 12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

from msgspec import UNSET, UnsetType

from antiphon.core.messages import StopReason
from antiphon.core.model import Model
from antiphon.core.response_events import ResponseEvent
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import cost
from antiphon.providers.cost import priced
from antiphon.providers.draft import AnswerDraft, GrowingCall, GrowingText, GrowingThinking
from antiphon.providers.failures import (
    Failure,
    Malformed,
    blocked,
    error_words,
    finish_error,
    provider_error,
    truncated,
    unknown_finish,
)
from antiphon.providers.google_generative_ai.partial_args import PartialArguments
from antiphon.providers.ids import new_id
from antiphon.providers.sse import SseEvent
from antiphon.providers.wire_json import encode_text, read

_FAILED = (
    "SAFETY RECITATION LANGUAGE OTHER BLOCKLIST PROHIBITED_CONTENT SPII MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL "
    "TOO_MANY_TOOL_CALLS NO_IMAGE FINISH_REASON_UNSPECIFIED"
)

FINISH_REASONS: dict[str, StopReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_FAILED.split(), "error"),
}


def stop_reason_of(finish_reason: str) -> StopReason | None:
    """What a finish reason comes to; None if nobody has told us of it."""
    return "error" if finish_reason.startswith("IMAGE_") else FINISH_REASONS.get(finish_reason)


@final
class _OpenCall:
    """A call whose arguments are still being streamed."""

    __slots__ = ("arguments", "draft")

    def __init__(self, draft: GrowingCall) -> None:
        self.draft = draft
        self.arguments = PartialArguments()

    def close(self, *, whole: bool) -> None:
        """End the call. Arguments that were cut off are told as text that is no JSON, so that nobody runs them."""
        arguments = self.arguments.build()
        text = encode_text(arguments)
        if whole:
            self.draft.add(text)
            self.draft.close_with(arguments)
        else:
            self.draft.add(text[:-1])
            self.draft.close()


@final
class GeminiDecoder:
    """One answer. `new_id` makes ids for calls that came without one of their own."""

    def __init__(self, model: Model, draft: AnswerDraft, new_id: Callable[[str], str] = new_id) -> None:
        self.finished = False
        self.draft = draft
        self._model = model
        self._new_id = new_id
        self._current: GrowingText | GrowingThinking | None = None
        self._call: _OpenCall | None = None
        self._ids: set[str] = set()
        self._stop: StopReason | None = None
        self._finish_words = ""
        self._blocked = ""
        self._counts: JsonObject | None = None  # as last reported; read when the answer is over

    # --- the four moments of an answer ---

    def parse(self, event: SseEvent) -> JsonValue | None:
        """The chunk, or None if the event holds no object."""
        if event.data.startswith(b"[DONE]"):
            return None
        try:
            value = read(event.data)
        except ValueError as error:
            raise Malformed(f"a chunk is not JSON: {error}") from error
        return value if isinstance(value, dict) else None

    def whole(self, answer: JsonObject) -> list[JsonValue] | None:
        """The one chunk of an answer that was not streamed."""
        return [answer] if "candidates" in answer or "promptFeedback" in answer else None

    def start(self) -> list[ResponseEvent]:
        self.draft.start()
        return self.draft.take()

    def feed(self, value: JsonValue) -> list[ResponseEvent]:
        if not self.finished:
            self._chunk(cast("JsonObject", value))
        return self.draft.take()

    def end(self) -> list[ResponseEvent]:
        if not self.finished:
            self._end()
        return self.draft.take()

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        if not self.finished:
            self._failed(failure)
        return self.draft.take()

    def _failed(self, failure: Failure) -> None:
        self._settle()
        self.draft.failed(failure)

    def _settle(self) -> None:
        self.finished = True
        if self._counts is not None:
            self.draft.usage = _usage(self._counts, self._model)

    def _end(self) -> None:
        self._close_current()
        if self._stop is None:
            if self._blocked:
                self._failed(blocked(self._blocked))
            else:
                self._failed(truncated("a finish reason"))
            return
        self._close_call(whole=self._stop == "stop")
        if self._stop == "error":
            self._failed(_explained(finish_error, str(self.draft.raw_stop_reason), self._finish_words))
            return
        self._settle()
        self.draft.done("toolUse" if self.draft.has_calls and self._stop == "stop" else self._stop)

    # --- a chunk ---

    def _chunk(self, chunk: JsonObject) -> None:
        if chunk.get("error") is not None:
            self._error(chunk["error"])
            return
        if self.draft.response_id is UNSET and (id_ := _text(chunk.get("responseId"))):
            self.draft.response_id = id_
        candidate = _first_candidate(chunk)
        content = _object(candidate.get("content"))
        parts = content.get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(cast("JsonObject", part))
        self._finish(candidate)
        if self.finished:
            return
        if isinstance(usage := chunk.get("usageMetadata"), dict):
            self._counts = cast("JsonObject", usage)
        feedback = _object(chunk.get("promptFeedback"))
        if reason := _text(feedback.get("blockReason")):
            words = _text(feedback.get("blockReasonMessage"))
            self._blocked = f"{reason}: {words}" if words else reason

    def _error(self, given: Any) -> None:
        words = given if isinstance(given, str) else error_words(_object(given)) or encode_text(given)
        self._failed(provider_error(words))

    def _finish(self, candidate: JsonObject) -> None:
        reason = candidate.get("finishReason")
        if reason is None or reason == "":
            return
        raw = reason if isinstance(reason, str) else encode_text(reason)
        self.draft.raw_stop_reason = raw
        self._stop = stop_reason_of(raw)
        self._finish_words = _text(candidate.get("finishMessage"))
        if self._stop is None:
            self._failed(_explained(unknown_finish, raw, self._finish_words))

    # --- its parts ---

    def _part(self, part: JsonObject) -> None:
        signature = _text(part.get("thoughtSignature")) or UNSET
        if isinstance(text := part.get("text"), str):
            self._words(text, part.get("thought") is True, signature)
        if isinstance(call := part.get("functionCall"), dict):
            self._function_call(cast("JsonObject", call), signature)

    def _words(self, text: str, thought: bool, signature: str | UnsetType) -> None:
        self._close_call(whole=True)
        kind = GrowingThinking if thought else GrowingText
        current = self._current
        if current is None or type(current) is not kind:
            self._close_current()
            current = self._current = self.draft.open_thinking() if thought else self.draft.open_text()
        if signature is not UNSET:
            current.signature = signature
        current.add(text)

    def _function_call(self, call: JsonObject, signature: str | UnsetType) -> None:
        self._close_current()
        name, id_ = _text(call.get("name")), _text(call.get("id"))
        open_call = self._call
        if open_call is not None and name and id_ != open_call.draft.id:
            self._close_call(whole=True)
            open_call = None
        if open_call is None:
            if not name and not any(call.get(member) for member in ("args", "partialArgs", "id")):
                return  # the empty piece behind a call that has ended
            open_call = self._call = _OpenCall(self.draft.open_call(self._unused(id_), name))
        if signature is not UNSET:
            open_call.draft.thought_signature = signature
        self._arguments(open_call, call)
        if call.get("willContinue") is not True:
            self._close_call(whole=True)

    def _arguments(self, open_call: _OpenCall, call: JsonObject) -> None:
        arguments = call.get("args")
        if isinstance(arguments, dict):
            open_call.arguments.merge(cast("JsonObject", arguments))
        pieces = call.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            open_call.arguments.add(piece)

    def _unused(self, id_: str) -> str:
        """The provider's id, unless it is missing or was used in this answer."""
        chosen = id_ if id_ and id_ not in self._ids else self._new_id("call_")
        self._ids.add(chosen)
        return chosen

    def _close_current(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    def _close_call(self, *, whole: bool) -> None:
        if self._call is not None:
            self._call.close(whole=whole)
            self._call = None


def _explained(make: Callable[[str], Failure], reason: str, words: str) -> Failure:
    """The failure with the server's words, unless they would make it look like another one.

    The words may quote the model; `503` or `try again` in them says nothing about the server.
    """
    plain, full = make(reason), make(f"{reason}: {words}")
    alike = (plain.retryable, plain.overflow, plain.account_limit) == (
        full.retryable,
        full.overflow,
        full.account_limit,
    )
    return full if words and alike else plain


def _first_candidate(chunk: JsonObject) -> JsonObject:
    """The first candidate; one that is numbered, and not as the first, is somebody else's answer."""
    candidates = chunk.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        found = _object(candidate)
        index = found.get("index")
        if type(index) is not int or index <= 0:
            return found
    return {}


def _usage(given: JsonObject, model: Model) -> Usage:
    """Counts as Gemini reports them. Cached tokens leave the input, thoughts are output. Source: 5.4, 12 row 18."""

    def count(name: str) -> int:
        return cost.count(given.get(name))

    cached, thoughts = count("cachedContentTokenCount"), count("thoughtsTokenCount")
    input_ = max(0, count("promptTokenCount") + count("toolUsePromptTokenCount") - cached)
    output = count("candidatesTokenCount") + thoughts
    reported = given.get("totalTokenCount")
    usage = Usage(
        input=input_,
        output=output,
        cache_read=cached,
        reasoning=thoughts,
        total_tokens=input_ + output + cached if reported is None else cost.count(reported),
    )
    return priced(usage, model.cost)


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
