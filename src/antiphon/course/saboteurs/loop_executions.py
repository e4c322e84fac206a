"""Chapter 07: what is wrong with the executions of a loop, or with its end. Which promise, says `loop.py`."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, calls_of
from antiphon.course.decisions import DECISIONS
from antiphon.course.ports import NeverAborted
from antiphon.course.saboteurs.outside import AskedDifferently, Run, answering, listening, mangled

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


def swallows_cancellation(run: Run) -> Run:
    async def run_on(options: Any) -> Any:
        try:
            return await run(options)
        except asyncio.CancelledError:
            return None

    return run_on


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
    return _escaping(run, Exception)


def cancellation_escapes(run: Run) -> Run:
    return _escaping(run, asyncio.CancelledError)


def _escaping(run: Run, kind: type[BaseException]) -> Run:
    """What an executor raises of this kind ends the whole run."""

    async def run_open(options: Any) -> Any:
        escaped: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
            try:
                return await executor(call, **given)
            except kind as error:
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
    """A call whose id was there before looks different to the loop, so it runs. Nobody else sees the other id."""

    def change(message: AssistantMessage) -> AssistantMessage:
        seen: set[str] = set()
        blocks: list[Any] = []
        for place, block in enumerate(message.content):
            doubled = isinstance(block, ToolCall) and block.id in seen
            if isinstance(block, ToolCall):
                seen.add(block.id)
            blocks.append(structs.replace(block, id=f"{block.id}\0{place}") if doubled else block)  # type: ignore[union-attr]
        return structs.replace(message, content=tuple(blocks))

    async def around(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
        result = await executor(_as_it_was(call), **given)
        return structs.replace(result, tool_call_id=call.id) if result.tool_call_id == _true_id(call.id) else result

    def mangle(messages: Sequence[Message]) -> list[Message]:
        return [_as_it_was(message) for message in messages]

    return mangled(listening(answering(executing(run, around), change), lambda event: [_as_it_was(event)]), mangle)


def _true_id(call_id: str) -> str:
    return call_id.partition("\0")[0]


def _as_it_was(value: Any) -> Any:
    """A call, message or event with the ids that the model has given."""
    fields: dict[str, Any] = {}
    for name in ("id", "call_id", "tool_call_id"):
        if isinstance(getattr(value, name, None), str):
            fields[name] = _true_id(getattr(value, name))
    for name in ("call", "result", "message", "event", "error"):
        if isinstance(getattr(value, name, None), Struct):
            fields[name] = _as_it_was(getattr(value, name))
    if isinstance(value, AssistantMessage):
        fields["content"] = tuple(
            _as_it_was(block) if isinstance(block, ToolCall) else block for block in value.content
        )
    return structs.replace(value, **fields) if fields else value


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


def failure_hides_the_abort(run: Run) -> Run:
    """The run ends `error` if its last answer has failed, aborted or not."""
    return _ending(run, lambda answer, _steps, _limit: "error" if _has_failed(answer) else "aborted")


def limit_hides_the_abort(run: Run) -> Run:
    """The limit is looked at before the signal."""
    return _ending(run, lambda _answer, steps, limit: "maxSteps" if steps == limit else "aborted")


def _ending(run: Run, chosen: Callable[[AssistantMessage | None, int, int | None], str]) -> Run:
    """A loop that ends otherwise where it would end `aborted`."""

    async def run_otherwise(options: Any) -> Any:
        answers: list[AssistantMessage] = []

        def reason() -> str:
            return chosen(answers[-1] if answers else None, len(answers), options.max_steps)

        def change(event: Any) -> Sequence[Any]:
            if event.type == "assistant_message":
                answers.append(event.message)
            aborted = event.type == "turn_end" and event.reason == "aborted"
            return [structs.replace(event, reason=reason())] if aborted else [event]

        result = await listening(run, change)(options)
        return replace(result, reason=reason()) if result.reason == "aborted" else result

    return run_otherwise


def _has_failed(answer: AssistantMessage | None) -> bool:
    row = DECISIONS.get((answer.stop_reason, bool(calls_of(answer)))) if answer else None
    return row is not None and row.ends == "error"


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
