"""Tools that call tools: the same pipeline as for calls of the model, told as events, recorded with the outermost call.

The results go to the caller alone. What the log keeps is a record on the result message of the call that the model
made: which calls there were, with what arguments, and how they ended; long ones are cut, and the record says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct, field

from antiphon.core.calls import Outcome, ToolResult
from antiphon.core.content import Text, ToolCall, text_of
from antiphon.core.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from antiphon.core.ports import AbortSignal, OnUpdate, Tool
from antiphon.core.usage import NO_USAGE, Usage, add_usage
from antiphon.core.wire import JsonObject, encode
from antiphon.session_log.compaction.estimate import units

MOST_CALLS = 256
MOST_ARGUMENT_BYTES = 8 * 1024
MOST_ARGUMENT_BYTES_TOGETHER = 32 * 1024
MOST_ERROR_UNITS = 500

Perform: TypeAlias = Callable[[ToolCall, AbortSignal | None, OnUpdate], Awaitable[Outcome]]
"""Runs one call through the pipeline; never raises for a failure of the tool."""
NestedEvent: TypeAlias = ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd


@final
class NestedOutcome(Struct, frozen=True):
    """What a nested call has come to."""

    tool_call: ToolCall
    result: ToolResult
    is_error: bool
    duration_ms: int | None = None


class _Entry(Struct):
    """One line of a record."""

    id: str
    name: str
    arguments: JsonObject | None
    argument_bytes: int
    status: Literal["ok", "error", "unfinished"] = "unfinished"
    duration_ms: int | None = None
    error: str | None = None

    def as_json(self) -> JsonObject:
        out: JsonObject = {"id": self.id, "name": self.name}
        if self.arguments is None:
            out["argumentsBytes"] = self.argument_bytes
        else:
            out["arguments"] = self.arguments
        out["status"] = self.status
        if self.duration_ms is not None:
            out["durationMs"] = self.duration_ms
        if self.error is not None:
            out["error"] = self.error
        return out


class _Record(Struct):
    """What happened on behalf of one call of the model."""

    entries: list[_Entry] = field(default_factory=list[_Entry])
    bytes_kept: int = 0
    cut: bool = False
    usage: Usage = NO_USAGE
    usage_counted: bool = False

    def open(self, call: ToolCall) -> _Entry | None:
        """A line for a call that begins; nothing if there are too many."""
        if len(self.entries) == MOST_CALLS:
            self.cut = True
            return None
        size = len(encode(call.arguments))
        fits = size <= MOST_ARGUMENT_BYTES and self.bytes_kept + size <= MOST_ARGUMENT_BYTES_TOGETHER
        self.bytes_kept += size if fits else 0
        self.cut = self.cut or not fits
        entry = _Entry(call.id, call.name, call.arguments if fits else None, size)
        self.entries.append(entry)
        return entry

    def as_json(self) -> JsonObject:
        unfinished = any(entry.status == "unfinished" for entry in self.entries)
        return {"calls": [entry.as_json() for entry in self.entries], "complete": not self.cut and not unfinished}


@final
class NestedCalls:
    """The nested calls of one session. `sequential`: calls run one at a time, whatever their tools say."""

    def __init__(
        self,
        perform: Perform,
        emit: Callable[[NestedEvent], None],
        *,
        find: Callable[[str], Tool | None],
        sequential: Callable[[], bool],
    ) -> None:
        self._perform = perform
        self._emit = emit
        self._find = find
        self._sequential = sequential
        self._counts: dict[str, int] = {}
        self._records: dict[str, _Record] = {}
        self._turnstile = asyncio.Lock()
        self._inside: dict[str, asyncio.Lock] = {}

    async def call(
        self,
        caller: str,
        name: str,
        arguments: JsonObject | None,
        *,
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> NestedOutcome:
        """Make a call on behalf of `caller`, the id of the call that makes it. Never raises for a failure of the tool.

        `signal` left out: that of the run.
        """
        call = ToolCall(id=self._next_id(caller), name=name, arguments={} if arguments is None else arguments)
        record = self._records.setdefault(caller.split("/", 1)[0], _Record())
        entry = record.open(call)
        self._emit(
            ToolExecutionStart(tool_call_id=call.id, tool_name=name, args=call.arguments, parent_tool_call_id=caller)
        )
        async with self._turn(call, caller):
            outcome = await self._perform(call, signal, self._updates(call, caller, on_update))
        self._close(record, entry, outcome)
        self._emit(
            ToolExecutionEnd(
                tool_call_id=call.id,
                tool_name=name,
                result=outcome.result,
                is_error=outcome.is_error,
                duration_ms=outcome.duration_ms,
                parent_tool_call_id=caller,
            )
        )
        duration = None if outcome.duration_ms is UNSET else outcome.duration_ms
        return NestedOutcome(call, outcome.result, outcome.is_error, duration)

    def _next_id(self, caller: str) -> str:
        self._counts[caller] = number = self._counts.get(caller, 0) + 1
        return f"{caller}/{number}"

    def _updates(self, call: ToolCall, caller: str, on_update: OnUpdate | None) -> OnUpdate:
        def update(partial: Any) -> None:
            result = ToolResult(content=(Text(text=partial),)) if isinstance(partial, str) else partial
            self._emit(
                ToolExecutionUpdate(
                    tool_call_id=call.id,
                    tool_name=call.name,
                    args=call.arguments,
                    partial_result=result,
                    parent_tool_call_id=caller,
                )
            )
            if on_update is not None:
                on_update(partial)

        return update

    @staticmethod
    def _close(record: _Record, entry: _Entry | None, outcome: Outcome) -> None:
        if outcome.result.usage is not UNSET:
            record.usage = add_usage(record.usage, outcome.result.usage)
        if entry is None:
            return
        entry.status = "error" if outcome.is_error else "ok"
        entry.duration_ms = None if outcome.duration_ms is UNSET else outcome.duration_ms
        if outcome.is_error:
            entry.error = cut_units(text_of(outcome.result.content), MOST_ERROR_UNITS)

    # -- one at a time --------------------------------------------------------------------------------------------

    def _turn(self, call: ToolCall, caller: str) -> AbstractAsyncContextManager[None]:
        tool = self._find(call.name)
        alone = self._sequential() or getattr(tool, "execution_mode", None) == "sequential"
        return self._alone(call, caller) if alone else _at_once()

    @asynccontextmanager
    async def _alone(self, call: ToolCall, caller: str) -> AsyncGenerator[None]:
        """Wait for one's turn. A call from inside a call that has its turn does not wait for that one."""
        async with self._lock_for(caller):
            self._inside[call.id] = asyncio.Lock()
            try:
                yield
            finally:
                del self._inside[call.id]

    def _lock_for(self, caller: str) -> asyncio.Lock:
        """The turnstile inside the nearest call that has its turn, or the outermost one."""
        while caller:
            if caller in self._inside:
                return self._inside[caller]
            caller = caller.rpartition("/")[0]
        return self._turnstile

    # -- records --------------------------------------------------------------------------------------------------

    def usage(self, caller: str) -> Usage | None:
        """What the calls of a finished call have used, to be added to its result; asked once."""
        record = self._records.get(caller)
        if record is None or record.usage_counted or record.usage is NO_USAGE:
            return None
        record.usage_counted = True
        return record.usage

    def take(self, caller: str) -> tuple[JsonObject, Usage | None] | None:
        """The record for a result message, with usage that nobody has counted yet. Taken once."""
        record = self._records.get(caller)
        if record is None:
            return None
        usage = self.usage(caller)
        del self._records[caller]
        self._counts = {id_: n for id_, n in self._counts.items() if id_.split("/", 1)[0] != caller}
        return record.as_json(), usage

    def clear(self) -> None:
        """The run is over: records that no result has taken are dropped."""
        self._records.clear()
        self._counts.clear()


@asynccontextmanager
async def _at_once() -> AsyncGenerator[None]:
    yield


def cut_units(text: str, most: int) -> str:
    """At most so many UTF-16 units of a text, never half a character."""
    if units(text) <= most:
        return text
    kept = text.encode("utf-16-le", "surrogatepass")[: 2 * most]
    if 0xD8 <= kept[-1] <= 0xDB:
        kept = kept[:-2]
    return kept.decode("utf-16-le", "surrogatepass")


@final
class ToolCalls:
    """What a tool gets that wants to call others (`using_calls(calls)` gives the tool that has it)."""

    def __init__(self, nested: NestedCalls, callable_tools: Callable[[], tuple[Tool, ...]]) -> None:
        self._nested = nested
        self._callable = callable_tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return self._callable()

    async def execute(
        self,
        caller: str,
        name: str,
        arguments: JsonObject | None = None,
        *,
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> NestedOutcome:
        """Call a tool on behalf of the call `caller`. Never raises for a failure of the tool."""
        return await self._nested.call(caller, name, arguments, signal=signal, on_update=on_update)
