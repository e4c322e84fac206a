"""The calls of a batch run together; each is stopped, answered and named for itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from tests.loop.rig import QUICK, PlainTool, Stubborn, details, gives, legal, never, result_texts, within

from antiphon.core.hooks import AfterOverride
from antiphon.core.messages import user
from antiphon.core.policy import PI
from antiphon.errors import WouldDeadlock
from antiphon.loop import leash, pump, running
from antiphon.testing import Gate, World, calls, says, settle
from antiphon.testing.check import no_tasks_left


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (leash, pump, running):
        monkeypatch.setattr(module, "PULL_EVERY", 0.002)


async def hangs(*_: Any) -> str:
    await never()
    return "never"


def two(first: Any, second: Any, **options: Any) -> World:
    tools = [first if hasattr(first, "name") else PlainTool("A", first), second]
    tools[1] = second if hasattr(second, "name") else PlainTool("B", second)
    return World([calls("A", "B"), says("end")], tools=tools, **{"policy": QUICK, "close_timeout": 0.02, **options})


async def started(world: World) -> asyncio.Task[Any]:
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start B"))
    await settle()
    return prompt


async def test_cancelling_the_run_while_calls_run_together_stops_them_and_is_felt() -> None:
    """Nothing is held then: the driver itself waits for news, and must notice."""
    world = two(hangs, hangs)
    prompt = await started(world)

    async with no_tasks_left():
        prompt.cancel()
        await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert details(world.messages) == [{"cutOff": True, "reason": "cancelled"}] * 2
    assert world.recording.types[-2:] == ["turn_end", "agent_end"]
    assert not world.agent.is_streaming
    legal(world.recording)


async def test_a_time_out_around_the_prompt_is_felt_as_one() -> None:
    world = two(hangs, hangs)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await world.prompt("go")

    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]
    world.model.script += [says("again")]
    assert len(await within(world.prompt("again"))) == 2


async def test_a_second_cancellation_hurries_but_pairs_all_the_same() -> None:
    """Everybody is still told; those who are not critical are no longer waited for."""
    heard: list[str] = []

    def slow(event: Any, _signal: Any) -> Any:
        heard.append(event.type)
        return never() if event.type in ("turn_end", "agent_end") else None

    world = two(hangs, gives("b"), close_timeout=60)
    world.agent.subscribe(slow)
    prompt = await started(world)
    prompt.cancel()
    await settle()
    assert heard[-1] == "turn_end"
    assert not prompt.done()

    prompt.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert heard[-2:] == ["turn_end", "agent_end"]
    assert not world.agent.is_streaming
    legal(world.recording)


async def test_the_listeners_of_a_cancelled_run_have_a_time_limit() -> None:
    world = two(hangs, hangs, close_timeout=0.01)

    async def slow(event: Any, _signal: Any) -> None:
        if event.type in ("turn_end", "agent_end"):
            await never()

    world.agent.subscribe(slow)
    prompt = await started(world)
    prompt.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    legal(world.recording)


async def test_one_fails_and_the_other_goes_on() -> None:
    gate = Gate()

    async def fails(*_: Any) -> str:
        raise ValueError("broken")

    async def waits(*_: Any) -> str:
        await gate.passed()
        return "whole"

    world = two(fails, waits)
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_end A"))
    gate.open()
    await within(prompt)

    assert result_texts(world.messages) == ["broken", "whole"]


async def test_a_time_limit_of_one_call_is_not_one_of_the_others() -> None:
    signals: dict[str, Any] = {}

    async def waits(call_id: str, _args: Any, signal: Any, _update: Any) -> str:
        signals[call_id] = signal
        await (never() if call_id == "A" else asyncio.sleep(0.03))
        return call_id

    world = two(PlainTool("A", waits, timeout=0.005), PlainTool("B", waits))
    await within(world.prompt("go"))

    assert details(world.messages)[0] == {"cutOff": True, "reason": "timeout"}
    assert result_texts(world.messages)[1] == "B"
    assert (signals["A"].aborted, signals["B"].aborted) == (True, False)


async def test_an_abort_does_not_prolong_a_grace_that_has_begun() -> None:
    loop = asyncio.get_running_loop()
    world = two(PlainTool("A", hangs, timeout=0.001), hangs, policy=replace(QUICK, abort_grace=0.1))
    begun = loop.time()
    prompt = await started(world)
    await asyncio.sleep(0.07)
    world.agent.abort()
    await within(world.recording.heard("tool_execution_end A"))
    assert loop.time() - begun < 0.165
    await within(prompt)
    assert [each["reason"] for each in details(world.messages)] == ["timeout", "aborted"]


async def test_after_a_cancellation_the_grace_of_an_abort_is_over() -> None:
    world = two(hangs, hangs, policy=replace(QUICK, abort_grace=60))
    prompt = await started(world)
    world.agent.abort()
    await settle()
    assert not prompt.done()

    prompt.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert [each["reason"] for each in details(world.messages)] == ["aborted", "aborted"]


async def test_without_a_grace_nothing_is_cut() -> None:
    gate = Gate()

    async def waits(*_: Any) -> str:
        await gate.passed()
        return "in its own time"

    world = two(waits, waits, policy=replace(PI, fault_closing="innermost first"))
    prompt = await started(world)
    world.agent.abort()
    await asyncio.sleep(0.01)
    assert not prompt.done()
    gate.open()
    await within(prompt)

    assert result_texts(world.messages) == ["in its own time"] * 2


async def test_tasks_that_a_stopping_event_loop_cancels_are_answered() -> None:
    """`asyncio.run` cancels every task at its end: tools and run at the same time."""
    world = two(hangs, hangs)
    prompt = await started(world)
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert details(world.messages) == [{"cutOff": True, "reason": "cancelled"}] * 2
    legal(world.recording)


def test_the_end_of_the_event_loop_closes_the_run() -> None:
    world: list[World] = []

    async def main() -> None:
        world.append(two(hangs, hangs))
        world[0].start("go")
        await world[0].recording.heard("tool_execution_start B")
        await settle()

    asyncio.run(main())

    assert world[0].recording.types[-1] == "agent_end"
    legal(world[0].recording)


async def test_a_call_that_is_cancelled_before_its_first_step_is_answered() -> None:
    world = two(gives("a"), gives("b"))
    prompt = world.start("go")
    await within(world.recording.heard("tool_execution_start B"))
    for task in asyncio.all_tasks():
        if task.get_name().startswith("tool "):
            task.cancel()
    await within(prompt)

    assert world.outcome.reason == "stop"
    assert len(details(world.messages)) == 2


async def test_an_abandoned_call_is_not_heard_any_more() -> None:
    foreign = Stubborn()

    async def execute(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        await foreign.wait()
        on_update("late")
        return "late"

    world = two(execute, gives("b"))
    prompt = await started(world)
    world.agent.abort()
    await within(prompt)
    told = list(world.recording.types)
    assert world.outcome.abandoned == ("tool A (A)",)

    foreign.released.set()
    await settle()

    assert world.recording.types == told


async def test_a_cancelled_error_of_the_after_hook_is_an_error_result() -> None:
    async def hook(told: Any, _signal: Any) -> AfterOverride | None:
        if told.tool_call.id == "A":
            raise asyncio.CancelledError
        return None

    world = two(gives("a"), gives("b"), after_tool_call=hook)
    await within(world.prompt("go"))

    assert result_texts(world.messages) == ["the hook was cancelled from within", "b"]


async def test_a_hanging_after_hook_is_cut_like_its_call() -> None:
    async def hook(told: Any, _signal: Any) -> None:
        await never()

    world = two(gives("a"), gives("b"), after_tool_call=hook)
    prompt = await started(world)
    world.agent.abort()
    await within(prompt)

    assert details(world.messages) == [{"cutOff": True, "reason": "aborted"}] * 2


async def test_a_tool_that_waits_for_its_own_run_is_told_so() -> None:
    world: World
    seen: list[BaseException] = []

    async def waits(*_: Any) -> str:
        try:
            await world.agent.wait_for_idle()
        except WouldDeadlock as error:
            seen.append(error)
            raise
        return "never"

    world = two(waits, waits)
    await within(world.prompt("go"))

    assert len(seen) == 2
    assert all("cannot end before" in text for text in result_texts(world.messages))


async def test_an_exit_of_one_call_cuts_the_others_within_grace() -> None:
    async def exits(*_: Any) -> str:
        raise SystemExit(3)

    world = two(exits, hangs)
    with pytest.raises(SystemExit):
        await within(world.agent.prompt("go"))

    assert [each["reason"] for each in details(world.messages)] == ["fault", "fault"]
    assert len(world.requests) == 1
    legal(world.recording)


async def test_steering_stands_behind_all_results() -> None:
    gate = Gate()

    async def waits(*_: Any) -> str:
        await gate.passed()
        return "b"

    world = two(gives("a"), waits)
    prompt = await started(world)
    world.agent.steer(user("do this instead"))
    gate.open()
    await within(prompt)

    assert [message.role for message in world.messages] == [
        "system",
        "user",
        "assistant",
        "toolResult",
        "toolResult",
        "user",
        "assistant",
    ]


async def test_a_call_that_sees_the_abort_in_its_first_step_is_not_begun_and_asks_no_hook() -> None:
    asked: list[str] = []

    async def aborts(*_: Any) -> str:
        world.agent.abort()
        return "a"

    def hook(told: Any, _signal: Any) -> None:
        asked.append(told.tool_call.id)

    world = two(aborts, gives("never"), after_tool_call=hook)
    await within(world.prompt("go"))

    assert result_texts(world.messages) == ["a", "Operation aborted"]
    assert details(world.messages)[1] == {"skipped": True, "reason": "aborted"}
    assert asked == ["A"]
    legal(world.recording)


async def test_whatever_an_abandoned_call_does_later_concerns_nobody() -> None:
    class Odd(BaseException):
        pass

    foreign = Stubborn()

    async def execute(*_: Any) -> str:
        await foreign.wait()
        raise Odd

    world = two(execute, gives("b"))
    prompt = await started(world)
    world.agent.abort()
    await within(prompt)
    assert world.outcome.abandoned == ("tool A (A)",)

    foreign.released.set()
    await settle()
    world.model.script += [says("again")]
    await within(world.prompt("again"))
    assert world.outcome.faults == ()
