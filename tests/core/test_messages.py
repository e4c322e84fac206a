"""Messages and their wire form: what comes in leaves again, whatever a foreign writer added."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.content import Foreign, Image, Text, Thinking, ToolCall, block_from_wire, text_of
from antiphon.core.messages import (
    AssistantMessage,
    HostMessage,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
    calls_of,
    final_text,
    host_message,
    message_from_wire,
    message_to_wire,
    user,
)
from antiphon.core.wire import decode, encode
from antiphon.errors import WireError

ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "s", "redacted": True},
        {"type": "text", "text": "hi", "textSignature": "t"},
        {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": None}, "thoughtSignature": "x"},
        {"type": "image", "data": "AA==", "mimeType": "image/png"},
    ],
    "api": "a",
    "provider": "p",
    "model": "m",
    "usage": {
        "input": 1,
        "output": 2,
        "cacheRead": 0,
        "cacheWrite": 3,
        "cacheWrite1h": 1,
        "reasoning": 1,
        "totalTokens": 6,
        "cost": {"input": 0.5, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0.5},
    },
    "stopReason": "toolUse",
    "timestamp": 12,
}


def test_an_answer_round_trips_field_by_field() -> None:
    message = message_from_wire(ANSWER)
    assert isinstance(message, AssistantMessage)
    assert [type(block) for block in message.content] == [Thinking, Text, ToolCall, Image]
    assert message_to_wire(message) == ANSWER
    assert decode(encode(message)) == ANSWER


def test_unknown_fields_of_messages_and_blocks_survive() -> None:
    foreign = {
        **ANSWER,
        "vendor": {"x": [1, None]},
        "content": [{"type": "text", "text": "a", "zz": 1}, {"type": "video", "u": 2}],
    }
    message = message_from_wire(foreign)
    assert isinstance(message, AssistantMessage)
    assert message.extra == {"vendor": {"x": [1, None]}}
    assert isinstance(message.content[1], Foreign)
    assert message.content[1].type == "video"
    assert decode(encode(message)) == foreign


def test_a_role_of_the_host_is_kept_whole() -> None:
    given = {"role": "note", "text": "x", "n": {"deep": [None]}}
    message = message_from_wire(given)
    assert isinstance(message, HostMessage)
    assert (message.role, message.data) == ("note", given)
    assert decode(encode(message)) == given
    assert decode(encode(host_message("note", text="x"))) == {"role": "note", "text": "x"}
    assert (HostMessage().role, HostMessage().data) == ("", {})


@pytest.mark.parametrize(
    ("given", "content"),
    [
        ({"role": "user", "content": None}, ()),
        ({"role": "user"}, ()),
        ({"role": "system", "content": None}, ""),
        ({"role": "system"}, ""),
        ({"role": "user", "content": "plain"}, "plain"),
        ({"role": "assistant", "content": "plain", "stopReason": "stop"}, (Text(text="plain"),)),
        ({"role": "assistant", "content": None, "stopReason": "stop"}, ()),
        ({"role": "toolResult", "toolCallId": "a", "toolName": "b", "isError": False, "content": None}, ()),
    ],
)
def test_null_and_missing_content_is_empty(given: dict[str, Any], content: Any) -> None:
    assert message_from_wire(given).content == content  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"content": "x"}, "needs a text in `role`"),
        ({"role": 5}, "needs a text in `role`"),
        ({"role": "assistant", "content": [], "stopReason": 3}, "assistant message"),
        ({"role": "assistant", "content": []}, "stopReason"),
        ({"role": "toolResult", "content": [], "isError": False, "toolName": "x"}, "toolCallId"),
        ({"role": "user", "content": 5}, "`content` must be a text or a list of blocks"),
        ({"role": "user", "content": {"a": 1}}, "`content` must be a text or a list of blocks"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given: dict[str, Any], says: str) -> None:
    with pytest.raises(WireError, match=says):
        message_from_wire(given)


def test_blocks_that_are_no_blocks_are_kept() -> None:
    given = [5, {"type": ["odd"]}, {"no": "type"}, {"type": "text", "text": 7}]
    kept = message_to_wire(message_from_wire({"role": "user", "content": given}))["content"]
    assert kept == [{"type": "text", "text": "5"}, *given[1:]]
    assert Foreign().type == ""
    assert block_from_wire({"type": "text", "text": "a"}) == Text(text="a")


def test_whole_numbers_that_were_written_as_floats_become_whole() -> None:
    message = message_from_wire({**ANSWER, "usage": {"input": 12.0, "odd": 1, "output": 0}})
    assert isinstance(message, AssistantMessage)
    assert (message.usage.input, type(message.usage.input)) == (12, int)


def test_a_lone_surrogate_leaves_as_a_replacement_and_a_pair_as_its_character() -> None:
    assert decode(encode(user("a\ud83d b")))["content"] == "a\ufffd b"
    assert decode(encode(user("\ud83d\ude00")))["content"] == "\U0001f600"
    assert decode(encode(host_message("n", deep=[{"k\ud800": "v"}])))["deep"] == [{"k\ufffd": "v"}]


def test_small_questions() -> None:
    answer = message_from_wire(ANSWER)
    assert isinstance(answer, AssistantMessage)
    assert [call.id for call in calls_of(answer)] == ["c1"]
    assert final_text([answer, UserMessage(content="later")]) == "hi"
    assert final_text([UserMessage(content="x")]) == ""
    assert text_of("plain") == "plain"
    assert text_of((Text(text="a"), Image(data="", mime_type=""), Text(text="b"))) == "a\nb"
    assert user([Text(text="a")]).content == (Text(text="a"),)
    roles = [m.role for m in (SystemMessage(), user(""), answer)]
    assert roles == ["system", "user", "assistant"]
    assert ToolResultMessage(tool_call_id="", tool_name="", content=(), is_error=False).role == "toolResult"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text(min_size=1, max_size=6).filter(lambda name: name not in ANSWER)
EXTRA = st.dictionaries(NAMES, JSON, max_size=3)


@given(extra=EXTRA)
def test_any_unknown_field_survives(extra: dict[str, Any]) -> None:
    known = {"errorMessage", "responseId", "thinkingLevel", "diagnostics"}
    foreign = {**{k: v for k, v in extra.items() if k not in known}, **ANSWER}
    assert decode(encode(message_from_wire(foreign))) == foreign
