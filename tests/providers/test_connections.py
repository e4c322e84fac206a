"""Connections that are kept and end, over real sockets: when a request is sent once more, and when it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.providers.asking import answer, model, request
from tests.providers.loopback import Exchange, Server, sse

from antiphon.core.messages import AssistantMessage
from antiphon.providers.http import close_connections
from antiphon.providers.registry import new_adapter

HELLO = sse({"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]}, "[DONE]")


@pytest.fixture(autouse=True)
async def _close() -> Any:
    yield
    await close_connections()


def closed(exchange: Exchange) -> None:
    exchange.writer.close()


def reset(exchange: Exchange) -> None:
    exchange.reset()


def nonsense(exchange: Exchange) -> None:
    exchange.writer.write(b"no reply of any kind\r\n\r\n")
    exchange.writer.close()


ENDS = pytest.mark.parametrize("end", [closed, reset])


async def ask(server: Server, times: int) -> list[AssistantMessage]:
    asked = model(server.url)
    return [await answer(new_adapter(asked.api), request(asked)) for _ in range(times)]


def ending(end: Callable[[Exchange], None], *numbers: int) -> Callable[[Exchange], Any]:
    """A server that ends the connection instead of answering the requests of these numbers."""

    async def handler(exchange: Exchange) -> None:
        if exchange.number in numbers:
            end(exchange)
        else:
            await exchange.stream(HELLO)

    return handler


@ENDS
async def test_a_kept_connection_that_ends_unanswered_is_replaced(end: Callable[[Exchange], None]) -> None:
    async with Server(ending(end, 1)) as server:
        answers = await ask(server, 3)

    assert [message.stop_reason for message in answers] == ["stop", "stop", "stop"]
    assert len(server.exchanges) == 4
    assert server.connections == 2, "one more, which is kept in its turn"


@ENDS
async def test_it_is_replaced_once(end: Callable[[Exchange], None]) -> None:
    async with Server(ending(end, 1, 2)) as server:
        answers = await ask(server, 2)

    assert [message.stop_reason for message in answers] == ["stop", "error"]
    assert len(server.exchanges) == 3


@ENDS
async def test_a_new_connection_that_ends_is_a_failure(end: Callable[[Exchange], None]) -> None:
    async with Server(ending(end, 0)) as server:
        answers = await ask(server, 1)

    assert answers[0].stop_reason == "error"
    assert len(server.exchanges) == 1


async def test_a_reply_that_is_no_http_is_a_failure() -> None:
    async with Server(ending(nonsense, 1)) as server:
        answers = await ask(server, 2)

    assert answers[1].stop_reason == "error"
    assert len(server.exchanges) == 2


async def test_a_kept_connection_that_stays_silent_is_given_up() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.number:
            await exchange.until_hung_up()
        else:
            await exchange.stream(HELLO)

    async with Server(handler) as server:
        await ask(server, 1)
        asked = model(server.url)
        message = await answer(new_adapter(asked.api), request(asked, timeout_ms=30))

    assert message.stop_reason == "error"
    assert len(server.exchanges) == 2


async def test_a_hundred_answers_at_once_and_then_no_connection_too_many() -> None:
    """All are open before the first goes on; afterwards the usual few connections are kept."""
    everybody = asyncio.Event()
    gone = 0

    async def handler(exchange: Exchange) -> None:
        nonlocal gone
        if exchange.number == 99:
            everybody.set()
        await everybody.wait()
        await exchange.stream(HELLO)
        await exchange.until_hung_up()
        gone += 1

    async with Server(handler) as server:
        asked = model(server.url)
        adapter = new_adapter(asked.api)
        answers = await asyncio.gather(*(answer(adapter, request(asked)) for _ in range(100)))
        assert {message.stop_reason for message in answers} == {"stop"}
        async with asyncio.timeout(5):
            while gone < 100 - 32:
                await asyncio.sleep(0)
        assert server.connections == 100
