"""Files of ours in the hands of a reader that knows the specification and nothing of us.

What we add has two forms only: members that are unknown to it, and entries of which it makes nothing: state of an
extension, or a kind that it does not know and that says nothing. So what it tells a model is what we tell.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.session.stage import Stage
from tests.session_log.make import calls, counting_sources, forty_entries, result, says, told_texts
from tests.session_log.plain_log import PlainLog
from tests.session_log.rich import fill

from antiphon.core.messages import user
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.index_file import INDEXED_FROM
from antiphon.testing import calls as asks_for
from antiphon.testing import says as answers

COMMON = {"type", "id", "parentId", "timestamp"}
MEMBERS: dict[str, set[str]] = {
    "message": {"message"},
    "model_change": {"provider", "modelId"},
    "thinking_level_change": {"thinkingLevel"},
    "usage": {"kind", "provider", "model", "usage", "note"},
    "compaction": {
        *("summary", "firstKeptEntryId", "tokensBefore", "details", "usage", "fromHook", "systemMessage"),
    },
    "branch_summary": {"fromId", "summary", "details", "usage", "fromHook"},
    "custom": {"customType", "data"},
    "custom_message": {"customType", "content", "display", "details"},
    "context_edit": {"targetId", "replacement"},
    "label": {"targetId", "label"},
    "session_info": {"name"},
}
"""The kinds of entries of the specification, with what each may carry besides `COMMON`."""
HEADER = {"type", "version", "id", "timestamp", "cwd", "parentSession"}
OURS = {"check"}
OUR_KINDS = {"position"}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def strict_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, each checked against the tables above."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    header, *entries = [json.loads(line) for line in data[:-1].split(b"\n")]
    assert (header["type"], header["version"]) == ("session", 3)
    assert set(header) <= HEADER | OURS
    known: set[str | None] = {None}
    for entry in entries:
        assert re.fullmatch("[0-9a-f]{8}", entry["id"])
        assert entry["parentId"] in known
        assert STAMP.fullmatch(entry["timestamp"])
        more = set(entry) - COMMON - OURS
        assert more == set() if entry["type"] in OUR_KINDS else more <= MEMBERS[entry["type"]]
        if entry["type"] == "custom" and entry["customType"].startswith("antiphon."):
            assert isinstance(entry["data"], dict)
        known.add(entry["id"])
    return entries


def told_by_others(entries: list[dict[str, Any]]) -> list[Any]:
    """What a reader tells a model that drops every kind it does not know, and all state of extensions."""
    plain = PlainLog()
    for entry in entries:
        plain.leaf = entry["parentId"]
        plain.add(entry["id"], *_plain(entry))
    return [(kind, text) for kind, text in plain.context() if kind != "bashExecution"]


def _plain(entry: dict[str, Any]) -> tuple[str, Any, Any]:
    match entry["type"]:
        case "message":
            message = entry["message"]
            return message["role"], _text(message.get("content", "")), message.get("toolCallId")
        case "compaction":
            system = entry.get("systemMessage")
            prompt = None if system is None else _text(system["content"])
            return "compaction", entry["summary"], (entry.get("firstKeptEntryId"), prompt)
        case "context_edit":
            replacement = entry["replacement"]
            return "context_edit", None if replacement is None else _text(replacement["content"]), entry["targetId"]
        case "custom_message":
            return "custom_message", _text(entry["content"]), None
        case kind:
            return kind, entry.get("summary", ""), None


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def told_by_us(log: SessionLog) -> list[Any]:
    roles = [message.role for message in log.messages()]
    return [pair for pair in zip(roles, told_texts(log), strict=True) if pair[0] != "bashExecution"]


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path, cwd="/proj", sources=counting_sources(), durability="fast")


def test_a_reader_that_knows_nothing_of_us_tells_the_same(store: SessionStore) -> None:
    with forty_entries(store) as log:
        log.append_message(calls("a", "b"))
        log.append_call_started(calls("a").content[0], 0)  # type: ignore[arg-type]
        log.append_message(result("c0", "done"))
        log.close_open_calls()
        log.move_to(log.path_ids()[-5])
        log.append_message(user("after a move"))
        path = log.path
    assert path is not None
    entries = strict_lines(path)

    assert {"position", "custom"} <= {entry["type"] for entry in entries}, "what we add is among them"
    assert all("check" in entry for entry in entries)
    with store.open(path, access="read") as again:
        assert told_by_others(entries) == told_by_us(again)
    fill(log := store.create())
    assert log.path is not None
    assert told_by_others(strict_lines(log.path)) == told_by_us(log)


async def test_a_whole_conversation_has_the_same_form(tmp_path: Path) -> None:
    """Records of the session itself, too: what a tool call came to, which settings were chosen."""
    stage = Stage([asks_for("A", "B"), answers("done"), answers("again")], folder=tmp_path)
    await stage.session.prompt("go")
    await stage.session.prompt("and again")
    path = stage.log.path
    assert path is not None

    entries = strict_lines(path)

    assert told_by_others(entries)[-4:] == [
        ("toolResult", "ok B"),
        ("assistant", "done"),
        ("user", "and again"),
        ("assistant", "again"),
    ]


def test_lines_of_a_reader_that_does_not_know_our_seals_are_accepted(store: SessionStore) -> None:
    """It goes on in the same file, and we after it."""
    with store.create() as log:
        first = log.append_message(user("ours"))
        path = log.path
    assert path is not None
    line = {"type": "message", "id": "0badcafe", "parentId": first, "timestamp": "2026-01-01T00:00:09.000Z"}
    with path.open("a") as file:
        file.write(json.dumps({**line, "message": {"role": "user", "content": "theirs", "timestamp": 9}}) + "\n")

    with store.open(path) as log:
        log.append_message(says("ours again"))
        assert told_texts(log) == ["ours", "theirs", "ours again"]
        assert log.report.outcome == "clean"


def test_what_lies_beside_a_session_is_no_session_to_others(store: SessionStore) -> None:
    """They take every name that ends in `.jsonl` for one."""
    with store.create() as log:
        for number in range(INDEXED_FROM):
            log.append_message(user(str(number)))
    store.listing()

    names = {path.name for path in store.folder.iterdir()}

    assert len(names) == 3, "the session, its index, what is remembered of lists"
    assert [name for name in names if name.endswith(".jsonl")] == [log.path.name if log.path else ""]
