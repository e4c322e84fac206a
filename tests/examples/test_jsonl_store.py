"""The store of the teaching project: what was appended comes back, whatever a crash has left behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.examples.stage import example

from antiphon import ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user

Store = example("jsonl_store").JsonlSessionStore
CALLS = tuple(ToolCall(id=name, name="dig", arguments={}) for name in ("a", "b"))
ANSWER = AssistantMessage(content=CALLS, stop_reason="toolUse")


def result(call_id: str) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call_id, tool_name="dig", content=(), is_error=False)


@pytest.mark.parametrize("fsync", [False, True])
def test_messages_come_back(tmp_path: Path, fsync: bool) -> None:
    messages = [user("dig"), ANSWER, result("a"), result("b"), user("a line\u2028break")]

    Store(tmp_path, fsync=fsync).append("one", messages[:2])
    Store(tmp_path).append("one", messages[2:])

    assert Store(tmp_path).load("one") == messages
    assert Store(tmp_path).load("two") == []


def test_the_file_has_a_header_and_a_line_per_message(tmp_path: Path) -> None:
    Store(tmp_path).append("one", [user("dig"), user("more")])

    lines = (tmp_path / "one.jsonl").read_text().split("\n")
    assert json.loads(lines[0]) == {"type": "session", "version": 1, "id": "one"}
    assert [json.loads(line)["content"] for line in lines[1:-1]] == ["dig", "more"]
    assert lines[-1] == ""


def test_a_file_may_be_torn_at_every_byte(tmp_path: Path) -> None:
    """Whatever is left of the last append, the messages before it are read and further ones can be written."""
    store = Store(tmp_path)
    store.append("one", [user("first")])
    whole = (tmp_path / "one.jsonl").read_bytes()
    store.append("one", [user("second")])
    longer = (tmp_path / "one.jsonl").read_bytes()

    for size in range(len(whole), len(longer)):
        (tmp_path / "one.jsonl").write_bytes(longer[:size])
        assert store.load("one") == [user("first")]
        store.append("one", [user("third")])
        assert store.load("one") == [user("first"), user("third")]


@pytest.mark.parametrize(
    ("stored", "results"),
    [
        ([ANSWER], ["a", "b"]),
        ([ANSWER, result("a")], ["a", "b"]),
        ([ANSWER, result("a"), user("go on")], ["a", "b"]),
        ([ANSWER, result("a"), result("b")], ["a", "b"]),
    ],
)
def test_calls_are_paired_when_they_are_loaded(tmp_path: Path, stored: list[object], results: list[str]) -> None:
    Store(tmp_path).append("one", stored)

    loaded = Store(tmp_path).load("one")

    behind = [message for message in loaded[1:] if isinstance(message, ToolResultMessage)]
    assert [message.tool_call_id for message in behind] == results
    assert loaded[1:3] == behind
