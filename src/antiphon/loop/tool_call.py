"""One tool call from its arguments to its outcome: prepare, check, before hook, execute, after hook.

A straight line of awaits, so an ordinary coroutine. A tool's fault is never an exception here: everything that a model
can repair becomes an error result. What does propagate is the cancellation of the caller, and `SystemExit` and
`KeyboardInterrupt`, which are nobody's result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast, final

from msgspec import UNSET, Struct, structs

from antiphon.core.calls import Outcome, ToolResult, error_outcome, skipped
from antiphon.core.content import Content, Foreign, Image, Text, Thinking, ToolCall
from antiphon.core.hooks import AfterHook, AfterOverride, AfterToolCall, BeforeHook, BeforeToolCall, Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.ports import AbortSignal, Clock, OnUpdate, Tool
from antiphon.core.toolbox import Toolbox
from antiphon.core.wire import JsonObject
from antiphon.loop.abort import never_aborted
from antiphon.loop.arguments import ArgumentsRefused, check_arguments
from antiphon.loop.config import SYSTEM_CLOCK
from antiphon.loop.leash import Cut, foreign_cancelled
from antiphon.loop.threads import in_thread

Hold: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]


@final
class Ready(Struct, frozen=True):
    """A call that may run: its tool and the converted arguments, which hooks and tool share."""

    call: ToolCall
    tool: Tool
    args: JsonObject


def prepare(call: ToolCall, toolbox: Toolbox, signal: AbortSignal, policy: Policy) -> Ready | Outcome:
    """Steps 1 to 5: not aborted, tool known, arguments prepared, parsed, converted and valid."""
    if signal.aborted:
        return aborted_outcome(call, policy)
    tool = toolbox.find(call.name)
    if tool is None:
        return error_outcome(f"Tool {call.name} not found")
    try:
        prepared = call
        prepare_arguments = getattr(tool, "prepare_arguments", None)
        if prepare_arguments is not None:
            prepared = structs.replace(call, arguments=prepare_arguments(call.arguments))
        return Ready(call, tool, check_arguments(prepared, tool.parameters))
    except ArgumentsRefused as refused:
        return error_outcome(str(refused))
    except Exception as error:  # noqa: BLE001 - the tool's own preparation failed
        return error_outcome(error_text(error, policy))


async def ask_before(
    ready: Ready,
    hook: BeforeHook,
    message: AssistantMessage,
    context: Context,
    signal: AbortSignal,
    policy: Policy,
    hold: Hold | None,
    was_cut: Callable[[], bool],
) -> Outcome | None:
    """Steps 6 to 8: the before hook; what it raises wins over an abort, an abort wins over what it decides."""
    try:
        answer = hook(BeforeToolCall(message, ready.call, ready.args, context), signal)
        decision = await (answer if hold is None else hold(answer)) if inspect.isawaitable(answer) else answer
    except Cut:
        return aborted_outcome(ready.call, policy)
    except asyncio.CancelledError as own:
        if was_cut():
            raise
        return error_outcome(str(foreign_cancelled(own)))
    except Exception as error:  # noqa: BLE001 - a hook's fault is this call's result
        return error_outcome(error_text(error, policy))
    if signal.aborted:
        return aborted_outcome(ready.call, policy)
    if decision is None or not decision.block:
        return None
    outcome = error_outcome(decision.reason or "Tool execution was blocked")
    if decision.terminate is not True:
        return outcome
    return structs.replace(outcome, result=structs.replace(outcome.result, terminate=True))


async def execute(
    ready: Ready,
    signal: AbortSignal,
    on_update: OnUpdate,
    clock: Clock,
    policy: Policy,
    was_cut: Callable[[], bool],
) -> Outcome:
    """Step 9: run the tool. Raises only a cancellation by the run (`was_cut`), and exits of the process."""
    started = clock.monotonic()
    try:
        returned = await call_tool(ready, signal, on_update)
        result = as_result(returned)
        failed = result.is_error is True
    except asyncio.CancelledError:
        if was_cut():
            raise
        result, failed = _raised("the tool was cancelled from within"), True
    except Exception as error:  # noqa: BLE001 - a tool's fault is its result
        result, failed = _raised(error_text(error, policy)), True
    return Outcome(result=result, is_error=failed, duration_ms=_elapsed_ms(started, clock), executed=True)


def call_tool(ready: Ready, signal: AbortSignal, on_update: OnUpdate) -> Awaitable[Any]:
    """Begin the execution. A plain function goes to a thread, its progress comes back in order."""
    function = ready.tool.execute
    if _is_async(function):
        return cast("Awaitable[Any]", function(ready.call.id, ready.args, signal, on_update))
    return _threaded(function, ready, signal, on_update)


async def _threaded(function: Callable[..., Any], ready: Ready, signal: AbortSignal, on_update: OnUpdate) -> Any:
    loop = asyncio.get_running_loop()

    def update(partial: Any) -> None:
        loop.call_soon_threadsafe(on_update, partial)

    returned = await in_thread(function, ready.call.id, ready.args, signal, update)
    return await returned if inspect.isawaitable(returned) else returned


def _is_async(function: Any) -> bool:
    code = getattr(function, "__code__", None)  # functions and methods: much faster than asking `inspect`
    if code is not None and code.co_flags & inspect.CO_COROUTINE:
        return True
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - an object with async __call__


async def ask_after(
    ready: Ready,
    outcome: Outcome,
    hook: AfterHook,
    message: AssistantMessage,
    context: Context,
    signal: AbortSignal,
    policy: Policy,
    was_cut: Callable[[], bool],
) -> Outcome:
    """Step 10: the after hook may replace fields of the result; if it fails, its error replaces the whole result."""
    try:
        given = AfterToolCall(message, ready.call, ready.args, outcome.result, outcome.is_error, context)
        answer = hook(given, signal)
        override = await answer if inspect.isawaitable(answer) else answer
    except asyncio.CancelledError:
        if was_cut():
            raise
        return structs.replace(outcome, result=_raised("the hook was cancelled from within"), is_error=True)
    except Exception as error:  # noqa: BLE001 - a hook's fault is this call's result
        return structs.replace(outcome, result=_raised(error_text(error, policy)), is_error=True)
    return outcome if override is None else overridden(outcome, override)


def overridden(outcome: Outcome, override: AfterOverride) -> Outcome:
    """Field by field, without merging. New content without new structured content drops the old structured content."""
    changes: dict[str, Any] = {}
    if _given(override.content):
        changes["content"] = tuple(cast("Content", override.content))
        changes["structured_content"] = UNSET
    for name in ("details", "structured_content", "usage", "terminate"):
        value = getattr(override, name)
        if _given(value):
            changes[name] = value
    is_error = override.is_error if isinstance(override.is_error, bool) else outcome.is_error
    return structs.replace(outcome, result=structs.replace(outcome.result, **changes), is_error=is_error)


def _given(value: Any) -> bool:
    return value is not None and value is not UNSET


async def run_tool_call(
    call: ToolCall,
    *,
    tools: Sequence[Tool],
    assistant_message: AssistantMessage,
    context: Context,
    signal: AbortSignal | None = None,
    before_tool_call: BeforeHook | None = None,
    after_tool_call: AfterHook | None = None,
    on_update: OnUpdate | None = None,
    policy: Policy = DEFAULT,
    clock: Clock = SYSTEM_CLOCK,
) -> Outcome:
    """The whole pipeline for one call, for tools that call tools: no events, nothing appended.

    Never raises for a fault of the tool or of a hook; a cancellation of the caller propagates.
    """
    signal = never_aborted() if signal is None else signal
    ready = prepare(call, Toolbox(tools), signal, policy)
    if isinstance(ready, Outcome):
        return ready
    task = asyncio.current_task()
    cancelled_before = 0 if task is None else task.cancelling()

    def was_cut() -> bool:
        return task is not None and task.cancelling() > cancelled_before

    if before_tool_call is not None:
        refusal = await ask_before(ready, before_tool_call, assistant_message, context, signal, policy, None, was_cut)
        if refusal is not None:
            return refusal
    if signal.aborted:
        return aborted_outcome(call, policy)
    gate = UpdateGate(on_update)
    try:
        outcome = await execute(ready, signal, gate, clock, policy, was_cut)
    finally:
        gate.close()
    if after_tool_call is None:
        return outcome
    return await ask_after(ready, outcome, after_tool_call, assistant_message, context, signal, policy, was_cut)


class UpdateGate:
    """A progress callback that is deaf once its tool has returned."""

    __slots__ = ("_open", "_target")

    def __init__(self, target: OnUpdate | None) -> None:
        self._target = target
        self._open = target is not None

    def __call__(self, partial: Any) -> None:
        if self._open and self._target is not None:
            self._target(partial)

    def close(self) -> None:
        self._open = False


def as_result(returned: Any) -> ToolResult:
    """What a tool may give back, as a result: a result, a text, blocks, or nothing.

    Raises:
        TypeError: it is none of these; the text names the type.
    """
    if isinstance(returned, ToolResult):
        return returned
    if isinstance(returned, str):
        return ToolResult(content=(Text(text=returned),))
    if returned is None:
        return ToolResult()
    blocks = (Text, Image, Thinking, ToolCall, Foreign)
    if isinstance(returned, blocks):
        return ToolResult(content=(returned,))
    if isinstance(returned, list | tuple):
        items = cast("Sequence[Any]", returned)
        if all(isinstance(item, blocks) for item in items):
            return ToolResult(content=tuple(items))
    raise TypeError(
        f"the tool returned {type(returned).__name__}, which is no result; return a text, blocks or a ToolResult"
    )


def aborted_outcome(call: ToolCall, policy: Policy) -> Outcome:
    """The answer to a call that was not begun because the run was aborted."""
    return skipped(call, "aborted", typed=policy.skip_details == "typed")


def error_text(error: BaseException, policy: Policy = DEFAULT) -> str:
    """What an exception says, or its name if it says nothing. Never a stack trace."""
    text = str(error)
    return text or ("" if policy.nameless_error == "empty" else type(error).__name__)


def _raised(text: str) -> ToolResult:
    return error_outcome(text).result


def _elapsed_ms(started: float, clock: Clock) -> int:
    return max(0, round((clock.monotonic() - started) * 1000))
