"""Chapter 06: from one call to its one result.

Whatever happens to a call, the answer is a `ToolResultMessage` with the id and the name of that call: an unknown tool,
arguments that do not fit, a tool that raises. A model can read an error result and do better; it cannot read an
exception of our program.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, final

from antiphon.core.content import ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import ToolResultMessage
from antiphon.core.ports import AbortSignal, Tool
from antiphon.core.wire import JsonObject
from antiphon.course.pairing import cancelled_from_outside, error_result, fault_text
from antiphon.course.ports import ReportProgress
from antiphon.errors import MisuseError
from antiphon.loop.arguments import check_arguments
from antiphon.loop.tool_call import as_result


@final
class ToolSet:
    """Tools that a model may call, found by name.

    Raises:
        MisuseError: two tools have one name, so a call could not say which is meant.
    """

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._by_name: dict[str, Tool] = {tool.name: tool for tool in tools}
        if len(self._by_name) < len(tools):
            names = sorted({tool.name for tool in tools if [other.name for other in tools].count(tool.name) > 1})
            raise MisuseError(f"several tools are named {', '.join(names)}; give each a name of its own")

    def definitions(self) -> tuple[ToolDeclaration, ...]:
        """What a model is told about the tools, in the order in which they were given."""
        return tuple(
            ToolDeclaration(name=tool.name, description=tool.description, parameters=tool.parameters)
            for tool in self._by_name.values()
        )

    def find(self, name: str) -> Tool | None:
        """The tool of that name, if there is one."""
        return self._by_name.get(name)


@final
class Executor:
    """Runs calls on a `ToolSet`. It never raises for a fault of a tool; a cancellation of its caller propagates."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools

    async def __call__(
        self, call: ToolCall, /, *, signal: AbortSignal, report_progress: ReportProgress
    ) -> ToolResultMessage:
        """Find the tool, check the arguments, run it; whatever fails becomes the error result of this call."""
        tool = self._tools.find(call.name)
        if tool is None:
            return error_result(call, f"Tool {call.name} not found")
        try:
            arguments = check_arguments(call, tool.parameters)
            result = as_result(await _run(tool, call, arguments, signal, report_progress))
        except asyncio.CancelledError:
            if cancelled_from_outside():
                raise
            return error_result(call, f"Tool {call.name} was cancelled from within")
        except Exception as error:  # noqa: BLE001 - a fault of a tool is its result
            return error_result(call, fault_text(error))
        return ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=result.content,
            details=result.details,
            usage=result.usage,
            is_error=result.is_error is True,
        )


async def _run(
    tool: Tool, call: ToolCall, arguments: JsonObject, signal: AbortSignal, report_progress: ReportProgress
) -> Any:
    """What the tool gives back. A plain function runs in a thread, so that it cannot stop the event loop."""
    execute = tool.execute
    if inspect.iscoroutinefunction(execute):
        return await execute(call.id, arguments, signal, report_progress)
    loop = asyncio.get_running_loop()

    def report(progress: Any) -> None:
        loop.call_soon_threadsafe(report_progress, progress)

    returned = await asyncio.to_thread(execute, call.id, arguments, signal, report)
    return await returned if inspect.isawaitable(returned) else returned
