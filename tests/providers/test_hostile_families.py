"""What a stream may hold besides its answer, family by family, and what must come out; then chance spoils streams.

The walks through every value are in `test_hostile_streams` and `test_openai_hostile`. Here each fault has its outcome.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from tests.providers.fake_server import RENDER, Answer
from tests.providers.streams import MakeDecoder, claude_decoder, decode, decode_bytes, gemini_decoder, sse
from tests.providers.test_hostile_streams import CLAUDE_STREAM, GEMINI_STREAM, WRONG, check, places, spoilt
from tests.providers.test_openai_hostile import CHAT_STREAM, RESPONSES_STREAM, chat_decoder, responses_decoder

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.providers.failures import classify

DECODERS: dict[str, MakeDecoder] = {
    "openai-completions": chat_decoder,
    "openai-responses": responses_decoder,
    "anthropic-messages": claude_decoder,
    "google-generative-ai": gemini_decoder,
}
RICH: dict[str, list[Any]] = {
    "openai-completions": CHAT_STREAM,
    "openai-responses": RESPONSES_STREAM,
    "anthropic-messages": CLAUDE_STREAM,
    "google-generative-ai": GEMINI_STREAM,
}
APIS = pytest.mark.parametrize("api", list(RENDER))
ANSWER = Answer(thinking="hm", text="hello", calls=(("read", {"path": "a"}), ("read", {"path": "b"})))
DONE = b"data: [DONE]\n\n"

EMPTY: dict[str, list[Any]] = {
    "openai-completions": [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [None]},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": None, "reasoning_content": ""}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}, "finish_reason": "length"}]},
        {"usage": None},
        {"error": None},
    ],
    "openai-responses": [
        {},
        {"type": "response.in_progress"},
        {"type": "response.something.new", "delta": "x"},
        {"type": "response.output_text.delta", "output_index": 99, "delta": "of nobody"},
        {"type": "response.function_call_arguments.delta", "item_id": "nobody", "delta": "{"},
        {"type": "response.output_item.added", "output_index": 98, "item": {"type": "web_search_call", "id": "w"}},
        {"type": "response.output_item.done", "output_index": 98, "item": None},
        {"type": "response.created", "response": None},
    ],
    "anthropic-messages": [
        {},
        {"type": "ping"},
        {"type": "something_new"},
        {"type": "content_block_delta", "index": 99, "delta": {"type": "text_delta", "text": "of nobody"}},
        {"type": "content_block_stop", "index": 99},
        {"type": "content_block_start", "index": 98, "content_block": {"type": "server_tool_use", "id": "s"}},
        {"type": "content_block_delta", "index": 98, "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "message_delta", "delta": None, "usage": None},
    ],
    "google-generative-ai": [
        {},
        {"candidates": []},
        {"candidates": None},
        {"candidates": [{}]},
        {"candidates": [{"content": None}]},
        {"candidates": [{"content": {"parts": None}}]},
        {"candidates": [{"content": {"parts": [{}]}}]},
        {"candidates": [{"content": {"parts": [{"executableCode": {"code": "1"}}]}}]},
        {"usageMetadata": None},
        {"error": None},
    ],
}
ERRORS: dict[str, Any] = {
    "openai-completions": {"error": {"message": "no more", "code": 500}},
    "openai-responses": {"type": "error", "code": "server_error", "message": "no more"},
    "anthropic-messages": {"type": "error", "error": {"type": "api_error", "message": "no more"}},
    "google-generative-ai": {"error": {"code": 500, "message": "no more", "status": "INTERNAL"}},
}


def stream(api: str, answer: Answer = ANSWER) -> list[Any]:
    count = 0

    def next_id() -> str:
        nonlocal count
        count += 1
        return str(count)

    return list(RENDER[api](answer, "m", next_id))


def finished(api: str, body: bytes, size: int = 64) -> AssistantMessage:
    return check(decode_bytes(DECODERS[api](), body, size=size))


def heard(message: AssistantMessage) -> tuple[str, str, list[Any], str]:
    text = "".join(block.text for block in message.content if type(block) is Text)
    thoughts = "".join(block.thinking for block in message.content if type(block) is Thinking)
    calls = [block.arguments for block in message.content if type(block) is ToolCall]
    return thoughts, text, calls, message.stop_reason


ALL = ("hm", "hello", [{"path": "a"}, {"path": "b"}], "toolUse")


@APIS
def test_events_that_say_nothing_change_nothing(api: str) -> None:
    """Wherever they come, behind the first event of the answer."""
    events = stream(api)
    end = DONE if api == "openai-completions" else b""
    for nothing in EMPTY[api]:
        for place in range(1, len(events)):
            body = sse([*events[:place], nothing, *events[place:]])
            assert heard(finished(api, body + end)) == ALL, (nothing, place)


@APIS
def test_an_error_in_the_middle_keeps_what_had_come(api: str) -> None:
    events = stream(api)
    for place in range(1, len(events)):
        message = check(decode(DECODERS[api](), [*events[:place], ERRORS[api], *events[place:]]))
        failure = classify(message)
        assert failure is not None
        assert (failure.kind, "no more" in failure.text) == ("provider_error", True)
        assert ALL[0].startswith(heard(message)[0])
        assert ALL[1].startswith(heard(message)[1])


@APIS
def test_done_marks_may_stand_anywhere_behind_the_answer_and_be_missing(api: str) -> None:
    body = sse(stream(api))

    for end in (b"", DONE, DONE * 3, b"data: [DONE]", b"data:[DONE]\r\n\r\n", DONE + b": bye\n\n"):
        assert heard(finished(api, body + end)) == ALL


@APIS
def test_done_marks_mean_nothing_where_the_protocol_has_none(api: str) -> None:
    events = stream(api)
    if api == "openai-completions":
        return
    for place in range(len(events)):
        body = sse(events[:place]) + DONE + sse(events[place:])
        assert heard(finished(api, body)) == ALL


@APIS
@pytest.mark.parametrize("size", [1, 2, 5, 10_000])
def test_halves_of_a_character_in_two_events_become_one(api: str, size: int) -> None:
    emoji = "\ud83d\ude00"
    answer = Answer(thinking=emoji, text=emoji, calls=(("read", {"path": emoji}),))

    message = finished(api, sse(stream(api, answer)), size)

    assert heard(message) == ("😀", "😀", [{"path": "😀"}], "toolUse")


@APIS
def test_a_half_character_alone_can_be_stored_and_told(api: str) -> None:
    message = finished(api, sse(stream(api, Answer(text="a\ud83d"))))

    assert message.stop_reason == "stop"
    assert heard(message)[1].startswith("a")


@APIS
def test_without_its_last_events_an_answer_is_cut_off(api: str) -> None:
    events = stream(api)
    last = 2 if api in ("openai-completions", "anthropic-messages") else 1
    message = check(decode(DECODERS[api](), events[:-last]))

    failure = classify(message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("truncated", True)
    assert heard(message)[:2] == ALL[:2]


@APIS
def test_every_event_twice_is_an_end_without_a_crash(api: str) -> None:
    """Doubled ids and indices: nothing is invented, and each call has an id of its own."""
    message = check(decode(DECODERS[api](), [event for event in stream(api) for _ in range(2)]))

    ids = [block.id for block in message.content if type(block) is ToolCall]
    assert message.stop_reason in ("toolUse", "error")
    assert all(ids)


def without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(item, names) for key, item in value.items() if key not in names}
    return [without(item, names) for item in value] if isinstance(value, list) else value


@APIS
@pytest.mark.parametrize("names", [{"id", "call_id"}, {"index", "output_index"}, {"model", "responseId"}])
def test_ids_and_indices_may_be_missing(api: str, names: set[str]) -> None:
    """One call, so that it can be told apart without them."""
    answer = Answer(thinking="hm", text="hello", calls=(("read", {"path": "a"}),))
    events = [without(event, frozenset(names)) for event in stream(api, answer)]

    message = check(decode(DECODERS[api](), events))

    assert all(block.id for block in message.content if type(block) is ToolCall)
    if "index" not in names or api != "anthropic-messages":  # whose blocks are matched by nothing else
        assert heard(message)[:2] == ("hm", "hello")
        assert heard(message)[3] == "toolUse"


# -- chance ------------------------------------------------------------------------------------------------------------


def by_chance(api: str, chance: random.Random) -> None:
    """A stream with several faults at once, in its values, its order, its bytes, and how they arrive."""
    events = copy.deepcopy(chance.choice([RICH[api], stream(api)]))
    for _ in range(chance.randrange(4)):
        path = chance.choice([path for path in places(events) if path])
        events = spoilt(events, path, chance.choice(WRONG))
    for _ in range(chance.randrange(3)):
        if events:
            one = events.pop(chance.randrange(len(events)))
            for _ in range(chance.choice([0, 1, 2])):
                events.insert(chance.randrange(len(events) + 1), one)
    body = bytearray(sse(events))
    for _ in range(chance.choice([0, 0, 0, 1, 5])):
        if body:
            body[chance.randrange(len(body))] = chance.randrange(256)
    if chance.random() < 0.3:
        del body[chance.randrange(len(body) + 1) :]
    if chance.random() < 0.2:
        body = bytearray(bytes(body).replace(b"\n", chance.choice([b"\r\n", b"\r"])))
    reset = chance.random() < 0.2
    told = [
        check(decode_bytes(DECODERS[api](), bytes(body), size=size, reset=reset))
        for size in (1, 1 << chance.randrange(12))
    ]
    assert json.dumps(stable(told[0])) == json.dumps(stable(told[1])), "the result depends on how the bytes were cut"


def stable(message: AssistantMessage) -> list[Any]:
    """A message without what is made up anew each time."""
    return [message.stop_reason, *(type(block).__name__ for block in message.content), *heard(message)]


@APIS
def test_streams_spoilt_by_chance(api: str) -> None:
    for seed in range(30):
        by_chance(api, random.Random(seed))


@APIS
@pytest.mark.slow
def test_many_more_streams_spoilt_by_chance(api: str) -> None:
    for seed in range(1_000, 9_000):
        by_chance(api, random.Random(seed))
