"""What a run costs does not grow with the conversation: bytecodes and memory are counted, not time.

Two counts, because each is blind in one eye. Bytecodes see every loop that is written in Python, to the last step; a
copy of a list is one bytecode, but it takes memory.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from tests.loop.rig import PlainTool

import antiphon
from antiphon.agent import Agent
from antiphon.core.events import AgentEvent
from antiphon.core.messages import Message, user
from antiphon.core.policy import RunLimits
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.transcript import Transcript
from antiphon.testing import Answer, call, calls, says
from antiphon.testing.script import SCRIPTED_MODEL, events_of

PACKAGE = str(Path(antiphon.__file__).parent)
SMALL, LARGE = 100, 10_000
WORD = 8
"""Bytes of one reference in a list."""


class Count:
    bytecodes = 0
    peak_bytes = 0


@contextmanager
def counted() -> Iterator[Count]:
    """Counts the bytecodes that run in the package meanwhile."""
    count = Count()
    with _watched_by_monitoring(count) if sys.version_info >= (3, 12) else _watched_by_tracing(count):
        yield count


@contextmanager
def _watched_by_tracing(count: Count) -> Iterator[None]:
    def look(frame: FrameType, event: str, _arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "opcode":
            count.bytecodes += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


@contextmanager
def _watched_by_monitoring(count: Count) -> Iterator[None]:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]  # from Python 3.12 on

    def look(code: CodeType, _offset: int) -> Any:
        if not code.co_filename.startswith(PACKAGE):
            return monitoring.DISABLE
        count.bytecodes += 1
        return None

    tool = monitoring.DEBUGGER_ID
    monitoring.use_tool_id(tool, "costs")
    monitoring.register_callback(tool, monitoring.events.INSTRUCTION, look)
    monitoring.set_events(tool, monitoring.events.INSTRUCTION)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


@contextmanager
def weighed() -> Iterator[Count]:
    """Measures the most memory that was taken meanwhile."""
    count = Count()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    try:
        yield count
    finally:
        count.peak_bytes = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()


class Model:
    """Answers with a script and does not look at what it is asked."""

    def __init__(self, *script: Answer) -> None:
        self._script = list(script)
        self._at = 0

    def again(self) -> None:
        self._at = 0

    def __call__(self, _request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        events = events_of(self._script[self._at % len(self._script)], SCRIPTED_MODEL)
        self._at += 1
        return play(events)


async def play(events: list[ResponseEvent]) -> AsyncIterator[ResponseEvent]:
    for event in events:
        yield event


async def execute(*_: Any) -> str:
    return "done"


def talkative(size: int) -> list[Message]:
    return [user(f"message {number}") for number in range(size)]


def agent_with(size: int, *script: Answer, names: tuple[str, ...] = ("A", "B"), **options: Any) -> Agent:
    """An agent behind a conversation of this size; what is done once for a conversation has been done."""
    return Agent(
        stream=Model(*script),
        messages=talkative(size),
        tools=[PlainTool(name, execute) for name in names],
        **options,
    )


async def prompted_twice(agent: Agent, measure: Callable[[], Any]) -> Count:
    """What the second prompt takes."""
    await agent.prompt("first")
    agent.stream.again()  # type: ignore[attr-defined]
    with measure() as count:
        await agent.prompt("second")
    result: Count = count
    return result


SCRIPT = (says("Let me ", "look. ") + calls("A", "B"), call("A"), says("That ", "is it."))


def nothing(_event: AgentEvent, _signal: Any) -> None:
    return None


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limits": {"limits": RunLimits(max_turns=9, max_tool_calls=99, max_tokens=10**9, repeat_limit=9)},
    "hooks": {
        "finish_turn": lambda *_: None,
        "prepare_request": lambda *_: None,
        "prepare_next_turn": lambda *_: None,
        "before_tool_call": lambda *_: None,
        "after_tool_call": lambda *_: None,
    },
    "sequential": {"tool_execution": "sequential"},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("listeners", [0, 1, 2])
async def test_a_prompt_runs_the_same_bytecodes_behind_100_and_behind_10_000_messages(
    variant: str, listeners: int
) -> None:
    counts = []
    for size in (SMALL, LARGE):
        agent = agent_with(size, *SCRIPT, **VARIANTS[variant])
        for _ in range(listeners):
            agent.subscribe(nothing)
        counts.append((await prompted_twice(agent, counted)).bytecodes)

    assert counts[0] == counts[1] > 1_000


async def test_a_prompt_takes_the_same_memory_behind_100_and_behind_10_000_messages() -> None:
    """A list may grow once in a while; a copy of the conversation would show at every prompt."""
    taken = {}
    for size in (SMALL, LARGE):
        agent = agent_with(size, *SCRIPT)
        agent.subscribe(nothing)
        await prompted_twice(agent, counted)
        agent.stream.again()  # type: ignore[attr-defined]
        with weighed() as count:
            await agent.prompt("third")
        taken[size] = count.peak_bytes

    assert taken[LARGE] - taken[SMALL] < LARGE * WORD / 4


@pytest.mark.parametrize("reads", [False, True], ids=["unread", "read at every delta"])
async def test_a_delta_costs_the_same_however_much_has_arrived(reads: bool) -> None:
    def read(event: AgentEvent, _signal: Any) -> None:
        if event.type == "message_update":
            _ = event.message.content

    counts = []
    for deltas in (200, 400, 600):
        agent = agent_with(SMALL, says(*["word "] * deltas))
        agent.subscribe(read if reads else nothing)
        counts.append((await prompted_twice(agent, counted)).bytecodes)

    assert counts[2] - counts[1] == counts[1] - counts[0] > 0


async def test_a_batch_costs_in_proportion_to_its_calls() -> None:
    counts = []
    for size in (20, 40, 60):
        names = tuple(f"tool{number}" for number in range(size))
        agent = agent_with(SMALL, calls(*names), says("end"), names=names)
        agent.tool_execution = "sequential"  # without tasks, whose steps come in an order of their own
        counts.append((await prompted_twice(agent, counted)).bytecodes)

    first, second = counts[1] - counts[0], counts[2] - counts[1]
    assert abs(second - first) < first / 20


async def test_finding_a_tool_does_not_depend_on_how_many_there_are() -> None:
    counts = []
    for size in (10, 1_000):
        names = tuple(f"tool{number}" for number in range(size))
        agent = agent_with(SMALL, calls(names[-1]), says("end"), names=names)
        counts.append((await prompted_twice(agent, counted)).bytecodes)

    assert counts[0] == counts[1]


def test_queues_take_and_give_at_the_same_price_however_long_they_are() -> None:
    counts = []
    for size in (SMALL, LARGE):
        agent = agent_with(1, says("x"))
        for number in range(size):
            agent.steer(user(f"steer {number}"))
            agent.follow_up(user(f"follow {number}"))
        with counted() as count:
            agent.steer(user("one more"))
            agent.follow_up(user("one more"))
            assert agent.peek_queued_messages() == (user("steer 0"),)
            assert agent.has_queued_messages
            assert agent._queues.poll_steering() == (user("steer 0"),)
            agent._queues.commit_all() if hasattr(agent._queues, "commit_all") else None
            agent._queues.delivered()
        counts.append(count.bytecodes)

    assert counts[0] == counts[1]


def test_appending_and_looking_at_a_transcript_cost_the_same() -> None:
    counts, taken = [], []
    for size in (SMALL, LARGE):
        transcript = Transcript(talkative(size)).append(user("x"))
        with counted() as count:
            longer = transcript.append(user("y"))
            snapshot = Transcript(longer)
            assert (len(snapshot), snapshot[-1], snapshot == longer) == (size + 2, user("y"), True)
            assert not snapshot.has_host_messages
        counts.append(count.bytecodes)
        with weighed() as weight:
            Transcript(longer.append(user("z")))
        taken.append(weight.peak_bytes)

    assert counts[0] == counts[1]
    assert taken[1] - taken[0] < LARGE * WORD / 4


async def test_an_abort_costs_the_same_behind_any_conversation() -> None:
    counts = []
    for size in (SMALL, LARGE):
        agent = agent_with(size, *SCRIPT)
        await agent.prompt("first")
        agent.stream.again()  # type: ignore[attr-defined]

        def aborts(event: AgentEvent, _signal: Any, agent: Agent = agent) -> None:
            if event.type == "tool_execution_start":
                agent.abort()

        agent.subscribe(aborts)
        with counted() as count:
            outcome = await agent.prompt("second")
        assert outcome.reason == "aborted"
        counts.append(count.bytecodes)

    assert counts[0] == counts[1]


async def test_without_listeners_and_hooks_a_run_switches_to_no_other_task() -> None:
    """12: the whole prompt happens in one step of its coroutine."""
    agent = agent_with(SMALL, calls("A"), says("Hel", "lo"))
    switched: list[str] = []
    asyncio.get_running_loop().call_soon(switched.append, "switched")

    running = agent.prompt("go")
    with pytest.raises(StopIteration) as ended:
        running.send(None)

    assert ended.value.value.final_text == "Hello"
    assert switched == []


async def test_plain_listeners_and_hooks_switch_to_no_other_task_either() -> None:
    agent = agent_with(SMALL, calls("A"), says("Hello"), **VARIANTS["hooks"])
    agent.subscribe(nothing)
    agent.subscribe(nothing, critical=True)

    running = agent.prompt("go")
    with pytest.raises(StopIteration):
        running.send(None)
