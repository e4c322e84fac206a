"""Playing a recorded scenario with one fault, and what must hold afterwards, however it went."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from tests.conformance import core_agent
from tests.conformance.core_agent import queued
from tests.conformance.core_recorder import Operation
from tests.conformance.core_scenarios import LowLevel, play_tool_call
from tests.conformance.run import cases_of, default_folder
from tests.loop.fault_stage import CarefulPlayer, FaultyStage, Witness, recorded

from antiphon.core.events import AgentEvent, MessageEnd
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, calls_of
from antiphon.core.policy import Policy
from antiphon.core.trace import check_trace
from antiphon.errors import MisuseError, ProtocolError
from antiphon.loop.entry import agent_loop, agent_loop_continue, run_agent_loop, run_agent_loop_continue
from antiphon.loop.event_stream import EventStream
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import Fault, Faults, ScriptedModel, says, settle

PACKS = ("agent", "hooks", "tools", "queues", "mixed", "failures")
GRACE = 0.003
SECONDS = 4.0
"""Far above every grace: who has not returned by then hangs."""

NOT_OUTSIDE_PI = {
    "s-agent-037",
    "s-agent-038",
    "s-parallel-031",
    "s-parallel-032",
}
"""They wait for a second execution of one id, which other profiles refuse."""
ANNOUNCED_ANSWERS = {"s-agent-041", "s-agent-042", "s-agent-043"}
"""Their prompts are answers; from events alone those look like a second answer of their turn."""


def scenarios() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Id and scenario of every recorded case that these walks can play."""
    for pack in PACKS:
        path = default_folder("core") / f"{pack}.jsonl"
        if not path.exists():
            return
        for case in cases_of(path):
            if case["id"] not in NOT_OUTSIDE_PI | ANNOUNCED_ANSWERS:
                yield case["id"], case["scenario"]


def quick(policy: Policy) -> Policy:
    return replace(policy, abort_grace=GRACE)


