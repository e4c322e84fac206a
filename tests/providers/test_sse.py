"""Server-sent events: the same events however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.sse import EventTooLarge, SseEvent, SseParser

STREAM = (
    "\ufeffevent: a\ndata: one\n\n"
    ": comment\n"
    "data:two\ndata: lines\r\n\r\n"
    "id: 7\rdata: cr\r\r"
    "event: no data\n\n"
    "data\n\n"
    'unknown: field\ndata: {"é": "\u2028 is no line end, nor \x85"}\n\n'
    "data: unfinished"
).encode()
EVENTS = [
    SseEvent("a", b"one"),
    SseEvent("", b"two\nlines"),
    SseEvent("", b"cr"),
    SseEvent("", b""),
    SseEvent("", '{"é": "\u2028 is no line end, nor \x85"}'.encode()),
    SseEvent("", b"unfinished"),
]


def parse(pieces: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_any_cut_gives_the_same_events(places: list[int]) -> None:
    edges = [0, *sorted(places), len(STREAM)]

    assert parse([STREAM[a:b] for a, b in zip(edges, edges[1:], strict=False)]) == EVENTS


def test_a_byte_at_a_time() -> None:
    assert parse([STREAM[at : at + 1] for at in range(len(STREAM))]) == EVENTS


def test_an_event_is_told_as_soon_as_its_blank_line_is_there() -> None:
    parser = SseParser()

    assert parser.feed(b"data: x\r\n\r") == [SseEvent("", b"x")]
    assert parser.feed(b"\n") == []


def test_an_unfinished_name_is_told_at_the_end_so_that_somebody_finds_it_cut() -> None:
    assert parse([b"event: message_sta"]) == [SseEvent("message_sta", b"")]


def test_an_endless_line_is_given_up() -> None:
    parser = SseParser(max_event_bytes=1000)

    with pytest.raises(EventTooLarge):
        for _ in range(100):
            parser.feed(b"data: x" * 10)


def test_many_events_do_not_add_up_to_one_that_is_too_large() -> None:
    parser = SseParser(max_event_bytes=1000)

    events = [event for _ in range(1000) for event in parser.feed(b"data: some words\n\n")]

    assert len(events) == 1000


def test_a_long_line_in_small_pieces_is_read_in_linear_time() -> None:
    parser = SseParser()
    pieces = [b"data: ", *[b"x" * 10] * 100_000, b"\n\n"]

    (event,) = [event for piece in pieces for event in parser.feed(piece)]

    assert len(event.data) == 1_000_000
