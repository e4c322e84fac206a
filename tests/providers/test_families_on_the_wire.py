"""What servers and networks do to a request, over real sockets, in each of the four families."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from tests.providers.asking import KEY, events, model, request
from tests.providers.event_rules import check_events
from tests.providers.fake_server import RENDER, Answer, error_body
from tests.providers.loopback import Exchange, Server

from antiphon.agent import Agent
from antiphon.core.content import Text, Thinking
from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.response_events import TextDelta
from antiphon.loop.abort import AbortController
from antiphon.providers import failures
from antiphon.providers.http import close_connections
from antiphon.providers.registry import new_adapter
from antiphon.tools import tool

APIS = pytest.mark.parametrize("api", list(RENDER))
ANSWER = Answer(thinking="hm", text="hello")
Handler = Callable[[Exchange], Awaitable[None]]


@pytest.fixture(autouse=True)
async def _close() -> Any:
    yield
    await close_connections()


def frames(api: str, answer: Answer = ANSWER) -> list[bytes]:
    """The events of a small answer."""
    named = api in ("openai-responses", "anthropic-messages")
    out = []
    for event in RENDER[api](answer, "m", map(str, count()).__next__):
        name = f"event: {event['type']}\n" if named else ""
        out.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return [*out, b"data: [DONE]\n\n"] if api == "openai-completions" else out


def half(api: str) -> list[bytes]:
    """The events of the answer up to its first text."""
    found: list[bytes] = []
    for frame in frames(api):
        found.append(frame)
        if b'"he"' in frame:
            return found
    raise AssertionError("the answer has no text")


def asked_model(api: str, url: str) -> Model:
    return model(url, api, provider="google" if api.startswith("google") else "example")


async def told(api: str, handler: Handler, **options: Any) -> tuple[AssistantMessage, Server]:
    async with Server(handler) as server:
        asked = asked_model(api, server.url)
        async with asyncio.timeout(20):
            return check_events(await events(new_adapter(api), request(asked, **options))), server


def failure_of(message: AssistantMessage) -> failures.Failure:
    failure = failures.classify(message)
    assert failure is not None, message
    return failure


def text_of(message: AssistantMessage) -> str:
    return "".join(block.text for block in message.content if type(block) is Text)


# -- answers that are none ---------------------------------------------------------------------------------------------


@APIS
async def test_a_web_page_is_told_as_what_it_is(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, "<html>Sign in to the hotel network</html>", "text/html")

    failure = failure_of((await told(api, handler))[0])

    assert failure.kind == "malformed"
    assert "hotel network" in failure.text


@APIS
async def test_an_error_with_status_200_is_an_error(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, json.dumps(error_body(api, 400, "no such model")))

    failure = failure_of((await told(api, handler))[0])

    assert failure.kind == "provider_error"
    assert "no such model" in failure.text


@APIS
@pytest.mark.parametrize(("body", "content_type"), [("", "text/event-stream"), ("just words", "text/plain")])
async def test_a_body_without_events_is_truncated(api: str, body: str, content_type: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, body, content_type)

    failure = failure_of((await told(api, handler))[0])

    assert (failure.kind, failure.retryable) == ("truncated", True)


@APIS
@pytest.mark.parametrize("status", [401, 413, 429, 503])
async def test_a_refusal_is_typed(api: str, status: int) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(status, json.dumps(error_body(api, status, "not like this")), retry_after="7")

    failure = failure_of((await told(api, handler))[0])

    assert failure.status == status
    assert failure.retryable == (status == 429 or status >= 500)
    assert failure.auth == (status in (401, 403))
    assert failure.overflow == (status == 413)
    assert failure.retry_after_ms == 7000
    assert "not like this" in failure.text


@APIS
async def test_busy_servers_are_asked_again_when_they_said(api: str) -> None:
    loop = asyncio.get_running_loop()
    at: list[float] = []

    async def handler(exchange: Exchange) -> None:
        at.append(loop.time())
        if exchange.number < 2:
            await exchange.reply((429, 503)[exchange.number], "busy", "text/plain", retry_after="0.05")
        else:
            await exchange.stream(*frames(api))

    message, _ = await told(api, handler, max_retries=2)

    assert (message.stop_reason, text_of(message)) == ("stop", "hello")
    assert min(at[1] - at[0], at[2] - at[1]) >= 0.05


# -- bodies ------------------------------------------------------------------------------------------------------------


@APIS
async def test_a_compressed_stream_is_read(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        data = gzip.compress(b"".join(frames(api)))
        await exchange.head(content_encoding="gzip")
        for start in range(0, len(data), 50):
            await exchange.piece(data[start : start + 50])
        await exchange.end()

    assert text_of((await told(api, handler))[0]) == "hello"


@APIS
async def test_a_stream_that_is_not_compressed_as_it_says_is_a_failure(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.head(content_encoding="gzip")
        await exchange.piece(b"".join(frames(api)))
        await exchange.end()

    assert (await told(api, handler))[0].stop_reason == "error"


@APIS
async def test_line_ends_may_be_cut_between_two_reads(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        for line in b"".join(frames(api)).split(b"\n")[:-1]:
            await exchange.piece(line + b"\r")
            await exchange.piece(b"\n")
        await exchange.end()

    message, _ = await told(api, handler)

    assert (message.stop_reason, text_of(message)) == ("stop", "hello")


@APIS
async def test_an_answer_without_its_end_is_truncated_and_kept(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(*half(api))

    message, _ = await told(api, handler)

    assert failure_of(message).kind == "truncated"
    assert text_of(message) == "he"


@APIS
async def test_a_reset_keeps_what_had_come(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.piece(b"".join(half(api)))
        exchange.reset()

    message, server = await told(api, handler, max_retries=3)

    assert (failure_of(message).kind, failure_of(message).retryable) == ("connection_lost", True)
    assert len(server.exchanges) == 1, "a stream that began is never asked for again"
    assert message.content


@APIS
@pytest.mark.slow
async def test_a_reset_behind_every_byte(api: str) -> None:
    """From the first byte of the body on: always a last message, never more than was sent."""
    body = b"".join(frames(api))
    length = 0

    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        if length:
            await exchange.piece(body[:length])
        exchange.reset()

    async with Server(handler) as server:
        asked = asked_model(api, server.url)
        for length in range(len(body)):
            async with asyncio.timeout(5):
                message = check_events(await events(new_adapter(api), request(asked)))
            if message.stop_reason == "error":
                assert failure_of(message).kind in ("connection_lost", "truncated")
            thoughts = "".join(block.thinking for block in message.content if type(block) is Thinking)
            assert "hello".startswith(text_of(message))
            assert "hm".startswith(thoughts)


# -- time --------------------------------------------------------------------------------------------------------------


@contextmanager
def busy_port() -> Iterator[int]:
    """A port that lets nobody in: its queue of connections is full and never emptied."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
        try:
            yield listener.getsockname()[1]
        finally:
            for one in waiting:
                one.close()


