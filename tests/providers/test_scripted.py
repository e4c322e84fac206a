"""A scripted model streams what it was told to say, as a real provider would, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from antiphon.core.content import Block, Foreign, Image, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, host_message, user
from antiphon.core.ports import ModelRequest
from antiphon.core.response import answer_begun
from antiphon.core.response_events import Done, Failed, ResponseEvent, Start, TextDelta, TextEnd, ToolCallDelta
from antiphon.core.usage import Usage
from antiphon.loop.abort import AbortController
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider, pieces, prompt_text, tokens_of

LOOK = ToolCall(id="c1", name="look", arguments={"path": "a", "é": [1, None]})


def asks(messages: Sequence[Message] = (), stop: AbortController | None = None, **more: Any) -> ModelRequest:
    signal = (stop or AbortController()).signal
    return ModelRequest(model=SCRIPTED, messages=messages, thinking_level="off", signal=signal, **more)


async def answers(provider: ScriptedProvider, request: ModelRequest | None = None) -> list[ResponseEvent]:
    return [event async for event in await provider(request or asks())]


def last_message(events: Sequence[ResponseEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, Done | Failed)
    return last.message if isinstance(last, Done) else last.error


# -- what it says ----------------------------------------------------------------------------------------------------


async def test_a_text_and_blocks() -> None:
    provider = ScriptedProvider(["Hello", [Thinking(thinking="hm"), LOOK], [Text(text="done")]])

    texts = [await answers(provider) for _ in range(3)]

    assert [type(event).__name__ for event in texts[0]] == ["Start", "TextStart", "TextDelta", "TextEnd", "Done"]
    assert [last_message(events).stop_reason for events in texts] == ["stop", "toolUse", "stop"]
    message = last_message(texts[1])
    assert message.content == (Thinking(thinking="hm"), LOOK)
    assert (message.api, message.provider, message.model) == ("scripted", "scripted", "scripted-1")


@pytest.mark.requirement("S0-1", "S3-18", "S3-103")
@pytest.mark.parametrize("tokens", [None, 1, 3])
async def test_what_is_streamed_folds_into_what_was_to_be_said(tokens: int | None) -> None:
    content: tuple[Block, ...] = (
        Text(text="one 😀😀 two", text_signature="s"),
        Thinking(thinking="", thinking_signature="t"),
        LOOK,
        Text(text=""),
    )
    said = AssistantMessage(content=content, stop_reason="stop", response_id="r1")

    events = await answers(ScriptedProvider([said], tokens_per_delta=tokens))

    assert isinstance(events[0], Start)
    answer = answer_begun(events[0].message)
    for event in events[1:-1]:
        answer = answer.grow(event)  # type: ignore[arg-type]
    assert answer.content == last_message(events).content == content
    assert last_message(events).response_id == "r1"
    assert "".join(e.delta for e in events if isinstance(e, ToolCallDelta)) == '{"path":"a","é":[1,null]}'


async def test_blocks_that_no_event_can_tell_stand_in_the_final_message() -> None:
    picture = Image(data="aGk=", mime_type="image/png")

    events = await answers(ScriptedProvider([[picture, Foreign(extra={"type": "odd"}), Text(text="x")]]))

    assert [e.content_index for e in events if isinstance(e, TextEnd)] == [2]
    assert last_message(events).content[0] == picture


async def test_a_failed_answer_ends_with_failed_and_a_message_keeps_its_origin() -> None:
    broken = AssistantMessage(content=(), stop_reason="error", error_message="busy", provider="p", model="m", api="a")

    (start, last) = await answers(ScriptedProvider([broken]))

    assert isinstance(start, Start)
    assert last == Failed(reason="error", error=broken)


async def test_events_are_taken_as_they_are() -> None:
    events = [TextDelta(content_index=0, delta="no start, no end")]

    async def streamed() -> AsyncIterator[ResponseEvent]:
        yield events[0]

    provider = ScriptedProvider([events, streamed()])

    assert await answers(provider) == events
    assert await answers(provider) == events


async def test_a_function_sees_the_request_and_may_be_async() -> None:
    async def slowly(request: ModelRequest) -> str:
        return f"async {len(request.messages)}"

    provider = ScriptedProvider([lambda request: f"plain {len(request.messages)}", slowly])

    assert last_message(await answers(provider)).content == (Text(text="plain 0"),)
    assert last_message(await answers(provider, asks([user("x")]))).content == (Text(text="async 1"),)


async def test_an_exception_is_raised() -> None:
    with pytest.raises(OSError, match="line cut"):
        await ScriptedProvider([OSError("line cut")])(asks())


async def test_when_nothing_is_left_the_answer_is_an_error() -> None:
    provider = ScriptedProvider()

    (failed,) = await answers(provider)
    provider.add("more", "and more")

    assert isinstance(failed, Failed)
    assert "no scripted response" in str(failed.error.error_message)
    assert provider.responses_left == 2
    assert last_message(await answers(provider)).content == (Text(text="more"),)


async def test_requests_are_recorded_as_they_were() -> None:
    provider = ScriptedProvider(["a", "b"])
    messages = [user("first")]
    await answers(provider, asks(messages))
    messages.append(user("later"))
    window = (user("x"),)
    await answers(provider, asks(window))

    assert provider.requests[0].messages == (user("first"),)
    assert provider.requests[1].messages is window


# -- abort -----------------------------------------------------------------------------------------------------------


async def test_an_abort_before_the_start_is_one_event_and_uses_the_response_up() -> None:
    provider, stop = ScriptedProvider(["text"]), AbortController()
    stop.abort()

    (failed,) = await answers(provider, asks(stop=stop))

    assert isinstance(failed, Failed)
    assert (failed.reason, failed.error.content, provider.responses_left) == ("aborted", (), 0)


async def test_an_abort_in_between_keeps_what_was_said() -> None:
    provider, stop = ScriptedProvider(["one two three"], tokens_per_delta=1), AbortController()
    events = []
    async for event in await provider(asks(stop=stop)):
        events.append(event)
        if len(events) == 3:
            stop.abort()

    assert last_message(events).stop_reason == "aborted"
    assert last_message(events).content == (Text(text="one "),)


# -- pieces and estimates --------------------------------------------------------------------------------------------


def test_pieces_count_utf_16_units() -> None:
    assert pieces("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert pieces("a😀b", 2) == ["a\ud83d", "\ude00b"]
    assert pieces("", 4) == [""]
    assert pieces("abc", None) == ["abc"]
    with pytest.raises(ValueError, match="at least 1"):
        ScriptedProvider(tokens_per_delta=0)


async def test_usage_is_estimated_from_lengths() -> None:
    provider = ScriptedProvider(["12345", AssistantMessage(content=(), stop_reason="stop", usage=Usage(input=9))])
    assert last_message(await answers(provider, asks([user("hello")]))).usage == Usage()

    provider = ScriptedProvider(
        ["12345", AssistantMessage(content=(), stop_reason="stop", usage=Usage(input=9))], estimates_usage=True
    )
    usage = [last_message(await answers(provider, asks([user("hello")]))).usage for _ in range(2)]
    assert usage == [Usage(input=3, output=2, total_tokens=5), Usage(input=9)]


async def test_a_session_reads_the_common_beginning_from_its_cache() -> None:
    provider = ScriptedProvider(["a", "b", "c", "d", "e"], estimates_usage=True)
    first, longer = [user("hello")], [user("hello"), user("again 😀")]
    usage = [
        last_message(await answers(provider, asks(first, session_id="s"))).usage,
        last_message(await answers(provider, asks(longer, session_id="s"))).usage,
        last_message(await answers(provider, asks(longer, session_id="other"))).usage,
        last_message(await answers(provider, asks(longer, session_id="s", options={"cache_retention": "none"}))).usage,
        last_message(await answers(provider, asks([user("help me")], session_id="s"))).usage,
    ]

    assert [(each.input, each.cache_read, each.cache_write) for each in usage] == [
        (0, 0, 3),
        (0, 3, 4),
        (0, 0, 7),
        (7, 0, 0),
        (0, 2, 1),
    ]


def test_the_text_of_a_prompt() -> None:
    messages: list[Message] = [
        SystemMessage(content="be kind"),
        SystemMessage(content="", sections={"tone": "dry"}),
        user([Text(text="look"), Image(data="aGk=", mime_type="image/png")]),
        AssistantMessage(
            content=(Thinking(thinking="hm"), LOOK, Foreign(extra={"type": "odd"})), stop_reason="toolUse"
        ),
        host_message("note", text="n"),
    ]

    assert prompt_text(messages).split("\n\n") == [
        "system:be kind",
        'system:\n{"tone":"dry"}',
        "user:look\nimage:image/png",
        'assistant:hm\nlook:{"path":"a","é":[1,null]}\n{"type":"odd"}',
        'note:{"role":"note","text":"n"}',
    ]
    assert tokens_of("😀😀😀") == 2
