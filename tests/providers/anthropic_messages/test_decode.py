"""Stream events of Anthropic Messages become response events and one final message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from tests.providers.event_rules import check_events
from tests.providers.streams import CLAUDE, claude_decoder, decode, decode_bytes, sse

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import Done, Failed, TextEnd, ToolCallDelta, ToolCallEnd, ToolCallStart
from antiphon.providers import house_texts
from antiphon.providers.failures import classify

USAGE = {"input_tokens": 10, "output_tokens": 1}


def start(**message: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg_1", "model": CLAUDE.id, "usage": USAGE, **message}}


def block(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **members}}


def delta(index: Any, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    counts = {"output_tokens": 5, **usage}
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": counts}, {"type": "message_stop"}]


def text(index: int, words: str) -> list[dict[str, Any]]:
    return [block(index, "text", text=""), delta(index, "text_delta", text=words), stop(index)]


def call(index: int, pieces: list[str], **members: Any) -> list[dict[str, Any]]:
    given = {"id": f"toolu_{index}", "name": "read", "input": {}, **members}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [block(index, "tool_use", **given), *deltas, stop(index)]


def answer(*events: Any) -> AssistantMessage:
    return check_events(decode(claude_decoder(), list(events)))


def test_text_thinking_and_calls_keep_their_places_and_signatures() -> None:
    """A signature comes in pieces beside the text and belongs to it for ever."""
    message = answer(
        start(),
        block(0, "thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="why"),
        delta(0, "signature_delta", signature="S1"),
        delta(0, "signature_delta", signature="S2"),
        stop(0),
        block(1, "redacted_thinking", data="ENC"),
        stop(1),
        *text(2, "because"),
        *call(3, ['{"pa', 'th": "x"}']),
        *ending("tool_use"),
    )

    assert message.content == (
        Thinking(thinking="why", thinking_signature="S1S2"),
        Thinking(thinking=house_texts.REDACTED, thinking_signature="ENC", redacted=True),
        Text(text="because"),
        ToolCall(id="toolu_3", name="read", arguments={"path": "x"}),
    )
    assert (message.stop_reason, message.raw_stop_reason, message.response_id) == ("toolUse", "tool_use", "msg_1")


def test_blocks_may_grow_in_turns() -> None:
    message = answer(
        start(),
        block(0, "text", text=""),
        block(1, "tool_use", id="t", name="read", input={}),
        delta(0, "text_delta", text="a"),
        delta(1, "input_json_delta", partial_json='{"p":'),
        delta(0, "text_delta", text="b"),
        delta(1, "input_json_delta", partial_json="1}"),
        stop(1),
        stop(0),
        *ending("tool_use"),
    )

    assert message.content == (Text(text="ab"), ToolCall(id="t", name="read", arguments={"p": 1}))


def test_halves_of_a_character_in_two_deltas_become_one() -> None:
    """JavaScript joins surrogate halves by itself, Python does not."""
    body = sse([start(), block(0, "text", text="")])
    for half in (rb"\ud83d", rb"\ude00"):
        body += sse([delta(0, "text_delta", text="HALF")]).replace(b"HALF", half)
    body += sse([stop(0), *ending()])

    assert check_events(decode_bytes(claude_decoder(), body)).content == (Text(text="😀"),)


def test_a_call_whose_input_stands_in_its_start_keeps_it() -> None:
    events = decode(claude_decoder(), [start(), *call(0, [], input={"a": [1]}), *ending("tool_use")])

    assert check_events(events).content == (ToolCall(id="toolu_0", name="read", arguments={"a": [1]}),)
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ['{"a":[1]}']


def test_deltas_win_over_the_input_in_the_start() -> None:
    message = answer(start(), *call(0, ['{"a":2}'], input={"a": 1}), *ending("tool_use"))

    assert message.content == (ToolCall(id="toolu_0", name="read", arguments={"a": 2}),)


@pytest.mark.parametrize("pieces", [['{"path": "ab'], ['{"path": '], ["[1]"], ["nope"]])
def test_arguments_that_are_no_object_are_reported_and_never_guessed(pieces: list[str]) -> None:
    message = answer(start(), *call(0, pieces), *ending("max_tokens"))
    (made,) = message.content

    assert isinstance(made, ToolCall)
    assert made.arguments == {}
    assert isinstance(made.arguments_error, str)
    assert pieces[0] in made.arguments_error
    assert message.stop_reason == "length"


def test_blocks_left_open_are_ended_when_the_answer_ends_well() -> None:
    """In content order, and a call that was cut says so."""
    events = decode(
        claude_decoder(),
        [
            start(),
            block(0, "text", text=""),
            delta(0, "text_delta", text="Hel"),
            block(1, "tool_use", id="t", name="read", input={}),
            delta(1, "input_json_delta", partial_json='{"p": "x'),
            *ending("max_tokens"),
        ],
    )

    check_events(events)
    ends = [event for event in events if isinstance(event, TextEnd | ToolCallEnd)]
    assert [event.content_index for event in ends] == [0, 1]


def test_blocks_left_open_stay_open_when_the_answer_fails() -> None:
    """What had arrived is in the message, a half-written call with its best partial reading."""
    events = decode(
        claude_decoder(),
        [
            start(),
            block(0, "thinking", thinking=""),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature="S"),
            block(1, "tool_use", id="t", name="read", input={}),
            delta(1, "input_json_delta", partial_json='{"p": "x'),
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        ],
    )

    message = check_events(events)
    assert message.content == (
        Thinking(thinking="hm", thinking_signature="S"),
        ToolCall(id="t", name="read", arguments={"p": "x"}),
    )
    assert not any(isinstance(event, ToolCallEnd) for event in events)


def test_what_we_do_not_know_is_skipped_with_its_deltas() -> None:
    message = answer(
        {"type": "ping"},
        start(),
        {"type": "future_event"},
        block(0, "server_tool_use", id="s", name="web_search"),
        delta(0, "input_json_delta", partial_json='{"q":1}'),
        stop(0),
        block(1, "text", text=""),
        delta(1, "citations_delta", citation={}),
        delta(1, "text_delta", text="ok"),
        delta(7, "text_delta", text="lost"),
        stop(1),
        *ending(),
    )

    assert message.content == (Text(text="ok"),)


def test_usage_of_the_end_overrides_the_start_and_null_keeps_it() -> None:
    message = answer(
        start(usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5}),
        *ending(
            output_tokens=50,
            input_tokens=99,
            cache_read_input_tokens=None,
            cache_creation_input_tokens=4,
            cache_creation={"ephemeral_1h_input_tokens": 3},
            output_tokens_details={"thinking_tokens": 31},
        ),
    )

    usage = message.usage
    assert (usage.input, usage.output, usage.cache_read, usage.cache_write) == (99, 50, 5, 4)
    assert (usage.cache_write_1h, usage.reasoning, usage.total_tokens) == (3, 31, 158)
    assert usage.cost.cache_write == pytest.approx((1 * 1.25 + 3 * 2 * 1) / 1e6)


def test_prices_of_the_model_that_took_over_apply() -> None:
    other = {"provider": "anthropic", "model": "other", "cost": {"input": 10, "output": 20}}
    model = msgspec.structs.replace(CLAUDE, compat={"allowedFallbackModels": [other]})

    message = check_events(
        decode(claude_decoder(model), [start(model="other"), block(0, "fallback"), stop(0), *text(1, "x"), *ending()])
    )

    assert message.response_model == "other"
    assert message.usage.cost.input == pytest.approx(10 * 10 / 1e6)


@pytest.mark.parametrize("cost", [None, {"input": "many"}, 7, []])
def test_unreadable_prices_of_a_fallback_leave_the_models_own(cost: Any) -> None:
    model = msgspec.structs.replace(CLAUDE, compat={"allowedFallbackModels": [{"model": "other", "cost": cost}]})

    message = check_events(decode(claude_decoder(model), [start(model="other"), *text(0, "x"), *ending()]))

    assert message.usage.cost.input == pytest.approx(10 * 1 / 1e6)


def test_a_fallback_behind_content_is_an_error() -> None:
    message = answer(start(), *text(0, "a"), block(1, "fallback"), *text(2, "b"), *ending())

    failure = classify(message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("unsupported_fallback", False)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [("end_turn", "stop"), ("pause_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length")],
)
def test_stop_reasons_that_end_an_answer(reason: str, expected: str) -> None:
    message = answer(start(), *text(0, "x"), *ending(reason))

    assert (message.stop_reason, message.raw_stop_reason) == (expected, reason)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("refusal", "refusal"), ("sensitive", "finish_error"), ("brand_new", "unknown_finish"), (7, "unknown_finish")],
)
def test_stop_reasons_that_fail_an_answer(reason: Any, kind: str) -> None:
    message = answer(start(), *text(0, "x"), *ending(reason))
    failure = classify(message)

    assert failure is not None
    assert (failure.kind, failure.retryable) == (kind, False)
    assert message.content == (Text(text="x"),)


def test_a_refusal_gives_the_servers_explanation() -> None:
    details = {"type": "refusal", "explanation": "against the policy"}
    event = {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}}

    message = answer(start(), event, {"type": "message_stop"})

    assert "against the policy" in str(message.error_message)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [start()],
        [start(), *text(0, "x")],
        [start(), *text(0, "x"), ending()[0]],
        [start(), *text(0, "x"), {"type": "message_stop"}],
        [{"type": "message_stop"}],
    ],
)
def test_a_stream_that_just_ends_is_truncated_and_worth_another_try(events: list[Any]) -> None:
    failure = classify(answer(*events))

    assert failure is not None
    assert (failure.kind, failure.retryable) == ("truncated", True)


def test_nothing_is_read_behind_message_stop() -> None:
    message = answer(start(), *text(0, "x"), *ending(), {"type": "error", "error": {"message": "late"}}, start(id="m2"))

    assert message.stop_reason == "stop"


def test_another_message_inside_a_message_is_an_error_worth_another_try() -> None:
    """Half a call of the first message must not run because a second one ended well."""
    message = answer(start(), *call(0, ['{"a": 1'])[:-1], start(id="msg_2"), *call(0, ["{}"]), *ending("tool_use"))
    failure = classify(message)

    assert failure is not None
    assert (failure.kind, failure.retryable, message.stop_reason) == ("malformed", True, "error")


def test_the_same_message_started_twice_is_one() -> None:
    assert answer(start(), start(), *text(0, "x"), *ending()).content == (Text(text="x"),)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
            ["Overloaded", "overloaded_error"],
        ),
        ('{"code":500,"message":"bad output","type":"server_error"}', ["bad output", "server_error", "500"]),
        ('"just words"', ["just words"]),
        ("no JSON at all", ["no JSON at all"]),
        ("{}", ["{"]),
        ("null", ["error"]),
    ],
)
def test_error_events_of_any_shape_tell_the_servers_words(data: str, words: list[str]) -> None:
    body = sse([start()]) + f"event: error\ndata: {data}\n\n".encode()

    message = check_events(decode_bytes(claude_decoder(), body))

    assert message.stop_reason == "error"
    for word in words:
        assert word in str(message.error_message)


def test_noted_input_transformations_become_a_diagnostic() -> None:
    noted = [{"type": "thinking_removed"}]
    message = answer(start(input_transformations=noted), *text(0, "x"), *ending())

    assert isinstance(message.diagnostics, list)
    (entry,) = message.diagnostics
    assert (entry["type"], entry["details"]) == ("anthropic_input_transformations", {"transformations": noted})


def test_a_call_without_an_id_gets_one() -> None:
    message = answer(start(), block(0, "tool_use", name="read"), stop(0), *ending("tool_use"))

    assert message.content == (ToolCall(id="call_1", name="read", arguments={}),)


def test_an_index_that_is_used_again_ends_its_first_block() -> None:
    message = answer(
        start(),
        block(0, "text", text=""),
        delta(0, "text_delta", text="a"),
        block(0, "text", text=""),
        delta(0, "text_delta", text="b"),
        stop(0),
        *ending(),
    )

    assert message.content == (Text(text="a"), Text(text="b"))


def test_without_indexes_deltas_belong_to_the_block_that_started_last() -> None:
    message = answer(
        start(),
        block(None, "text", text=""),
        delta(None, "text_delta", text="a"),
        stop(None),
        block(None, "tool_use", id="t", name="read"),
        delta(None, "input_json_delta", partial_json='{"p":1}'),
        stop(None),
        *ending("tool_use"),
    )

    assert message.content == (Text(text="a"), ToolCall(id="t", name="read", arguments={"p": 1}))


def test_an_answer_that_was_not_streamed_says_the_same() -> None:
    """Some servers ignore `stream: true`."""
    whole = {
        "id": "msg_1",
        "type": "message",
        "model": CLAUDE.id,
        "content": [
            {"type": "thinking", "thinking": "why", "signature": "S"},
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"p": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    decoder = claude_decoder()
    values = decoder.whole(whole)
    assert values is not None
    events = decoder.start()
    for value in values:
        events += decoder.feed(value)

    message = check_events(events)
    assert message.content == (
        Thinking(thinking="why", thinking_signature="S"),
        Text(text="hi"),
        ToolCall(id="t", name="read", arguments={"p": 1}),
    )
    assert (message.stop_reason, message.usage.total_tokens) == ("toolUse", 7)


def test_other_json_is_no_answer() -> None:
    decoder = claude_decoder()

    assert decoder.whole({"type": "error", "error": {"message": "x"}}) is None
    assert decoder.whole({"type": "message", "content": "x"}) is None


def test_a_failure_before_anything_is_the_only_event() -> None:
    from antiphon.providers.failures import aborted

    decoder = claude_decoder()
    (event,) = decoder.fail(aborted("stop"))

    assert isinstance(event, Failed)
    assert event.error.stop_reason == "aborted"
    assert event.error.usage.cost.total_from_provider is UNSET
    assert decoder.fail(aborted()) == []


def test_done_comes_with_message_stop_not_with_the_end_of_the_body() -> None:
    """A server may keep the connection open for a while."""
    decoder = claude_decoder()
    decoder.start()
    events = []
    for value in [start(), *text(0, "x"), *ending()]:
        events += decoder.feed(value)

    assert isinstance(events[-1], Done)
    assert decoder.finished


def test_ids_and_names_are_known_when_a_call_starts() -> None:
    events = decode(claude_decoder(), [start(), *call(0, ["{}"]), *ending("tool_use")])

    assert [(e.id, e.name) for e in events if isinstance(e, ToolCallStart)] == [("toolu_0", "read")]
