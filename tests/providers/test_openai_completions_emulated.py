"""A server without tools behind the ordinary adapter: `emulatedTools` in a model's or a provider's `compat`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.providers.asking import answer, events, model, request
from tests.providers.event_rules import check_events
from tests.providers.loopback import Exchange, Server, sse

from antiphon.agent import Agent
from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import SystemMessage, ToolResultMessage, user
from antiphon.core.model import Model
from antiphon.core.response_events import TextDelta, ToolCallDelta
from antiphon.providers.catalog import builtin
from antiphon.providers.dialects import chat_dialect
from antiphon.providers.registry import new_adapter, stream_for
from antiphon.tools import tool


@tool
async def read(path: str) -> str:
    """Read a file."""
    return f"This is {path}."


def emulating(url: str, **more: Any) -> Model:
    return model(url, compat={"emulatedTools": True}, **more)


def written(text: str, finish: str = "stop", size: int = 5) -> str:
    """A stream that writes this text."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    chunks: list[Any] = [{"id": "c", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return sse(*chunks, end, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}, "[DONE]")


def with_tools(*messages: Any) -> list[Any]:
    from antiphon.core.system_state import initial_system_message

    return [initial_system_message("Be brief.", [read]), *messages]


async def test_a_whole_loop_of_two_calls() -> None:
    script = [
        '{"tool": "read", "arguments": {"path": "a"}}',
        '{"tool": "read", "arguments": {"path": "b"}}',
        '{"answer": "Both were read."}',
    ]

    async def handler(exchange: Exchange) -> None:
        assert "tools" not in exchange.json
        assert exchange.json["response_format"]["json_schema"]["schema"]["anyOf"]
        await exchange.stream(written(script[exchange.number]))

    async with Server(handler) as server:
        asked = emulating(server.url)
        agent = Agent(stream=stream_for(asked), model=asked, tools=[read], api_key="k")
        outcome = await agent.prompt("Read a and b.")
        last = server.exchanges[-1].json["messages"]

    assert outcome.reason == "stop"
    results = [message for message in agent.messages if isinstance(message, ToolResultMessage)]
    assert [result.content for result in results] == [(Text(text="This is a."),), (Text(text="This is b."),)]
    assert agent.messages[-1].content == (Text(text="Both were read."),)
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize("size", [1, 4, 1000])
async def test_a_call_streams_as_a_call(size: int) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(written('{"tool": "read", "arguments": {"path": "a.txt"}}', size=size))

    async with Server(handler) as server:
        asked = emulating(server.url)
        told = await events(stream_for(asked), request(asked, with_tools(user("Hi"))))

    message = check_events(told)
    assert message.stop_reason == "toolUse"
    (call,) = message.content
    assert isinstance(call, ToolCall)
    assert (call.name, call.arguments) == ("read", {"path": "a.txt"})
    assert "".join(event.delta for event in told if isinstance(event, ToolCallDelta)) == '{"path": "a.txt"}'
    assert (message.usage.input, message.usage.output) == (9, 4)


async def test_words_stream_as_words() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(written('{"answer": "One two three four."}'))

    async with Server(handler) as server:
        asked = emulating(server.url)
        told = await events(stream_for(asked), request(asked, with_tools(user("Hi"))))

    message = check_events(told)
    assert (message.stop_reason, message.content) == ("stop", (Text(text="One two three four."),))
    assert sum(isinstance(event, TextDelta) for event in told) > 2


async def test_a_cut_call_is_a_cut_answer() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(written('{"tool": "read", "arguments": {"path": "a.t', "length"))

    async with Server(handler) as server:
        asked = emulating(server.url)
        message = await answer(stream_for(asked), request(asked, with_tools(user("Hi"))))

    assert message.stop_reason == "length"
    (call,) = message.content
    assert isinstance(call, ToolCall)
    assert call.arguments_error


async def test_an_answer_in_one_piece_is_understood() -> None:
    text = '{"tool": "read", "arguments": {"path": "a"}}'
    whole = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}

    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, json.dumps(whole))

    async with Server(handler) as server:
        asked = emulating(server.url)
        message = await answer(stream_for(asked), request(asked, with_tools(user("Hi"))))

    assert message.stop_reason == "toolUse"


@pytest.mark.parametrize("text", ["I cannot do JSON.", '{"unfinished'])
async def test_a_stream_that_just_ends_keeps_its_words(text: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(sse({"choices": [{"index": 0, "delta": {"content": text}}]}))

    async with Server(handler) as server:
        asked = emulating(server.url)
        message = await answer(stream_for(asked), request(asked, with_tools(user("Hi"))))

    assert message.stop_reason == "error"
    assert message.content == (Text(text=text),)


async def test_a_request_that_overflows_is_sent_again_with_less() -> None:
    async def handler(exchange: Exchange) -> None:
        if len(exchange.body) > 3000:
            error = {"message": "request (3000 tokens) exceeds the available context size (2048 tokens)", "code": 400}
            await exchange.reply(400, json.dumps({"error": error}))
        else:
            await exchange.stream(written("Fine."))

    async with Server(handler) as server:
        asked = emulating(server.url, context_window=2048, max_tokens=256)
        long = user("1234567890" * 1000)
        message = await answer(stream_for(asked), request(asked, [SystemMessage(content="Be brief."), long]))
        sizes = [len(exchange.body) for exchange in server.exchanges]

    assert message.content == (Text(text="Fine."),)
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]


async def test_without_the_switch_tools_are_sent() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(written("Hello."))

    async with Server(handler) as server:
        asked = model(server.url)
        await answer(new_adapter(asked.api), request(asked, with_tools(user("Hi"))))
        assert server.exchanges[0].json["tools"]


@pytest.mark.parametrize("value", [True, "guided"])
def test_a_provider_of_a_settings_file_can_have_it(value: bool | str) -> None:
    config = {
        "providers": {
            "mine": {
                "baseUrl": "http://127.0.0.1:1/v1",
                "api": "openai-completions",
                "compat": {"emulatedTools": value},
                "models": [{"id": "tiny"}],
            }
        }
    }
    catalog, faults = builtin().with_config(config)
    assert faults == ()
    found = catalog.find("mine/tiny").model
    assert chat_dialect(found).emulated_tools == value
