"""Every combination that the decision table of the course speaks of, and how a loop fares in it.

Stop reason x calls x abort x limit. An abort strikes at one of the moments at which it can make a difference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, user
from antiphon.core.ports import AbortSignal
from antiphon.course.loop_types import (
    AgentContext,
    AgentLoopOptions,
    AgentRunResult,
    LoopEvent,
)
from antiphon.course.ports import ModelRequest
from antiphon.course.scripted_model import ScriptedModel
from antiphon.loop.abort import AbortController

Run = Callable[[AgentLoopOptions], Awaitable[AgentRunResult]]

STOP_REASONS = ("stop", "deferred", "toolUse", "length", "error", "aborted", "pending")
BATCHES: dict[str, tuple[str, ...]] = {
    "no call": (),
    "one call": ("a",),
    "two calls": ("a", "b"),
    "three calls": ("a", "b", "c"),
    "one id twice": ("a", "a", "b"),
    "a call that fails": ("raises",),
    "one of two fails": ("raises", "b"),
    "a wrong answer": ("wrong id", "b", "no result"),
}
ABORTS = ("never", "before the start", "while the model answers", "told the answer", "in a tool", "told an end")
LIMITS = (None, 1, 2)
TIMES = ("at once", "in turn", "backwards")


@dataclass(frozen=True)
class Case:
    """One combination. `times`: when calls of a batch finish."""

    stop_reason: str
    batch: str
    abort: str
    limit: int | None
    times: str = "at once"

    def __str__(self) -> str:
        return f"{self.stop_reason}, {self.batch}, abort {self.abort}, limit {self.limit}, {self.times}"


def all_cases() -> Iterator[Case]:
    """The whole enumeration. How long tools take only matters where tools run."""
    for reason, batch, abort, limit in product(STOP_REASONS, BATCHES, ABORTS, LIMITS):
        for times in TIMES if reason == "toolUse" and len(BATCHES[batch]) > 1 else TIMES[:1]:
            yield Case(reason, batch, abort, limit, times)


class Tools:
    """Tool definitions of which there are none."""

    def definitions(self) -> tuple[()]:
        return ()


@dataclass
class Played:
    """What a loop did with a case."""

    events: list[LoopEvent] = field(default_factory=list[LoopEvent])
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    executed: list[str] = field(default_factory=list[str])
    result: AgentRunResult | None = None


class Stage:
    """The outside of one run: a scripted model, an executor, and an abort at the chosen moment."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.played = Played()
        self.controller = AbortController()
        calls = tuple(ToolCall(id=i, name="work", arguments={"n": n}) for n, i in enumerate(BATCHES[case.batch]))
        answer = AssistantMessage(
            content=(Text(text="Let me see."), *calls),
            stop_reason=case.stop_reason,  # type: ignore[arg-type]
            **({"error_message": "overloaded"} if case.stop_reason == "error" else {}),
        )
        self.model = ScriptedModel([lambda request: self._first(answer), "Done."])
        self.turns = 0

    def _first(self, answer: AssistantMessage) -> AssistantMessage:
        self._abort_if("while the model answers")
        return answer

    def _abort_if(self, moment: str) -> None:
        if self.case.abort == moment:
            self.controller.abort(moment)

    async def executor(self, call: ToolCall, /, *, signal: AbortSignal, report_progress: Any) -> Any:
        self.played.executed.append(call.id)
        report_progress(f"{call.id} begins")
        self._abort_if("in a tool")
        waits = {"at once": 0, "in turn": 1 + call.arguments["n"], "backwards": 5 - call.arguments["n"]}
        for _ in range(waits[self.case.times]):
            await asyncio.sleep(0)
        report_progress(f"{call.id} goes on")
        if call.id == "raises":
            raise RuntimeError("out of paper")
        if call.id == "no result":
            return None
        named = "another" if call.id == "wrong id" else call.id
        return ToolResultMessage(
            tool_call_id=named, tool_name=call.name, content=(Text(text=f"ok {call.id}"),), is_error=False
        )

    def emit(self, event: LoopEvent) -> None:
        self.played.events.append(event)
        if event.type == "assistant_message":
            self._abort_if("told the answer")
        if event.type == "tool_end":
            self._abort_if("told an end")

    async def play(self, run: Run) -> Played:
        self._abort_if("before the start")
        options = AgentLoopOptions(
            context=AgentContext("Be brief.", (user("go"),)),
            model=self.model,
            tools=Tools(),
            executor=self.executor,
            signal=self.controller.signal,
            max_steps=self.case.limit,
            emit=self.emit,
        )
        self.played.result = await run(options)
        self.played.requests = self.model.requests
        return self.played


async def play(run: Run, case: Case) -> Played:
    """What this loop does with this case."""
    return await Stage(case).play(run)
