"""Stream chunks of Gemini become response events and one final message."""

from __future__ import annotations

from typing import Any

import pytest
from tests.providers.event_rules import check_events
from tests.providers.streams import decode, decode_bytes, gemini_decoder, sse

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import TextDelta, ToolCallDelta, ToolCallEnd
from antiphon.providers.failures import classify


def chunk(*parts: Any, finish: str | None = None, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r1", **members}


def function(**call: Any) -> dict[str, Any]:
    return {"functionCall": call}


def answer(*chunks: Any) -> AssistantMessage:
    return check_events(decode(gemini_decoder(), list(chunks)))


def test_text_goes_on_until_the_kind_changes() -> None:
    message = answer(
        chunk({"text": "T1", "thought": True}),
        chunk({"text": "T2", "thought": True, "thoughtSignature": "QUJD"}),
        chunk({"text": "a"}, {"text": "b", "thoughtSignature": "REVG"}),
        chunk({"text": "T3", "thought": True}),
        chunk({"text": "c"}, finish="STOP"),
    )

    assert message.content == (
        Thinking(thinking="T1T2", thinking_signature="QUJD"),
        Text(text="ab", text_signature="REVG"),
        Thinking(thinking="T3"),
        Text(text="c"),
    )
    assert (message.stop_reason, message.raw_stop_reason, message.response_id) == ("stop", "STOP", "r1")


def test_an_empty_text_part_is_an_empty_delta_and_its_signature_counts() -> None:
    events = decode(
        gemini_decoder(), [chunk({"text": "a"}), chunk({"text": "", "thoughtSignature": "QUJD"}, finish="STOP")]
    )

    assert check_events(events).content == (Text(text="a", text_signature="QUJD"),)
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["a", ""]


def test_a_call_is_whole_in_one_part() -> None:
    events = decode(
        gemini_decoder(),
        [
            chunk(
                {"text": "x"},
                {**function(name="read", args={"p": 1}, id="f1"), "thoughtSignature": "QUJD"},
                finish="STOP",
            )
        ],
    )

    message = check_events(events)
    assert message.content[1] == ToolCall(id="f1", name="read", arguments={"p": 1}, thought_signature="QUJD")
    assert message.stop_reason == "toolUse"
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ['{"p":1}']


def test_calls_without_an_id_or_with_a_used_one_get_their_own() -> None:
    message = answer(
        chunk(function(name="read"), function(name="read", id="f"), function(name="read", id="f"), finish="STOP")
    )

    assert [block.id for block in message.content if isinstance(block, ToolCall)] == ["call_1", "f", "call_2"]


def test_streamed_arguments_make_one_call() -> None:
    message = answer(
        chunk({**function(name="read", willContinue=True), "thoughtSignature": "QUJD"}),
        chunk(function(partialArgs=[{"jsonPath": "$.p", "stringValue": "a", "willContinue": True}], willContinue=True)),
        chunk(function(partialArgs=[{"jsonPath": "$.p", "stringValue": "b"}], willContinue=True)),
        chunk(function()),
        chunk(function(name="read", partialArgs=[{"jsonPath": "$.n", "numberValue": 1.5}]), finish="STOP"),
    )

    assert message.content == (
        ToolCall(id="call_1", name="read", arguments={"p": "ab"}, thought_signature="QUJD"),
        ToolCall(id="call_2", name="read", arguments={"n": 1.5}),
    )


def test_a_new_name_ends_the_call_before_it() -> None:
    message = answer(
        chunk(function(name="a", willContinue=True)), chunk(function(name="b", willContinue=True)), chunk(finish="STOP")
    )

    assert [block.name for block in message.content if isinstance(block, ToolCall)] == ["a", "b"]


def test_pieces_that_repeat_name_and_id_belong_to_one_call() -> None:
    piece = {"name": "a", "id": "f", "willContinue": True}
    message = answer(
        chunk(function(**piece, partialArgs=[{"jsonPath": "$.x", "numberValue": 1}])),
        chunk(function(**piece, partialArgs=[{"jsonPath": "$.y", "numberValue": 2}])),
        chunk(finish="STOP"),
    )

    assert message.content == (ToolCall(id="f", name="a", arguments={"x": 1, "y": 2}),)


def test_arguments_cut_by_the_token_limit_are_reported() -> None:
    """They may look whole; only the end of the answer tells that they are not."""
    message = answer(
        chunk(function(name="a", willContinue=True)),
        chunk(function(partialArgs=[{"jsonPath": "$.p", "stringValue": "x"}], willContinue=True)),
        chunk(finish="MAX_TOKENS"),
    )
    (made,) = message.content

    assert isinstance(made, ToolCall)
    assert (made.arguments, message.stop_reason) == ({}, "length")
    assert '{"p":"x"' in str(made.arguments_error)


def test_a_call_that_is_still_streaming_when_the_connection_breaks_stays_open() -> None:
    body = sse([chunk(function(name="a", willContinue=True))])
    events = decode_bytes(gemini_decoder(), body, reset=True)

    assert check_events(events).stop_reason == "error"
    assert not any(isinstance(event, ToolCallEnd) for event in events)


def test_parts_of_other_kinds_are_skipped() -> None:
    message = answer(chunk({"executableCode": {}}, {"inlineData": {}}, {"text": "x"}, 7, None, finish="STOP"))

    assert message.content == (Text(text="x"),)


def test_only_the_first_candidate_counts() -> None:
    second = {"content": {"parts": [{"text": "no"}]}, "index": 1, "finishReason": "STOP"}

    message = answer(chunk({"text": "yes"}), {"candidates": [second]}, chunk(finish="STOP"))

    assert message.content == (Text(text="yes"),)


@pytest.mark.parametrize(
    ("finish", "expected"), [("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")]
)
def test_finish_reasons_that_end_an_answer(finish: str, expected: str) -> None:
    assert answer(chunk({"text": "x"}, finish=finish)).stop_reason == expected


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("SAFETY", "finish_error"),
        ("MALFORMED_FUNCTION_CALL", "finish_error"),
        ("IMAGE_SOMETHING", "finish_error"),
        ("FINISH_REASON_UNSPECIFIED", "finish_error"),
        ("BRAND_NEW", "unknown_finish"),
    ],
)
def test_finish_reasons_that_fail_an_answer(finish: str, kind: str) -> None:
    message = answer(chunk({"text": "x"}, finish=finish))
    failure = classify(message)

    assert failure is not None
    assert (failure.kind, failure.retryable) == (kind, False)
    assert finish in failure.text