class Play:
    """One scenario with at most one fault. `broken` says what did not hold."""

    def __init__(
        self, scenario: Mapping[str, Any], policy: Policy, fault: Fault | None = None, *, critical: bool = False
    ) -> None:
        self.scenario = scenario
        self.fault = fault
        self.critical = critical
        self.policy = quick(policy)
        self.faults = Faults(fault)
        self.stage = FaultyStage(scenario, self.faults)
        self.events: list[AgentEvent] = []
        self.broken: list[str] = []
        self.stream: EventStream[AgentEvent, RunOutcome] | None = None
        self._abort = lambda: None

    async def places(self) -> list[str]:
        """The boundaries of the scenario without a fault."""
        before = asyncio.all_tasks()
        running = asyncio.ensure_future(self._entry())
        await self._ended(running)
        places = list(self.faults.places)
        await self._nothing_left(before)
        return places

    async def run(self) -> list[str]:
        """Play, then look at what is left; what does not hold."""
        before = asyncio.all_tasks()
        running = asyncio.ensure_future(self._entry())
        self.faults.victim = running
        await self._ended(running)
        self.broken += self._how_it_returned(running)
        self.faults.release()
        await self._nothing_left(before)
        if self.stream is not None:  # who read it is gone; the run was not
            self.events += [event async for event in self.stream]
        self._legal_trace()
        return self.broken

    def _how_it_returned(self, running: asyncio.Future[Any]) -> list[str]:
        if not running.done():
            running.cancel()
            return ["it did not return"]
        cancelled = self.fault is not None and self.fault.kind == "cancel run" and self.faults.has_struck
        if running.cancelled():
            return [] if cancelled else ["it was cancelled"]
        error = running.exception()
        if error is not None:
            return [f"it raised {error!r}"]
        return ["the cancellation was swallowed"] if cancelled else []

    async def _ended(self, running: asyncio.Future[Any]) -> None:
        """Who waits because of the fault, or because the scenario went another way, is aborted."""
        for _ in range(3):
            await settle(80)
            if running.done():
                return
        deadline = asyncio.get_running_loop().time() + SECONDS
        while not running.done() and asyncio.get_running_loop().time() < deadline:
            self._abort()
            await asyncio.wait([running], timeout=GRACE)

    async def _nothing_left(self, before: set[asyncio.Task[Any]]) -> None:
        """No task of the run is alive, once those that were abandoned may go (I8)."""
        for _ in range(20):
            self._abort()
            await settle(20)
            left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
            if not left:
                return
            await asyncio.wait(left, timeout=GRACE)
            if self.fault is not None and self.fault.kind == "ignore cancel":
                for task in left:  # let go of by the run, and by now in the next wait of its scenario
                    task.cancel()
        self.broken += [f"left: {task.get_name()} {task.get_coro()!r}" for task in left]
        for task in left:
            task.cancel()

    def _legal_trace(self) -> None:
        try:
            check_trace(self.events, self.policy)
        except ProtocolError as error:
            self.broken.append(str(error))

    async def _entry(self) -> None:
        entry = self.scenario["entry"]
        if entry == "agent":
            await self._play_agent()
        elif entry == "toolCall":
            await self._play_tool_call()
        else:
            await self._play_low_level(entry)

    # -- the stateful agent ---------------------------------------------------------------------------------------

    async def _play_agent(self) -> None:
        agent = Witness(core_agent.build(self.stage, self.policy))
        agent.close_timeout = GRACE
        self._abort = self.faults.abort = agent.abort  # type: ignore[assignment]
        player = CarefulPlayer(agent, self.stage)  # type: ignore[arg-type]
        agent.subscribe(recorded(self.events, self.faults), critical=self.critical)
        self.stage.recorder.perform = player.perform_in_trigger
        try:
            for step in self.scenario["steps"]:
                await player.perform(step)
            await agent.wait_for_idle()
            await player.finish_waiting()
        finally:
            self._look_at(agent)
            await self._again(agent)

    def _look_at(self, agent: Witness) -> None:
        if agent.is_streaming:
            self.broken.append("the agent is busy")
        if agent.pending_tool_calls:
            self.broken.append("calls are pending")
        waiting = [*agent.dropped, *agent.agent.clear_all_queues()]
        for outcome in agent.outcomes:
            waiting += outcome.undelivered
            if not is_paired(outcome.new_messages):
                self.broken.append("calls without results in the outcome")
        cancelled = self.fault is not None and self.fault.kind == "cancel run"
        told = [event.message for event in self.events if isinstance(event, MessageEnd)]
        for message in agent.accepted:
            seen = sum(same(message, other) for other in (*told, *waiting))
            if seen != 1 and not (cancelled and seen == 0 and is_prepared(message)):
                self.broken.append(f"accepted once, found {seen} times: {message!r}"[:200])

    async def _again(self, agent: Witness) -> None:
        """The next prompt works without repair by the host (I14)."""
        real = agent.agent
        self.faults.plan = None
        real.stream = ScriptedModel([says("again")])
        real.limits = None
        for name in ("transform_context", "convert_to_llm", "get_api_key", "prepare_request", "prepare_next_turn"):
            setattr(real, name, None)
        real.finish_turn = real.before_tool_call = real.after_tool_call = None
        self.stage.recorder.perform = _nothing_more
        self._abort = lambda: None
        outcome = await real.prompt("again")
        if outcome.reason != "stop":
            self.broken.append(f"the next prompt ended with {outcome.reason}: {outcome.error}")

    # -- the low-level entries ------------------------------------------------------------------------------------

    async def _play_low_level(self, entry: str) -> None:
        low = LowLevel(self.stage, self.policy)
        self._abort = self.faults.abort = low.controller.abort  # type: ignore[assignment]
        config = low.config()
        config.close_timeout = GRACE
        for name in ("get_steering_messages", "get_follow_up_messages"):
            if (poll := getattr(config, name)) is not None:
                setattr(config, name, self.faults.poll(name, poll))
        heard = recorded(self.events, self.faults)

        async def emit(event: AgentEvent) -> None:
            await low.emit(event)
            await heard(event)

        context, prompts = low.context(), low.prompts()
        history = list(context.messages)
        signal = low.controller.signal
        accepted: list[Message] = list(prompts) if entry in ("run", "stream") else []
        self.stage.recorder.perform = _only_abort(low)
        try:
            if entry == "run":
                outcome = await run_agent_loop(prompts, context, config, emit, signal, self.stage.model)
            elif entry == "continue":
                outcome = await run_agent_loop_continue(context, config, emit, signal, self.stage.model)
            elif entry == "stream":
                outcome = await self._read(agent_loop(prompts, context, config, signal, self.stage.model))
            else:
                outcome = await self._read(agent_loop_continue(context, config, signal, self.stage.model))
        except MisuseError:
            return
        if list(context.messages) != history:
            self.broken.append("the caller's list was changed")
        if not is_paired(outcome.new_messages):
            self.broken.append("calls without results in the outcome")
        for message in accepted:
            if sum(same(message, other) for other in outcome.new_messages) != 1:
                self.broken.append(f"not in the outcome once: {message!r}"[:200])

    async def _read(self, stream: EventStream[AgentEvent, RunOutcome]) -> RunOutcome:
        self.stream = stream
        async for event in stream:  # no boundary: nobody waits for this reader
            self.events.append(event)
        return await stream.result()

    # -- one call -------------------------------------------------------------------------------------------------

    async def _play_tool_call(self) -> None:
        self._abort = self.faults.release  # no run, so nobody to abort: whoever waits is let go
        told = await play_tool_call(self.stage, self.policy)
        if set(told) != {"call", "result", "isError"}:
            self.broken.append(f"no outcome: {told}")


def _only_abort(low: LowLevel) -> Any:
    async def perform(operation: Operation) -> None:
        if operation["do"] == "abort":
            low.controller.abort()
        else:
            queue = low.queues["steering" if operation["do"] == "steer" else "followUp"]
            queue.add(queued(operation))

    return perform


async def _nothing_more(_operation: Operation) -> None:
    return None


def is_prepared(message: Message) -> bool:
    """Is it one of those that only an outcome could name? A cancelled run has none."""
    return isinstance(message, SystemMessage)


def same(a: Message, b: Message) -> bool:
    """One message; a system message may have been told with the true difference of the tools."""
    if isinstance(a, SystemMessage) and isinstance(b, SystemMessage):
        return a.content == b.content and a.sections == b.sections
    return a is b


def is_paired(messages: Sequence[Message]) -> bool:
    """Has every call exactly one result, directly behind its message, in call order? (I2)"""
    for place, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            wanted = [block.id for block in calls_of(message)]
            behind = messages[place + 1 : place + 1 + len(wanted)]
            if wanted != [m.tool_call_id for m in behind if isinstance(m, ToolResultMessage)]:
                return False
    return True


class Tally:
    """What a walk has played."""

    def __init__(self) -> None:
        self.scenarios: set[str] = set()
        self.faults: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self.broken: dict[str, list[str]] = {}

    def __str__(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        return (
            f"{len(self.scenarios)} scenarios, {sum(self.places.values())} boundaries, "
            f"{sum(self.faults.values())} faults ({kinds}), {len(self.broken)} broken"
        )
