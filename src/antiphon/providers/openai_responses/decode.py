"""A Responses stream as response events (pure). Source: providers specification 4.4 and 12.

Each output item is one block. Items are told apart by `output_index`; where a server leaves it out, by the item's id.
The final item wins over its deltas. Item types that are no text, reasoning or call of ours are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast, final

from msgspec import UNSET, Struct

from antiphon.core.messages import StopReason
from antiphon.core.model import Model
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import failures, wire_json
from antiphon.providers.cost import priced
from antiphon.providers.custom_input import CustomInput
from antiphon.providers.draft import AnswerDraft, GrowingCall, GrowingText, GrowingThinking
from antiphon.providers.failures import Failure, Malformed
from antiphon.providers.ids import new_id
from antiphon.providers.openai_responses.usage import read_usage
from antiphon.providers.sse import SseEvent

PART_END: Final = "\n\n"
_STOPS: Final = ("completed", "queued", "in_progress", "")


class _Item(Struct):
    """An output item: its block, and what is particular to its kind. `done`: its final form has come."""

    block: GrowingText | GrowingThinking | GrowingCall
    id: str
    custom: CustomInput | None = None
    stored: JsonObject | None = None
    done: bool = False


_Handler: TypeAlias = Callable[["ResponsesDecoder", JsonObject], None]


@final
class ResponsesDecoder:
    """One answer. `custom_arguments`: for each grammar tool the name of its single argument; `asked_tier`: the
    service tier that was asked for."""

    def __init__(
        self,
        model: Model,
        started_ms: int,
        custom_arguments: Mapping[str, str] | None = None,
        asked_tier: Any = None,
        provider_level: str | None = None,
    ) -> None:
        self._model = model
        self._draft = AnswerDraft(model, started_ms)
        if provider_level is not None:
            self._draft.provider_thinking_level = provider_level
        self._custom_arguments = custom_arguments or {}
        self._asked_tier = asked_tier
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        self._by_id: dict[str, _Item] = {}

    # -- Decoder

    @property
    def finished(self) -> bool:
        return self._draft.finished

    @property
    def failure(self) -> Failure | None:
        return self._draft.failure

    def parse(self, event: SseEvent) -> JsonValue | None:
        if event.data.strip() == b"[DONE]":
            return None
        try:
            return wire_json.read(event.data)
        except ValueError as error:
            raise Malformed(f"not JSON ({error}): {failures.cut(event.data.decode('utf-8', 'replace'), 200)}") from None

    def whole(self, answer: JsonObject) -> Sequence[JsonValue] | None:
        output = answer.get("output")
        if answer.get("object") != "response" or not isinstance(output, list):
            return None
        done = [
            {"type": "response.output_item.done", "output_index": index, "item": item}
            for index, item in enumerate(output)
        ]
        return [
            {"type": "response.created", "response": answer},
            *done,
            {"type": "response.completed", "response": answer},
        ]

    def start(self) -> list[ResponseEvent]:
        self._draft.start()
        return self._draft.take()

    def feed(self, value: JsonValue) -> list[ResponseEvent]:
        if isinstance(value, dict) and not self._draft.finished:
            event = cast("JsonObject", value)
            kind = event.get("type")
            handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
            if handler is not None:
                handler(self, event)
            elif kind is None and event.get("error"):
                self._error(event)
        return self._draft.take()

    def end(self) -> list[ResponseEvent]:
        self._draft.failed(failures.truncated("its terminal event"))
        return self._draft.take()

    def fail(self, failure: Failure) -> list[ResponseEvent]:
        self._draft.failed(failure)
        return self._draft.take()

    # -- finding items

    def _find(self, event: JsonObject, item: JsonObject | None = None) -> _Item | None:
        index = event.get("output_index")
        if isinstance(index, int):
            return self._by_index.get(index)
        id_ = event.get("item_id") if item is None else item.get("id")
        return self._by_id.get(id_) if isinstance(id_, str) else None

    def _open(self, event: JsonObject, given: JsonObject) -> _Item | None:
        """The item with its block, if it is of a kind that we show."""
        kind, id_ = given.get("type"), _text(given, "id")
        if kind == "reasoning":
            item = _Item(self._draft.open_thinking(), id_)
        elif kind == "message":
            item = _Item(self._draft.open_text(), id_)
        elif kind in ("function_call", "custom_tool_call"):
            item = self._open_call(given, id_)
        else:
            return None
        self._items.append(item)
        index = event.get("output_index")
        if isinstance(index, int):
            self._by_index[index] = item
        if id_:
            self._by_id[id_] = item
        return item

    def _open_call(self, given: JsonObject, id_: str) -> _Item:
        call_id, name = _text(given, "call_id") or new_id("call_"), _text(given, "name")
        arguments = _text(given, "arguments")
        block = self._draft.open_call(f"{call_id}|{id_}" if id_ else call_id, name, arguments)
        _take_namespace(block, given)
        if given.get("type") == "function_call":
            return _Item(block, id_)
        return _Item(block, id_, CustomInput(block, self._custom_arguments.get(name, "input")))

    # -- events

    def _created(self, event: JsonObject) -> None:
        id_ = _text(_object(event, "response"), "id")
        if id_:
            self._draft.response_id = id_

    def _added(self, event: JsonObject) -> None:
        given = _object(event, "item")
        item = self._open(event, given)
        if item is not None and item.custom is not None and (text := _text(given, "input")):
            item.custom.add(text)

    def _thinking_delta(self, event: JsonObject) -> None:
        self._grow(event, GrowingThinking, _text(event, "delta"))

    def _part_done(self, event: JsonObject) -> None:
        self._grow(event, GrowingThinking, PART_END)

    def _text_delta(self, event: JsonObject) -> None:
        self._grow(event, GrowingText, _text(event, "delta"))

    def _arguments_delta(self, event: JsonObject) -> None:
        self._grow(event, GrowingCall, _text(event, "delta"))

    def _grow(self, event: JsonObject, kind: type, piece: str) -> None:
        item = self._find(event)
        if item is not None and type(item.block) is kind and not item.block.closed:
            item.block.add(piece)

    def _arguments_done(self, event: JsonObject) -> None:
        item = self._find(event)
        whole = event.get("arguments")
        if item is None or type(item.block) is not GrowingCall or item.block.closed or not isinstance(whole, str):
            return
        before = item.block.text
        if not whole.startswith(before):
            item.block.replace_text(whole)
        elif len(whole) > len(before):
            item.block.add(whole[len(before) :])

    def _input_delta(self, event: JsonObject) -> None:
        item = self._find(event)
        if item is not None and item.custom is not None and not item.block.closed:
            item.custom.add(_text(event, "delta"))

    def _input_done(self, event: JsonObject) -> None:
        item = self._find(event)
        if item is not None and item.custom is not None and not item.block.closed:
            self._complete_input(item, item.custom, event)

    def _complete_input(self, item: _Item, custom: CustomInput, holder: JsonObject) -> None:
        whole = holder.get("input")
        if not custom.complete(whole if isinstance(whole, str) else None):
            self._draft.failed(failures.inconsistent_input(custom.block.name))

    def _done(self, event: JsonObject) -> None:
        given = _object(event, "item")
        item = self._find(event, given) or self._open(event, given)
        if item is None or item.done:
            return
        item.done = True
        block = item.block
        if type(block) is GrowingThinking:
            item.stored = given
            block.signature = wire_json.encode_text(given)
            block.close(_reasoning_text(given, block.text))
        elif type(block) is GrowingText:
            signature = _text_signature(given)
            if signature is not None:
                block.signature = signature
            block.close(_message_text(given, block.text))
        elif type(block) is GrowingCall:
            self._call_done(item, block, given)

    def _call_done(self, item: _Item, block: GrowingCall, given: JsonObject) -> None:
        _take_namespace(block, given)
        if not block.name:
            block.name = _text(given, "name")
        if item.custom is not None:
            self._complete_input(item, item.custom, given)
            if self._draft.finished:
                return
            block.close()
            return
        whole = given.get("arguments")
        block.close(whole if isinstance(whole, str) else None)

    # -- the end

    def _completed(self, event: JsonObject) -> None:
        response = _object(event, "response")
        self._created(event)
        self._usage(response)
        self._fill_encrypted(response)
        self._note_transformations(response)
        status, reason = self._note_status(response)
        if status == "incomplete" and reason != "max_output_tokens":
            self._draft.failed(failures.incomplete(reason or "no reason given"))
        elif status == "incomplete":
            self._stop("length")
        elif status in _STOPS:
            self._stop("toolUse" if self._draft.has_calls else "stop")
        else:
            self._draft.failed(_response_failure(response))

    def _note_status(self, response: JsonObject) -> tuple[str, str]:
        """Status and reason, which together are the provider's word for the stop."""
        status = _text(response, "status")
        reason = _text(_object(response, "incomplete_details"), "reason")
        if status or reason:
            self._draft.raw_stop_reason = f"{status}.{reason}" if reason and status != "failed" else status
        return status, reason

    def _stop(self, reason: StopReason) -> None:
        if reason == "toolUse":
            for item in self._items:
                if type(item.block) is GrowingCall and not item.done:
                    self._draft.failed(failures.unfinished_call(item.block.name))
                    return
        for item in self._items:
            if item.custom is not None and not item.block.closed:
                item.custom.complete()
        self._draft.close_open_blocks()
        self._draft.done(reason)

    def _failed(self, event: JsonObject) -> None:
        response = _object(event, "response")
        self._created(event)
        self._note_status(response)
        if isinstance(response.get("usage"), dict):
            self._usage(response)
        self._draft.failed(_response_failure(response))

    def _error(self, event: JsonObject) -> None:
        error = event.get("error")
        words = failures.error_words(cast("JsonObject", error) if isinstance(error, dict) else {**event, "type": None})
        self._draft.failed(failures.provider_error(words or (error if isinstance(error, str) else "no words")))

    def _usage(self, response: JsonObject) -> None:
        """Usage with its price. A complete answer without counts has cost nothing, as far as we were told."""
        tier = response.get("service_tier")
        tier = self._asked_tier if tier is None else tier
        raw = response.get("usage")
        if isinstance(raw, dict):
            self._draft.usage = read_usage(cast("JsonObject", raw), self._model, tier)
        else:
            self._draft.usage = priced(self._draft.usage, self._model.cost)

    def _fill_encrypted(self, response: JsonObject) -> None:
        """Reasoning items may get their encrypted content only at the very end."""
        items = {item.id: item for item in self._items if item.stored is not None and item.id}
        for given in _objects(response, "output"):
            content = given.get("encrypted_content")
            item = items.get(_text(given, "id"))
            if item is None or item.stored is None or not content or item.stored.get("encrypted_content"):
                continue
            item.stored = {**item.stored, "encrypted_content": content}
            cast("GrowingThinking", item.block).signature = wire_json.encode_text(item.stored)

    def _note_transformations(self, response: JsonObject) -> None:
        noted = [
            given
            for given in _objects(response, "input_transformations")
            if given.get("type") == "reasoning"
            and given.get("action") == "removed"
            and given.get("reason") != "turn_boundary"
        ]
        if noted:
            entry = {"type": "openai_input_transformations", "timestamp": self._draft.started_ms}
            self._draft.diagnostics.append({**entry, "details": {"transformations": noted}})


