"""One call, one result with the same id: small functions that chapters 06 and 07 share."""

from __future__ import annotations

import asyncio

from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import ToolResultMessage


def error_result(call: ToolCall, text: str) -> ToolResultMessage:
    """The result of a call that failed. No stack trace: it would tell a model nothing, and others too much."""
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(Text(text=text),), is_error=True)


def fault_text(error: BaseException) -> str:
    """What an exception says, or its name if it says nothing."""
    return str(error) or type(error).__name__


def paired(call: ToolCall, result: object) -> ToolResultMessage:
    """The result, if it answers this call; else an error result that says what an executor gave instead."""
    if not isinstance(result, ToolResultMessage):
        return error_result(call, f"the executor gave a {type(result).__name__}, which is no result")
    if result.tool_call_id != call.id:
        return error_result(call, f"the executor answered call {result.tool_call_id} instead of {call.id}")
    return result


def cancelled_from_outside() -> bool:
    """In an `except CancelledError`: was this task cancelled, or did a tool raise the exception of its own?

    Cancelled from outside means that nobody wants the task any more: raise it again. Else it is a fault like any other,
    although no `except Exception` sees it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