@APIS
async def test_a_server_that_lets_nobody_in_is_given_up(api: str) -> None:
    with busy_port() as port:
        asked = asked_model(api, f"http://127.0.0.1:{port}/v1")
        async with asyncio.timeout(10):
            message = check_events(await events(new_adapter(api), request(asked, connect_timeout_ms=40)))

    failure = failure_of(message)
    assert failure.kind in ("timeout", "connection_lost")
    assert failure.retryable
    assert "connect" in failure.text.lower()


@APIS
async def test_a_server_that_says_nothing_is_given_up(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.until_hung_up()

    failure = failure_of((await told(api, handler, timeout_ms=40))[0])

    assert (failure.kind, failure.retryable) == ("timeout", True)


@APIS
async def test_silence_in_the_middle_is_given_up_and_keeps_what_had_come(api: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.piece(b"".join(half(api)))
        await exchange.until_hung_up()

    message, _ = await told(api, handler, silence_ms=150)

    assert (failure_of(message).kind, failure_of(message).retryable) == ("timeout", True)
    assert text_of(message) == "he"


# -- leaving -----------------------------------------------------------------------------------------------------------


@APIS
async def test_an_abort_hangs_up_at_once(api: str) -> None:
    hung_up = asyncio.Event()
    controller = AbortController()

    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.piece(b"".join(half(api)))
        await exchange.until_hung_up()
        hung_up.set()

    async with Server(handler) as server:
        heard = []
        async for event in new_adapter(api)(request(asked_model(api, server.url), controller=controller)):  # type: ignore[union-attr]
            heard.append(event)
            if isinstance(event, TextDelta):
                controller.abort("enough")
        await asyncio.wait_for(hung_up.wait(), 2)

    message = check_events(heard)
    assert (message.stop_reason, text_of(message)) == ("aborted", "he")
    assert not failure_of(message).retryable


@APIS
async def test_an_abort_before_the_answer_hangs_up_at_once(api: str) -> None:
    arrived, hung_up = asyncio.Event(), asyncio.Event()
    controller = AbortController()

    async def handler(exchange: Exchange) -> None:
        arrived.set()
        await exchange.until_hung_up()
        hung_up.set()

    async with Server(handler) as server:
        asked = request(asked_model(api, server.url), controller=controller)
        asking = asyncio.create_task(events(new_adapter(api), asked))
        await arrived.wait()
        controller.abort()
        message = check_events(await asyncio.wait_for(asking, 2))
        await asyncio.wait_for(hung_up.wait(), 2)

    assert message.stop_reason == "aborted"


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", [api for api in RENDER if api != "google-generative-ai"])
async def test_a_call_that_is_no_json_never_runs_and_the_model_is_shown_what_it_sent(api: str) -> None:
    """Gemini sends arguments as objects, which cannot be wrong in this way."""
    ran: list[str] = []

    @tool
    async def read(path: str) -> str:
        """Read a file."""
        ran.append(path)
        return "content"

    broken = [
        frame.replace(b'\\"a\\"}', b'\\"a\\"')
        for frame in frames(api, Answer(calls=(("read", {"path": "a"}), ("read", {"path": "b"}))))
    ]

    async def handler(exchange: Exchange) -> None:
        await exchange.stream(*(broken if exchange.number == 0 else frames(api)))

    async with Server(handler) as server:
        agent = Agent(
            stream=new_adapter(api), model=asked_model(api, server.url), tools=[read], options={"api_key": KEY}
        )
        outcome = await agent.prompt("Go")

    assert outcome.reason == "stop", outcome.error
    assert ran == ["b"], "the whole call ran, the broken one did not"
    assert '\\"path\\": \\"a\\"' in server.exchanges[1].body.decode().replace('\\\\\\"', '\\"')
