"""A key never comes back out: not in events, errors, reprs, whatever a server or network says about it."""

from __future__ import annotations

import traceback
from typing import Any

import pytest
from tests.conformance.providers_stage import Network
from tests.providers.asking import KEY, events, model, request

from antiphon.core.wire import encode
from antiphon.providers.http import HttpRequest
from antiphon.providers.registry import ADAPTERS, new_adapter
from antiphon.providers.scrubbing import SCRUBBED, scrub, secrets_in

APIS = sorted(ADAPTERS.keys() - {"local-llama"})  # which sends nothing
ECHO = f"Incorrect key provided: {KEY}; Authorization: Bearer {KEY}"
REPLIES: list[dict[str, Any]] = [
    {"status": 401, "body": {"error": {"message": ECHO, "type": KEY, "code": KEY}}},
    {"status": 500, "body": ECHO},
    {"status": 429, "headers": {"retry-after": "99"}, "body": {"error": ECHO}},
    {"status": 200, "body": f"<html>{ECHO}</html>"},
    {"status": 200, "body": {"error": {"message": ECHO}}},
    {"sse": f"data: {{broken {KEY}\n\n"},
    {"sse": f'data: {{"error": {{"message": "{ECHO}", "metadata": {{"raw": "{KEY}"}}}}}}\n\n'},
    {"sse": f'event: error\ndata: {{"type": "error", "error": {{"type": "x", "message": "{ECHO}"}}}}\n\n'},
    {"sse": f'data: {{"type": "response.failed", "response": {{"error": {{"message": "{ECHO}"}}}}}}\n\n'},
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("number", range(len(REPLIES)))
async def test_a_server_that_echoes_the_key_is_not_repeated(api: str, number: int) -> None:
    asked = request(model(api=api), transport=Network([REPLIES[number]]), max_retries=1, max_retry_delay_ms=1)

    told = await events(new_adapter(api), asked)

    assert KEY not in encode(list(told)).decode()
    assert KEY not in repr(told)


@pytest.mark.parametrize("api", APIS)
async def test_a_network_that_names_the_key_is_not_repeated(api: str) -> None:
    async def broken(sent: HttpRequest, *, connect_seconds: float) -> Any:
        raise ConnectionError(f"cannot send {dict(sent.headers)} to {sent.url}")

    told = await events(new_adapter(api), request(model(api=api), transport=broken))

    assert KEY not in repr(told)
    assert SCRUBBED in repr(told)


@pytest.mark.parametrize("api", APIS)
async def test_a_host_that_fails_while_it_holds_the_request_does_not_tell_the_key(api: str) -> None:
    async def look(_: Any, __: Any) -> None:
        raise RuntimeError(f"I saw {KEY}")

    told = await events(new_adapter(api), request(model(api=api), transport=Network([]), on_payload=look))

    assert KEY not in repr(told)


@pytest.mark.parametrize("api", APIS)
async def test_a_key_that_is_no_header_value_is_refused_without_being_shown(api: str) -> None:
    key = f"{KEY}\r\nx-evil: yes é"

    told = await events(new_adapter(api), request(model("http://127.0.0.1:9/v1", api), api_key=key))

    assert KEY not in repr(told)
    assert "evil" not in repr(told)


def test_a_request_shows_neither_headers_nor_body() -> None:
    sent = HttpRequest("https://example.com", {"authorization": KEY}, KEY.encode())

    assert KEY not in repr(sent)
    assert KEY not in "".join(traceback.format_exception(ValueError(sent)))


def test_credentials_in_headers_count_as_secrets() -> None:
    found = secrets_in(None, {"authorization": "Bearer abcdefgh", "x-api-key": "12345678", "accept": "text/plain"})

    assert set(found) == {"Bearer abcdefgh", "abcdefgh", "12345678"}


def test_any_header_that_is_not_known_to_be_harmless_counts_as_a_secret() -> None:
    assert set(secrets_in(None, {"x-team": "team-42", "user-agent": "antiphon"})) == {"team-42"}


def test_credentials_in_addresses_count_as_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://me:proxypass@proxy.example:1")

    found = secrets_in(None, {}, "https://someone:pass%2Fword@models.example.com/v1")

    assert {"pass%2Fword", "pass/word", "proxypass", "someone"} <= set(found)


def test_what_looks_like_a_key_is_scrubbed_even_if_nobody_named_it() -> None:
    assert "abcdefghij" not in scrub("bad key sk-proj-abcdefghij0123456789", ())
