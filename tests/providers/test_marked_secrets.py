"""Marked secrets, over real sockets: whatever fails, in any family, no mark comes out in events, logs or sessions.

The marks are in the key, in a header of the model and one of the call, in the address, and in the address of a proxy.
Servers and proxies repeat every header that they were sent.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.providers.asking import model, request
from tests.providers.fake_server import RENDER
from tests.providers.loopback import Exchange, Server

from antiphon.core.model import Model
from antiphon.core.response_events import Failed
from antiphon.core.wire import encode
from antiphon.loop.abort import AbortController
from antiphon.providers.http import close_connections
from antiphon.providers.registry import new_adapter
from antiphon.session_log import SessionStore

APIS = pytest.mark.parametrize("api", list(RENDER))
KEY, TEAM, CALL, PLACE, PROXY = (
    "mark-key-0001",
    "mark-team-0002",
    "mark-call-0003",
    "mark-place-0004",
    "mark-proxy-0005",
)
MARKS = (KEY, TEAM, CALL, PLACE, PROXY)
Handler = Callable[[Exchange], Awaitable[None]]


@pytest.fixture(autouse=True)
async def _close() -> Any:
    yield
    await close_connections()


def echo(exchange: Exchange) -> str:
    """What an indiscreet server says: all that it was sent, but the body."""
    return f"bad: {exchange.path} {json.dumps(exchange.headers)} and again {KEY}{TEAM} {CALL} user:{PLACE}@"


def refusing(status: int) -> Handler:
    async def handler(exchange: Exchange) -> None:
        words = echo(exchange)
        body = json.dumps({"error": {"message": words, "type": KEY, "code": TEAM, "status": CALL}})
        await exchange.reply(status, body, retry_after="99")

    return handler


async def plain_words(exchange: Exchange) -> None:
    await exchange.reply(502, echo(exchange), "text/plain")


async def web_page(exchange: Exchange) -> None:
    await exchange.reply(200, f"<html>{echo(exchange)}</html>", "text/html")


async def garbage(exchange: Exchange) -> None:
    await exchange.stream(f"data: {{not json {echo(exchange)}\n\n")


async def in_the_stream(exchange: Exchange) -> None:
    """An error in each family's way, and names that are marks."""
    error = {"message": echo(exchange), "code": KEY, "type": "error", "metadata": {"raw": TEAM}}
    await exchange.stream(
        f"data: {json.dumps({'id': KEY, 'responseId': KEY, 'model': TEAM, 'choices': []})}\n\n",
        f"event: error\ndata: {json.dumps({'type': 'error', 'error': error, **error})}\n\n",
    )


async def odd_end(exchange: Exchange) -> None:
    """An end for a reason that is a mark."""
    await exchange.stream(
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {}, 'finish_reason': KEY}]})}\n\n",
        f"data: {json.dumps({'candidates': [{'finishReason': TEAM, 'finishMessage': CALL}]})}\n\n",
        f"data: {json.dumps({'type': 'message_start', 'message': {'id': KEY, 'model': TEAM}})}\n\n",
        f"data: {json.dumps({'type': 'message_delta', 'delta': {'stop_reason': CALL}})}\n\n",
        f"data: {json.dumps({'type': 'message_stop'})}\n\n",
        f"data: {json.dumps({'type': 'response.failed', 'response': {'id': KEY, 'error': {'message': PLACE}}})}\n\n",
    )


async def reset(exchange: Exchange) -> None:
    exchange.reset()


async def no_http(exchange: Exchange) -> None:
    exchange.writer.write(f"nothing {echo(exchange)}\r\n\r\n".encode())
    exchange.writer.close()


async def silent(exchange: Exchange) -> None:
    await exchange.until_hung_up()


KINDS: dict[str, Handler] = {
    **{str(status): refusing(status) for status in (400, 401, 407, 429, 503)},
    "plain words": plain_words,
    "web page": web_page,
    "garbage": garbage,
    "in the stream": in_the_stream,
    "odd end": odd_end,
    "reset": reset,
    "no http": no_http,
    "silent": silent,
}


def asked_model(api: str, url: str) -> Model:
    place = url.replace("://", f"://user:{PLACE}@")
    return structs.replace(model(place, api), headers={"X-Team": TEAM})


async def clean(api: str, asked: Model, folder: Path, caplog: pytest.LogCaptureFixture, **options: Any) -> None:
    """Ask, and look at everything that comes out."""
    caplog.set_level(logging.INFO)  # more than that is what the HTTP library hears, word for word
    wanted = request(asked, api_key=KEY, headers={"x-call": CALL}, **{"timeout_ms": 30_000, **options})
    told = [event async for event in new_adapter(api)(wanted)]  # type: ignore[union-attr]
    last = told[-1]
    assert isinstance(last, Failed)
    log = SessionStore(folder, cwd="/", durability="fast").create()
    log.append_message(last.error)
    log.close()
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert str(last.error.error_message)[:20].encode() in kept
    out = "\n".join((encode(told).decode(), repr(told), caplog.text, kept.decode(), repr(wanted)))
    assert [mark for mark in MARKS if mark in out] == []


@APIS
@pytest.mark.parametrize("kind", KINDS)
async def test_no_mark_comes_out(api: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Server(KINDS[kind]) as server:
        await clean(api, asked_model(api, server.url), tmp_path, caplog, timeout_ms=100 if kind == "silent" else 30_000)

        assert all(CALL in exchange.headers.values() for exchange in server.exchanges), "the server did get them"


@APIS
async def test_nobody_listening(api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Server(silent) as server:
        url = server.url
    await clean(api, asked_model(api, url), tmp_path, caplog)


@APIS
async def test_an_address_that_is_none(api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await clean(api, asked_model(api, "http://models.example.com:port/v1"), tmp_path, caplog)


@APIS
@pytest.mark.parametrize("kind", ["407", "502", "reset", "gone"])
async def test_a_proxy_with_a_password(
    api: str, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(reset if kind in ("reset", "gone") else refusing(int(kind))) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1").replace("://", f"://user:{PROXY}@"))
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        if kind == "gone":
            await proxy.__aexit__()
        await clean(api, asked_model(api, "http://models.example.com/v1"), tmp_path, caplog)

    if kind != "gone":
        assert proxy.exchanges[0].path.startswith("http://models.example.com")


@APIS
async def test_an_abort(api: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    controller = AbortController()

    async def handler(exchange: Exchange) -> None:
        controller.abort("enough")
        await exchange.until_hung_up()

    async with Server(handler) as server, asyncio.timeout(5):
        await clean(api, asked_model(api, server.url), tmp_path, caplog, controller=controller)
