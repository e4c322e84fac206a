"""The two OpenAI protocols under streams that no honest server sends; the walks are from `test_hostile_streams`."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.providers.asking import model
from tests.providers.streams import MakeDecoder, decode, decode_bytes, sse
from tests.providers.test_hostile_streams import BODIES, WRONG, check, places, spoilt

from antiphon.core.content import Text, ToolCall
from antiphon.providers.openai_completions.decode import ChatDecoder
from antiphon.providers.openai_responses.decode import ResponsesDecoder

CHAT = model(api="openai-completions", base_url="https://openrouter.ai/api/v1", provider="openrouter", id="m")
RESPONSES = model(api="openai-responses", provider="openai", id="m")


def chat_decoder() -> ChatDecoder:
    return ChatDecoder(CHAT, 1, {"patch": "text"})


def responses_decoder() -> ResponsesDecoder:
    return ResponsesDecoder(RESPONSES, 1, {"patch": "text"}, "flex", "low")


def chunk(delta: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m2", "choices": [{"index": 0, "delta": delta, **more}]}


CHAT_STREAM: list[Any] = [
    chunk({"role": "assistant", "content": None, "reasoning": "hm"}),
    chunk({"reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]}),
    chunk(
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "é"}]}
    ),
    chunk({"content": "so", "refusal": "no"}),
    chunk(
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "n", "arguments": '{"p":'}}]}
    ),
    chunk({"tool_calls": [{"index": 1, "id": "b", "type": "custom", "custom": {"name": "patch", "input": "x"}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
    chunk({}, finish_reason="tool_calls"),
    {
        "id": "c",
        "choices": [],
        "x_groq": {"usage": {"prompt_tokens": 1}},
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
            "cost": 0.1,
            "is_byok": True,
            "cost_details": {"upstream_inference_cost": 0.2},
        },
    },
]


def event(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **more}


REASONING = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]}
MESSAGE = {"type": "message", "id": "msg", "phase": "commentary", "content": [{"type": "output_text", "text": "é"}]}
CALL = {"type": "function_call", "id": "fc", "call_id": "a", "name": "n", "arguments": '{"p":1}', "namespace": "s"}
CUSTOM = {"type": "custom_tool_call", "id": "ctc", "call_id": "b", "name": "patch", "input": "xy"}

RESPONSES_STREAM: list[Any] = [
    event("created", response={"id": "r", "status": "in_progress"}),
    event("output_item.added", output_index=0, item={**REASONING, "summary": []}),
    event("reasoning_summary_text.delta", output_index=0, delta="hm"),
    event("reasoning_summary_part.done", output_index=0),
    event("output_item.done", output_index=0, item=REASONING),
    event("output_item.added", output_index=1, item={**MESSAGE, "content": []}),
    event("output_text.delta", output_index=1, delta="é"),
    event("output_item.done", output_index=1, item=MESSAGE),
    event("output_item.added", output_index=2, item={**CALL, "arguments": '{"p"'}),
    event("function_call_arguments.delta", output_index=2, delta=":"),
    event("function_call_arguments.done", output_index=2, arguments='{"p":1}'),
    event("output_item.done", output_index=2, item=CALL),
    event("output_item.added", item={**CUSTOM, "input": ""}),
    event("custom_tool_call_input.delta", item_id="ctc", delta="x"),
    event("custom_tool_call_input.done", item_id="ctc", input="xy"),
    event("output_item.done", item=CUSTOM),
    event(
        "completed",
        response={
            "id": "r",
            "status": "completed",
            "incomplete_details": {"reason": None},
            "service_tier": "flex",
            "output": [{**REASONING, "encrypted_content": "E"}],
            "input_transformations": [{"type": "reasoning", "action": "removed", "reason": "old"}],
            "usage": {
                "input_tokens": 9,
                "output_tokens": 3,
                "total_tokens": 12,
                "input_tokens_details": {"cached_tokens": 1},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
        },
    ),
]

PROTOCOLS = pytest.mark.parametrize(
    ("make", "stream"),
    [
        pytest.param(chat_decoder, CHAT_STREAM, id="openai-completions"),
        pytest.param(responses_decoder, RESPONSES_STREAM, id="openai-responses"),
    ],
)


@PROTOCOLS
def test_the_good_stream_is_good(make: MakeDecoder, stream: list[Any]) -> None:
    message = check(decode(make(), stream))

    assert message.stop_reason == "toolUse"
    assert [block.arguments for block in message.content if type(block) is ToolCall][0] == {"p": 1}


@PROTOCOLS
def test_every_value_may_be_wrong(make: MakeDecoder, stream: list[Any]) -> None:
    for path in places(stream):
        if path:
            for wrong in WRONG:
                check(decode(make(), spoilt(stream, path, wrong)))


@PROTOCOLS
def test_every_event_may_be_missing_doubled_or_early(make: MakeDecoder, stream: list[Any]) -> None:
    for index in range(len(stream)):
        for other in range(len(stream)):
            moved = copy.deepcopy(stream)
            moved.insert(other, moved.pop(index))
            check(decode(make(), moved))
        check(decode(make(), stream[:index] + stream[index + 1 :]))
        check(decode(make(), stream[: index + 1] + stream[index:]))
    check(decode(make(), stream[::-1]))
    check(decode(make(), stream + stream))


@PROTOCOLS
def test_the_bytes_may_end_or_break_anywhere(make: MakeDecoder, stream: list[Any]) -> None:
    body = sse(stream)
    for length in range(len(body)):
        check(decode_bytes(make(), body[:length], size=4096))
        broken = check(decode_bytes(make(), body[:length], size=4096, reset=True))
        if broken.stop_reason == "error":
            assert "lost" in str(broken.error_message)


@PROTOCOLS
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(make: MakeDecoder, stream: list[Any]) -> None:
    body = sse(stream)
    whole = check(decode_bytes(make(), body, size=len(body)))

    for size in (1, 2, 3, 7, 64):
        assert check(decode_bytes(make(), body, size=size)) == whole
        assert check(decode_bytes(make(), body.replace(b"\n", b"\r\n"), size=size)) == whole


@PROTOCOLS
@pytest.mark.parametrize("body", [body for body in BODIES if b"[DONE]" not in body], ids=lambda body: body[:20])
def test_bodies_that_are_no_answer(make: MakeDecoder, stream: list[Any], body: bytes) -> None:
    assert check(decode_bytes(make(), body)).stop_reason == "error"
    check(decode_bytes(make(), sse(stream[:3]) + body))


DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("end", "stop", "kind"),
    [
        (b"", "error", "cut off"),
        (DONE, "stop", None),
        (DONE * 2, "stop", None),
        (b"data: [DONE]", "stop", None),
        (b"data:[DONE]\r\n\r\n", "stop", None),
        (b"data: [DONE\n\n", "error", "cannot be read"),
        (b'data: "[DONE]"\n\n', "stop", None),
        (DONE + sse([chunk({"content": "late"})]), "stop", None),
    ],
)
def test_the_done_mark_may_be_missing_doubled_or_odd(end: bytes, stop: str, kind: str | None) -> None:
    message = check(decode_bytes(chat_decoder(), sse([chunk({"content": "hi"})]) + end))

    assert message.stop_reason == stop
    assert message.content == (Text(text="hi"),)
    if kind is not None:
        assert kind in str(message.error_message)


def many_calls(count: int) -> list[Any]:
    opened = [chunk({"tool_calls": [{"index": i, "id": f"c{i}", "function": {"name": "n"}}]}) for i in range(count)]
    grown = [chunk({"tool_calls": [{"index": i, "function": {"arguments": "{}"}}]}) for i in range(count)]
    return [*opened, *grown, chunk({}, finish_reason="tool_calls")]


def many_details(count: int) -> list[Any]:
    entry = {"type": "reasoning.text", "text": "words ", "index": 0}
    return [*([chunk({"reasoning_details": [entry]})] * count), chunk({}, finish_reason="stop")]


def many_items(count: int) -> list[Any]:
    added = [event("output_item.added", output_index=i, item=MESSAGE) for i in range(count)]
    grown = [event("output_text.delta", output_index=i, delta="x") for i in range(count)]
    done = [event("output_item.done", output_index=i, item=MESSAGE) for i in range(count)]
    return [*added, *grown, *done, RESPONSES_STREAM[-1]]


def many_pieces(count: int) -> list[Any]:
    pieces = [event("function_call_arguments.delta", output_index=2, delta="[")] * count
    return [RESPONSES_STREAM[8], *pieces, *RESPONSES_STREAM[11:12], RESPONSES_STREAM[-1]]


@pytest.mark.parametrize(
    ("make", "many"),
    [
        pytest.param(chat_decoder, many_calls, id="chat calls"),
        pytest.param(chat_decoder, many_details, id="chat reasoning details"),
        pytest.param(responses_decoder, many_items, id="responses items"),
        pytest.param(responses_decoder, many_pieces, id="responses deep arguments"),
    ],
)
def test_much_of_anything_is_not_slow(make: MakeDecoder, many: Callable[[int], list[Any]]) -> None:
    """Four times the stream may take about four times as long, not sixteen."""

    def seconds(count: int) -> float:
        body = b"".join(b"data: " + json.dumps(item).encode() + b"\n\n" for item in many(count))
        best = float("inf")
        for _ in range(2):
            began = time.perf_counter()
            decode_bytes(make(), body, size=65_536)
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(4_000) < 9 * seconds(1_000) + 0.05
