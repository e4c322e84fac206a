"""Chat Completions from request to answer over a real connection."""

from __future__ import annotations

from tests.providers.asking import KEY, answer, events, model, request
from tests.providers.loopback import Exchange, Server, sse

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import SystemMessage, user
from antiphon.core.response_events import Done, Start, TextDelta
from antiphon.providers.registry import stream_for

HELLO = sse(
    {"id": "c1", "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
    {"id": "c1", "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
    {"id": "c1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    "[DONE]",
)


async def test_a_question_is_answered() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(*HELLO)  # a character at a time

    async with Server(handler) as server:
        asked = model(server.url)
        told = await events(stream_for(asked), request(asked, [SystemMessage(content="Be brief."), user("Hi")]))

    assert isinstance(told[0], Start)
    assert [event.delta for event in told if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert isinstance(told[-1], Done)
    message = told[-1].message
    assert message.content == (Text(text="Hello"),)
    assert (message.usage.input, message.usage.output, message.response_id) == (5, 2, "c1")
    sent = server.exchanges[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.json["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


async def test_a_call_is_read_from_its_pieces() -> None:
    pieces = ['{"ci', 'ty":"Os', 'lo"}']

    async def handler(exchange: Exchange) -> None:
        calls = [[{"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": ""}}]]
        calls += [[{"index": 0, "function": {"arguments": piece}}] for piece in pieces]
        chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": call}}]} for call in calls]
        await exchange.stream(sse(*chunks, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}, "[DONE]"))

    async with Server(handler) as server:
        asked = model(server.url)
        message = await answer(stream_for(asked), request(asked))

    assert message.stop_reason == "toolUse"
    assert message.content == (ToolCall(id="call_1", name="weather", arguments={"city": "Oslo"}),)


async def test_a_server_that_does_not_stream_is_understood() -> None:
    whole = (
        '{"id":"c9","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}]}'
    )

    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, whole)

    async with Server(handler) as server:
        asked = model(server.url)
        message = await answer(stream_for(asked), request(asked))

    assert message.content == (Text(text="whole"),)


async def test_the_key_comes_from_the_environment_of_the_provider() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(HELLO)

    async with Server(handler) as server:
        asked = model(server.url, provider="groq")
        await answer(stream_for(asked, environ={"GROQ_API_KEY": "from-env"}), request(asked, api_key=None))

    assert server.exchanges[0].headers["authorization"] == "Bearer from-env"


async def test_a_local_server_needs_no_key() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(HELLO)

    async with Server(handler) as server:
        asked = model(server.url, provider="ollama")
        message = await answer(stream_for(asked, environ={}), request(asked, api_key=None))

    assert message.stop_reason == "stop"
    assert "authorization" not in server.exchanges[0].headers


async def test_a_missing_key_is_a_failure_that_says_so() -> None:
    asked = model(provider="groq")

    message = await answer(stream_for(asked, environ={}), request(asked, api_key=None))

    assert message.stop_reason == "error"
    assert "groq" in str(message.error_message)
