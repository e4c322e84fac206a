"""All adapters over a real connection on this machine: answers, refusals, broken connections, aborts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.providers.conversations import READ, ask, events_of, said, system, user
from tests.providers.event_rules import check_events
from tests.providers.fake_server import Answer, Break, Drop, FakeServer, Refuse, Step
from tests.providers.wire_rules import FAULTS

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import TextDelta
from antiphon.providers.failures import classify
from antiphon.providers.registry import new_adapter

APIS = pytest.mark.parametrize("api", list(FAULTS))
ANSWER = Answer(thinking="hm hm", text="Grüße 😀 there", calls=(("read", {"path": "ä"}), ("read", {"path": "b"})))
PROMPT = (system("S", tools_added=(READ,)), user("x"))


async def talk(api: str, *script: Step, piece_bytes: int = 0, **options: object) -> tuple[AssistantMessage, FakeServer]:
    async with FakeServer(*script, piece_bytes=piece_bytes) as server:
        request = ask(server.model(api), PROMPT, **options)
        return check_events(await events_of(new_adapter(api), request)), server


@APIS
@pytest.mark.parametrize("piece_bytes", [0, 1, 5])
async def test_an_answer_arrives_whole_however_it_is_cut(api: str, piece_bytes: int) -> None:
    message, _ = await talk(api, ANSWER, piece_bytes=piece_bytes)

    kinds = [type(block) for block in message.content]
    assert kinds == [Thinking, Text, ToolCall, ToolCall], message.error_message
    assert message.content[1].text == ANSWER.text  # type: ignore[union-attr]
    assert [block.arguments for block in message.content if isinstance(block, ToolCall)] == [
        {"path": "ä"},
        {"path": "b"},
    ]
    assert (message.stop_reason, message.usage.input, message.usage.output) == ("toolUse", 11, 7)
    assert isinstance(message.duration_ms, int)


@APIS
async def test_a_cut_answer_says_length(api: str) -> None:
    message, _ = await talk(api, Answer(text="abc", cut=True))

    assert message.stop_reason == "length"


@APIS
async def test_a_connection_may_break_behind_every_event(api: str) -> None:
    """The message holds what had arrived, and another try is worth it."""
    seen = 0
    for events in range(40):
        message, _ = await talk(api, Break(ANSWER, events))
        if message.stop_reason != "error":
            break
        failure = classify(message)
        assert failure is not None
        assert failure.kind in ("connection_lost", "truncated")
        assert failure.retryable
        assert len(message.content) >= seen
        seen = len(message.content)
    assert seen >= 3


@APIS
async def test_a_dropped_connection_is_tried_again_if_that_is_allowed(api: str) -> None:
    message, server = await talk(api, Drop(), Answer(text="ok"), max_retries=1)
    assert (message.stop_reason, len(server.seen)) == ("stop", 2)

    message, server = await talk(api, Drop(), Answer(text="ok"))
    failure = classify(message)
    assert failure is not None
    assert (failure.kind, failure.retryable, len(server.seen)) == ("connection_lost", True, 1)


@APIS
async def test_a_busy_server_is_asked_again_after_the_time_it_names(api: str) -> None:
    busy = Refuse(429, "slow down", {"retry-after-ms": "1"})
    message, server = await talk(api, busy, busy, Answer(text="ok"), max_retries=2)

    assert (message.stop_reason, len(server.seen)) == ("stop", 3)


@APIS
async def test_a_refusal_is_told_with_status_and_words(api: str) -> None:
    message, server = await talk(api, Refuse(401, "who are you"), max_retries=3)
    failure = classify(message)

    assert failure is not None
    assert (failure.status, failure.auth, failure.retryable, len(server.seen)) == (401, True, False, 1)
    assert "who are you" in failure.text
    assert "test-key" not in failure.text


@APIS
async def test_an_abort_closes_a_silent_stream_at_once(api: str) -> None:
    async with FakeServer(Break(Answer(text="some words"), 4, silent=True)) as server:
        request = ask(server.model(api), PROMPT)
        events = []
        async with asyncio.timeout(5):
            async for event in new_adapter(api)(request):  # type: ignore[union-attr]
                events.append(event)
                if isinstance(event, TextDelta):
                    request.signal.abort("enough")  # type: ignore[attr-defined]
    message = check_events(events)

    assert message.stop_reason == "aborted"
    assert message.content


@APIS
async def test_an_abort_before_the_call_sends_nothing(api: str) -> None:
    async with FakeServer() as server:
        request = ask(server.model(api), PROMPT)
        request.signal.abort("no")  # type: ignore[attr-defined]
        message = check_events(await events_of(new_adapter(api), request))

        assert (message.stop_reason, server.seen) == ("aborted", [])


@pytest.mark.requirement("S3-82")
@APIS
async def test_a_history_that_cannot_be_encoded_is_a_failed_event(api: str) -> None:
    """An adapter never raises, whatever it is given."""
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    async with FakeServer() as server:
        model = server.model(api)
        history = [user("x"), said(model, ToolCall(id="call_1", name="read", arguments=deep)), user("y")]
        message = check_events(await events_of(new_adapter(api), ask(model, history)))

        assert (message.stop_reason, server.seen) == ("error", [])
        assert "not sent" in str(message.error_message)


@APIS
async def test_calls_at_once_do_not_mix(api: str) -> None:
    adapter = new_adapter(api)
    async with FakeServer(piece_bytes=3) as server:
        server.script += [Answer(text=f"answer {n}") for n in range(8)]
        requests = [ask(server.model(api), PROMPT) for _ in range(8)]
        messages = [check_events(events) for events in await asyncio.gather(*(events_of(adapter, r) for r in requests))]

    texts = sorted(message.content[0].text for message in messages)  # type: ignore[union-attr]
    assert texts == [f"answer {n}" for n in range(8)]
