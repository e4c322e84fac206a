"""Entries as values: what is known is typed, what is not known survives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.messages import HostMessage, UserMessage
from antiphon.errors import WireError
from antiphon.session_log.entries import (
    CompactionEntry,
    CustomMessageEntry,
    MessageEntry,
    UnknownEntry,
    entry_from_line,
    entry_to_wire,
    header_from_line,
    version_of,
)


def line(**members: Any) -> bytes:
    return json.dumps({"id": "e", "parentId": None, "timestamp": "2026-01-01T00:00:00.000Z", **members}).encode()


def test_members_we_do_not_know_survive() -> None:
    given = line(type="label", targetId="a", label="x", color="red")

    entry = entry_from_line(given)

    assert entry_to_wire(entry) == json.loads(given)


def test_an_entry_of_an_unknown_kind_is_kept_whole() -> None:
    given = line(type="future", payload=[1, {"a": None}])

    entry = entry_from_line(given)

    assert isinstance(entry, UnknownEntry)
    assert (entry.id, entry.type, entry.parent_id) == ("e", "future", None)
    assert entry_to_wire(entry) == json.loads(given)


def test_a_member_of_the_wrong_type_is_kept_aside_and_the_rest_is_read() -> None:
    """A summary with odd usage is still a summary: the history it stands for must not come back."""
    given = line(type="compaction", summary="S", firstKeptEntryId="e", tokensBefore="many", usage=7)

    entry = entry_from_line(given)

    assert isinstance(entry, CompactionEntry)
    assert (entry.summary, entry.first_kept_entry_id) == ("S", "e")
    assert entry_to_wire(entry)["tokensBefore"] == "many"


def test_a_message_that_does_not_fit_its_role_is_kept_whole() -> None:
    message = {"role": "assistant", "content": [], "stopReason": "invented"}

    entry = entry_from_line(line(type="message", message=message))

    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, HostMessage)
    assert entry_to_wire(entry)["message"] == message


def test_missing_content_is_empty() -> None:
    user = entry_from_line(line(type="message", message={"role": "user", "content": None}))
    custom = entry_from_line(line(type="custom_message", customType="x", content=None, display=True))

    assert isinstance(user, MessageEntry)
    assert isinstance(user.message, UserMessage)
    assert user.message.content == ()
    assert isinstance(custom, CustomMessageEntry)
    assert custom.content == ()


@pytest.mark.parametrize("given", [b"7", b"{}", b'{"id":5}', b"{"])
def test_what_is_no_entry_is_refused(given: bytes) -> None:
    with pytest.raises(WireError):
        entry_from_line(given)


def test_headers() -> None:
    header = header_from_line(b'{"type":"session","id":"x","cwd":7,"extra":{"a":1}}')

    assert header is not None
    assert version_of(header) == 1
    assert header_from_line(b'{"type":"session"}') is None
    assert header_from_line(b'{"type":"message","id":"x"}') is None
    assert header_from_line(b"[]") is None