def test_the_servers_words_about_a_finish_are_told() -> None:
    event = chunk()
    event["candidates"][0] |= {"finishReason": "UNEXPECTED_TOOL_CALL", "finishMessage": "undeclared function: ls"}

    assert "undeclared function: ls" in str(answer(event).error_message)


def test_words_that_quote_the_model_do_not_make_a_failure_worth_another_try() -> None:
    event = chunk()
    event["candidates"][0] |= {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "call fetch(503) timed out"}
    failure = classify(answer(event))

    assert failure is not None
    assert not failure.retryable


def test_the_last_finish_reason_counts() -> None:
    assert answer(chunk({"text": "x"}, finish="STOP"), chunk(finish="SAFETY")).stop_reason == "error"


def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    failure = classify(answer(chunk({"text": "x"})))

    assert failure is not None
    assert (failure.kind, failure.retryable) == ("truncated", True)


def test_a_blocked_prompt_is_final_and_named() -> None:
    """The reference calls it truncated, and the same prompt is sent again and again."""
    message = answer(
        {
            "promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "try again later"},
            "usageMetadata": {"promptTokenCount": 9},
        }
    )
    failure = classify(message)

    assert failure is not None
    assert (failure.kind, failure.retryable, message.usage.input) == ("blocked", False, 9)
    assert "SAFETY" in failure.text


def test_a_remark_about_the_prompt_does_not_spoil_an_answer() -> None:
    assert answer(chunk({"text": "x"}, finish="STOP", promptFeedback={"blockReason": "OTHER"})).stop_reason == "stop"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}, ["overloaded", "UNAVAILABLE", "503"]),
        ("words", ["words"]),
        ({}, ["{"]),
        (["x"], ["x"]),
    ],
)
def test_an_error_object_ends_the_stream_with_its_words(error: Any, words: list[str]) -> None:
    message = answer(chunk({"text": "x"}), {"error": error}, chunk({"text": "y"}, finish="STOP"))

    assert (message.stop_reason, message.content) == ("error", (Text(text="x"),))
    for word in words:
        assert word in str(message.error_message)


def test_usage_counts_tools_as_input_and_thoughts_as_output() -> None:
    counts = {
        "promptTokenCount": 1000,
        "toolUsePromptTokenCount": 50,
        "cachedContentTokenCount": 900,
        "candidatesTokenCount": 4,
        "thoughtsTokenCount": 6,
    }
    usage = answer(chunk(usageMetadata={"promptTokenCount": 7}), chunk(finish="STOP", usageMetadata=counts)).usage

    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (150, 10, 900, 6)
    assert usage.total_tokens == 1060
    assert usage.cost.total == pytest.approx((150 * 1 + 10 * 2 + 900 * 0.1) / 1e6)


def test_a_reported_total_wins_over_the_sum() -> None:
    usage = answer(chunk(finish="STOP", usageMetadata={"promptTokenCount": 1, "totalTokenCount": 99})).usage

    assert usage.total_tokens == 99


def test_an_answer_that_was_not_streamed_says_the_same() -> None:
    decoder = gemini_decoder()
    values = decoder.whole(chunk({"text": "hi"}, finish="STOP"))
    assert values is not None
    events = decoder.start() + decoder.feed(values[0]) + decoder.end()

    assert check_events(events).content == (Text(text="hi"),)
    assert gemini_decoder().whole({"error": {"message": "x"}}) is None
