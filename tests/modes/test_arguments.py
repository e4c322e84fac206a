"""The command line as a plan: every option, every mistake a line, nothing swallowed."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.modes.arguments import parse
from antiphon.modes.options import OPTIONS, help_text


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ([], {"mode": "text", "print": False}),
        (["-p", "hello", "again"], {"print": True, "messages": ["hello", "again"]}),
        (["-p"], {"print": True, "messages": []}),
        (["-p", "@a.txt", "hello"], {"print": True, "files": ["a.txt"], "messages": ["hello"]}),
        (["-p", "--model", "x"], {"print": True, "model": "x", "messages": []}),
        (["-p", "---dashes"], {"messages": ["---dashes"]}),
        (["--print=hi"], {"print": True, "messages": ["hi"]}),
        (["--", "-p", "@x", "--model"], {"messages": ["-p", "@x", "--model"], "files": [], "print": False}),
        (["-"], {"messages": ["-"]}),
        (["@"], {"messages": ["@"]}),
        (["a", "", "b"], {"messages": ["a", "", "b"]}),
        (["--mode", "json"], {"mode": "json"}),
        (["--mode=rpc"], {"mode": "rpc"}),
        (["--mode", "json", "--json-outcome"], {"json_outcome": True}),
        (["--model", "openai/gpt:high", "--provider", "openai"], {"model": "openai/gpt:high", "provider": "openai"}),
        (["--models", "a,b*:low"], {"models": "a,b*:low"}),
        (["--thinking", "high", "--api-key", "k"], {"thinking": "high", "api_key": "k"}),
        (["--list-models"], {"list_models": ""}),
        (["--list-models", "gpt"], {"list_models": "gpt"}),
        (["-c"], {"continue_": True}),
        (["-r"], {"resume": True}),
        (["--session", "x.jsonl", "-n", "name"], {"session": "x.jsonl", "name": "name"}),
        (["--fork", "x", "--session-id", "abc"], {"fork": "x", "session_id": "abc"}),
        (["--no-session", "--session-id", "abc"], {"no_session": True, "session_id": "abc"}),
        (["--session-dir", "/x"], {"session_dir": "/x"}),
        (["-t", "read,b*"], {"tools": "read,b*"}),
        (["-t", "+grep,-bash"], {"tools": "+grep,-bash"}),
        (["-t", "-bash"], {"tools": "-bash"}),
        (["-xt", "mcp__*", "-nbt"], {"exclude_tools": "mcp__*", "no_builtin_tools": True}),
        (["-nt"], {"no_tools": True}),
        (["--sandbox", "offline"], {"sandbox": "offline"}),
        (["--system-prompt", "- a list\n- more"], {"system_prompt": "- a list\n- more"}),
        (["--append-system-prompt", "a", "--append-system-prompt=b"], {"append_system_prompt": ["a", "b"]}),
        (["-e", "a.py", "-e", "b.py", "-ne"], {"extension": ["a.py", "b.py"], "no_extensions": True}),
        (["--skill", "s", "-ns", "--prompt-template", "t", "-np"], {"skill": ["s"], "prompt_template": ["t"]}),
        (["-nc", "--no-mcp", "--offline", "--verbose"], {"no_context_files": True, "no_mcp": True, "offline": True}),
        (["-a"], {"approve": True}),
        (["-na"], {"approve": False}),
        (["--max-turns", "3", "--max-cost", "0.5", "--max-seconds=9"], {"max_turns": 3, "max_cost": 0.5}),
        (["--max-tool-calls", "2", "--max-tokens", "1000"], {"max_tool_calls": 2, "max_tokens": 1000}),
        (["--no-progress", "5"], {"no_progress": 5}),
        (["--keep-going", "-h", "-v"], {"keep_going": True, "help": True, "version": True}),
        (["--export", "a.jsonl", "out.html"], {"export": "a.jsonl", "messages": ["out.html"]}),
        (["写一首诗", "@文件.txt"], {"messages": ["写一首诗"], "files": ["文件.txt"]}),
    ],
)
def test_what_a_line_means(words: list[str], fields: dict[str, Any]) -> None:
    plan = parse(words)
    assert plan.errors == []
    assert {name: getattr(plan, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-q"], "unknown option -q"),
        (["--mode"], "--mode needs a value"),
        (["--mode", "xml"], "choose one of text, json, rpc"),
        (["--model", "--print"], "--model needs a value"),
        (["--no-tools=x"], "--no-tools takes no value"),
        (["--provider", "openai"], "--provider needs --model"),
        (["-c", "--session", "x"], "--continue and --session each choose a session"),
        (["-r", "-c"], "--continue and --resume"),
        (["--fork", "x", "--session", "y"], "--session and --fork"),
        (["--session-id", "a", "-c"], "--continue and --session-id"),
        (["--no-session", "-c"], "--no-session does not go with --continue"),
        (["--no-session", "--fork", "x"], "--no-session does not go with --fork"),
        (["--session-id", "../x"], "--session-id '../x'"),
        (["--session-id", ".x"], "letter or digit at both ends"),
        (["--session-id", "x" * 200], "--session-id"),
        (["--name", "  "], "--name must not be blank"),
        (["-t", "read,+grep"], "but not both"),
        (["-t", "+mcp*"], "exact names"),
        (["--max-turns", "0"], "a whole number above 0"),
        (["--max-turns", "٣"], "a whole number above 0"),
        (["--max-turns", "9" * 50], "a whole number above 0"),
        (["--max-cost", "nan"], "a number above 0"),
        (["--max-cost", "inf"], "a number above 0"),
        (["--max-seconds", "soon"], "a number above 0"),
        (["--sandbox", "tight"], "choose one of off"),
        (["--mode", "rpc", "@x"], "@file does not go with --mode rpc"),
        (["--mode", "rpc", "hello"], "a message does not go with --mode rpc"),
        (["--json-outcome"], "--json-outcome needs --mode json"),
    ],
)
def test_each_mistake_is_a_line(words: list[str], says: str) -> None:
    errors = parse(words).errors
    assert any(says in error for error in errors), errors


def test_all_mistakes_are_told_at_once() -> None:
    assert len(parse(["-q", "--mode", "xml", "--name", " "]).errors) == 3


def test_an_unknown_long_option_is_noted_and_swallows_nothing() -> None:
    plan = parse(["-p", "--plan", "Do X"])
    assert (plan.unknown, plan.messages, plan.errors) == (["--plan"], ["Do X"], [])


def test_options_of_extensions_are_known_the_second_time() -> None:
    line = ["--plan", "Do X", "--style", "short", "--deep=false", "--other"]
    plan = parse(line, {"plan": "boolean", "style": "string", "deep": "boolean"})
    assert plan.flags == {"plan": True, "style": "short", "deep": False}
    assert plan.messages == ["Do X"]
    assert plan.unknown == ["--other"]
    assert parse(["--style"], {"style": "string"}).errors == ["--style needs a value"]
    assert parse(["--style", "--plan"], {"style": "string", "plan": "boolean"}).flags == {"plan": True}
    assert parse(["--plan=maybe"], {"plan": "boolean"}).errors == ["--plan takes no value"]


def test_keys_do_not_show() -> None:
    assert "sk-secret" not in repr(parse(["--api-key", "sk-secret"]))


def test_the_help_names_every_option_and_fits_a_terminal() -> None:
    text = help_text()
    for option in OPTIONS:
        assert option.name in text
        assert option.help in text
    assert max(len(line) for line in text.split("\n")) <= 120


def test_names_of_options_are_their_own() -> None:
    names = [name for option in OPTIONS for name in (option.name, option.short) if name]
    assert len(names) == len(set(names))
    fields = set(parse([]).__struct_fields__)
    assert {option.field for option in OPTIONS} - fields == {"no_approve"}
