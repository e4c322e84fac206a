"""Chapter 07, the same loop again: a thin layer over the core of this project with the strict profile.

The core decides: when a request leaves, which calls run, in which order results count, when the run is over. It does
not need to know what the calls say, so it is shown a shadow of every answer: the same stop reason and the same call
ids, with the injected executor as the one tool that there is. This layer keeps the real messages, asks the model,
hands calls to the executor, and translates events:

    model stream                     model_event, for whatever the model says
    message_end of an answer         assistant_message
    tool_execution_start             tool_start, unless the call will be skipped
    tool_execution_update, _end      tool_progress, tool_end
    turn_end (one per answer)        nothing; the results are in the transcript now
    agent_end                        turn_end(reason)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast, final

from antiphon.core.calls import ToolResult
from antiphon.core.content import ToolCall
from antiphon.core.events import (
    AgentEvent,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from antiphon.core.events import TurnEnd as CoreTurnEnd
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.model import UNKNOWN_MODEL
from antiphon.core.policy import STRICT, RunLimits
from antiphon.core.ports import AbortSignal, ModelRequest, OnUpdate
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.wire import JsonObject
from antiphon.course.decisions import DECISIONS
from antiphon.course.loop_types import (
    AgentLoopOptions,
    AgentRunResult,
    AssistantEvent,
    EndReason,
    ModelEvent,
    SkipReason,
    Teller,
    ToolEnd,
    ToolProgress,
    ToolStart,
    TurnEnd,
    failed_answer,
    final_answer,
)
from antiphon.course.pairing import cancelled_from_outside, error_result, fault_text, paired
from antiphon.course.ports import ModelRequest as CourseRequest
from antiphon.course.reference_loop import skipped_call
from antiphon.loop.abort import Signal
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import run_agent_loop as run_core_loop
from antiphon.loop.outcome import RunOutcome


async def run_agent_loop(options: AgentLoopOptions) -> AgentRunResult:
    """Ask the model, execute what it asks for, ask again, until there is a reason to end."""
    layer = _Layer(options)
    limits = RunLimits(max_turns=options.max_steps)
    config = LoopConfig(model=UNKNOWN_MODEL, policy=STRICT, limits=limits, finish_turn=_look_again)
    signal = cast("Signal", options.signal)  # the core needs no more of it than the protocol has
    outcome = await run_core_loop([], Context(tools=[layer]), config, layer.hear, signal, layer.ask)
    reason = end_reason(outcome)
    await layer.teller.tell(TurnEnd(reason=reason))
    return layer.result(outcome, reason)


def _look_again(_turn: object, _signal: object) -> None:
    """No wish. But because somebody is asked, the core looks at the signal once more behind every batch."""


def end_reason(outcome: RunOutcome) -> EndReason:
    """The name that the course has for the end of a run."""
    if outcome.reason == "max_turns":
        return "maxSteps"
    assert outcome.reason in ("stop", "length", "error", "aborted"), outcome.reason
    return outcome.reason


@final
class _Layer:
    """One run seen from outside of the core. To the core it is a model stream, a tool and an audience."""

    name = "execute"
    description = "Hands a call to the injected executor"
    parameters: JsonObject = {"type": "object"}  # noqa: RUF012 - read only

    def __init__(self, options: AgentLoopOptions) -> None:
        self.options = options
        self.teller = Teller(options.emit)
        self.messages: list[Message] = list(options.context.messages)
        self.given = len(self.messages)
        self.answer: AssistantMessage | None = None
        """The final message of the open turn, as soon as the model has given it."""
        self.calls: tuple[ToolCall, ...] = ()
        self.first: dict[str, int] = {}
        """The position of the first call with an id."""
        self.started: set[int] = set()
        self.results: dict[int, ToolResultMessage] = {}

    # -- the core asks a model ------------------------------------------------------------------------------------

    async def ask(self, _request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        """Ask the real model with the real messages; show the core a shadow of the answer."""
        return self._answered()

    async def _answered(self) -> AsyncIterator[ResponseEvent]:
        options = self.options
        self.answer, self.calls = None, ()
        try:
            tools = options.tools.definitions()
            request = CourseRequest(options.context.system_prompt, tuple(self.messages), tools, options.signal)
            stream = options.model.stream(request)
            async for event in stream:
                await self.teller.tell(ModelEvent(event=event))
            answer = final_answer(await stream.result())
        except Exception as failure:  # noqa: BLE001 - the border to a model
            answer = failed_answer(failure, options.signal)
        self.answer, self.calls = answer, calls_of(answer)
        self.first = {call.id: p for p, call in reversed(tuple(enumerate(self.calls)))}
        self.started, self.results = set(), {}
        yield shadow_of(answer)

    # -- the core executes a tool ---------------------------------------------------------------------------------

    async def execute(self, _id: str, args: JsonObject, _signal: AbortSignal, on_update: OnUpdate) -> ToolResult:
        """Hand the call at this position to the executor, with the signal of the run itself."""
        position: int = args["position"]
        call, options = self.calls[position], self.options
        try:
            given = await options.executor(call, signal=options.signal, report_progress=on_update)
            result = paired(call, given)
        except asyncio.CancelledError:
            if cancelled_from_outside():
                raise
            result = error_result(call, "the executor was cancelled from within")
        except Exception as error:  # noqa: BLE001 - the border to an executor
            result = error_result(call, fault_text(error))
        self.results[position] = result
        return ToolResult()

    # -- the core tells what happens ------------------------------------------------------------------------------

    async def hear(self, event: AgentEvent) -> None:
        """Translate one event of the core."""
        match event:
            case MessageEnd(message=AssistantMessage() as shadow):
                answer = self.answer or shadow  # the core answers itself if it had to cut the model off
                self.messages.append(answer)
                await self.teller.tell(AssistantEvent(message=answer))
            case ToolExecutionStart(position=position):
                if self._will_run(position):
                    self.started.add(position)
                    await self.teller.tell(ToolStart(call=self.calls[position]))
            case ToolExecutionUpdate(position=position, partial_result=progress):
                await self.teller.tell(ToolProgress(call_id=self.calls[position].id, progress=progress))
            case ToolExecutionEnd(position=position) if position in self.started:
                result = self._result(position, event.result.details, event.result)
                await self.teller.tell(ToolEnd(call_id=self.calls[position].id, result=result))
            case CoreTurnEnd(tool_results=results):
                self.messages += [self._result(p, r.details, r) for p, r in enumerate(results)]
            case _:
                pass

    def _will_run(self, position: int) -> bool:
        """Is this call one that the core is going to execute, as far as anybody can know now?"""
        answer = cast("AssistantMessage", self.answer)
        executes = DECISIONS[answer.stop_reason, True].calls == "execute"
        doubled = self.first[self.calls[position].id] != position
        return executes and not doubled and not self.options.signal.aborted

    def _result(self, position: int, details: Any, told: ToolResult | ToolResultMessage) -> ToolResultMessage:
        """The executor's own result; else what the core says about a call that was skipped or cut off."""
        if position in self.results:
            return self.results[position]
        call = self.calls[position]
        if isinstance(details, dict) and "skipped" in details:
            return skipped_call(call, cast("SkipReason", details["reason"]))
        return ToolResultMessage(
            tool_call_id=call.id, tool_name=call.name, content=told.content, details=told.details, is_error=True
        )

    def result(self, outcome: RunOutcome, reason: EndReason) -> AgentRunResult:
        return AgentRunResult(
            messages=tuple(self.messages),
            new_messages=tuple(self.messages[self.given :]),
            reason=reason,
            steps=outcome.turns,
            error=_error_in(self.messages) if reason == "error" else None,
            faults=tuple(self.teller.faults),
        )


def _error_in(messages: list[Message]) -> str:
    """What was wrong with the last answer of a run that ended with an error."""
    answer = next(message for message in reversed(messages) if isinstance(message, AssistantMessage))
    if answer.stop_reason == "error":
        return answer.error_message or "the model failed"
    if answer.stop_reason == "toolUse":
        return "the answer ended with toolUse and asks for no tool"
    return f"the answer ended with {answer.stop_reason} although it asks for tools"


def shadow_of(answer: AssistantMessage) -> ResponseEvent:
    """What the core has to know of an answer: why it ended, and the ids of its calls in order."""
    calls = calls_of(answer)
    content = tuple(ToolCall(id=c.id, name=_Layer.name, arguments={"position": p}) for p, c in enumerate(calls))
    shadow = AssistantMessage(content=content, stop_reason=answer.stop_reason)
    if answer.stop_reason in ("error", "aborted"):
        return Failed(reason=answer.stop_reason, error=shadow)
    return Done(reason=answer.stop_reason, message=shadow)