_HANDLERS: Final[Mapping[str, _Handler]] = {
    "response.created": ResponsesDecoder._created,
    "response.output_item.added": ResponsesDecoder._added,
    "response.reasoning_summary_text.delta": ResponsesDecoder._thinking_delta,
    "response.reasoning_text.delta": ResponsesDecoder._thinking_delta,
    "response.reasoning_summary_part.done": ResponsesDecoder._part_done,
    "response.output_text.delta": ResponsesDecoder._text_delta,
    "response.refusal.delta": ResponsesDecoder._text_delta,
    "response.function_call_arguments.delta": ResponsesDecoder._arguments_delta,
    "response.function_call_arguments.done": ResponsesDecoder._arguments_done,
    "response.custom_tool_call_input.delta": ResponsesDecoder._input_delta,
    "response.custom_tool_call_input.done": ResponsesDecoder._input_done,
    "response.output_item.done": ResponsesDecoder._done,
    "response.completed": ResponsesDecoder._completed,
    "response.incomplete": ResponsesDecoder._completed,
    "response.failed": ResponsesDecoder._failed,
    "error": ResponsesDecoder._error,
}


def _response_failure(response: JsonObject) -> Failure:
    """Why a response failed, in the provider's words."""
    error = response.get("error")
    if isinstance(error, dict):
        return failures.provider_error(failures.error_words(cast("JsonObject", error)))
    reason = _text(_object(response, "incomplete_details"), "reason")
    status = _text(response, "status") or "failed"
    return failures.provider_error(f"incomplete: {reason}" if reason else f"the response is {status}, without a reason")


def _reasoning_text(item: JsonObject, streamed: str) -> str:
    """Summary parts, else reasoning parts, else what was streamed."""
    for name in ("summary", "content"):
        parts = [_text(part, "text") for part in _objects(item, name)]
        text = PART_END.join(part for part in parts if part)
        if text:
            return text
    return streamed


def _message_text(item: JsonObject, streamed: str) -> str:
    parts = _objects(item, "content")
    return "".join(_text(part, "text") or _text(part, "refusal") for part in parts) if parts else streamed


def _text_signature(item: JsonObject) -> str | None:
    """Who the text is, for replay."""
    id_, phase = _text(item, "id"), item.get("phase")
    if not id_:
        return None
    known = {"phase": phase} if phase in ("commentary", "final_answer") else {}
    return wire_json.encode_text({"v": 1, "id": id_, **known})


def _take_namespace(block: GrowingCall, item: JsonObject) -> None:
    name = _text(item, "namespace")
    if name and block.namespace is UNSET:
        block.namespace = name


def _text(holder: JsonObject, name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def _object(holder: JsonObject, name: str) -> JsonObject:
    value = holder.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _objects(holder: JsonObject, name: str) -> list[JsonObject]:
    value = holder.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
