"""A recorded scenario in which one thing goes wrong: everything foreign around the run is a boundary.

Built on the players of the recorded scenarios (`tests/conformance/core_*`): the same scripted model, tools, hooks,
queues and triggers, but every call of them, and every call of a listener, first arrives at a boundary of
`antiphon.testing.Faults`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tests.conformance import core_agent
from tests.conformance.core_hooks import Hooks
from tests.conformance.core_recorder import Operation
from tests.conformance.core_stage import Stage

from antiphon.agent import Agent
from antiphon.core.content import Image, Text
from antiphon.core.events import AgentEvent
from antiphon.core.messages import Message, UserMessage
from antiphon.core.ports import ModelRequest, Tool
from antiphon.core.response_events import ResponseEvent
from antiphon.errors import MisuseError
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import Faults


class FaultyStage(Stage):
    """The surroundings of a scenario, each of them with boundaries."""

    def __init__(self, scenario: Mapping[str, Any], faults: Faults) -> None:
        super().__init__(scenario)
        self.faults = faults
        catalogue = FaultyCatalogue(self.catalogue, faults)
        self.catalogue = catalogue  # type: ignore[assignment]
        self.hooks = FaultyHooks(Hooks(scenario.get("hooks", {}), catalogue, self.recorder), faults)  # type: ignore[assignment,arg-type]
        self.model = FaultyModel(self.model, faults)  # type: ignore[assignment]


class FaultyCatalogue:
    """Tools with a boundary before and behind every execution."""

    def __init__(self, catalogue: Any, faults: Faults) -> None:
        self._catalogue = catalogue
        self._faults = faults
        self._made: dict[int, Tool] = {}

    def _faulty(self, tool: Tool) -> Tool:
        return self._made.setdefault(id(tool), self._faults.tool(tool))

    @property
    def all(self) -> list[Tool]:
        return [self._faulty(tool) for tool in self._catalogue.all]

    def named(self, names: Iterable[str] | None) -> list[Tool] | None:
        found = self._catalogue.named(names)
        return None if found is None else [self._faulty(tool) for tool in found]


class FaultyHooks:
    """The installed hooks, each with a boundary."""

    def __init__(self, hooks: Hooks, faults: Faults) -> None:
        self._hooks = hooks
        self._faults = faults

    def installed(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        return {name: self._faults.hook(name, hook) for name, hook in self._hooks.installed().items()}


class FaultyModel:
    """A stream function with a boundary when it is asked, and before every event and result it gives."""

    def __init__(self, model: Any, faults: Faults) -> None:
        self._model = model
        self._faults = faults

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        await self._faults.reach("stream asked", request.signal)
        return FaultyAnswer(await self._model(request), request, self._faults)


class FaultyAnswer:
    def __init__(self, answer: Any, request: ModelRequest, faults: Faults) -> None:
        self._answer = answer
        self._request = request
        self._faults = faults

    def __aiter__(self) -> FaultyAnswer:
        return self

    async def __anext__(self) -> ResponseEvent:
        await self._faults.reach("stream", self._request.signal)
        event: ResponseEvent = await self._answer.__anext__()
        return event

    async def result(self) -> Any:
        await self._faults.reach("stream result", self._request.signal)
        return await self._answer.result()

    async def aclose(self) -> None:
        await self._faults.reach("stream closed", self._request.signal)


class Stops(Protocol):
    """Who notes when a run was told to stop."""

    def now(self) -> None: ...


class Witness:
    """An agent that remembers what it accepted and how its runs ended. Everything else is the agent.

    `returned` is called whenever a run has returned or raised.
    """

    def __init__(self, agent: Agent, returned: Callable[[], None], stops: Stops) -> None:
        vars(self).update(agent=agent, accepted=[], dropped=[], outcomes=[], _returned=returned, _stops=stops)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.agent, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.agent, name, value)

    def abort(self) -> None:
        if self.agent.is_streaming:
            self._stops.now()
        self.agent.abort()

    async def prompt(self, given: str | Message | Sequence[Message], images: Sequence[Image] = ()) -> RunOutcome:
        accepted = len(self.accepted)
        if isinstance(given, str):
            given = UserMessage(content=(Text(text=given), *images), timestamp=0)
        self.accepted += given if isinstance(given, list) else [given]
        try:
            return await self._noted(self.agent.prompt(given))
        except MisuseError:
            del self.accepted[accepted:]
            raise

    async def continue_(self) -> RunOutcome:
        return await self._noted(self.agent.continue_())

    async def _noted(self, run: Awaitable[RunOutcome]) -> RunOutcome:
        try:
            outcome = await run
        except MisuseError:
            raise
        except BaseException:
            self._returned()
            raise
        self._returned()
        self.outcomes.append(outcome)
        return outcome

    def steer(self, message: Message) -> str:
        self.accepted.append(message)
        return self.agent.steer(message)

    def follow_up(self, message: Message) -> str:
        self.accepted.append(message)
        return self.agent.follow_up(message)

    def clear_steering_queue(self) -> tuple[Message, ...]:
        return self._noted_dropped(self.agent.clear_steering_queue())

    def clear_follow_up_queue(self) -> tuple[Message, ...]:
        return self._noted_dropped(self.agent.clear_follow_up_queue())

    def clear_all_queues(self) -> tuple[Message, ...]:
        return self._noted_dropped(self.agent.clear_all_queues())

    def reset(self) -> None:
        waiting = [] if self.agent.is_streaming else self.agent.clear_all_queues()
        self.agent.reset()
        self.dropped.extend(waiting)

    def _noted_dropped(self, dropped: tuple[Message, ...]) -> tuple[Message, ...]:
        self.dropped.extend(dropped)
        return dropped


class CarefulPlayer(core_agent.Player):
    """Performs the steps of a scenario. What a trigger does to a run that is over already is left out."""

    async def perform_in_trigger(self, operation: Operation) -> None:
        if operation["do"] in core_agent.AWAITED and not self._agent.is_streaming:
            return
        await super().perform_in_trigger(operation)


def recorded(into: list[AgentEvent], faults: Faults) -> Callable[..., Awaitable[None]]:
    """A listener that keeps what it hears, and is a boundary."""
    return faults.listener(into.append)
