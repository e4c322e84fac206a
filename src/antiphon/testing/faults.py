"""Things that go wrong at one chosen moment: for tests that walk through every moment of a run.

A boundary is a moment at which a run hands control to foreign code: a listener is called, a hook is called, a stream is
asked for its next event, a tool begins or ends, a queue is polled. Boundaries are numbered from 1 in the order in which
they are reached. A walk first plays the scene without a fault to count them, then once per boundary and kind of fault:

    for fault in faults_of(await places_of(scene)):
        await scene(Faults(fault))
        ...  # what must hold however the run ended
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final, get_args

from antiphon.core.events import AgentEvent
from antiphon.core.ports import AbortSignal, ModelRequest, ModelStream, OnUpdate, Tool
from antiphon.core.response_events import ResponseEvent
from antiphon.core.wire import JsonObject
from antiphon.testing.gate import Gate

FaultKind: TypeAlias = Literal["raise", "hang", "ignore signal", "ignore cancel", "cancelled", "cancel run", "abort"]
ALL_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)


class InjectedFault(Exception):  # named like the other faults of the project
    """What foreign code raises at the chosen boundary. The text names the place."""


@final
@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at boundary number `at`.

    `raise`: an error; `hang`: waits until the abort signal, then goes on; `ignore signal`: waits until it is cancelled;
    `ignore cancel`: swallows cancellation too, until `Faults.release()`; `cancelled`: raises a CancelledError of its
    own although nobody cancelled it; `cancel run`: the task that awaits the run is cancelled from outside; `abort`: the
    run is aborted, and the code goes on.
    """

    at: int
    kind: FaultKind = "raise"
    error: BaseException | None = None


@final
class Faults:
    """Counts boundaries and lets one fault happen. Without a plan it only counts: `places` is what there is to break.

    `abort` and `victim` are set by whoever knows the run (`World` does): how to abort it, and the task that awaits it.
    """

    def __init__(self, plan: Fault | None = None) -> None:
        self.plan = plan
        self.places: list[str] = []
        self.abort: Callable[[], object] | None = None
        self.victim: asyncio.Task[Any] | None = None
        self._struck = Gate()
        self._released = Gate()

    @property
    def has_struck(self) -> bool:
        """Was the chosen boundary reached?"""
        return self._struck.is_open

    async def struck(self) -> None:
        """Returns when the chosen boundary has been reached."""
        await self._struck.passed()

    def release(self) -> None:
        """Let everything go on that a fault keeps waiting."""
        self._released.open()

    async def reach(self, place: str, signal: AbortSignal | None = None) -> None:
        """Arrive at a boundary; if it is the chosen one, the fault happens here.

        Raises:
            InjectedFault: kind `raise` (or the error that the plan gives).
            asyncio.CancelledError: kind `cancelled`.
        """
        self.places.append(place)
        plan = self.plan
        if plan is None or len(self.places) != plan.at:
            return
        self._struck.open()
        await self._strike(plan, place, signal)

    async def _strike(self, plan: Fault, place: str, signal: AbortSignal | None) -> None:
        match plan.kind:
            case "raise":
                raise plan.error or InjectedFault(f"injected at {place}")
            case "hang":
                await self._until_aborted_or_released(signal)
            case "ignore signal":
                await self._released.passed()
            case "ignore cancel":
                await self._until_released_whatever_happens()
            case "cancelled":
                raise asyncio.CancelledError(f"injected at {place}")
            case "cancel run":
                if self.victim is not None:
                    self.victim.cancel()
            case "abort":
                if self.abort is not None:
                    self.abort()

    async def _until_aborted_or_released(self, signal: AbortSignal | None) -> None:
        waiting = [asyncio.ensure_future(self._released.passed())]
        if signal is not None:
            waiting.append(asyncio.ensure_future(signal.wait()))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _until_released_whatever_happens(self) -> None:
        while not self._released.is_open:
            try:
                await self._released.passed()
            except asyncio.CancelledError:
                continue  # the point of this fault: cancellation is swallowed

    def listener(self, heard: Callable[[AgentEvent], object] | None = None) -> Callable[..., Awaitable[None]]:
        """A listener that reaches a boundary at every event; `heard` is told about the event first."""

        async def listen(event: AgentEvent, signal: AbortSignal | None = None) -> None:
            if heard is not None:
                heard(event)
            await self.reach(f"listener {event.type}", signal)

        return listen

    def hook(self, name: str, answer: Callable[..., Any] | None = None) -> Callable[..., Awaitable[Any]]:
        """A hook that reaches a boundary at every call, then answers as `answer` does (None without one)."""

        async def hooked(*given: Any) -> Any:
            signal = next((item for item in given if hasattr(item, "on_abort")), None)
            await self.reach(f"hook {name}", signal)
            if answer is None:
                return None
            answered = answer(*given)
            return await answered if inspect.isawaitable(answered) else answered

        return hooked

    def poll(self, name: str, take: Callable[[], Any] | None = None) -> Callable[..., Awaitable[Any]]:
        """A poll callback that reaches a boundary at every poll; `take` gives the messages."""
        return self.hook(f"poll {name}", take)

    def stream(self, model: ModelStream) -> ModelStream:
        """The same model with a boundary when it is asked and before every event it gives."""

        async def streamed(request: ModelRequest) -> AsyncIterator[ResponseEvent]:
            await self.reach("stream asked", request.signal)
            given = model(request)
            events = await given if inspect.isawaitable(given) else given
            try:
                async for event in events:
                    await self.reach(f"stream {event.type}", request.signal)
                    yield event
            finally:
                if (close := getattr(events, "aclose", None)) is not None:
                    await close()

        return streamed

    def tool(self, tool: Tool) -> Tool:
        """The same tool with a boundary before and behind every execution."""
        return FaultyTool(tool, self)


@final
class FaultyTool:
    """A tool that reaches a boundary before and behind every execution; all else is the tool it wraps."""

    def __init__(self, tool: Tool, faults: Faults) -> None:
        self._tool = tool
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    @property
    def name(self) -> str:
        return self._tool.name

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def parameters(self) -> JsonObject:
        return self._tool.parameters

    async def execute(self, call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> Any:
        """Execute the wrapped tool between two boundaries. A plain function runs in a thread, as it would in a run."""
        await self._faults.reach(f"tool {call_id} begins", signal)
        execute = self._tool.execute
        if inspect.iscoroutinefunction(execute):
            result = await execute(call_id, args, signal, on_update)
        else:
            result = await asyncio.to_thread(execute, call_id, args, signal, on_update)
            result = await result if inspect.isawaitable(result) else result
        await self._faults.reach(f"tool {call_id} ends", signal)
        return result


Scene: TypeAlias = Callable[[Faults], Awaitable[object]]


async def places_of(scene: Scene) -> list[str]:
    """Every boundary of a scene that is played without a fault, in order: the n-th one has number n."""
    faults = Faults()
    await scene(faults)
    return faults.places


def faults_of(places: Sequence[str], kinds: Iterable[FaultKind] = ALL_KINDS) -> Iterator[Fault]:
    """One fault per boundary and kind."""
    wanted = tuple(kinds)
    for number in range(1, len(places) + 1):
        for kind in wanted:
            yield Fault(number, kind)
