"""Tools that call tools: told, recorded, counted, guarded by the same hooks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.session.stage import Stage

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.events import ToolExecutionEnd, ToolExecutionStart
from antiphon.core.hooks import BeforeDecision, BeforeToolCall
from antiphon.core.messages import ToolResultMessage
from antiphon.core.ports import AbortSignal, Tool
from antiphon.core.usage import Usage
from antiphon.session.hooks import SessionHooks
from antiphon.session.nested_calls import ToolCalls, cut_units
from antiphon.testing import CallScript, ScriptedTool, call, calls, says


class Outer:
    """Calls other tools."""

    name = "outer"
    description = "Call others"

    def __init__(self, names: tuple[str, ...] = ("inner",), calls: ToolCalls | None = None) -> None:
        self.parameters: Any = {"type": "object"}
        self._names = names
        self._calls = calls
        self.outcomes: list[Any] = []
        self.text = ""

    def using_calls(self, calls: ToolCalls) -> Tool:
        self._calls = calls
        return cast("Tool", self)

    async def execute(self, call_id: str, _args: Any, signal: AbortSignal, _update: Any) -> ToolResult:
        assert self._calls is not None
        for name in self._names:
            self.outcomes.append(await self._calls.execute(call_id, name, {"q": self.text or name}, signal=signal))
        usage = Usage(input=1, output=1, total_tokens=2)
        return ToolResult(content=(Text(text=f"{len(self.outcomes)} calls"),), usage=usage)


def inner(script: CallScript, name: str = "inner", **traits: Any) -> Any:
    tool = ScriptedTool(name, script)
    for trait, value in traits.items():
        setattr(tool, trait, value)
    return tool


@pytest.mark.requirement("S3-114")
async def test_a_nested_call_is_told_recorded_and_counted() -> None:
    spent = ToolResult(content=(Text(text="found"),), usage=Usage(input=10, output=5, total_tokens=15))
    script = CallScript({"outer/1": spent})
    outer = Outer()
    stage = Stage([calls("outer"), says("done")], tools=[outer, inner(script)])
    settlement = await stage.session.prompt("go")

    (result,) = [m for m in stage.session.messages if isinstance(m, ToolResultMessage)]
    record = result.nested_calls
    record["calls"][0].pop("durationMs")
    assert record == {
        "calls": [{"id": "outer/1", "name": "inner", "arguments": {"q": "inner"}, "status": "ok"}],
        "complete": True,
    }
    assert result.usage == Usage(input=11, output=6, total_tokens=17)
    assert settlement.outcome is not None
    assert settlement.outcome.usage.total_tokens == 17
    starts = [event for event in stage.of(ToolExecutionStart) if event.parent_tool_call_id == "outer"]
    ends = [event for event in stage.of(ToolExecutionEnd) if event.parent_tool_call_id == "outer"]
    assert len(starts) == len(ends) == 1
    assert stage.requests == [["user"], ["user", "assistant", "toolResult"]]


@pytest.mark.requirement("S3-116")
async def test_a_nested_call_passes_the_hooks_of_all_calls() -> None:
    def guard(call: BeforeToolCall) -> BeforeDecision | None:
        return BeforeDecision(block=True, reason="no") if call.tool_call.name == "inner" else None

    script, outer = CallScript(), Outer()
    stage = Stage(
        [calls("outer"), says("done")],
        tools=[outer, inner(script)],
        hooks=SessionHooks(tool_call=lambda call, _signal: guard(call)),
    )
    await stage.session.prompt("go")
    assert script.executed == []
    assert [outcome.is_error for outcome in outer.outcomes] == [True]


async def test_only_tools_that_may_be_called_can_be() -> None:
    script = CallScript()
    outer = Outer(("shy", "deep", "gone", "ghost"))
    stage = Stage(
        [calls("outer"), says("done")],
        tools=[
            outer,
            inner(script, "shy", exposure="model-only"),
            inner(script, "deep", exposure="deferred"),
            inner(script, "gone", exposure="hidden"),
        ],
    )
    await stage.session.prompt("go")
    assert [executed.tool for executed in script.executed] == ["deep"]
    assert [outcome.is_error for outcome in outer.outcomes] == [True, False, True, True]
    assert stage.session.get_callable_tool_names() == ("outer", "deep")


async def test_a_cut_call_still_has_its_record() -> None:
    script = CallScript()
    script.hold("outer/1")
    stage = Stage([calls("outer"), says("never")], tools=[Outer(), inner(script)])
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await script.running("outer/1")
    await stage.session.abort()
    await going
    (result,) = [m for m in stage.session.messages if isinstance(m, ToolResultMessage)]
    assert len(result.nested_calls["calls"]) == 1


async def test_sequential_nested_calls_run_one_at_a_time_and_do_not_wait_for_themselves() -> None:
    script = CallScript()
    first, second = script.hold("o1/1"), script.hold("o2/1")
    tools = [Outer(), inner(script, execution_mode="sequential")]
    stage = Stage([calls(call("outer", id="o1"), call("outer", id="o2")), says("done")], tools=tools)
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await script.running("o1/1")
    assert script.executed_ids == ["o1/1"]
    first.open()
    await script.running("o2/1")
    second.open()
    await going


async def test_a_sequential_call_inside_a_sequential_call_does_not_wait_for_it() -> None:
    script = CallScript()
    middle = Outer()
    middle.name = "middle"
    cast("Any", middle).execution_mode = "sequential"
    tools = [Outer(("middle",)), middle, inner(script, execution_mode="sequential")]
    stage = Stage([calls("outer"), says("done")], tools=tools)
    await asyncio.wait_for(stage.session.prompt("go"), 10)
    assert script.executed_ids == ["outer/1/1"]
    (result,) = [m for m in stage.session.messages if isinstance(m, ToolResultMessage)]
    assert [(c["id"], c["status"]) for c in result.nested_calls["calls"]] == [("outer/1", "ok"), ("outer/1/1", "ok")]


async def test_what_an_extension_changes_in_the_arguments_is_checked_again() -> None:
    async def numbers(given: BeforeToolCall, _signal: AbortSignal) -> None:
        given.args["n"] = "four" if given.tool_call.id == "bad" else "4"

    script = CallScript()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    answer = calls(call("count", {"n": 1}, id="good"), call("count", {"n": 2}, id="bad"))
    tools = [inner(script, "count", parameters=schema)]
    stage = Stage([answer, says("done")], tools=tools, hooks=SessionHooks(tool_call=numbers))
    await stage.session.prompt("go")
    assert [(executed.call_id, executed.args) for executed in script.executed] == [("good", {"n": 4})]


@pytest.mark.parametrize(("size", "kept"), [(8 * 1024 - 20, True), (8 * 1024, False)])
async def test_long_arguments_are_left_out_of_a_record(size: int, kept: bool) -> None:
    script, outer = CallScript(), Outer(("inner",))
    outer.text = "x" * size
    stage = Stage([calls("outer"), says("done")], tools=[outer, inner(script)])
    await stage.session.prompt("go")
    (result,) = [m for m in stage.session.messages if isinstance(m, ToolResultMessage)]
    assert ("arguments" in result.nested_calls["calls"][0]) is kept
    assert ("argumentsBytes" in result.nested_calls["calls"][0]) is not kept
    assert result.nested_calls["complete"] is kept


def test_error_texts_are_cut_at_whole_characters() -> None:
    assert cut_units("a" * 501, 500) == "a" * 500
    assert cut_units("a" * 499 + "😀", 500) == "a" * 499
