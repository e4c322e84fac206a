"""Answering calls that an earlier process has left without a result: run what was approved, close the rest.

A call is run at most once. One that may have begun before is not run again: its result says that it was interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, final

from antiphon.core.calls import Outcome, error_outcome, result_message
from antiphon.core.content import ToolCall
from antiphon.core.events import MessageEnd, MessageStart, ToolExecutionEnd, ToolExecutionStart
from antiphon.core.ports import AbortSignal
from antiphon.session.approvals import REFUSED, Approvals
from antiphon.session.conversation import Conversation
from antiphon.session.recorder import Recorder
from antiphon.session_log.calls import OpenCall, interrupted_result

Perform: TypeAlias = Callable[[ToolCall, AbortSignal], Awaitable[Outcome]]


@final
class OpenBatch:
    """The open calls of one conversation's last answer."""

    def __init__(self, conversation: Conversation, approvals: Approvals, recorder: Recorder, perform: Perform) -> None:
        self._c = conversation
        self._approvals = approvals
        self._recorder = recorder
        self._perform = perform

    @property
    def is_open(self) -> bool:
        """Are there calls without a result that wait for a person, or for being carried out?"""
        return bool(self._approvals.positions)

    async def close(self, signal: AbortSignal) -> None:
        """Give every open call its result, in call order.

        Raises:
            SessionError: the log cannot be written.
        """
        calls = self._c.log.open_calls()
        outcomes = await asyncio.gather(*(self._outcome(call, signal) for call in calls))
        for call, outcome in zip(calls, outcomes, strict=True):
            self._store(call, outcome)
        self._approvals.run_ended()
        self._c.refresh()
        await self._c.told()

    async def _outcome(self, found: OpenCall, signal: AbortSignal) -> Outcome | None:
        """What a call has come to; nothing if it may have been run before."""
        verdict = self._approvals.verdict(found.position)
        if found.progress == "begun" or (verdict is not None and verdict.approved and verdict.live):
            return None
        if verdict is not None and not verdict.approved:
            return error_outcome(verdict.reason or REFUSED.format(name=found.call.name))
        if verdict is None and found.position not in self._approvals.positions and not self.is_open:
            return None
        call = found.call
        if verdict is not None and verdict.args is not None:
            call = ToolCall(id=call.id, name=call.name, arguments=verdict.args)
        self._c.log.append_call_started(found.call, found.position)
        self._c.emit(ToolExecutionStart(tool_call_id=call.id, tool_name=call.name, args=call.arguments))
        outcome = await self._perform(call, signal)
        self._c.emit(
            ToolExecutionEnd(
                tool_call_id=call.id,
                tool_name=call.name,
                result=outcome.result,
                is_error=outcome.is_error,
                duration_ms=outcome.duration_ms,
            )
        )
        return outcome

    def _store(self, found: OpenCall, outcome: Outcome | None) -> None:
        now = self._c.clock.now_ms()
        message = interrupted_result(found, now) if outcome is None else result_message(found.call, outcome, now)
        entry_id = self._recorder.record(message)
        self._c.emit(MessageStart(message=message))
        if entry_id is not None:
            self._c.emit(MessageEnd(message=message, entry_id=entry_id))
