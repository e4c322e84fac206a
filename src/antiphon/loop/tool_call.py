"""One tool call from its arguments to its outcome: prepare, check, before hook, execute, after hook.

A straight line of awaits, so an ordinary coroutine. A tool's fault is never an exception here: everything that a model
can repair becomes an error result. What does propagate is the cancellation of the caller, and `SystemExit` and
`KeyboardInterrupt`, which are nobody's result.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any, Protocol, TypeAlias, cast, final

from msgspec import UNSET, Struct, structs

from antiphon.core.calls import Outcome, ToolResult, error_outcome, skipped
from antiphon.core.content import Content, Foreign, Image, Text, Thinking, ToolCall
from antiphon.core.hooks import (
    AfterHook,
    AfterOverride,
    AfterToolCall,
    BeforeDecision,
    BeforeHook,
    BeforeToolCall,
    Context,
)
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.ports import AbortSignal, Clock, OnUpdate, Tool
from antiphon.core.toolbox import Toolbox
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject
from antiphon.errors import words_of
from antiphon.loop.abort import never_aborted
from antiphon.loop.config import SYSTEM_CLOCK
from antiphon.loop.given import as_answer
from antiphon.loop.leash import Cut, foreign_cancelled
from antiphon.loop.threads import in_thread

Hold: TypeAlias = Callable[[Awaitable[Any]], Awaitable[Any]]


@final
class Ready(Struct, frozen=True):
    """A call that may run: its tool, the converted arguments, which hooks and tool share, and its limits in seconds."""

    call: ToolCall
    tool: Tool
    args: JsonObject
    timeout: float | None = None
    abort_grace: float | None = None


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
        args = _checker()(prepared, tool.parameters)
        timeout, grace = getattr(tool, "timeout", None), getattr(tool, "abort_grace", None)
        if timeout is None and grace is None:
            return Ready(call, tool, args)
        return Ready(call, tool, args, _seconds(tool, "timeout", timeout), _seconds(tool, "abort_grace", grace))
    except asyncio.CancelledError as own:
        return error_outcome(str(foreign_cancelled(own)))
    except Exception as error:  # noqa: BLE001 - refused arguments, or the tool's own preparation failed
        return error_outcome(error_text(error, policy))


@cache
def _checker() -> Callable[[ToolCall, JsonObject], JsonObject]:
    """The check of arguments, loaded with the first call."""
    from antiphon.loop.arguments import check_arguments

    return check_arguments


def _seconds(tool: Tool, name: str, limit: Any) -> float | None:
    """A time limit of a tool.

    Raises:
        TypeError: it is no number of seconds.
    """
    if limit is None or type(limit) is float or type(limit) is int:
        return cast("float | None", limit)
    raise TypeError(f"`{name}` of tool {tool.name} is a {type(limit).__name__}; give a number of seconds, or None")


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
        decision = as_answer(decision, BeforeDecision, "the before hook")
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


class Caller(Protocol):
    """Who executes a call: hears its progress, and knows whether a cancellation came from the run."""

    def update(self, partial: Any, /) -> None: ...

    def was_cut(self) -> bool: ...

    def leaves_thread(self) -> None:
        """The call is cut, its thread goes on: a thread cannot be stopped."""
        ...


async def execute(ready: Ready, signal: AbortSignal, clock: Clock, policy: Policy, caller: Caller) -> Outcome:
    """Step 9: run the tool. Raises only a cancellation by the run, and exits of the process."""
    if signal.aborted:  # the last look before something happens
        return aborted_outcome(ready.call, policy)
    started = clock.monotonic()
    try:
        function = ready.tool.execute
        if _is_async(function):
            returned = await function(ready.call.id, ready.args, signal, caller.update)
        else:
            returned = await _threaded(function, ready, signal, caller)
        result = as_result(returned)
        failed = result.is_error is True
    except asyncio.CancelledError:
        if caller.was_cut():
            raise
        result, failed = _raised("the tool was cancelled from within"), True
    except Exception as error:  # noqa: BLE001 - a tool's fault is its result
        result, failed = _raised(error_text(error, policy)), True
    return Outcome(result=result, is_error=failed, duration_ms=_elapsed_ms(started, clock), executed=True)


async def _threaded(function: Callable[..., Any], ready: Ready, signal: AbortSignal, caller: Caller) -> Any:
    """A plain function goes to a thread; its progress comes back in order."""
    loop = asyncio.get_running_loop()

    def update(partial: Any) -> None:
        loop.call_soon_threadsafe(caller.update, partial)

    working = in_thread(function, ready.call.id, ready.args, signal, update)
    try:
        returned = await working
    except asyncio.CancelledError:
        if working.cancelled():
            caller.leaves_thread()
        raise
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
        override = as_answer(override, AfterOverride, "the after hook")
        return outcome if override is None else overridden(outcome, override)
    except asyncio.CancelledError:
        if was_cut():
            raise
        return structs.replace(outcome, result=_raised("the hook was cancelled from within"), is_error=True)
    except Exception as error:  # noqa: BLE001 - a hook's fault is this call's result
        return structs.replace(outcome, result=_raised(error_text(error, policy)), is_error=True)


def overridden(outcome: Outcome, override: AfterOverride) -> Outcome:
    """Field by field, without merging. New content without new structured content drops the old structured content.

    Raises:
        TypeError: a field of the override cannot be part of a result.
    """
    changes: dict[str, Any] = {}
    if _given(override.content):
        changes["content"] = _blocks(override.content, "the after hook gave content")
        changes["structured_content"] = UNSET
    if _given(override.usage) and not isinstance(override.usage, Usage):
        raise TypeError(f"the after hook gave usage of type {type(override.usage).__name__}")
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
    caller = _Outsider(on_update)
    if before_tool_call is not None:
        refusal = await ask_before(
            ready, before_tool_call, assistant_message, context, signal, policy, None, caller.was_cut
        )
        if refusal is not None:
            return refusal
    try:
        outcome = await execute(ready, signal, clock, policy, caller)
    finally:
        caller.close()
    if after_tool_call is None or not outcome.executed:
        return outcome
    return await ask_after(ready, outcome, after_tool_call, assistant_message, context, signal, policy, caller.was_cut)


@final
class _Outsider:
    """The caller of a call outside of a run: its progress callback is deaf once the tool has returned."""

    __slots__ = ("_cancelled_before", "_target", "_task")

    def __init__(self, target: OnUpdate | None) -> None:
        self._target = target
        self._task = asyncio.current_task()
        self._cancelled_before = 0 if self._task is None else self._task.cancelling()

    def update(self, partial: Any, /) -> None:
        if self._target is not None:
            self._target(partial)

    def was_cut(self) -> bool:
        return self._task is not None and self._task.cancelling() > self._cancelled_before

    def leaves_thread(self) -> None:
        return None

    def close(self) -> None:
        self._target = None


def as_result(returned: Any) -> ToolResult:
    """What a tool may give back, as a result: a result, a text, blocks, or nothing.

    Raises:
        TypeError: it is none of these; the text names the type.
    """
    if isinstance(returned, ToolResult):
        return _sound(returned)
    if isinstance(returned, str):
        return ToolResult(content=(Text(text=returned),))
    if returned is None:
        return ToolResult()
    if isinstance(returned, _BLOCKS):
        return ToolResult(content=(returned,))
    if isinstance(returned, list | tuple):
        return ToolResult(content=_blocks(returned, "the tool returned a list"))
    raise TypeError(
        f"the tool returned {type(returned).__name__}, which is no result; return a text, blocks or a ToolResult"
    )


_BLOCKS = (Text, Image, Thinking, ToolCall, Foreign)


def _sound(result: ToolResult) -> ToolResult:
    """The result, if the transcript can hold it."""
    content: Any = result.content
    if type(content) is not tuple or any(not isinstance(block, _BLOCKS) for block in content):
        result = structs.replace(result, content=_blocks(content, "the tool returned a result with content"))
    usage: Any = result.usage
    if usage is not UNSET and type(usage) is not Usage:
        raise TypeError(f"the tool returned a result with usage of type {type(usage).__name__}; give a Usage")
    return result


def _blocks(given: Any, where: str) -> Content:
    """Given blocks as the content of a result."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise TypeError(f"{where} of type {type(given).__name__}, which is no result; give a list of blocks")
    items = cast("Sequence[Any]", given)
    for item in items:
        if not isinstance(item, _BLOCKS):
            raise TypeError(f"{where} with a {type(item).__name__} in it, which is no block of a result")
    return tuple(items)


def aborted_outcome(call: ToolCall, policy: Policy) -> Outcome:
    """The answer to a call that was not begun because the run was aborted."""
    return skipped(call, "aborted", typed=policy.skip_details == "typed")


def error_text(error: BaseException, policy: Policy = DEFAULT) -> str:
    """What an exception says, or its name if it says nothing. Never a stack trace."""
    return words_of(error) or ("" if policy.nameless_error == "empty" else type(error).__name__)


def _raised(text: str) -> ToolResult:
    return error_outcome(text).result


def _elapsed_ms(started: float, clock: Clock) -> int:
    return max(0, round((clock.monotonic() - started) * 1000))
