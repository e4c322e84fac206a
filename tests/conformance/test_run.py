"""The runner itself: what it prints, how it ends, and that it sees a difference."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.core_compare import first_difference, normal, resolved
from tests.conformance.run import main

LOOK = {
    "name": "look",
    "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
}
CALL = {"type": "toolCall", "id": "c1", "name": "look", "arguments": {"key": 5}}
RESULT = {"content": [{"type": "text", "text": "ok c1"}]}


def answer(content: list[Any], stop_reason: str, **more: Any) -> dict[str, Any]:
    told = {"role": "assistant", "content": content, "api": "scripted", "provider": "p1", "model": "m1", "usage": 0}
    return {**told, "stopReason": stop_reason, **more}


TABLE = [
    {"role": "user", "content": "river"},
    {"role": "system", "content": "", "toolsAdded": [{**LOOK, "description": "does look"}]},
    answer([], "pending"),
    answer([{**CALL, "arguments": {}}], "pending"),
    answer([CALL], "pending"),
    answer([CALL], "toolUse", thinkingLevel="off"),
    {"role": "toolResult", "toolCallId": "c1", "toolName": "look", **RESULT, "isError": False},
    answer([{"type": "text", "text": "maple"}], "stop", thinkingLevel="off"),
]


def announced(place: int) -> list[dict[str, Any]]:
    return [{"ev": f"message_{part}", "message": {"$m": place}} for part in ("start", "end")]


def asked(number: int, places: list[int]) -> dict[str, Any]:
    return {"request": number, "model": "m1", "provider": "p1", "thinking": "off", "messages": {"$m": places}}


def round_trip() -> dict[str, Any]:
    """One call and its answer: the raw 5 in the events, "5" for the tool."""
    call_events = [
        ["start"],
        ["toolcall_start", 0, {"id": "c1", "name": "look"}],
        ["toolcall_end", 0, CALL],
        ["done", "toolUse"],
    ]
    scenario = {
        "entry": "run",
        "tools": [LOOK],
        "context": {"messages": [TABLE[1]], "tools": ["look"]},
        "prompts": [TABLE[0]],
        "responses": [
            {"events": call_events},
            {"events": [["done", "stop", {"content": [{"type": "text", "text": "maple"}]}]]},
        ],
    }
    execution = {"call": "c1", "tool": "look"}
    trace = [
        {"ev": "agent_start"},
        {"ev": "turn_start"},
        *announced(0),
        asked(1, [1, 0]),
        {"ev": "message_start", "message": {"$m": 2}},
        {"ev": "message_update", "message": {"$m": 3}, "sub": ["toolcall_start", 0]},
        {"ev": "message_update", "message": {"$m": 4}, "sub": ["toolcall_end", 0, CALL]},
        {"ev": "message_end", "message": {"$m": 5}},
        {"ev": "tool_execution_start", **execution, "args": {"key": 5}},
        {"exec": "c1", "tool": "look", "args": {"key": "5"}},
        {"ev": "tool_execution_end", **execution, "result": RESULT, "isError": False},
        *announced(6),
        {"ev": "turn_end", "message": {"$m": 5}, "toolResults": {"$m": [6]}},
        {"ev": "turn_start"},
        asked(2, [1, 0, 5, 6]),
        *announced(7),
        {"ev": "turn_end", "message": {"$m": 7}, "toolResults": {"$m": []}},
        {"ev": "agent_end", "messages": {"$m": [0, 5, 6, 7]}},
    ]
    expected = {"table": TABLE, "trace": trace, "outcome": {"returned": {"$m": [0, 5, 6, 7]}}}
    return {"id": "one-call", "theme": "tool", "scenario": scenario, "expected": expected}


def folder_of(path: Path, *cases: dict[str, Any]) -> str:
    (path / "pack.jsonl").write_text("\n".join(map(json.dumps, cases)) + "\n", encoding="utf-8")
    return str(path)


def test_a_folder_of_ones_own_is_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", folder_of(tmp_path, round_trip())]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"


def test_a_difference_is_named_by_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = copy.deepcopy(round_trip())
    wrong["expected"]["trace"][10]["args"] = {"key": 5}

    assert main(["core", folder_of(tmp_path, round_trip(), {**wrong, "id": "wrong"})]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == ['wrong: .trace[10].args.key: expected 5, got "5"', "1 passed, 1 failed"]


def test_only_picks_cases_by_the_beginning_of_their_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path, round_trip(), {**round_trip(), "id": "two"})

    assert main(["core", folder, "--only", "tw"]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"
    assert main(["core", folder, "--only", "x"]) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [(None, "no packs"), ("{", "pack.jsonl line 1: not JSON"), ('{"id": "x"}', "line 1: a case is an object with")],
)
def test_a_broken_folder_gets_one_clear_line(
    text: str | None, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "pack.jsonl").write_text(text, encoding="utf-8")

    assert main(["core", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert told in captured.err


def test_a_missing_folder_gets_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["core", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_scenario_that_hangs_has_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stuck = round_trip()
    stuck["scenario"]["calls"] = {"c1": {"steps": [{"wait": {"exec": "c9"}}]}}

    assert main(["core", folder_of(tmp_path, stuck), "--seconds", "0.2"]) == 1
    assert "still running after 0.2 s; last item: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ("😀", "\ud83d\ude00"),
        ({"$any": "string"}, "whatever"),
        ({"usage": 0}, {"usage": {**dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
                                  "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0)}}),
        ({"result": {"details": None}}, {"result": {"content": [], "details": None}}),
    ],
)  # fmt: skip
def test_what_counts_as_equal(expected: Any, actual: Any) -> None:
    assert first_difference(normal(expected), normal(actual)) is None


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        (True, 1, ".: expected true, got 1"),
        ({"a": [1, 2]}, {"a": [1]}, ".a[1]: expected 2, got \"nothing more\""),
        ({"a": [1]}, {"a": [1, 2]}, ".a[1]: expected \"nothing more\", got 2"),
        ({"a": 1}, {"b": 1}, ".: missing 'a', surplus 'b'; expected {\"a\": 1}, got {\"b\": 1}"),
        ({"$any": "string"}, "", ".: expected \"any text\", got \"\""),
        ({"usage": 0}, {"usage": None}, ".usage: expected 0, got null"),
    ],
)  # fmt: skip
def test_what_counts_as_different(expected: Any, actual: Any, told: str) -> None:
    assert first_difference(normal(expected), normal(actual)) == told


def test_references_are_resolved_everywhere() -> None:
    assert resolved({"a": {"$m": 1}, "b": [{"$m": [0, 1]}]}, ["x", "y"]) == {"a": "y", "b": [["x", "y"]]}
