"""Streams that no honest server sends: every answer still ends once, with a message that can be kept and replayed.

A small good stream is spoilt in every single place: each value null, missing, empty or of another type; each event
dropped, doubled or moved; the bytes cut after every byte, by a clean end and by a reset.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.providers.event_rules import check_events
from tests.providers.streams import MakeDecoder, claude_decoder, decode, decode_bytes, gemini_decoder, sse

from antiphon.core.messages import AssistantMessage, message_from_wire, message_to_wire
from antiphon.core.wire import decode as read_json
from antiphon.core.wire import encode

CLAUDE_STREAM: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "model": "claude-other",
            "usage": {"input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 1}},
            "input_transformations": [{"type": "x"}],
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": "a", "signature": "s"},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "b"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "t"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": "E"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "é"}},
    {"type": "content_block_stop", "index": 2},
    {
        "type": "content_block_start",
        "index": 3,
        "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}},
    },
    {"type": "content_block_delta", "index": 3, "delta": {"type": "input_json_delta", "partial_json": '{"p":1}'}},
    {"type": "content_block_stop", "index": 3},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_details": {"explanation": "x"}},
        "usage": {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}},
    },
    {"type": "message_stop"},
]

GEMINI_STREAM: list[dict[str, Any]] = [
    {
        "responseId": "r",
        "candidates": [
            {"index": 0, "content": {"parts": [{"text": "t", "thought": True, "thoughtSignature": "QUJD"}]}},
        ],
        "promptFeedback": {"blockReasonMessage": "m"},
    },
    {"candidates": [{"content": {"parts": [{"text": "é"}]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "n", "id": "f", "args": {"p": 1}}}]}}]},
    {"candidates": [{"content": {"parts": [{"functionCall": {"name": "m", "willContinue": True}}]}}]},
    {
        "candidates": [
            {
                "content": {
                    "parts": [
                        {
                            "functionCall": {
                                "willContinue": True,
                                "partialArgs": [{"jsonPath": "$.a[0].b", "stringValue": "x", "willContinue": True}],
                            }
                        }
                    ]
                }
            }
        ]
    },
    {
        "candidates": [{"content": {"parts": []}, "finishReason": "STOP", "finishMessage": "m"}],
        "usageMetadata": {
            "promptTokenCount": 9,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 1,
            "cachedContentTokenCount": 1,
            "toolUsePromptTokenCount": 1,
            "totalTokenCount": 13,
        },
    },
]

PROTOCOLS = pytest.mark.parametrize(
    ("make", "stream"),
    [
        pytest.param(claude_decoder, CLAUDE_STREAM, id="anthropic-messages"),
        pytest.param(gemini_decoder, GEMINI_STREAM, id="google-generative-ai"),
    ],
)

MISSING = object()
WRONG: list[Any] = [MISSING, None, "", "x", 0, -1, 1.5, 2**70, 1e300, True, [], {}, [None], [[]], {"a": None}, "\ud83d"]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every value inside, the value itself first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def spoilt(stream: list[Any], path: tuple[Any, ...], wrong: Any) -> list[Any]:
    """The stream with another value at one place."""
    out: Any = copy.deepcopy(stream)
    holder = out
    for key in path[:-1]:
        holder = holder[key]
    if wrong is MISSING:
        del holder[path[-1]]
    else:
        holder[path[-1]] = wrong
    return out


def check(events: list[Any]) -> AssistantMessage:
    """The rules hold, and the message survives being stored."""
    message = check_events(events)
    stored = message_from_wire(read_json(encode(message)))
    assert isinstance(stored, AssistantMessage)
    assert len(stored.content) == len(message.content)
    message_to_wire(message)
    return message


@PROTOCOLS
def test_the_good_stream_is_good(make: MakeDecoder, stream: list[Any]) -> None:
    assert check(decode(make(), stream)).stop_reason == "toolUse"


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
    """A reset is always a lost connection, unless the answer had ended by itself."""
    body = sse(stream)
    for length in range(len(body)):
        check(decode_bytes(make(), body[:length]))
        broken = check(decode_bytes(make(), body[:length], reset=True))
        if broken.stop_reason == "error":
            assert "lost" in str(broken.error_message)


@PROTOCOLS
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(make: MakeDecoder, stream: list[Any]) -> None:
    body = sse(stream)
    whole = check(decode_bytes(make(), body, size=len(body)))

    for size in (1, 2, 3, 7, 64):
        assert check(decode_bytes(make(), body, size=size)) == whole
        assert check(decode_bytes(make(), body.replace(b"\n", b"\r\n"), size=size)) == whole
        assert check(decode_bytes(make(), body.replace(b"\n", b"\r"), size=size)) == whole


BODIES: list[bytes] = [
    b"",
    b"<html><body>502 Bad Gateway</body></html>",
    b"data: <html>\n\n",
    b"data: \n\n",
    b"data:\n\ndata:\n\n",
    b"data: [DONE]\n\n",
    b'data: null\n\ndata: 7\n\ndata: []\n\ndata: "x"\n\n',
    b"data: {\n\n",
    b'data: {"type":\n\n',
    b"event: error\n\n",
    b"event: error\ndata: boom\n\n",
    b": comment only\n\n",
    b"\xff\xfe\x00\x01\n\n",
    b'data: {"type":"\xff\xfe"}\n\n',
    b"data: " + b"[" * 100_000 + b"\n\n",
    b"data: " + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"\n\n",
    b'data: {"type":"message_start","message":' + b"[" * 3_000 + b"]" * 3_000 + b"}\n\n",
    b"data: " + b"x" * 1_000_000 + b"\n\n",
]


@PROTOCOLS
@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_answer(make: MakeDecoder, stream: list[Any], body: bytes) -> None:
    assert check(decode_bytes(make(), body)).stop_reason == "error"
    check(decode_bytes(make(), sse(stream[:3]) + body))


@pytest.mark.parametrize(
    ("make", "many"),
    [
        pytest.param(
            claude_decoder,
            lambda n: [
                CLAUDE_STREAM[0],
                *({"type": "content_block_start", "index": i, "content_block": {"type": "text"}} for i in range(n)),
                *({"type": "content_block_stop", "index": i} for i in range(n)),
                *CLAUDE_STREAM[-2:],
            ],
            id="open blocks",
        ),
        pytest.param(
            claude_decoder,
            lambda n: [
                *CLAUDE_STREAM[:2],
                *([CLAUDE_STREAM[3]] * n),
                *([CLAUDE_STREAM[2]] * n),
                *CLAUDE_STREAM[4:],
            ],
            id="signature pieces",
        ),
        pytest.param(
            claude_decoder,
            lambda n: [
                CLAUDE_STREAM[0],
                CLAUDE_STREAM[10],
                *([{**CLAUDE_STREAM[11], "delta": {"type": "input_json_delta", "partial_json": "["}}] * n),
                *CLAUDE_STREAM[12:],
            ],
            id="deep arguments",
        ),
        pytest.param(
            gemini_decoder,
            lambda n: [*([GEMINI_STREAM[0], GEMINI_STREAM[1]] * (n // 2)), GEMINI_STREAM[-1]],
            id="alternating parts",
        ),
        pytest.param(
            gemini_decoder,
            lambda n: [GEMINI_STREAM[3], *([GEMINI_STREAM[4]] * n), GEMINI_STREAM[-1]],
            id="partial arguments",
        ),
    ],
)
def test_much_of_anything_is_not_slow(make: MakeDecoder, many: Callable[[int], list[Any]]) -> None:
    """Four times the stream may take about four times as long, not sixteen."""
    import time

    def seconds(count: int) -> float:
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in many(count))
        best = float("inf")
        for _ in range(2):
            began = time.perf_counter()
            check_events(decode_bytes(make(), body, size=65_536))
            best = min(best, time.perf_counter() - began)
        return best

    assert seconds(4_000) < 9 * seconds(1_000) + 0.05
