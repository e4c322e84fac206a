"""Waits: what servers ask for in which form, and our own."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.providers.retry_after import AskedWait, agent_wait_ms, asked_wait, own_wait_ms, wants_retry

NOW = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"retry-after": "2"}, 2000),
        ({"retry-after": "0.25"}, 250),
        ({"retry-after": " 1.5 "}, 1500),
        ({"retry-after-ms": "20", "retry-after": "50"}, 20),
        ({"retry-after-ms": "soon", "retry-after": "50"}, 50_000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:25 GMT"}, 5000),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:00 GMT"}, 0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "٣"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_headers(headers: dict[str, str], ms: int | None) -> None:
    found = asked_wait(headers, None, NOW)

    assert found == (None if ms is None else AskedWait(ms))


def test_an_absurd_wish_stays_a_number() -> None:
    found = asked_wait({"retry-after": "9" * 400}, None, NOW)

    assert found is not None
    assert 0 < found.ms < 10**12


@pytest.mark.parametrize("body", [None, [], {}, {"error": None}, {"error": {"details": [None, {"@type": 5}]}}, "x"])
def test_bodies_without_a_wish(body: Any) -> None:
    assert asked_wait({}, body, NOW) is None


def test_retry_info_in_the_body_wins() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48.939935699s"}
    body = {"error": {"details": [{"@type": "other"}, info]}}

    assert asked_wait({"retry-after": "1"}, [body], NOW) == AskedWait(48_940, in_body=True)


def test_our_own_wait_doubles_up_to_eight_seconds_and_varies() -> None:
    assert [own_wait_ms(attempt, 0.0) for attempt in range(6)] == [500, 1000, 2000, 4000, 8000, 8000]
    assert own_wait_ms(0, 0.999) > 375
    assert own_wait_ms(10**6, 0.0) == 8000


def test_agent_waits_double_up_to_the_cap() -> None:
    assert [agent_wait_ms(attempt, 2000) for attempt in (1, 2, 3, 9, 10**6)] == [2000, 4000, 8000, 60_000, 60_000]


def test_the_servers_word_wins_over_its_status() -> None:
    assert wants_retry(400, {"x-should-retry": "true"})
    assert not wants_retry(503, {"x-should-retry": "False"})
    assert wants_retry(503, {"x-should-retry": "perhaps"})
    assert [status for status in (400, 401, 404, 408, 409, 422, 429, 500, 529) if wants_retry(status, {})] == [
        408, 409, 429, 500, 529,
    ]  # fmt: skip
