"""What the layer over the core does where the reference has no say: the end of patience, and odd outsides of both."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.course.loop_cases import Case, Run, Stage, Tools

from antiphon.core.content import ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user
from antiphon.course import core_loop, reference_loop
from antiphon.course.loop_types import AgentContext, AgentLoopOptions, LoopEvent
from antiphon.course.scripted_model import ScriptedModel
from antiphon.loop.abort import AbortController

LOOPS: list[Run] = [core_loop.run_agent_loop, reference_loop.run_agent_loop]
both = pytest.mark.parametrize("run", LOOPS, ids=["core", "reference"])

WANTS = AssistantMessage(content=(ToolCall(id="a", name="work", arguments={}),), stop_reason="toolUse")


def options(model: Any, executor: Any = None, **given: Any) -> AgentLoopOptions:
    async def nothing(call: ToolCall, /, **_given: Any) -> ToolResultMessage:
        return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(), is_error=False)

    return AgentLoopOptions(
        context=AgentContext("", (user("go"),)), model=model, tools=Tools(), executor=executor or nothing, **given
    )


@both
async def test_an_exhausted_script_is_an_error_with_its_words(run: Run) -> None:
    result = await run(options(ScriptedModel([WANTS])))

    assert result.reason == "error"
    assert result.error == "the script has 1 responses, and this is request 2"


@both
@pytest.mark.parametrize("given", [None, "text", AssistantMessage(content=(), stop_reason="pending")])
async def test_an_answer_that_is_none_is_a_failure(run: Run, given: Any) -> None:
    class Odd:
        def stream(self, _request: Any) -> Any:
            return self

        async def __aiter__(self) -> Any:
            for event in ():
                yield event

        async def result(self) -> Any:
            return given

    result = await run(options(Odd()))

    assert (result.reason, result.steps) == ("error", 1)
    assert result.new_messages[0].stop_reason == "error"  # type: ignore[union-attr]


@both
async def test_a_listener_that_fails_does_not_steer_the_run(run: Run) -> None:
    heard: list[str] = []

    async def emit(event: LoopEvent) -> None:
        heard.append(event.type)
        raise ValueError("no ink")

    result = await run(options(ScriptedModel(["Done."]), emit=emit))

    assert result.reason == "stop"
    assert [str(fault) for fault in result.faults] == ["no ink"] * len(heard)


@both
async def test_an_asynchronous_listener_is_waited_for(run: Run) -> None:
    story: list[str] = []

    async def emit(event: LoopEvent) -> None:
        await asyncio.sleep(0)
        story.append(event.type)

    await run(options(ScriptedModel([WANTS, "Done."]), emit=emit))

    kept = [kind for kind in story if kind != "model_event"]
    assert kept == ["assistant_message", "tool_start", "tool_end", "assistant_message", "turn_end"]


@both
async def test_progress_behind_the_end_is_not_heard(run: Run) -> None:
    kept: list[Any] = []
    heard: list[LoopEvent] = []

    async def executor(call: ToolCall, /, *, signal: Any, report_progress: Any) -> ToolResultMessage:
        kept.append(report_progress)
        return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(), is_error=False)

    def emit(event: LoopEvent) -> None:
        heard.append(event)
        if event.type == "tool_end":
            kept[0]("too late")

    await run(options(ScriptedModel([WANTS, "Done."]), executor, emit=emit))

    assert [event.type for event in heard if event.type == "tool_progress"] == []


@both
async def test_cancelling_the_run_cancels_its_tools(run: Run) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def executor(call: ToolCall, /, **_given: Any) -> ToolResultMessage:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    task = asyncio.ensure_future(run(options(ScriptedModel([WANTS]), executor)))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@both
async def test_a_cancellation_that_an_executor_made_up_is_its_error(run: Run) -> None:
    async def executor(call: ToolCall, /, **_given: Any) -> ToolResultMessage:
        raise asyncio.CancelledError

    result = await run(options(ScriptedModel([WANTS, "Done."]), executor))

    assert result.reason == "stop"
    assert result.messages[2].is_error  # type: ignore[union-attr]


async def test_the_core_does_not_wait_for_ever_for_a_deaf_model() -> None:
    """The reference would: stopping what does not listen is the business of an outer runtime, which the core is."""
    controller = AbortController()

    class Deaf:
        def stream(self, _request: Any) -> Any:
            controller.abort()
            return self

        async def __aiter__(self) -> Any:
            await asyncio.Event().wait()
            yield None

        async def result(self) -> Any:
            raise AssertionError

    result = await core_loop.run_agent_loop(options(Deaf(), signal=controller.signal))

    assert (result.reason, result.steps) == ("aborted", 1)
    assert result.messages[-1].stop_reason == "aborted"  # type: ignore[union-attr]


@pytest.mark.requirement("S0-31")
async def test_the_signal_reaches_model_and_executor_unchanged() -> None:
    for run in LOOPS:
        stage = Stage(Case("toolUse", "one call", "never", None))
        seen: list[Any] = []
        given = stage.executor

        async def executor(call: ToolCall, /, *, signal: Any, report_progress: Any) -> Any:
            seen.append(signal)
            return await given(call, signal=signal, report_progress=report_progress)  # noqa: B023

        stage.executor = executor  # type: ignore[method-assign]
        played = await stage.play(run)

        assert all(signal is stage.controller.signal for signal in [*seen, *(r.signal for r in played.requests)])
        assert seen
