"""The codec: the fast road, the slow road, and where one leaves the other."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import msgspec
import pytest

from antiphon.core.content import Text, ToolCall
from antiphon.core.events import MessageStart, MessageUpdate, ToolExecutionStart
from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.response import answer_begun
from antiphon.core.response_events import TextDelta
from antiphon.core.wire import decode, encode, split_extra, to_wire, without_surrogates
from antiphon.loop.abort import never_aborted


def test_absent_fields_are_absent_and_null_is_null() -> None:
    assert encode(Text(text="a")) == b'{"type":"text","text":"a"}'
    assert decode(encode(ToolCall(id="c", name="n", arguments={"a": None})))["arguments"] == {"a": None}


def test_memory_only_fields_stay_in_memory() -> None:
    event = ToolExecutionStart(tool_call_id="c", tool_name="n", args={}, position=7)
    assert decode(encode(event)) == {"type": "tool_execution_start", "toolCallId": "c", "toolName": "n", "args": {}}


def test_a_text_that_looks_like_a_marker_is_only_a_text() -> None:
    call = ToolCall(id="c", name="n", arguments={"$extra": {"id": "stolen"}, "t": '"$'})
    assert decode(encode(call))["id"] == "c"
    assert decode(encode(call))["arguments"] == {"$extra": {"id": "stolen"}, "t": '"$'}


def test_a_growing_answer_has_its_wire_form_too() -> None:
    answer = answer_begun(AssistantMessage(content=(), stop_reason="pending")).grow(
        TextDelta(content_index=0, delta="x")
    )
    event = MessageUpdate(message=answer, assistant_message_event=TextDelta(content_index=0, delta="x"))
    assert decode(encode(event))["message"]["content"] == [{"type": "text", "text": "x"}]
    assert to_wire(MessageStart(message=answer))["message"]["stopReason"] == "pending"


def test_plain_values_and_mappings_are_walked() -> None:
    given = {"a": (1, MappingProxyType({"b": Text(text="c")}))}
    assert to_wire(given) == {"a": [1, {"b": {"type": "text", "text": "c"}}]}
    assert to_wire(b"ab") == "YWI="


def test_split_extra_leaves_known_fields_under_their_python_names() -> None:
    assert split_extra({"type": "text", "text": "a", "textSignature": "s", "z": 1}, Text) == {
        "text": "a",
        "text_signature": "s",
        "extra": {"z": 1},
    }


def test_surrogates_are_replaced_at_any_depth() -> None:
    assert without_surrogates(["\ud800", {"\udfff": "ok"}, 5, None]) == ["\ufffd", {"\ufffd": "ok"}, 5, None]


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b"{")


def test_printing_a_request_or_a_model_tells_no_secret() -> None:
    model = Model(id="m", provider="p", api="a", headers={"x-key": "marked-secret"})
    secret: dict[str, Any] = {"api_key": "marked-secret", "options": {"k": "marked-secret"}}
    request = ModelRequest(model=model, messages=(), thinking_level="off", signal=never_aborted(), **secret)
    assert "marked-secret" not in repr(model) + repr(request) + str([model, request])
