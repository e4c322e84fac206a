"""A call that runs alone lives in the run's own task, and cannot tell the difference."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.rig import GRACE, QUICK, PlainTool, Stubborn, details, legal, never, result_texts, results, within

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.events import AgentEvent, ToolExecutionUpdate
from antiphon.core.policy import PI
from antiphon.loop import leash, pump, running
from antiphon.testing import Fault, Faults, Gate, World, calls, says, settle
from antiphon.testing.check import no_tasks_left


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leash, pump, running):
        monkeypatch.setattr(module, "PULL_EVERY", 0.002)


def world_of(execute: Callable[..., Any], *, alone: bool = True, **options: Any) -> World:
    """A world whose first answer calls this tool, alone or beside another one."""
    attributes = options.pop("attributes", {})
    tools = [PlainTool("A", execute, **attributes), PlainTool("B", lambda *_: "beside")]
    names = ("A",) if alone else ("A", "B")
    return World([calls(*names), says("end")], tools=tools, **{"policy": QUICK, "close_timeout": 0.02, **options})


def progress(world: World) -> list[Any]:
    return [event.partial_result for event in world.recording.of(ToolExecutionUpdate) if event.tool_name == "A"]


ALONE = pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside another"])


@ALONE
async def test_progress_of_the_tool_its_tasks_and_its_threads_is_told_in_order_before_the_end(alone: bool) -> None:
    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("before")

        async def in_a_task() -> None:
            await asyncio.sleep(0)
            on_update("task")

        await asyncio.create_task(in_a_task())
        await asyncio.to_thread(lambda: [on_update(f"thread {n}") for n in range(20)])
        on_update("behind")
        return "done"

    world = world_of(execute, alone=alone)
    async with no_tasks_left():
        await within(world.prompt("go"))

    assert progress(world) == ["before", "task", *(f"thread {n}" for n in range(20)), "behind"]
    types = [event.type for event in world.recording.events if getattr(event, "tool_name", "A") == "A"]
    assert "tool_execution_update" not in types[types.index("tool_execution_end") :]
    legal(world.recording)


@ALONE
async def test_progress_is_told_while_the_tool_still_runs(alone: bool) -> None:
    gate = Gate()

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("half")
        await gate.passed()
        return "done"

    world = world_of(execute, alone=alone)
    running_prompt = world.start("go")
    await within(world.recording.heard("tool_execution_update A"))
    assert not gate.is_open

    gate.open()
    await within(running_prompt)
    assert result_texts(world.messages)[0] == "done"


@ALONE
async def test_progress_behind_the_end_is_not_heard(alone: bool) -> None:
    late: list[Any] = []

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        late.append(on_update)
        return "done"

    world = world_of(execute, alone=alone)
    world.agent.subscribe(lambda event, _: [update("late") for update in late] and None)  # type: ignore[func-returns-value]
    await within(world.prompt("go"))
    late[0]("much later")

    assert progress(world) == []


async def test_the_after_hook_hears_of_the_call_when_all_progress_was_told() -> None:
    order: list[str] = []

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        on_update("two")
        return "done"

    async def slow(event: AgentEvent, _signal: Any) -> None:
        await settle(3)
        if isinstance(event, ToolExecutionUpdate):
            order.append(str(event.partial_result))

    for alone in (True, False):
        order.clear()
        world = world_of(execute, alone=alone, after_tool_call=lambda told, _: order.append(told.tool_call.id))
        world.agent.subscribe(slow)
        await within(world.prompt("go"))
        assert [each for each in order if each != "B"] == ["one", "two", "A"]


VARIABLE = contextvars.ContextVar("variable", default="outside")


@ALONE
async def test_context_variables_of_a_tool_do_not_leak(alone: bool) -> None:
    seen: list[str] = []

    async def execute(*_: Any) -> str:
        seen.append(VARIABLE.get())
        token = VARIABLE.set("inside")
        await asyncio.sleep(0)
        seen.append(VARIABLE.get())
        await asyncio.create_task(read())
        VARIABLE.reset(token)
        VARIABLE.set("left")
        return "done"

    async def read() -> None:
        seen.append(VARIABLE.get())

    world = world_of(execute, alone=alone)
    world.agent.subscribe(lambda event, _: seen.append(VARIABLE.get()) if event.type == "turn_end" else None)
    VARIABLE.set("host")
    await within(world.prompt("go"))

    assert seen == ["host", "inside", "inside", "host", "host"]
    assert VARIABLE.get() == "host"


@ALONE
async def test_a_tool_longer_than_its_time_limit_is_stopped_and_the_run_goes_on(alone: bool) -> None:
    heard: list[str | None] = []

    async def execute(_id: str, _args: Any, signal: Any, _update: Any) -> str:
        await signal.wait()
        heard.append(signal.reason)
        await never()
        return "never"

    world = world_of(execute, alone=alone, attributes={"timeout": 0.005})
    await within(world.prompt("go"))

    assert heard == ["timeout"]
    assert details(world.messages)[0] == {"cutOff": True, "reason": "timeout"}
    assert "may have had effects" in result_texts(world.messages)[0]
    assert (world.outcome.reason, world.outcome.abandoned) == ("stop", ())


@ALONE
async def test_a_tool_that_ends_within_its_grace_keeps_its_result(alone: bool) -> None:
    async def execute(_id: str, _args: Any, signal: Any, _update: Any) -> str:
        await signal.wait()
        return "tidied up"

    world = world_of(execute, alone=alone, attributes={"timeout": 0.005, "abort_grace": 5.0})
    await within(world.prompt("go"))

    assert result_texts(world.messages)[0] == "tidied up"


@ALONE
async def test_the_grace_of_a_tool_wins_over_that_of_the_policy(alone: bool) -> None:
    async def execute(_id: str, _args: Any, signal: Any, _update: Any) -> str:
        await signal.wait()
        await asyncio.sleep(GRACE * 3)
        return "took its time"

    world = world_of(execute, alone=alone, attributes={"abort_grace": 5})
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start A"))
    await settle()
    world.agent.abort()
    await within(prompt)

    assert result_texts(world.messages)[0] == "took its time"
    assert world.outcome.reason == "aborted"


@ALONE
@pytest.mark.parametrize("patience", [0, 2, 3, 50])
async def test_a_tool_that_swallows_cancellations_is_abandoned_and_named(alone: bool, patience: int) -> None:
    foreign = Stubborn(patience)

    async def execute(*_: Any) -> str:
        await foreign.wait()
        return "never"

    world = world_of(execute, alone=alone)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start A"))
    await settle()
    world.agent.abort()
    await within(prompt)

    assert details(world.messages)[0] == {"cutOff": True, "reason": "aborted"}
    assert world.outcome.abandoned == (("tool A (A)",) if patience >= 3 else ())
    foreign.released.set()
    await settle()
    legal(world.recording)


@ALONE
async def test_a_tool_that_hides_behind_a_stubborn_task_is_abandoned(alone: bool) -> None:
    foreign = Stubborn()

    async def execute(*_: Any) -> str:
        await asyncio.create_task(foreign.wait())
        return "never"

    world = world_of(execute, alone=alone)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start A"))
    await settle()
    world.agent.abort()
    await within(prompt)

    assert world.outcome.abandoned == ("tool A (A)",)
    foreign.released.set()
    await settle()


@ALONE
async def test_a_thread_that_cannot_be_stopped_is_named_and_its_later_return_ignored(alone: bool) -> None:
    """6.5: a thread can't be stopped; beyond grace it is abandoned, its return and progress are ignored."""
    working, go_on, over = threading.Event(), threading.Event(), threading.Event()

    def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        working.set()
        go_on.wait(5)
        on_update("late")
        over.set()
        return "late"

    world = world_of(execute, alone=alone)
    prompt = world.start("go")
    while not working.is_set():
        await asyncio.sleep(0.001)
    world.agent.abort()
    await within(prompt)

    assert world.outcome.abandoned == ("thread of tool A (A)",)
    assert details(world.messages)[0] == {"cutOff": True, "reason": "aborted"}
    go_on.set()
    while not over.is_set():
        await asyncio.sleep(0.001)
    await settle()
    assert progress(world) == []
    assert len(results(world.messages)) == (1 if alone else 2)


