"""Chapter 07: what is put around a loop so that it breaks one promise. Which promise says `loop.py`."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.course.ports import NeverAborted
from antiphon.course.saboteurs.outside import AskedDifferently, Run, answering, listening, mangled

# ---- the transcript --------------------------------------------------------------------------------------------------


def double_append(run: Run) -> Run:
    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [copy for m in messages for copy in ([m, m] if isinstance(m, AssistantMessage) else [m])]

    return mangled(run, mangle)


def partial_kept(run: Run) -> Run:
    partial = AssistantMessage(content=(Text(text="Hel"),), stop_reason="pending")

    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [out for m in messages for out in ([partial, m] if isinstance(m, AssistantMessage) else [m])]

    return mangled(run, mangle)


def missing_pair(run: Run) -> Run:
    """The last result of every batch is lost."""

    def mangle(messages: Sequence[Message]) -> list[Message]:
        following = [*messages[1:], None]
        return [
            m
            for m, behind in zip(messages, following, strict=True)
            if not isinstance(m, ToolResultMessage) or isinstance(behind, ToolResultMessage)
        ]

    return mangled(run, mangle)


def skips_unpaired(run: Run) -> Run:
    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [m for m in messages if not (isinstance(m, ToolResultMessage) and _was_skipped(m))]

    return mangled(run, mangle)


def _was_skipped(message: ToolResultMessage) -> bool:
    return isinstance(message.details, dict) and "skipped" in message.details


def completion_order(run: Run) -> Run:
    async def run_disordered(options: Any) -> Any:
        finished: list[str] = []

        async def execute(call: ToolCall, /, **given: Any) -> Any:
            try:
                return await options.executor(call, **given)
            finally:
                finished.append(call.id)

        def mangle(messages: Sequence[Message]) -> list[Message]:
            out: list[Message] = []
            batch: list[ToolResultMessage] = []
            for message in (*messages, None):
                if isinstance(message, ToolResultMessage):
                    batch.append(message)
                    continue
                out += _sorted(batch, finished)
                batch = []
                if message is not None:
                    out.append(message)
            return out

        return await mangled(run, mangle)(replace(options, executor=execute))

    return run_disordered


def _sorted(batch: list[ToolResultMessage], finished: list[str]) -> list[ToolResultMessage]:
    place = {call_id: number for number, call_id in enumerate(finished)}
    return sorted(batch, key=lambda result: place.get(result.tool_call_id, len(place)))


def touches_the_callers_list(run: Run) -> Run:
    async def run_touching(options: Any) -> Any:
        result = await run(options)
        options.context.messages.extend(result.new_messages)
        return result

    return run_touching


def forgets_tools(run: Run) -> Run:
    async def run_forgetting(options: Any) -> Any:
        model = AskedDifferently(options.model, lambda request: replace(request, tools=()))
        return await run(replace(options, model=model))

    return run_forgetting


# ---- what is told ----------------------------------------------------------------------------------------------------


def second_turn_end(run: Run) -> Run:
    return listening(run, lambda event: [event, event] if event.type == "turn_end" else [event])


def silent_model(run: Run) -> Run:
    return listening(run, lambda event: [] if event.type == "model_event" else [event])


def swallows_progress(run: Run) -> Run:
    return listening(run, lambda event: [] if event.type == "tool_progress" else [event])


def late_ends(run: Run) -> Run:
    """Ends are held back until the whole batch is over, and then told in call order."""

    async def run_late(options: Any) -> Any:
        order: list[str] = []
        ended: dict[str, Any] = {}

        def change(event: Any) -> Sequence[Any]:
            if event.type == "tool_start":
                order.append(event.call.id)
            if event.type != "tool_end":
                return [event]
            ended[event.call_id] = event
            if set(order) - set(ended):
                return []
            told = [ended[call_id] for call_id in order]
            order.clear()
            ended.clear()
            return told

        return await listening(run, change)(options)

    return run_late


def late_progress(run: Run) -> Run:
    """Progress is kept until the call is over."""

    async def run_late(options: Any) -> Any:
        kept: dict[str, list[Any]] = {}

        def change(event: Any) -> Sequence[Any]:
            if event.type == "tool_progress":
                kept.setdefault(event.call_id, []).append(event)
                return []
            return [*kept.pop(event.call_id, ()), event] if event.type == "tool_end" else [event]

        return await listening(run, change)(options)

    return run_late


# ---- what is executed ------------------------------------------------------------------------------------------------


def executing(run: Run, around: Callable[[Any, ToolCall, dict[str, Any]], Awaitable[Any]]) -> Run:
    """A loop whose executor is called in another way: `around(executor, call, given)`."""

    async def run_executing(options: Any) -> Any:
        async def execute(call: ToolCall, /, **given: Any) -> Any:
            return await around(options.executor, call, given)

        return await run(replace(options, executor=execute))

    return run_executing


async def own_signal(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return await executor(call, **{**given, "signal": NeverAborted()})


async def hides_errors(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return structs.replace(await executor(call, **given), is_error=False)


async def shows_its_stack(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    try:
        return await executor(call, **given)
    except Exception as error:
        raise RuntimeError(traceback.format_exc()) from error


async def drops_what_it_began(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    result = await executor(call, **given)
    if given["signal"].aborted:
        raise RuntimeError("aborted")
    return result


def one_by_one(run: Run) -> Run:
    async def run_slowly(options: Any) -> Any:
        free = asyncio.Lock()

        async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
            async with free:
                return await executor(call, **given)

        return await executing(run, around)(options)

    return run_slowly


def rejection_escapes(run: Run) -> Run:
    async def run_open(options: Any) -> Any:
        escaped: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
            try:
                return await executor(call, **given)
            except Exception as error:
                if not escaped.done():
                    escaped.set_exception(error)
                raise

        return await _first_of(executing(run, around)(options), escaped)

    return run_open


def model_fault_escapes(run: Run) -> Run:
    async def run_open(options: Any) -> Any:
        escaped: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def ask(request: Any) -> Any:
            return request

        class Open(AskedDifferently):
            def stream(self, request: Any) -> Any:
                try:
                    return super().stream(request)
                except Exception as error:
                    escaped.set_exception(error)
                    raise

        return await _first_of(run(replace(options, model=Open(options.model, ask))), escaped)

    return run_open


async def _first_of(running: Awaitable[Any], escaped: asyncio.Future[Any]) -> Any:
    """The result of a run, unless something escapes from it first."""
    task = asyncio.ensure_future(running)
    await asyncio.wait({task, escaped}, return_when=asyncio.FIRST_COMPLETED)
    if escaped.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return escaped.result()
    escaped.cancel()
    return task.result()


def runs_duplicates(run: Run) -> Run:
    """Calls with one id look different to the loop, and are executed each."""

    def change(message: AssistantMessage) -> AssistantMessage:
        blocks = [
            structs.replace(block, id=f"{block.id}\0{place}") if isinstance(block, ToolCall) else block
            for place, block in enumerate(message.content)
        ]
        return structs.replace(message, content=tuple(blocks))

    async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
        result = await executor(structs.replace(call, id=call.id.partition("\0")[0]), **given)
        return structs.replace(result, tool_call_id=call.id)

    return answering(executing(run, around), change)


# ---- when it is over -------------------------------------------------------------------------------------------------


def request_after_abort(run: Run) -> Run:
    """The loop does not look at its signal; the executor still gets the true one."""

    async def run_deaf(options: Any) -> Any:
        async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
            return await executor(call, **{**given, "signal": options.signal})

        return await executing(run, around)(replace(options, signal=NeverAborted()))

    return run_deaf


def invented_stop(run: Run) -> Run:
    async def run_inventing(options: Any) -> Any:
        result = await run(options)
        if result.reason != "maxSteps":
            return result
        made_up = AssistantMessage(content=(Text(text="I have to stop here."),), stop_reason="stop")
        return replace(
            result,
            reason="stop",
            messages=(*result.messages, made_up),
            new_messages=(*result.new_messages, made_up),
        )

    return run_inventing


def one_step_too_many(run: Run) -> Run:
    async def run_longer(options: Any) -> Any:
        limit = options.max_steps
        return await run(options if limit is None else replace(options, max_steps=limit + 1))

    return run_longer


def stops_behind_a_tool(run: Run) -> Run:
    async def run_short(options: Any) -> Any:
        result = await run(replace(options, max_steps=1))
        return replace(result, reason="stop") if result.reason == "maxSteps" else result

    return run_short
