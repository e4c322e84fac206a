"""The border between loop and disk: with file access forbidden the loops run as always."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples.stage import EXAMPLES

SOURCE = Path(__file__).resolve().parents[2] / "src"

PROGRAM = """
import asyncio, sys

from antiphon import Agent, Context, LoopConfig, ToolCall, run_agent_loop, tool
from antiphon.core.messages import AssistantMessage, user
from antiphon.course import core_loop, reference_loop
from antiphon.course.executor import Executor, ToolSet
from antiphon.course.loop_types import AgentContext, AgentLoopOptions
from antiphon.course.scripted_model import ScriptedModel
from antiphon.providers.scripted import SCRIPTED, ScriptedProvider
import mini_loop

CALL = ToolCall(id="c1", name="add", arguments={"a": 17, "b": 25})

@tool
async def add(a: int, b: int) -> str:
    "Add two numbers."
    return str(a + b)

def options():
    tools = ToolSet([add])
    model = ScriptedModel([AssistantMessage(content=(CALL,), stop_reason="toolUse"), "42"])
    context = AgentContext("", (user("17 + 25?"),))
    return AgentLoopOptions(context=context, model=model, tools=tools, executor=Executor(tools))

async def all_of_them():
    told = []
    for run in (core_loop.run_agent_loop, reference_loop.run_agent_loop):
        told.append((await run(options())).messages)
    config = mini_loop.Config(SCRIPTED, ScriptedProvider([[CALL], "42"]), (add,))
    told.append((await mini_loop.run_agent_loop(Context(messages=(user("17 + 25?"),)), config)).new_messages)
    model = ScriptedProvider([[CALL], "42"])
    config = LoopConfig(model=SCRIPTED)
    context = Context(tools=[add])
    outcome = await run_agent_loop([user("17 + 25?")], context, config, print_nothing, None, model)
    told.append(outcome.new_messages)
    agent = Agent(model=SCRIPTED, stream=ScriptedProvider([[CALL], "42"]), tools=[add])
    await agent.prompt("17 + 25?")
    told.append(agent.messages)
    return told

def print_nothing(_event):
    return None

async def main():
    await all_of_them()  # what is imported when it is first used is imported now
    forbidden.append(True)
    return await all_of_them()

forbidden, touched = [], []

def watch(event, args):
    if forbidden and (event == "open" or event.split(".")[0] in ("os", "shutil", "tempfile", "sqlite3", "subprocess")):
        touched.append((event, args))
        raise PermissionError(f"{event} {args}")

sys.addaudithook(watch)
told = asyncio.run(main())
forbidden.clear()
assert touched == [], touched
print(*(messages[-1].content[0].text for messages in told))
try:
    forbidden.append(True)
    open("/dev/null")
except PermissionError:
    forbidden.clear()
    print("forbidden")
"""


@pytest.mark.requirement("S1-15", "S1-16")
def test_the_loops_run_with_file_access_forbidden() -> None:
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{SOURCE}:{EXAMPLES}", "PATH": "/usr/bin:/bin"},
    )

    assert done.stderr == ""
    assert done.stdout == "42 42 42 42 42\nforbidden\n"


@pytest.mark.requirement("S1-19", "S1-18")
def test_the_store_is_no_business_of_the_loop() -> None:
    """Nothing in the mini loop knows a store; `test_server.py` runs the same loop with two kinds of them."""
    text = (EXAMPLES / "mini_loop.py").read_text("utf-8")

    assert not any(word in text for word in ("jsonl", "pathlib", "open(", "import os", "import time", "print("))
