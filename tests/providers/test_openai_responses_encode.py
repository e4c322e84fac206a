"""Responses requests: identity of items, keys that are no API keys, effort told in place."""

from __future__ import annotations

import json
from typing import Any

from tests.providers.asking import model, request

from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user
from antiphon.core.model import Model
from antiphon.core.response_events import Done
from antiphon.core.transcript import Transcript
from antiphon.providers.openai_responses.client import OpenAIResponses
from antiphon.providers.options import read_options


def asked(**more: Any) -> Model:
    fields = {"provider": "openai", "base_url": "https://api.openai.com/v1", "reasoning": True, **more}
    return model(api="openai-responses", **fields)


def body(of: Model, messages: Any = (user("Hi"),), adapter: Any = None, **options: Any) -> Any:
    wanted = request(of, messages, **options)
    return json.loads((adapter or OpenAIResponses()).prepare(wanted, read_options(wanted)).request.body)


def answered(*content: Any, **more: Any) -> AssistantMessage:
    fields: dict[str, Any] = {"api": "openai-responses", "provider": "openai", "model": "small", **more}
    return AssistantMessage(content=content, stop_reason="stop", **fields)


REASONING = Thinking(thinking="hm", thinking_signature='{"type":"reasoning","id":"rs_1","summary":[]}')


def test_made_up_ids_stay_the_same_from_request_to_request() -> None:
    """Otherwise no prompt cache would ever match."""
    history = [user("a"), answered(Text(text="b")), user("c"), answered(Text(text="d")), user("e")]
    adapter, transcript = OpenAIResponses(), Transcript()
    seen: list[list[str]] = []
    for message in history:
        transcript = transcript.append(message)
        seen.append([item["id"] for item in body(asked(), transcript, adapter)["input"] if "id" in item])

    assert seen[-1][:1] == seen[1]
    assert len(set(seen[-1])) == 2
    assert body(asked(), history)["input"] == body(asked(), transcript)["input"]


def test_an_id_is_sent_once() -> None:
    call = ToolCall(id="call_1|fc_1", name="t", arguments={})
    result = ToolResultMessage(tool_call_id="call_1|fc_1", tool_name="t", content=(Text(text="ok"),), is_error=False)

    items = body(asked(), [user("a"), answered(call), result, answered(call), result])["input"]

    assert [item.get("id") for item in items if item.get("type") == "function_call"] == ["fc_1", None]


def test_reasoning_without_the_item_it_led_to_is_not_sent() -> None:
    items = body(asked(), [user("a"), answered(REASONING), user("b"), answered(REASONING, Text(text="c"))])["input"]

    assert [item.get("type") or item["role"] for item in items] == ["user", "user", "reasoning", "message"]


def test_a_sign_in_token_leaves_fields_out() -> None:
    fields = {"max_tokens": 100, "temperature": 1, "cache_retention": "long", "session_id": "s"}

    with_key = body(asked(), **fields)
    signed_in = body(asked(), api_key="eyJhbGciOi", **fields)

    left_out = with_key.keys() - signed_in.keys()
    assert left_out == {"max_output_tokens", "temperature", "prompt_cache_retention"}
    assert signed_in["prompt_cache_key"] == "s"


def test_the_cap_is_never_below_what_the_server_takes() -> None:
    assert body(asked(), max_tokens=3)["max_output_tokens"] == 16
    assert "max_output_tokens" not in body(asked(compat={"supportsMaxOutputTokens": False}))


async def test_effort_is_told_in_place_and_recorded() -> None:
    of = asked(compat={"supportsMidConvoEffort": True})
    history = [
        user("a"),
        answered(Text(text="b"), provider_thinking_level="low"),
        user("c"),
        answered(Text(text="d")),
        user("e"),
    ]

    sent = body(of, history, level="high")

    efforts = [item["reasoning"]["effort"] for item in sent["input"] if item.get("type") == "configuration_update"]
    assert (sent["reasoning"]["effort"], efforts) == ("medium", ["low", "high"])
    assert sent["input"][1]["type"] == "configuration_update"
    wanted = request(of, history, level="high")
    decoder = OpenAIResponses().prepare(wanted, read_options(wanted)).decoder
    decoder.start()
    (done,) = decoder.feed({"type": "response.completed", "response": {"status": "completed"}})
    assert isinstance(done, Done)
    assert done.message.provider_thinking_level == "high"


def test_a_result_of_images_is_a_list_for_models_that_see() -> None:
    call = ToolCall(id="c", name="t", arguments={})
    content = (Text(text=" "), Image(data="AAAA", mime_type="image/png"))
    result = ToolResultMessage(tool_call_id="c", tool_name="t", content=content, is_error=False)
    history = [user("a"), answered(call), result]

    seen = body(asked(input=("text", "image")), history)["input"][-1]["output"]
    blind = body(asked(), history)["input"][-1]["output"]

    assert [part["type"] for part in seen] == ["input_image"]
    assert isinstance(blind, str)
