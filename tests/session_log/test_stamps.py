"""Times and ids as they stand in files."""

from __future__ import annotations

import uuid

import pytest

from antiphon.errors import ConfigurationError
from antiphon.session_log.stamps import Sources, checked_session_id, file_stamp, iso, ms_of

T0 = 1767225600000


def test_times_there_and_back() -> None:
    assert iso(T0 + 7) == "2026-01-01T00:00:00.007Z"
    assert ms_of(iso(T0 + 7)) == T0 + 7
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
    assert file_stamp(iso(T0)) == "2026-01-01T00-00-00-000Z"


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-01-01T01:00:00+01:00", T0),
        ("2026-01-01", T0),
        ("2026-01-01T00:00:00", T0),
        ("2026-01-01T00:00:00.000999Z", T0),
        ("1969-12-31T23:59:59.999Z", -1),
        ("garbage", None),
        ("", None),
        ("0001-01-01T00:00:00.000Z", -62135596800000),
    ],
)
def test_other_spellings_of_times(text: str, ms: int | None) -> None:
    assert ms_of(text) == ms


def test_short_ids_avoid_what_is_taken() -> None:
    rolled = iter([b"\x00\x00\x00\x01", b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"])
    sources = Sources(random_bytes=lambda count: next(rolled))

    assert sources.entry_id(()) == "00000001"
    assert sources.entry_id({"00000001"}) == "00000002"


def test_chance_that_keeps_failing_gives_a_long_id() -> None:
    sources = Sources(random_bytes=lambda count: b"\x01" * count)

    assert len(uuid.UUID(sources.entry_id({"01010101"})).bytes) == 16


def test_session_ids_are_of_version_7_and_sort_by_time() -> None:
    early, late = Sources(now_ms=lambda: T0).session_id(), Sources(now_ms=lambda: T0 + 1).session_id()

    assert (uuid.UUID(early).version, uuid.UUID(early).variant) == (7, uuid.RFC_4122)
    assert early < late


@pytest.mark.parametrize("given", ["a", "my-id.7", "A_b"])
def test_ids_that_may_be_chosen(given: str) -> None:
    assert checked_session_id(given) == given


@pytest.mark.parametrize("given", ["", "-x", "a.", "a/b", "a b", "..", "a\n", "\u0663"])
def test_ids_that_may_not(given: str) -> None:
    with pytest.raises(ConfigurationError):
        checked_session_id(given)
