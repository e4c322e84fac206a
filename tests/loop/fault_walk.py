"""Playing a recorded scenario with one fault, and what must hold afterwards, however it went."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.conformance import core_agent
from tests.conformance.core_agent import queued
from tests.conformance.core_recorder import Operation
from tests.conformance.core_scenarios import LowLevel, play_tool_call
from tests.conformance.run import cases_of, default_folder
from tests.loop.fault_stage import CarefulPlayer, FaultyStage, Witness, recorded
from tests.loop.virtual_loop import Stuck, in_virtual_time, quiet

from antiphon.core.events import AgentEvent, MessageEnd
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, calls_of
from antiphon.core.policy import Policy
from antiphon.core.trace import check_trace
from antiphon.errors import MisuseError, ProtocolError
from antiphon.loop.entry import agent_loop, agent_loop_continue, run_agent_loop, run_agent_loop_continue
from antiphon.loop.event_stream import EventStream
from antiphon.loop.leash import PULL_EVERY
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import ALL_KINDS, Fault, Faults, ScriptedModel, faults_of, says

PACKS = ("agent", "hooks", "tools", "queues", "mixed", "failures")
CLOSE_TIMEOUT = 5.0
"""Seconds that closing a cancelled run may take: the default of the agent."""

PULLING = 10 * PULL_EVERY
"""Far more than it takes to let go of code that ignores its cancellation, in seconds."""

UNTIL_QUIET = 0.001
"""Seconds in which nothing of the loop is due: who has not returned by then waits for something."""

FOR_EVER = 600.0
"""Seconds after which nobody will return any more."""

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


def places_in(scenario: Mapping[str, Any], policy: Policy) -> list[str]:
    """The boundaries of a scenario that is played without a fault."""
    play = Play(scenario, policy)
    broken = in_virtual_time(play.run())
    assert broken == [], "it does not even hold without a fault"
    return play.places


def broken_by(
    scenario: Mapping[str, Any], policy: Policy, fault: Fault, *, critical: bool = False
) -> tuple[list[str], bool]:
    """What does not hold after a scenario with this fault, and whether the fault happened at all.

    `critical`: the listener that is a boundary is one whose failure ends the run.
    """
    play = Play(scenario, policy, fault, critical=critical)
    try:
        broken = in_virtual_time(play.run())
    except Stuck as stuck:
        broken = [f"everybody waits: {stuck}"]
    return broken, play.faults.has_struck


def plays_in(scenario: Mapping[str, Any], policy: Policy) -> Iterator[tuple[str, Fault, bool]]:
    """Every fault that the walk tries in a scenario: its place, and whether the listener there is critical."""
    places = places_in(scenario, policy)
    for fault in faults_of(places, ALL_KINDS):
        place = places[fault.at - 1]
        yield place, fault, False
        if fault.kind == "raise" and place.startswith("listener"):
            yield place, fault, True


class Stopped:
    """When the run was told to stop, and how long it then took to return."""

    def __init__(self) -> None:
        self.at: float | None = None
        self.cancelled = False

    def now(self, *, cancelled: bool = False) -> None:
        if self.at is None:
            self.at = asyncio.get_running_loop().time()
        self.cancelled |= cancelled

    def too_late(self, policy: Policy) -> list[str]:
        """Has a run that ended just now taken longer than it may? The next one was not told to stop."""
        at, self.at = self.at, None
        if at is None or policy.abort_grace is None:
            return []
        allowed = policy.abort_grace + PULLING + (CLOSE_TIMEOUT if self.cancelled else 0.0)
        took = asyncio.get_running_loop().time() - at
        return [] if took <= allowed else [f"it returned {took:.2f} s after it was told to stop"]


class Victim:
    """The task that awaits the run, for who cancels it."""

    def __init__(self, task: asyncio.Task[None], stopped: Stopped) -> None:
        self._task = task
        self._stopped = stopped

    def cancel(self) -> None:
        self._stopped.now(cancelled=True)
        self._task.cancel()


class Play:
    """One scenario with at most one fault. `broken` says what did not hold."""

    def __init__(
        self, scenario: Mapping[str, Any], policy: Policy, fault: Fault | None = None, *, critical: bool = False
    ) -> None:
        self.scenario = scenario
        self.fault = fault
        self.kind = None if fault is None else fault.kind
        self.critical = critical
        self.policy = policy
        self.faults = Faults(fault)
        self.stage = FaultyStage(scenario, self.faults)
        self.events: list[AgentEvent] = []
        self.broken: list[str] = []
        self.stopped = Stopped()
        self.places: list[str] = []
        self.stream: EventStream[AgentEvent, RunOutcome] | None = None
        self._stops: Callable[[], object] = lambda: None

    async def run(self) -> list[str]:
        """Play, then look at what is left; what does not hold."""
        running = asyncio.ensure_future(self._entry())
        self.faults.abort = self._abort
        self.faults.victim = Victim(running, self.stopped)  # type: ignore[assignment]
        await self._ended(running)
        self._note_places()
        self.broken += self._how_it_returned(running)
        if self.stream is not None:  # who read it may be gone; the run is not
            await self._ended(asyncio.ensure_future(self._rest_of(self.stream)))
        await self._nothing_left()
        self._legal_trace()
        return self.broken

    def _abort(self) -> None:
        self.stopped.now()
        self._stops()

    def _note_places(self) -> None:
        self.places = self.places or list(self.faults.places)

    def _how_it_returned(self, running: asyncio.Future[Any]) -> list[str]:
        if not running.done():
            running.cancel()
            return ["it did not return"]
        cancelled = self.kind == "cancel run" and self.faults.has_struck
        if running.cancelled():
            return [] if cancelled else ["it was cancelled"]
        error = running.exception()
        if error is not None:
            return [f"it raised {error!r}"]
        return ["the cancellation was swallowed"] if cancelled else []

    async def _rest_of(self, stream: EventStream[AgentEvent, RunOutcome]) -> None:
        self.events += [event async for event in stream]

    async def _ended(self, running: asyncio.Future[Any]) -> None:
        """Who waits because of the fault, or because the scenario went another way, is aborted."""
        await asyncio.wait([running], timeout=UNTIL_QUIET)
        while not running.done() and asyncio.get_running_loop().time() < FOR_EVER:
            self._abort()
            await asyncio.wait([running], timeout=1.0)

    async def _nothing_left(self) -> None:
        """No task of the run is alive (I8). Only what swallowed its cancellation lives until it may go."""
        await quiet()
        if self.kind == "ignore cancel":
            self.faults.release()
            await quiet()
            for task in others():  # let go of by the run, and by now in the next wait of its scenario
                task.cancel()
            await quiet()
        self.broken += [f"left: {task.get_name()} {task.get_coro()!r}" for task in others()]

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
        agent = Witness(core_agent.build(self.stage, self.policy), self._returned, self.stopped)
        agent.close_timeout = CLOSE_TIMEOUT
        self._stops = agent.abort
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
            self._note_places()
            await self._again(agent)

    def _returned(self) -> None:
        self.broken += self.stopped.too_late(self.policy)

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
        cancelled = self.kind == "cancel run"
        told = [event.message for event in self.events if isinstance(event, MessageEnd)]
        for message in agent.accepted:
            seen = sum(same(message, other) for other in (*told, *waiting))
            if seen != 1 and not (cancelled and seen == 0 and is_prepared(message)):
                self.broken.append(f"accepted once, found {seen} times: {message!r}"[:200])

    async def _again(self, agent: Witness) -> None:
        """The next prompt works without repair by the host (I14). Its boundaries are none of the scenario."""
        real = agent.agent
        self.faults.plan = None
        real.stream = ScriptedModel([says("again")])
        real.limits = None
        for name in ("transform_context", "convert_to_llm", "get_api_key", "prepare_request", "prepare_next_turn"):
            setattr(real, name, None)
        real.finish_turn = real.before_tool_call = real.after_tool_call = None
        self.stage.recorder.perform = _nothing_more
        self._stops = lambda: None
        outcome = await real.prompt("again")
        if outcome.reason != "stop":
            self.broken.append(f"the next prompt ended with {outcome.reason}: {outcome.error}")

    # -- the low-level entries ------------------------------------------------------------------------------------

    async def _play_low_level(self, entry: str) -> None:
        low = LowLevel(self.stage, self.policy)
        self._stops = low.controller.abort
        config = low.config()
        config.close_timeout = CLOSE_TIMEOUT
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
        self.stage.recorder.perform = _only_abort(low, self._abort)
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
        finally:
            self._returned()
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
        self._stops = self.faults.release  # no run, so nobody to abort: whoever waits is let go
        told = await play_tool_call(self.stage, self.policy)
        if set(told) != {"call", "result", "isError"}:
            self.broken.append(f"no outcome: {told}")


def _only_abort(low: LowLevel, abort: Callable[[], None]) -> Any:
    async def perform(operation: Operation) -> None:
        if operation["do"] == "abort":
            abort()
        else:
            queue = low.queues["steering" if operation["do"] == "steer" else "followUp"]
            queue.add(queued(operation))

    return perform


def others() -> list[asyncio.Task[Any]]:
    """Every task of this event loop but the one that asks."""
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


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
    """What a walk has played. A fault that a play did not come to (another one of its kind did) is not counted."""

    def __init__(self) -> None:
        self.scenarios: set[str] = set()
        self.faults: Counter[tuple[str, str]] = Counter()
        self.broken: dict[str, list[str]] = {}

    def walk(
        self, case: str, scenario: Mapping[str, Any], policy: Policy, plays: Iterable[tuple[str, Fault, bool]]
    ) -> None:
        """Play these faults of one scenario."""
        for place, fault, critical in plays:
            broken, struck = broken_by(scenario, policy, fault, critical=critical)
            kind = f"{fault.kind}, critical" if critical else fault.kind
            if not struck:
                broken.append("the fault did not happen")
            self.scenarios.add(case)
            self.faults[kind_of(place), kind] += 1
            if broken:
                self.broken[f"{case} {place} ({fault.at}) {kind}"] = broken

    @property
    def total(self) -> int:
        return sum(self.faults.values())


def kind_of(place: str) -> str:
    """A place without the call it belongs to."""
    return re.sub(r"^tool .* (begins|ends)$", r"tool \1", place)
