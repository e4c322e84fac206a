"""Chapter 07: every promise of the loop, who breaks it, and the test that has to notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import antiphon.course.saboteurs.loop_executions as executions
import antiphon.course.saboteurs.loop_faults as faults
from antiphon.course.saboteurs.outside import Run, answering, taken_for
from antiphon.course.saboteurs.registry import Saboteur

Around = Callable[[Run], Run]


def _saboteur(name: str, caught_by: str, promise: str, promise_zh: str, around: Around) -> Saboteur:
    def change(module: Any) -> Mapping[str, Any]:
        return {"run_agent_loop": around(module.run_agent_loop)}

    return Saboteur(name, f"test_{caught_by}", promise, promise_zh, change)


def _taking(stop_reason: str, wrong: str, *, calls: bool) -> Around:
    return lambda run: answering(run, taken_for(wrong, stop_reason, calls=calls))


LOOP_SABOTEURS: tuple[Saboteur, ...] = (
    _saboteur(
        "double-append",
        "plain_stop_ends_with_the_answer",
        "every final answer is appended exactly once",
        "每个最终回答恰好追加一次",
        faults.double_append,
    ),
    _saboteur(
        "partial-kept",
        "plain_stop_keeps_the_final_message_and_nothing_partial",
        "nothing partial enters the transcript",
        "未完成的内容不进入记录",
        faults.partial_kept,
    ),
    _saboteur(
        "touches-the-callers-list",
        "plain_stop_leaves_the_callers_list_alone",
        "the caller's list stays as it is",
        "调用者的列表保持不变",
        faults.touches_the_callers_list,
    ),
    _saboteur(
        "forgets-tools",
        "plain_stop_sends_prompt_messages_and_tools",
        "prompt and tool definitions are in every request",
        "每次请求都带上系统提示和工具定义",
        faults.forgets_tools,
    ),
    _saboteur(
        "silent-model",
        "plain_stop_passes_every_model_event_on",
        "every event of the model is passed on",
        "模型的每个事件都要转发",
        faults.silent_model,
    ),
    _saboteur(
        "second-turn-end",
        "plain_stop_tells_the_answer_and_one_end",
        "one run has one turn_end",
        "一次运行只有一个 turn_end",
        faults.second_turn_end,
    ),
    _saboteur(
        "stops-behind-a-tool",
        "single_tool_makes_a_round_trip",
        "behind a tool result the model is asked again",
        "有了工具结果之后，要再次询问模型",
        executions.stops_behind_a_tool,
    ),
    _saboteur(
        "swallows-progress",
        "single_tool_tells_start_progress_and_end",
        "progress of a tool is told with its call id",
        "工具的进度要带着调用 id 发出",
        faults.swallows_progress,
    ),
    _saboteur(
        "own-signal",
        "single_tool_gets_the_signal_itself",
        "the executor gets the signal of the run itself",
        "执行器得到的就是这次运行的信号",
        lambda run: executions.executing(run, executions.own_signal),
    ),
    _saboteur(
        "hides-errors",
        "single_tool_error_goes_to_the_model",
        "the error state of a result is kept",
        "结果的错误状态要保留",
        lambda run: executions.executing(run, executions.hides_errors),
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
        "deferred-executes",
        "non_executing_end_deferred_is_as_stop",
        "deferred is as stop; its calls do not run",
        "deferred 与 stop 相同；它的调用不执行",
        _taking("deferred", "toolUse", calls=True),
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
        faults.skips_unpaired,
    ),
    _saboteur(
        "model-fault-escapes",
        "non_executing_end_model_that_raises",
        "a model that raises ends the run, not the program",
        "模型抛出异常只结束运行，不结束程序",
        executions.model_fault_escapes,
    ),
    _saboteur(
        "one-by-one",
        "parallel_tools_start_together",
        "the calls of one answer start together",
        "同一个回答的调用一起开始",
        executions.one_by_one,
    ),
    _saboteur(
        "late-ends",
        "parallel_tools_end_when_they_end",
        "an end is told when the call is over, not when the batch is",
        "调用一结束就发出结束事件，而不是等整批结束",
        faults.late_ends,
    ),
    _saboteur(
        "late-progress",
        "parallel_tools_progress_is_told_while_they_run",
        "progress is told while the tool runs",
        "工具运行期间就要发出进度",
        faults.late_progress,
    ),
    _saboteur(
        "overlapping-events",
        "parallel_tools_events_wait_for_each_other",
        "an event is told when the listener is done with the one before",
        "监听者处理完上一个事件，才发出下一个",
        faults.overlapping_events,
    ),
    _saboteur(
        "completion-order",
        "parallel_tools_results_stand_in_call_order",
        "results are written in call order",
        "结果按调用顺序写入",
        faults.completion_order,
    ),
    _saboteur(
        "missing-pair",
        "parallel_tools_each_id_has_one_result",
        "before the next request every call has exactly one result",
        "下一次请求之前，每个调用恰好有一个结果",
        faults.missing_pair,
    ),
    _saboteur(
        "rejection-escapes",
        "parallel_tools_rejection_stays_with_its_call",
        "a call that fails does not take its siblings or the run with it",
        "一个调用失败，不连累同批的其他调用，也不连累运行",
        executions.rejection_escapes,
    ),
    _saboteur(
        "cancellation-escapes",
        "parallel_tools_executor_that_cancels_itself",
        "a CancelledError that an executor raises itself is a failure like any other",
        "执行器自己抛出的 CancelledError 与其他失败一样",
        executions.cancellation_escapes,
    ),
    _saboteur(
        "swallows-cancellation",
        "parallel_tools_are_cancelled_with_their_run",
        "whoever cancels the task of a run is heard",
        "取消运行所在任务的人会被听到",
        executions.swallows_cancellation,
    ),
    _saboteur(
        "shows-its-stack",
        "parallel_tools_error_has_a_text_and_no_stack_trace",
        "no stack trace goes to the model",
        "不把堆栈跟踪交给模型",
        lambda run: executions.executing(run, executions.shows_its_stack),
    ),
    _saboteur(
        "request-after-abort",
        "cancel_and_limit_abort_while_tools_run",
        "after an abort no request leaves",
        "中止之后不再发出请求",
        executions.request_after_abort,
    ),
    _saboteur(
        "asks-although-aborted",
        "cancel_and_limit_aborted_at_the_start",
        "a run that is aborted before it begins asks nothing",
        "开始之前就中止的运行，什么也不问",
        executions.request_after_abort,
    ),
    _saboteur(
        "failure-hides-the-abort",
        "cancel_and_limit_abort_explains_a_failure",
        "an abort explains whatever failed behind it",
        "中止之后的任何失败，都由中止来解释",
        executions.failure_hides_the_abort,
    ),
    _saboteur(
        "limit-hides-the-abort",
        "cancel_and_limit_abort_goes_before_the_limit",
        "the signal is looked at before the limit",
        "先看信号，再看上限",
        executions.limit_hides_the_abort,
    ),
    _saboteur(
        "drops-what-it-began",
        "cancel_and_limit_abort_while_tools_run",
        "what was started is awaited and its results are kept",
        "已经开始的要等它结束，结果保留",
        lambda run: executions.executing(run, executions.drops_what_it_began),
    ),
    _saboteur(
        "invented-stop",
        "cancel_and_limit_last_allowed_turn_is_complete",
        "no answer is made up at the limit",
        "到达上限时不编造回答",
        executions.invented_stop,
    ),
    _saboteur(
        "one-step-too-many",
        "cancel_and_limit_counts_requests",
        "max_steps bounds the requests",
        "max_steps 限制请求次数",
        executions.one_step_too_many,
    ),
    _saboteur(
        "runs-duplicates",
        "duplicate_id_is_never_executed_twice",
        "one id of one answer is never executed twice",
        "同一个回答里的同一个 id 绝不执行两次",
        executions.runs_duplicates,
    ),
)
