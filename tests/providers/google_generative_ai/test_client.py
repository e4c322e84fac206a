"""The adapter end to end, over a scripted transport."""

from __future__ import annotations

import msgspec
from tests.providers.conversations import READ, Reply, Server, ask, call, events_of, said, system, user
from tests.providers.event_rules import check_events
from tests.providers.streams import CLAUDE, GEMINI, sse

from antiphon.core.transcript import Transcript
from antiphon.providers.google_generative_ai.client import GoogleGenerativeAi

ANSWER = sse([{"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}])


async def test_a_request_carries_key_prompt_tools_and_contents() -> None:
    server = Server(Reply(ANSWER))
    request = ask(GEMINI, [system("S", tools_added=(READ,)), user("x")], transport=server)

    message = check_events(await events_of(GoogleGenerativeAi(), request))

    body = server.body()
    assert server.requests[0].headers["x-goog-api-key"] == "test-key"
    assert body["systemInstruction"]["parts"] == [{"text": "S"}]
    assert body["tools"][0]["functionDeclarations"][0]["name"] == "read"
    assert body["contents"] == [{"role": "user", "parts": [{"text": "x"}]}]
    assert message.stop_reason == "stop"


async def test_nothing_to_say_is_a_failed_event_and_no_request() -> None:
    server = Server()
    message = check_events(await events_of(GoogleGenerativeAi(), ask(GEMINI, [system("S")], transport=server)))

    assert message.stop_reason == "error"
    assert "at least one message" in str(message.error_message)
    assert not server.requests


async def test_foreign_ids_are_rewritten_only_where_ids_are_sent() -> None:
    old = msgspec.structs.replace(GEMINI, id="gemini-2.5-pro")
    history = [user("x"), said(CLAUDE, call("a.b"))]
    for model, expected in ((GEMINI, "a_b"), (old, None)):
        server = Server(Reply(ANSWER))
        await events_of(GoogleGenerativeAi(), ask(model, history, transport=server))

        _, answer, results = server.body()["contents"]
        assert answer["parts"][0]["functionCall"].get("id") == expected
        assert results["parts"][0]["functionResponse"].get("id") == expected


async def test_the_body_grows_by_what_is_new_and_says_the_same_as_one_made_afresh() -> None:
    adapter = GoogleGenerativeAi()
    messages = Transcript([system("S")])
    for n in range(4):
        messages = messages.append(user(f"word {n}"))
        kept, fresh = Server(Reply(ANSWER)), Server(Reply(ANSWER))
        message = check_events(await events_of(adapter, ask(GEMINI, messages, transport=kept)))
        await events_of(GoogleGenerativeAi(), ask(GEMINI, list(messages), transport=fresh))

        assert fresh.body() == kept.body()
        messages = messages.append(message)


async def test_an_error_in_spite_of_status_200_is_told() -> None:
    server = Server(Reply({"error": {"code": 400, "message": "API key not valid", "status": "INVALID_ARGUMENT"}}))
    message = check_events(await events_of(GoogleGenerativeAi(), ask(GEMINI, [user("x")], transport=server)))

    assert message.stop_reason == "error"
    assert "API key not valid" in str(message.error_message)
