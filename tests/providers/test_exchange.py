"""The driver: callbacks, faults of the host, options that make no sense. Failures are events, never exceptions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.providers_stage import Network
from tests.providers.asking import answer, events, model, request
from tests.providers.loopback import sse

from antiphon.core.content import Text
from antiphon.core.response_events import Done, Failed, Start
from antiphon.loop.abort import AbortController
from antiphon.providers import failures
from antiphon.providers.registry import new_adapter

HELLO = sse({"id": "c", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}, "[DONE]")


def network() -> Network:
    return Network([{"sse": HELLO}])


def chat() -> Any:
    return new_adapter("openai-completions")


async def test_the_host_may_replace_the_body() -> None:
    net = network()

    async def change(body: Any, _: Any) -> Any:
        return {**body, "top_k": 3}

    await answer(chat(), request(model(), transport=net, on_payload=change))

    assert json.loads(net.requests[0].body)["top_k"] == 3


async def test_the_host_sees_status_and_headers_before_the_body() -> None:
    seen: list[Any] = []

    def look(reply: Any, _: Any) -> None:
        seen.append(reply)

    told = await events(chat(), request(model(), transport=network(), on_response=look))

    assert seen == [{"status": 200, "headers": {"content-type": "text/event-stream"}}]
    assert isinstance(told[0], Start)


async def test_the_host_sees_each_provider_event_in_order() -> None:
    seen: list[Any] = []

    async def look(event: Any, _: Any) -> None:
        seen.append(event)

    await answer(chat(), request(model(), transport=network(), on_provider_stream_event=look))

    assert seen[0]["id"] == "c"
    assert seen[-1] == "[DONE]"


@pytest.mark.parametrize("name", ["on_payload", "on_response", "on_provider_stream_event"])
async def test_a_callback_that_raises_fails_the_call_and_says_so(name: str) -> None:
    net = network()

    def fail(*_: Any) -> None:
        raise RuntimeError("timeout of the host")

    message = await answer(chat(), request(model(), transport=net, **{name: fail}))

    failure = failures.classify(message)
    assert failure is not None
    assert (failure.kind, failure.retryable) == ("callback", False)
    assert name in failure.text
    assert all(reply.closed for reply in net.given)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_retries", -1),
        ("max_retries", "2"),
        ("headers", ["x"]),
        ("cache_retention", "forever"),
        ("maxTokens", True),
    ],
)
async def test_an_option_that_makes_no_sense_is_named(option: str, value: Any) -> None:
    net = network()

    message = await answer(chat(), request(model(), transport=net, **{option: value}))

    assert net.requests == []
    assert "option " in str(message.error_message)


async def test_aborted_before_means_nothing_leaves() -> None:
    net, controller = network(), AbortController()
    controller.abort("changed my mind")

    told = await events(chat(), request(model(), transport=net, controller=controller))

    assert net.requests == []
    assert [type(event) for event in told] == [Failed]
    assert told[0].reason == "aborted"  # type: ignore[union-attr]


async def test_a_transport_that_fails_in_its_own_way_is_a_lost_connection() -> None:
    async def broken(_: Any, *, connect_seconds: float) -> Any:
        raise LookupError("no such host in the test")

    message = await answer(chat(), request(model(), transport=broken))

    failure = failures.classify(message)
    assert failure is not None
    assert failure.kind == "connection_lost"
    assert "no such host" in failure.text


async def test_the_final_message_says_who_and_how_long() -> None:
    told = await events(chat(), request(model(), transport=network()))

    last = told[-1]
    assert isinstance(last, Done)
    assert (last.message.api, last.message.provider, last.message.model) == ("openai-completions", "example", "small")
    assert last.message.content == (Text(text="hi"),)
    assert last.message.timestamp > 1_600_000_000_000
    assert last.message.duration_ms >= 0  # type: ignore[operator]
