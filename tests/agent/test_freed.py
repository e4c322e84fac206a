"""When a host lets go of its agent, everything goes, whatever refers to whatever.

Tools, hooks, listeners and streams often refer to their host, and keep what they are given. Values that the cycle
collector does not visit would keep such a circle for ever.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.rig import QUICK, PlainTool, never, within

from antiphon.agent import Agent
from antiphon.testing import ScriptedModel, calls, raises, says, settle

HOOKS = [
    "transform_context",
    "convert_to_llm",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "before_tool_call",
    "after_tool_call",
]


class Host:
    """Everything that an agent calls refers to it, and it keeps everything that it is told."""

    def __init__(self, *script: Any) -> None:
        self.kept: list[Any] = []
        self.model = ScriptedModel(script or [calls("A"), calls("A", "B"), says("end")])
        tools = [PlainTool(name, self.keeping(self.answer)) for name in ("A", "B")]
        hooks: dict[str, Any] = {
            name: self.keeping(self.first if name in HOOKS[:2] else self.nothing) for name in HOOKS
        }
        self.agent = Agent(stream=self.model, tools=tools, policy=QUICK, **hooks)
        self.agent.subscribe(self.keeping(self.nothing))
        self.task: asyncio.Task[Any] | None = None

    def keeping(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            self.kept.append(given)
            return answer(*given)

        return called

    async def answer(self, *_: Any) -> str:
        return "done"

    def first(self, messages: Any, *_: Any) -> Any:
        return messages

    def nothing(self, *_: Any) -> None:
        return None

    def fails(self, *_: Any) -> None:
        raise ValueError(self)

    async def hangs(self, *_: Any) -> str:
        await never()
        return "never"


async def finished(host: Host) -> None:
    host.kept.append(await within(host.agent.prompt("go")))


async def with_a_failing_hook(host: Host) -> None:
    host.agent.finish_turn = host.fails
    await finished(host)


async def with_a_failing_listener(host: Host) -> None:
    host.agent.subscribe(host.fails)
    await finished(host)


async def with_a_failing_store(host: Host) -> None:
    host.agent.subscribe(host.fails, critical=True)
    await finished(host)


async def with_a_failing_stream(host: Host) -> None:
    host.model.script[1] = raises(ValueError(host))  # type: ignore[call-overload]
    await finished(host)


async def aborted(host: Host) -> None:
    host.agent.tools = [PlainTool(name, host.hangs) for name in ("A", "B")]  # type: ignore[assignment]
    host.task = asyncio.create_task(host.agent.prompt("go"))
    await settle(40)
    host.agent.abort()
    host.kept.append(await within(host.task))


async def cancelled(host: Host) -> None:
    host.agent.tools = [PlainTool(name, host.hangs) for name in ("A", "B")]  # type: ignore[assignment]
    host.task = asyncio.create_task(host.agent.prompt("go"))
    await settle(40)
    host.task.cancel()
    await asyncio.wait([host.task])
    try:
        host.task.result()
    except asyncio.CancelledError as error:
        host.kept.append(error)


async def left_early(host: Host) -> None:
    async with host.agent.run("go") as events:
        async for event in events:
            host.kept.append(event)
            if event.type == "turn_end":
                break


@pytest.mark.parametrize(
    "use",
    [
        finished,
        with_a_failing_hook,
        with_a_failing_listener,
        with_a_failing_store,
        with_a_failing_stream,
        aborted,
        cancelled,
        left_early,
    ],
)
async def test_a_host_that_keeps_everything_is_freed(use: Callable[[Host], Any]) -> None:
    host = Host()
    await use(host)
    await settle()
    assert len(host.kept) > 3
    there = weakref.ref(host)
    del host
    for _ in range(200):  # a thread lets go of its work a moment after its result has arrived
        gc.collect()
        if there() is None:
            return
        await asyncio.sleep(0.005)
    pytest.fail("it is still there")
