"""Chapter 07, the answer: the loop in one file, with the five steps where the exercise has them.

Three invariants. Every final answer is appended once. Before the next request every call has exactly one result with
its id. One run has one `turn_end`. This file stands alone: it shares types with the loop of this project and no rule,
so that the two can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.course.loop_types import (
    AgentContext,
    AgentLoopOptions,
    AgentRunResult,
    AssistantEvent,
    EndReason,
    LoopEvent,
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
from antiphon.course.ports import ModelRequest

__all__ = [
    "AgentContext",
    "AgentLoopOptions",
    "AgentRunResult",
    "AssistantEvent",
    "LoopEvent",
    "ModelEvent",
    "ToolEnd",
    "ToolProgress",
    "ToolStart",
    "TurnEnd",
    "run_agent_loop",
    "skipped_call",
]

SKIPPED: dict[SkipReason, str] = {
    "length": "the answer was truncated by the output limit, so the arguments may be incomplete",
    "error": "the answer that asked for it failed",
    "aborted": "the run was aborted",
    "unexpected-stop": "the answer said that it was over although it asked for tools",
    "duplicate-id": "an earlier call of the same answer has the same id",
}


async def run_agent_loop(options: AgentLoopOptions) -> AgentRunResult:
    """Ask the model, execute what it asks for, ask again, until there is a reason to end."""
    messages: list[Message] = list(options.context.messages)
    given, steps, error = len(messages), 0, None
    teller = Teller(options.emit)
    reason: EndReason | None = None
    while reason is None:
        if options.signal.aborted:  # step 5: in front of the first request, and behind every batch
            reason = "aborted"
        elif steps == options.max_steps:
            reason = "maxSteps"
        else:
            answer = await ask_model(options, messages, teller)
            steps += 1
            messages.append(answer)
            await teller.tell(AssistantEvent(message=answer))
            reason, error = await answer_calls(options, answer, messages, teller)
            if reason == "error" and options.signal.aborted:  # an abort explains whatever failed behind it
                reason, error = "aborted", None
    await teller.tell(TurnEnd(reason=reason))
    return AgentRunResult(
        messages=tuple(messages),
        new_messages=tuple(messages[given:]),
        reason=reason,
        steps=steps,
        error=error,
        faults=tuple(teller.faults),
    )


async def ask_model(options: AgentLoopOptions, messages: Sequence[Message], teller: Teller) -> AssistantMessage:
    """Step 1: one request, every event passed on, and the one final message."""
    context = options.context
    try:
        request = ModelRequest(context.system_prompt, tuple(messages), options.tools.definitions(), options.signal)
        answer = options.model.stream(request)
        async for event in answer:
            await teller.tell(ModelEvent(event=event))
        return final_answer(await answer.result())
    except Exception as failure:  # noqa: BLE001 - the border to a model
        return failed_answer(failure, options.signal)


async def answer_calls(
    options: AgentLoopOptions, answer: AssistantMessage, messages: list[Message], teller: Teller
) -> tuple[EndReason | None, str | None]:
    """Steps 2 and 3: give every call its result. The reason to end (None: ask again), and what went wrong."""
    calls = calls_of(answer)
    match answer.stop_reason:
        case "toolUse" if calls:
            messages += await execute_all(options, calls, teller)
            return None, None
        case "toolUse":
            return "error", "the answer ended with toolUse and asks for no tool"
        case "length":
            messages += [skipped_call(call, "length") for call in calls]
            return "length", None
        case "error" | "aborted" as failed:
            messages += [skipped_call(call, failed) for call in calls]
            return failed, (answer.error_message or "the model failed") if failed == "error" else None
        case _ if calls:
            messages += [skipped_call(call, "unexpected-stop") for call in calls]
            return "error", f"the answer ended with {answer.stop_reason} although it asks for tools"
        case _:
            return "stop", None


def skipped_call(call: ToolCall, reason: SkipReason) -> ToolResultMessage:
    """Step 3: the result of a call that was not executed. The only place that makes one."""
    return ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=f"Tool {call.name} was not executed: {SKIPPED[reason]}."),),
        details={"skipped": True, "reason": reason},
        is_error=True,
    )


async def execute_all(options: AgentLoopOptions, calls: Sequence[ToolCall], teller: Teller) -> list[ToolResultMessage]:
    """Step 4: all calls of one answer at once. Ends are told in order of completion, results given in call order."""
    results: dict[int, ToolResultMessage] = {}
    seen: set[str] = set()
    for position, call in enumerate(calls):
        if call.id in seen:  # the challenge: here the loop owns this border
            results[position] = skipped_call(call, "duplicate-id")
        elif options.signal.aborted:
            results[position] = skipped_call(call, "aborted")
        else:
            await teller.tell(ToolStart(call=call))
        seen.add(call.id)
    news: asyncio.Queue[tuple[int, Any, ToolResultMessage | None]] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for position, call in enumerate(calls):
            if position not in results:
                group.create_task(execute(options, call, position, news))
        while len(results) < len(calls):
            position, progress, result = await news.get()
            call_id = calls[position].id
            if result is None:
                await teller.tell(ToolProgress(call_id=call_id, progress=progress))
            else:
                results[position] = result
                await teller.tell(ToolEnd(call_id=call_id, result=result))
    return [results[position] for position in range(len(calls))]


async def execute(
    options: AgentLoopOptions, call: ToolCall, position: int, news: asyncio.Queue[tuple[int, Any, Any]]
) -> None:
    """Step 2: one call. Whatever happens, its result is the last of its news."""
    over = False

    def report(progress: Any) -> None:
        if not over:
            news.put_nowait((position, progress, None))

    try:
        if options.signal.aborted:
            result = skipped_call(call, "aborted")
        else:
            result = paired(call, await options.executor(call, signal=options.signal, report_progress=report))
    except asyncio.CancelledError:
        if cancelled_from_outside():
            raise
        result = error_result(call, "the executor was cancelled from within")
    except Exception as error:  # noqa: BLE001 - the border to an executor: its siblings go on
        result = error_result(call, fault_text(error))
    over = True
    news.put_nowait((position, None, result))
