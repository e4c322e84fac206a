"""JSON mode: a header, then every event as a line, read as bytes from a real child."""

from __future__ import annotations

import json
from typing import Any

from tests.modes.children import Place, run, served
from tests.providers.fake_server import Answer, Refuse


def kinds(records: list[dict[str, Any]]) -> list[str]:
    return [record["type"] for record in records if record["type"] != "message_update"]


async def test_a_text_turn_is_told_event_by_event(place: Place) -> None:
    async with served(place, Answer(text="Hello", thinking="hm")):
        done = await run(place, "--mode", "json", "hi")
    records = done.records
    assert (done.code, done.err) == (0, "")
    header = records[0]
    assert list(header) == ["type", "version", "id", "timestamp", "cwd"]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(place.cwd))
    told = kinds(records[1:])
    assert told == [
        "agent_start",
        "turn_start",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    roles = [r["message"]["role"] for r in records if r["type"] == "message_end"]
    assert roles == ["system", "user", "assistant"]
    assert records[-1] == {"type": "agent_settled", "aborted": False}
    end = next(r for r in records if r["type"] == "agent_end")
    assert end["willRetry"] is False
    assert [m["role"] for m in end["messages"]] == ["system", "user", "assistant"]


async def test_updates_carry_only_what_is_new(place: Place) -> None:
    async with served(
        place, Answer(text="Hello " * 50, thinking="hm hm", calls=(("ls", {"path": "."}),)), Answer("ok")
    ):
        done = await run(place, "--mode", "json", "--tools", "ls", "hi")
    updates = [r for r in done.records if r["type"] == "message_update"]
    assert updates
    for update in updates:
        assert set(update) == {"type", "usage", "assistantMessageEvent"}
        assert "partial" not in update["assistantMessageEvent"]
    pieces = [update["assistantMessageEvent"] for update in updates]
    assert {piece["type"] for piece in pieces} == {
        "text_start",
        "text_delta",
        "text_end",
        "thinking_start",
        "thinking_delta",
        "thinking_end",
        "toolcall_start",
        "toolcall_delta",
        "toolcall_end",
    }
    text = "".join(p["delta"] for p in pieces if p["type"] == "text_delta" and p["contentIndex"] == 1)
    assert text == "Hello " * 50
    start = next(p for p in pieces if p["type"] == "toolcall_start")
    assert (start["toolName"], bool(start["id"])) == ("ls", True)
    ended = next(p for p in pieces if p["type"] == "toolcall_end")
    assert ended["toolCall"]["arguments"] == {"path": "."}


async def test_tool_calls_are_told_in_order(place: Place) -> None:
    (place.cwd / "a").write_text("A")
    calls = (("read", {"path": "a"}), ("read", {"path": "missing"}))
    async with served(place, Answer(calls=calls), Answer(text="done")):
        done = await run(place, "--mode", "json", "hi")
    records = done.records
    starts = [r["toolCallId"] for r in records if r["type"] == "tool_execution_start"]
    ends = {r["toolCallId"]: r for r in records if r["type"] == "tool_execution_end"}
    assert len(starts) == 2
    assert [ends[id_]["isError"] for id_ in starts] == [False, True], ends
    assert all(isinstance(end["durationMs"], int) for end in ends.values())
    results = [r["message"] for r in records if r["type"] == "message_end" and r["message"]["role"] == "toolResult"]
    assert [m["toolCallId"] for m in results] == starts
    turn = next(r for r in records if r["type"] == "turn_end")
    assert [m["toolCallId"] for m in turn["toolResults"]] == starts
    assert b'"$' not in done.out


async def test_lines_end_at_lf_only_and_text_is_utf8(place: Place) -> None:
    odd = "a\u2028b\u2029c\x85d\re \N{GRINNING FACE} 中文"
    async with served(place, Answer(text=odd)):
        done = await run(place, "--mode", "json", "hi")
    assert b"\r" not in done.out
    last = [r for r in done.records if r["type"] == "message_end"][-1]
    assert last["message"]["content"][0]["text"] == odd
    assert "中文".encode() in done.out


async def test_without_a_prompt_there_is_the_header_only(place: Place) -> None:
    async with served(place) as server:
        done = await run(place, "--mode", "json")
        assert (done.code, [r["type"] for r in done.records]) == (0, ["session"])
        assert server.seen == []
    assert place.session_files() == []


async def test_a_failed_answer_is_a_record_and_the_code_stays_0(place: Place) -> None:
    async with served(place, Refuse(400, "bad words")):
        done = await run(place, "--mode", "json", "hi")
    assert done.code == 0
    last = [r for r in done.records if r["type"] == "message_end"][-1]["message"]
    assert last["stopReason"] == "error"
    assert "bad words" in last["errorMessage"]
    assert done.records[-1]["type"] == "agent_settled"


async def test_an_outcome_record_on_request_and_then_the_code_follows_it(place: Place) -> None:
    async with served(place, Answer(text="hi"), Refuse(400, "bad words"), Answer(text="never")) as server:
        done = await run(place, "--mode", "json", "--json-outcome", "one", "two", "three")
        assert len(server.seen) == 2, done.err
    outcomes = [r for r in done.records if r["type"] == "run_outcome"]
    assert [(o["ok"], o["exitCode"], o.get("stopReason")) for o in outcomes] == [(True, 0, "stop"), (False, 1, "error")]
    assert "bad words" in outcomes[1]["errorMessage"]
    assert outcomes[0]["usage"]["output"] == 7
    assert outcomes[0]["turns"] == 1
    assert done.code == 1
    assert done.records[-1] == outcomes[1]


async def test_retries_are_records(place: Place) -> None:
    place.settings(retry={"baseDelayMs": 1})
    async with served(place, Refuse(503, "overloaded"), Answer(text="now")):
        done = await run(place, "--mode", "json", "hi")
    told = kinds(done.records)
    assert told.count("agent_start") == 2
    assert told.count("agent_settled") == 1
    start = next(r for r in done.records if r["type"] == "auto_retry_start")
    assert (start["attempt"], start["maxAttempts"], start["delayMs"]) == (1, 3, 1)
    end = next(r for r in done.records if r["type"] == "auto_retry_end")
    assert (end["success"], end["attempt"]) == (True, 1)
    ends = [r for r in done.records if r["type"] == "agent_end"]
    assert [e["willRetry"] for e in ends] == [True, False]
    assert told.index("agent_end") < told.index("auto_retry_start")


async def test_every_line_fits_the_schema(place: Place) -> None:
    import jsonschema_rs

    from antiphon.modes.rpc.schema import FILE

    found = json.loads(FILE.read_bytes())
    validator = jsonschema_rs.validator_for({"$defs": found["$defs"], **found["record"]})
    place.settings(retry={"baseDelayMs": 1})
    script = [Refuse(503), Answer(text="x", thinking="y", calls=(("ls", {}),)), Answer(text="z")]
    async with served(place, *script):
        done = await run(place, "--mode", "json", "--tools", "ls", "--thinking", "low", "hi")
    for record in done.records[1:]:
        validator.validate(record)
