"""Chapter 07: loops that break one promise each."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.course.ports import NeverAborted
from antiphon.course.saboteurs.outside import AskedDifferently, Run, answering, listening, mangled, taken_for
from antiphon.course.saboteurs.registry import Saboteur

Around = Callable[[Run], Run]


def _saboteur(name: str, caught_by: str, promise: str, promise_zh: str, around: Around) -> Saboteur:
    def change(module: Any) -> Mapping[str, Any]:
        return {"run_agent_loop": around(module.run_agent_loop)}

    return Saboteur(name, f"test_{caught_by}", promise, promise_zh, change)


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


# ---- what is executed ------------------------------------------------------------------------------------------------


def executing(run: Run, around: Callable[[Any, ToolCall, dict[str, Any]], Awaitable[Any]]) -> Run:
    """A loop whose executor is called in another way: `around(executor, call, given)`."""

    async def run_executing(options: Any) -> Any:
        async def execute(call: ToolCall, /, **given: Any) -> Any:
            return await around(options.executor, call, given)

        return await run(replace(options, executor=execute))

    return run_executing


async def _own_signal(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return await executor(call, **{**given, "signal": NeverAborted()})


async def _hides_errors(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    return structs.replace(await executor(call, **given), is_error=False)


async def _shows_its_stack(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
    try:
        return await executor(call, **given)
    except Exception as error:
        raise RuntimeError(traceback.format_exc()) from error


async def _drops_what_it_began(executor: Any, call: ToolCall, given: dict[str, Any]) -> Any:
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


def _taking(stop_reason: str, wrong: str, *, calls: bool) -> Around:
    return lambda run: answering(run, taken_for(wrong, stop_reason, calls=calls))


LOOP_SABOTEURS: tuple[Saboteur, ...] = (
    _saboteur(
        "double-append",
        "plain_stop_ends_with_the_answer",
        "every final answer is appended exactly once",
        "每个最终回答恰好追加一次",
        double_append,
    ),
    _saboteur(
        "partial-kept",
        "plain_stop_keeps_the_final_message_and_nothing_partial",
        "nothing partial enters the transcript",
        "未完成的内容不进入记录",
        partial_kept,
    ),
    _saboteur(
        "touches-the-callers-list",
        "plain_stop_leaves_the_callers_list_alone",
        "the caller's list stays as it is",
        "调用者的列表保持不变",
        touches_the_callers_list,
    ),
    _saboteur(
        "forgets-tools",
        "plain_stop_sends_prompt_messages_and_tools",
        "prompt and tool definitions are in every request",
        "每次请求都带上系统提示和工具定义",
        forgets_tools,
    ),
    _saboteur(
        "silent-model",
        "plain_stop_passes_every_model_event_on",
        "every event of the model is passed on",
        "模型的每个事件都要转发",
        silent_model,
    ),
    _saboteur(
        "second-turn-end",
        "plain_stop_tells_the_answer_and_one_end",
        "one run has one turn_end",
        "一次运行只有一个 turn_end",
        second_turn_end,
    ),
    _saboteur(
        "stops-behind-a-tool",
        "single_tool_makes_a_round_trip",
        "behind a tool result the model is asked again",
        "有了工具结果之后，要再次询问模型",
        stops_behind_a_tool,
    ),
    _saboteur(
        "swallows-progress",
        "single_tool_tells_start_progress_and_end",
        "progress of a tool is told with its call id",
        "工具的进度要带着调用 id 发出",
        swallows_progress,
    ),
    _saboteur(
        "own-signal",
        "single_tool_gets_the_signal_itself",
        "the executor gets the signal of the run itself",
        "执行器得到的就是这次运行的信号",
        lambda run: executing(run, _own_signal),
    ),
    _saboteur(
        "hides-errors",
        "single_tool_error_goes_to_the_model",
        "the error state of a result is kept",
        "结果的错误状态要保留",
        lambda run: executing(run, _hides_errors),
    ),
    _saboteur(
        "length-executes",
        "non_executing_end_length_with_calls",
        "no call runs under length: its arguments may be cut off",
        "length 之下不执行任何调用：参数可能被截断",
        _taking("length", "toolUse", calls=True),
    ),
    _saboteur(
        "error-executes",
        "non_executing_end_error_with_calls",
        "no call runs under error",
        "error 之下不执行任何调用",
        _taking("error", "toolUse", calls=True),
    ),
    _saboteur(
        "aborted-executes",
        "non_executing_end_aborted_with_calls",
        "no call runs under aborted",
        "aborted 之下不执行任何调用",
        _taking("aborted", "toolUse", calls=True),
    ),
    _saboteur(
        "stop-executes",
        "non_executing_end_stop_with_calls",
        "stop with calls is a contradiction; the calls do not run",
        "带调用的 stop 自相矛盾；这些调用不执行",
        _taking("stop", "toolUse", calls=True),
    ),
    _saboteur(
        "empty-tool-use-is-fine",
        "non_executing_end_tool_use_without_calls",
        "toolUse without calls ends with an error",
        "没有调用的 toolUse 以错误结束",
        _taking("toolUse", "stop", calls=False),
    ),
    _saboteur(
        "skips-unpaired",
        "non_executing_end_pairs_after_a_good_turn",
        "a call that is not executed still gets its result",
        "没有执行的调用仍然得到结果",
        skips_unpaired,
    ),
    _saboteur(
        "model-fault-escapes",
        "non_executing_end_model_that_raises",
        "a model that raises ends the run, not the program",
        "模型抛出异常只结束运行，不结束程序",
        model_fault_escapes,
    ),
    _saboteur(
        "one-by-one",
        "parallel_tools_start_together",
        "the calls of one answer start together",
        "同一个回答的调用一起开始",
        one_by_one,
    ),
    _saboteur(
        "late-ends",
        "parallel_tools_end_when_they_end",
        "an end is told when the call is over, not when the batch is",
        "调用一结束就发出结束事件，而不是等整批结束",
        late_ends,
    ),
    _saboteur(
        "completion-order",
        "parallel_tools_results_stand_in_call_order",
        "results are written in call order",
        "结果按调用顺序写入",
        completion_order,
    ),
    _saboteur(
        "missing-pair",
        "parallel_tools_each_id_has_one_result",
        "before the next request every call has exactly one result",
        "下一次请求之前，每个调用恰好有一个结果",
        missing_pair,
    ),
    _saboteur(
        "rejection-escapes",
        "parallel_tools_rejection_stays_with_its_call",
        "a call that fails does not take its siblings or the run with it",
        "一个调用失败，不连累同批的其他调用，也不连累运行",
        rejection_escapes,
    ),
    _saboteur(
        "shows-its-stack",
        "parallel_tools_error_has_a_text_and_no_stack_trace",
        "no stack trace goes to the model",
        "不把堆栈跟踪交给模型",
        lambda run: executing(run, _shows_its_stack),
    ),
    _saboteur(
        "request-after-abort",
        "cancel_and_limit_abort_while_tools_run",
        "after an abort no request leaves",
        "中止之后不再发出请求",
        request_after_abort,
    ),
    _saboteur(
        "asks-although-aborted",
        "cancel_and_limit_aborted_at_the_start",
        "a run that is aborted before it begins asks nothing",
        "开始之前就中止的运行，什么也不问",
        request_after_abort,
    ),
    _saboteur(
        "drops-what-it-began",
        "cancel_and_limit_abort_while_tools_run",
        "what was started is awaited and its results are kept",
        "已经开始的要等它结束，结果保留",
        lambda run: executing(run, _drops_what_it_began),
    ),
    _saboteur(
        "invented-stop",
        "cancel_and_limit_last_allowed_turn_is_complete",
        "no answer is made up at the limit",
        "到达上限时不编造回答",
        invented_stop,
    ),
    _saboteur(
        "one-step-too-many",
        "cancel_and_limit_counts_requests",
        "max_steps bounds the requests",
        "max_steps 限制请求次数",
        one_step_too_many,
    ),
    _saboteur(
        "runs-duplicates",
        "duplicate_id_is_never_executed_twice",
        "one id of one answer is never executed twice",
        "同一个回答里的同一个 id 绝不执行两次",
        runs_duplicates,
    ),
)
