"""The HTTP layer against a real server: refusals, waits, slow and broken bodies, and what an abort does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.providers.asking import answer, events, model, request
from tests.providers.loopback import Exchange, Server, sse

from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import Start
from antiphon.loop.abort import AbortController
from antiphon.providers import failures
from antiphon.providers.http import close_connections
from antiphon.providers.registry import new_adapter

HELLO = sse({"choices": [{"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}]}, "[DONE]")
BUSY = '{"error": {"message": "too much to do", "type": "busy"}}'


@pytest.fixture(autouse=True)
async def _close() -> Any:
    yield
    await close_connections()


async def ask(handler: Any, **options: Any) -> tuple[AssistantMessage, Server]:
    async with Server(handler) as server:
        asked = model(server.url)
        message = await answer(new_adapter(asked.api), request(asked, **options))
        return message, server


def failure_of(message: AssistantMessage) -> failures.Failure:
    failure = failures.classify(message)
    assert failure is not None
    return failure


async def test_a_wait_beyond_the_cap_is_refused_and_names_both() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(503, BUSY, retry_after="90")

    message, server = await ask(handler, max_retries=3, max_retry_delay_ms=1000)

    assert len(server.exchanges) == 1
    assert failure_of(message).retryable
    assert "90 s" in str(message.error_message)
    assert "1 s" in str(message.error_message)


async def test_a_dropped_connection_is_tried_again() -> None:
    async def handler(exchange: Exchange) -> None:
        if exchange.number == 0:
            exchange.reset()
        else:
            await exchange.stream(HELLO)

    message, server = await ask(handler, max_retries=1)

    assert message.stop_reason == "stop"
    assert len(server.exchanges) == 2


async def test_nobody_listening_is_a_failure_worth_a_retry() -> None:
    async with Server(lambda exchange: exchange.end()) as server:
        url = server.url
    asked = model(url)

    message = await answer(new_adapter(asked.api), request(asked))

    failure = failure_of(message)
    assert (failure.kind, failure.retryable) == ("connection_lost", True)
    assert "ECONNREFUSED" in failure.text


@pytest.mark.parametrize(
    ("body", "content_type", "kind", "words"),
    [
        ("<html>Sign in to the hotel network</html>", "text/html", "malformed", "hotel network"),
        ('{"error": {"message": "no such model", "code": 17}}', "application/json", "provider_error", "no such model"),
        ('{"detail": "not today"}', "application/json", "provider_error", "not today"),
        ('{"hello": "world"}', "application/json", "malformed", "hello"),
        ("plain words", "text/plain", "truncated", ""),
        ("", "text/event-stream", "truncated", ""),
    ],
)
async def test_a_success_that_is_no_stream(body: str, content_type: str, kind: str, words: str) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(200, body, content_type)

    message, _ = await ask(handler)

    assert failure_of(message).kind == kind
    assert words in str(message.error_message)


async def test_slow_pieces_are_patience_not_silence() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        for letter in HELLO:
            await exchange.piece(letter)
            await asyncio.sleep(0)
        await exchange.end()

    message, _ = await ask(handler, silence_ms=2000)

    assert message.stop_reason == "stop"


async def test_an_abort_ends_the_wait_before_a_retry() -> None:
    controller = AbortController()

    async def handler(exchange: Exchange) -> None:
        await exchange.reply(503, BUSY, retry_after="30")
        asyncio.get_running_loop().call_later(0.05, controller.abort)

    message, server = await ask(handler, max_retries=3, controller=controller)

    assert message.stop_reason == "aborted"
    assert len(server.exchanges) == 1


async def test_leaving_the_stream_early_hangs_up() -> None:
    hung_up = asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.piece(sse({"choices": [{"index": 0, "delta": {"content": "one"}}]}))
        await exchange.until_hung_up()
        hung_up.set()

    async with Server(handler) as server:
        asked = model(server.url)
        stream = new_adapter(asked.api)(request(asked))
        assert isinstance(await anext(stream), Start)  # type: ignore[arg-type]
        await stream.aclose()  # type: ignore[union-attr]
        await asyncio.wait_for(hung_up.wait(), 2)


async def test_cancelling_the_reader_hangs_up() -> None:
    arrived, hung_up = asyncio.Event(), asyncio.Event()

    async def handler(exchange: Exchange) -> None:
        await exchange.head()
        arrived.set()
        await exchange.until_hung_up()
        hung_up.set()

    async with Server(handler) as server:
        asked = model(server.url)
        asking = asyncio.create_task(events(new_adapter(asked.api), request(asked)))
        await arrived.wait()
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(hung_up.wait(), 2)


async def test_a_finished_connection_is_used_again() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(HELLO)

    async with Server(handler) as server:
        asked = model(server.url)
        for _ in range(3):
            await answer(new_adapter(asked.api), request(asked))

    assert server.connections == 1


async def test_a_redirect_is_not_followed() -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.reply(307, "", location="http://127.0.0.1:1/elsewhere")

    message, server = await ask(handler)

    assert failure_of(message).status == 307
    assert len(server.exchanges) == 1


@pytest.mark.parametrize("address", ["not an address", "ftp://example.com/v1", "http://"])
async def test_an_address_that_cannot_be_asked_is_not_sent(address: str) -> None:
    message = await answer(new_adapter("openai-completions"), request(model(address)))

    assert (failure_of(message).kind, failure_of(message).retryable) == ("bad_request", False)


async def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handler(exchange: Exchange) -> None:
        await exchange.stream(HELLO)

    async with Server(handler) as proxy, Server(handler) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        far, near = model("http://models.example.com/v1"), model(server.url)
        for asked in (far, near):
            assert (await answer(new_adapter(asked.api), request(asked))).stop_reason == "stop"

    assert [exchange.path for exchange in proxy.exchanges] == ["http://models.example.com/v1/chat/completions"]
    assert [exchange.path for exchange in server.exchanges] == ["/v1/chat/completions"]


async def test_plain_http_needs_no_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes 30 ms; a file of them that cannot be read troubles only those who ask by https."""

    async def handler(exchange: Exchange) -> None:
        await exchange.stream(HELLO)

    (tmp_path / "broken.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "broken.pem"))
    message, _ = await ask(handler)
    assert message.stop_reason == "stop"

    async with Server(handler) as server:
        asked = model(server.url.replace("http:", "https:"))
        refused = await answer(new_adapter(asked.api), request(asked, max_retries=0))
    assert refused.stop_reason == "error"
    assert server.exchanges == []
