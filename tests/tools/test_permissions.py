"""Asking before a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.tools.memory_files import NoProcesses

from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall, text_of
from antiphon.core.hooks import BeforeHook, Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import Tool
from antiphon.loop.tool_call import run_tool_call
from antiphon.tools import allow_all, ask_first, read_only, tool
from antiphon.tools.ls import ls_tool
from antiphon.tools.permissions import Answer, Question
from antiphon.tools.read import read_tool
from antiphon.tools.workspace import LocalWorkspace
from antiphon.tools.write import write_tool


@tool
async def bash(command: str) -> str:
    return f"ran {command}"


@tool
async def post(to: str) -> str:
    return "posted"


@pytest.fixture
def tools(tmp_path: Path) -> list[Tool]:
    workspace = LocalWorkspace(tmp_path, processes=NoProcesses())
    (tmp_path / "a").write_text("content")
    return [read_tool(workspace), write_tool(workspace), ls_tool(workspace), bash, post]


async def run(tools: list[Tool], hook: BeforeHook, name: str, **arguments: Any) -> Outcome:
    call = ToolCall(id="c", name=name, arguments=arguments)
    message = AssistantMessage(content=(call,), stop_reason="toolUse")
    return await run_tool_call(call, tools=tools, assistant_message=message, context=Context(), before_tool_call=hook)


async def test_read_only_lets_reading_through_and_says_what_is_allowed(tools: list[Tool], tmp_path: Path) -> None:
    assert not (await run(tools, read_only(), "read", path="a")).is_error
    assert not (await run(tools, read_only(), "ls")).is_error
    refused = await run(tools, read_only(), "write", path="b", content="x")
    assert refused.is_error
    assert text_of(refused.result.content) == (
        "Tool write is not allowed: only reading is. Allowed: find, grep, ls, read."
    )
    assert not (tmp_path / "b").exists()
    assert (await run(tools, read_only(), "post", to="x")).is_error
    assert not (await run(tools, read_only({"post"}), "post", to="x")).is_error


async def test_allow_all(tools: list[Tool]) -> None:
    assert not (await run(tools, allow_all(), "bash", command="rm")).is_error


async def test_writes_commands_and_unknown_tools_are_asked_for(tools: list[Tool]) -> None:
    asked: list[tuple[str, str, str]] = []
    answers: list[Answer] = ["yes", "no", "always", "always", "no"]

    def ask(question: Question, _signal: object) -> Answer:
        asked.append((question.kind, question.tool, question.subject))
        return answers.pop(0)

    hook = ask_first(ask)
    assert not (await run(tools, hook, "read", path="a")).is_error
    assert not (await run(tools, hook, "write", path="b", content="x")).is_error
    refused = await run(tools, hook, "write", path="c", content="x")
    assert text_of(refused.result.content) == "The user did not allow this call of write."
    assert not (await run(tools, hook, "bash", command="make")).is_error
    assert not (await run(tools, hook, "bash", command="make")).is_error
    assert not (await run(tools, hook, "post", to="x")).is_error
    assert not (await run(tools, hook, "post", to="y")).is_error
    assert (await run(tools, hook, "bash", command="rm")).is_error
    assert asked == [
        ("write", "write", "b"), ("write", "write", "c"), ("command", "bash", "make"), ("call", "post", '{"to":"x"}'),
        ("command", "bash", "rm"),
    ]  # fmt: skip


async def test_what_is_no_yes_is_a_no(tools: list[Tool]) -> None:
    async def unsure(_question: Question, _signal: object) -> Any:
        return None

    def broken(_question: Question, _signal: object) -> Answer:
        raise RuntimeError("no terminal")

    assert (await run(tools, ask_first(unsure), "bash", command="x")).is_error
    refused = await run(tools, ask_first(broken), "bash", command="x")
    assert refused.is_error and "no terminal" in text_of(refused.result.content)
