"""Other threads, and signal handlers, may queue messages and abort. The loop of the run hears it at once."""

from __future__ import annotations

import asyncio
import selectors
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from antiphon import Agent
from antiphon.core.messages import user
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import CallScript, ScriptedModel, ScriptedTool, calls, says


class Watched(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    """Says when its loop falls asleep: nothing but a file or a far timer will wake it."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = threading.Event()

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout > 1:
            self.asleep.set()
        return super().select(timeout)


def outcome_of(agent: Agent, selector: Watched, act: Callable[[], None]) -> RunOutcome:
    """Prompt, let another thread act when the loop sleeps, and wait for the end."""

    def acts() -> None:
        assert selector.asleep.wait(20)
        act()

    async def main() -> RunOutcome:
        thread = threading.Thread(target=acts)
        thread.start()
        outcome = await asyncio.wait_for(agent.prompt("go"), 20)
        thread.join()
        return outcome

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main())


def waiting_agent() -> Agent:
    """Its tool waits until it is aborted."""
    script = CallScript()
    script.hold("A")
    return Agent(stream=ScriptedModel([calls("A"), says("end")]), tools=[ScriptedTool("A", script)])


def test_an_abort_from_another_thread_wakes_the_loop() -> None:
    agent = waiting_agent()
    outcome = outcome_of(agent, Watched(), lambda: agent.abort("enough"))

    assert (outcome.reason, outcome.abort_reason) == ("aborted", "enough")
    assert not agent.is_streaming


def test_an_abort_out_of_a_signal_handler_wakes_the_loop() -> None:
    """A plain handler runs between two instructions of the main thread; then the loop sleeps on."""
    agent = waiting_agent()
    before = signal.signal(signal.SIGUSR1, lambda *_: agent.abort("told by a signal"))
    try:
        main = threading.main_thread().ident or 0
        outcome = outcome_of(agent, Watched(), lambda: signal.pthread_kill(main, signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert (outcome.reason, outcome.abort_reason) == ("aborted", "told by a signal")


def test_an_abort_when_the_loop_of_the_run_is_gone_does_nothing() -> None:
    agent, kept = waiting_agent(), []

    def keep() -> None:
        kept.append(agent._active)
        agent.abort()

    outcome_of(agent, Watched(), keep)
    kept[0].abort("too late")
    agent.abort("nothing runs")

    assert agent.messages[-1].role == "toolResult"


def test_another_event_loop_can_wait_for_the_end_of_a_run() -> None:
    agent, waits, heard = waiting_agent(), threading.Event(), []

    async def wait() -> None:
        waiting = asyncio.ensure_future(agent.wait_for_idle())
        left = asyncio.ensure_future(agent.wait_for_idle())
        await asyncio.sleep(0)
        left.cancel()
        waits.set()
        await waiting
        heard.append(agent.is_streaming)

    def act() -> None:
        other = threading.Thread(target=lambda: asyncio.run(wait()))
        other.start()
        assert waits.wait(20)
        agent.abort()
        other.join()

    outcome_of(agent, Watched(), act)
    assert heard == [False]


def test_a_run_whose_loop_is_gone_is_waited_for_no_longer() -> None:
    agent, kept = waiting_agent(), []

    def keep() -> None:
        kept.append(agent._active)
        agent.abort()

    outcome_of(agent, Watched(), keep)
    asyncio.run(kept[0].released_elsewhere())


@pytest.mark.parametrize("queue", ["steer", "follow_up"])
def test_nothing_is_lost_that_many_threads_queue_at_once(queue: str) -> None:
    agent = Agent(stream=ScriptedModel([]))
    together = threading.Barrier(8)
    ids: list[str] = []

    def pushes(name: int) -> None:
        together.wait()
        ids.extend(getattr(agent, queue)(user(f"{name} {n}")) for n in range(200))

    threads = [threading.Thread(target=pushes, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(agent.clear_all_queues()) == len(set(ids)) == 1_600
