"""Chapter 06: executors that break one promise each."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any

from msgspec import UNSET, structs

from antiphon.core.content import ToolCall
from antiphon.course.ports import NeverAborted
from antiphon.course.saboteurs.registry import Saboteur

Around = Callable[[Any, ToolCall, dict[str, Any]], Awaitable[Any]]


def _saboteur(name: str, caught_by: str, promise: str, promise_zh: str, around: Around) -> Saboteur:
    def change(module: Any) -> Mapping[str, Any]:
        def make(tools: Any) -> Any:
            executor = module.Executor(tools)

            async def execute(call: ToolCall, /, **given: Any) -> Any:
                return await around(executor, call, given)

            return execute

        return {"Executor": make}

    return Saboteur(name, f"test_{caught_by}", promise, promise_zh, change)


async def _runs_twice(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    await executor(call, **given)
    return await executor(call, **given)


async def _forgets_the_id(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return structs.replace(await executor(call, **given), tool_call_id="")


async def _own_signal(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return await executor(call, **{**given, "signal": NeverAborted()})


async def _hides_errors(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return structs.replace(await executor(call, **given), is_error=False)


async def _raises_errors(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    result = await executor(call, **given)
    if result.is_error and result.details is UNSET:
        raise RuntimeError(result.content[0].text)
    return result


async def _runs_broken_arguments(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    whole = {"a": 0, "b": 0, **{name: n for name, n in call.arguments.items() if isinstance(n, int)}}
    return await executor(structs.replace(call, arguments=whole, arguments_error=UNSET), **given)


async def _swallows_cancellation(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    running = asyncio.ensure_future(executor(call, **given))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.cancel()
        return None


def _lets_cancellations_out(module: Any) -> Mapping[str, Any]:
    """A `CancelledError` that a tool raises itself ends the executor."""

    def make(tools: Any) -> Any:
        raised: list[asyncio.CancelledError] = []

        def find(name: str) -> Any:
            tool = tools.find(name)
            if tool is None or not inspect.iscoroutinefunction(tool.execute):
                return tool

            async def execute(*given: Any) -> Any:
                try:
                    return await tool.execute(*given)
                except asyncio.CancelledError as error:
                    raised.append(error)
                    raise

            return SimpleNamespace(
                name=tool.name, description=tool.description, parameters=tool.parameters, execute=execute
            )

        executor = module.Executor(SimpleNamespace(find=find, definitions=tools.definitions))

        async def run(call: ToolCall, /, **given: Any) -> Any:
            result = await executor(call, **given)
            if raised:
                raise raised.pop()
            return result

        return run

    return {"Executor": make}


EXECUTOR_SABOTEURS: tuple[Saboteur, ...] = (
    _saboteur(
        "forgets-the-id",
        "good_call_keeps_id_and_name",
        "the result has the id and the name of its call",
        "结果带有其调用的 id 和名称",
        _forgets_the_id,
    ),
    _saboteur("runs-twice", "good_call_is_made_once", "a call is executed once", "一个调用只执行一次", _runs_twice),
    _saboteur(
        "own-signal",
        "good_call_gets_the_signal_and_reports_progress",
        "a tool gets the signal of the run itself",
        "工具得到的就是这次运行的信号",
        _own_signal,
    ),
    _saboteur(
        "hides-errors",
        "good_call_takes_over_details_and_error_state",
        "a tool may report failure without raising",
        "工具可以不抛异常而报告失败",
        _hides_errors,
    ),
    _saboteur(
        "raises-errors",
        "bad_call_of_an_unknown_tool",
        "a call that cannot run gets an error result, not an exception",
        "无法执行的调用得到错误结果，而不是异常",
        _raises_errors,
    ),
    _saboteur(
        "runs-broken-arguments",
        "bad_call_whose_arguments_were_no_json",
        "a tool never runs with arguments that are not whole",
        "绝不用不完整的参数执行工具",
        _runs_broken_arguments,
    ),
    Saboteur(
        "lets-cancellations-out",
        "test_failing_tool_that_cancels_itself",
        "a CancelledError that a tool raises itself is a failure like any other",
        "工具自己抛出的 CancelledError 与其他失败一样",
        _lets_cancellations_out,
    ),
    _saboteur(
        "swallows-cancellation",
        "failing_tool_does_not_swallow_our_cancellation",
        "whoever cancels the executor is heard",
        "取消执行器的人会被听到",
        _swallows_cancellation,
    ),
)