@ALONE
async def test_a_cancelled_error_that_nobody_wanted_is_an_error_result(alone: bool) -> None:
    async def execute(*_: Any) -> str:
        raise asyncio.CancelledError

    world = world_of(execute, alone=alone)
    await within(world.prompt("go"))

    assert result_texts(world.messages)[0] == "the tool was cancelled from within"
    assert results(world.messages)[0].is_error
    assert world.outcome.reason == "stop"


async def test_a_lone_tool_that_cancels_its_task_cancels_the_run_it_lives_in() -> None:
    """It cannot be told from a host that cancels the run at this moment; beside others a tool has a task of its own."""

    async def execute(*_: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    world = world_of(execute)
    prompt = world.start("go")
    await asyncio.wait([prompt])
    assert prompt.cancelled()
    assert details(world.messages) == [{"cutOff": True, "reason": "cancelled"}]
    legal(world.recording)

    beside = world_of(execute, alone=False)
    await within(beside.prompt("go"))
    assert details(beside.messages)[0] == {"cutOff": True, "reason": "cancelled"}
    assert beside.outcome.reason == "stop"


async def test_a_lone_tool_that_cancels_its_task_and_returns_at_once() -> None:
    async def execute(*_: Any) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        raise asyncio.CancelledError

    world = world_of(execute)
    prompt = world.start("go")
    await asyncio.wait([prompt])

    assert prompt.cancelled()
    assert len(results(world.messages)) == 1
    legal(world.recording)
    assert not world.agent.is_streaming


@ALONE
async def test_who_listens_to_progress_may_be_slow_fail_or_cancel_itself(alone: bool) -> None:
    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        await asyncio.sleep(0)
        on_update("two")
        return "done"

    for error in (None, ValueError("no"), asyncio.CancelledError()):
        world = world_of(execute, alone=alone, after_tool_call=lambda *_: None)

        async def listener(event: AgentEvent, _signal: Any, error: BaseException | None = error) -> None:
            await settle(2)
            if isinstance(event, ToolExecutionUpdate) and error is not None:
                raise error

        world.agent.subscribe(listener)
        await within(world.prompt("go"))

        assert progress(world) == ["one", "two"]
        assert len(world.outcome.faults) == (0 if error is None else 2)
        legal(world.recording)


async def test_a_single_listener_that_cancels_itself_at_progress_does_not_hold_the_run() -> None:
    """Without others beside it, what it raises reaches the run directly."""
    world = World([calls("A"), says("end")], policy=QUICK, after_tool_call=lambda *_: None)
    world.calls.updates["A"] = ["one"]
    agent = world.agent
    agent._listeners._set(())  # type: ignore[attr-defined]

    async def listener(event: AgentEvent, _signal: Any) -> None:
        await asyncio.sleep(0)
        if isinstance(event, ToolExecutionUpdate):
            raise asyncio.CancelledError

    agent.subscribe(listener)
    outcome = await within(agent.prompt("go"))

    assert outcome.reason == "stop"
    assert [fault.where for fault in outcome.faults] == ["listener"]


async def test_a_critical_listener_that_fails_at_progress_ends_the_run_behind_the_batch() -> None:
    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        await asyncio.sleep(0)
        on_update("two")
        await settle(3)
        return "done"

    def listener(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            raise OSError("disk full")

    for alone in (True, False):
        world = world_of(execute, alone=alone)
        world.agent.subscribe(listener, critical=True)
        await within(world.prompt("go"))
        assert (world.outcome.reason, world.outcome.error) == ("error", "disk full")
        assert len(world.requests) == 1
        legal(world.recording)


async def test_a_listener_that_hangs_at_progress_is_let_go_after_an_abort() -> None:
    foreign = Stubborn()

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        await settle(3)
        return "done"

    async def listener(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await foreign.wait()

    world = world_of(execute)
    world.agent.subscribe(listener)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_update A"))
    await settle()
    assert not prompt.done()
    world.agent.abort()
    await within(prompt)

    assert world.outcome.abandoned == ("listener of tool_execution_update",)
    foreign.released.set()
    await settle()
    legal(world.recording)


@ALONE
@pytest.mark.parametrize("turns", [0, 3])
async def test_in_profile_pi_nobody_asks_about_a_call_whose_progress_ended_the_run(alone: bool, turns: int) -> None:
    asked: list[str] = []

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        await settle(2)
        on_update("one")
        return "done"

    async def listener(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await settle(turns)
            raise ValueError("observer")

    world = world_of(execute, alone=alone, policy=PI, after_tool_call=lambda told, _: asked.append(told.tool_call.name))
    world.agent.subscribe(listener)
    await within(world.prompt("go"))

    assert "A" not in asked
    assert world.outcome.error == "observer"


async def test_what_such_a_listener_raises_later_concerns_nobody() -> None:
    foreign = Stubborn()

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        await settle(3)
        return "done"

    async def listener(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await foreign.wait()
            raise ValueError("too late")

    world = world_of(execute)
    world.agent.subscribe(listener)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_update A"))
    await settle()
    world.agent.abort()
    await within(prompt)
    faults = len(world.outcome.faults)

    foreign.released.set()
    await settle()
    assert len(world.outcome.faults) == faults
    world.model.script = [says("again")] * 3
    await within(world.prompt("again"))
    assert world.outcome.faults == ()


async def test_a_critical_listener_at_progress_may_finish_writing_although_the_run_is_cancelled() -> None:
    gate, written = Gate(), list[str]()

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("one")
        await settle(3)
        return "done"

    async def store(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await gate.passed()
        written.append(event.type)

    world = world_of(execute)
    world.agent.subscribe(store, critical=True)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_update A"))
    await settle()
    prompt.cancel()
    await asyncio.sleep(0.03)
    assert not prompt.done()

    gate.open()
    await asyncio.wait([prompt])
    assert prompt.cancelled()
    assert written == world.recording.types


@ALONE
async def test_what_is_no_result_is_told_by_its_type(alone: bool) -> None:
    bad: list[tuple[Any, str]] = [
        (5, "int"),
        ({"content": []}, "dict"),
        ([1], "int"),
        (ToolResult(content="text"), "str"),  # type: ignore[arg-type]
        (ToolResult(content=(Text(text="x"), 1)), "int"),  # type: ignore[arg-type]
        (ToolResult(usage=5), "int"),  # type: ignore[arg-type]
    ]
    for returned, name in bad:
        world = world_of(lambda *_, returned=returned: returned, alone=alone)
        await within(world.prompt("go"))
        assert name in result_texts(world.messages)[0]
        assert results(world.messages)[0].is_error
        assert world.outcome.reason == "stop"


@ALONE
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, pytest.fail.Exception, GeneratorExit])
async def test_an_exit_of_the_process_closes_the_run_first(alone: bool, error: type[BaseException]) -> None:
    """Batch closed and paired, run closed, no further request; then it propagates."""
    hears = Gate()

    async def execute(*_: Any) -> str:
        raise error

    async def beside(_id: str, _args: Any, signal: Any, _update: Any) -> str:
        hears.open()
        await never()
        return "never"

    world = world_of(execute, alone=alone)
    tools = [*world.agent.tools[:1], PlainTool("B", beside)]  # type: ignore[attr-defined]
    world.agent.tools = tools  # type: ignore[attr-defined]
    with pytest.raises(error):
        await within(world.agent.prompt("go"))

    assert len(world.requests) == 1
    assert len(results(world.messages)) == (1 if alone else 2)
    assert not world.agent.is_streaming
    legal(world.recording)


async def test_the_run_of_a_lone_tool_can_be_cancelled_anywhere() -> None:
    world = World([calls("A"), says("end")], policy=QUICK, faults=(faults := Faults(Fault(1, "cancel run"))))
    faults.plan = None
    await world.prompt("go")
    places = len(faults.places)
    for at in range(1, places + 1):
        faults = Faults(Fault(at, "cancel run"))
        world = World([calls("A"), says("end")], policy=QUICK, faults=faults)
        prompt = world.start("go")
        await within(asyncio.wait([prompt]))
        assert prompt.cancelled()
        legal(world.recording)
