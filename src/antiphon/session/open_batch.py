"""Answering calls that an earlier process has left without a result: run what was approved, close the rest.

When the work goes on, a call that had not begun is made. One that may have begun is made again only if its tool says
that this does no harm (`replay`), or a person says so; else its result says that it was interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, final

from antiphon.core.calls import Outcome, error_outcome, result_message
from antiphon.core.content import ToolCall
from antiphon.core.events import MessageEnd, MessageStart, ToolExecutionEnd, ToolExecutionStart
from antiphon.core.messages import AssistantMessage
from antiphon.core.ports import AbortSignal, ReplayPolicy
from antiphon.session.approvals import ANSWERED, REFUSED, Approvals, Verdict
from antiphon.session.conversation import Conversation
from antiphon.session.recorder import Recorder
from antiphon.session.tool_registry import ToolRegistry
from antiphon.session_log.calls import CALL_STARTED, OpenCall, Resumption, interrupted_result, resumption
from antiphon.session_log.entries import CustomEntry

AGAIN = "The program ended while {name} was running; it may have had effects. Run it again?"
Perform: TypeAlias = Callable[[ToolCall, AbortSignal], Awaitable[Outcome]]


@final
class OpenBatch:
    """The open calls of one conversation's last answer."""

    def __init__(
        self,
        conversation: Conversation,
        registry: ToolRegistry,
        approvals: Approvals,
        recorder: Recorder,
        perform: Perform,
    ) -> None:
        self._c = conversation
        self._registry = registry
        self._approvals = approvals
        self._recorder = recorder
        self._perform = perform

    @property
    def is_open(self) -> bool:
        """Are there calls without a result that wait for a person, or for being carried out?"""
        return bool(self._approvals.positions)

    async def ask(self) -> None:
        """Ask a person about calls that may have run, if their tool wants that, and about others if the host does."""
        answer = self._c.last_answer()
        if answer is None:
            return
        for found in self._c.log.open_calls():
            if self._verdict(found) is None and self._approvals.is_unasked_or_stale(found.position):
                what = self._resumption(found, answer)
                again = AGAIN.format(name=found.call.name) if what == "ask" else None
                if what != "close":
                    await self._approvals.ask_about(answer, found.call, found.position, again)

    async def close(self, signal: AbortSignal, *, going_on: bool) -> None:
        """Give every open call its result, in call order. `going_on`: make those that their tools allow to be made.

        Raises:
            SessionError: the log cannot be written.
        """
        calls = self._c.log.open_calls()
        answer = self._c.last_answer()
        may_run = {
            found.position
            for found in calls
            if (answer is not None and self._resumption(found, answer) == "run")
            and (going_on or (self.is_open and found.progress != "begun"))
        }
        outcomes = await asyncio.gather(*(self._outcome(call, signal, call.position in may_run) for call in calls))
        for call, outcome in zip(calls, outcomes, strict=True):
            self._store(call, outcome)
        self._approvals.run_ended()
        self._c.refresh()
        await self._c.told()

    def _resumption(self, found: OpenCall, answer: AssistantMessage) -> Resumption:
        """What its tool allows. Calls of an answer that did not end well are never made."""
        if answer.stop_reason not in ("toolUse", "stop"):
            return "close"
        tool = self._registry.find(found.call.name)
        replay: ReplayPolicy = getattr(tool, "replay", "never")
        is_new = found.progress == "unknown" and self.is_open  # who keeps approvals keeps records of starts
        return resumption("not begun" if is_new else found.progress, replay)

    def _verdict(self, found: OpenCall) -> Verdict | None:
        """What a person said about the call, unless it was started since: then nobody has spoken about another time."""
        verdict = self._approvals.verdict(found.position)
        if verdict is None or not verdict.approved:
            return verdict
        if found.progress == "unknown" and verdict.live:
            return None
        return None if self._started_since_answer(found.position) else verdict

    def _started_since_answer(self, position: int) -> bool:
        approval_id = self._approvals.id_of(position)
        for item in reversed(self._c.log.projection().items):
            entry = item.entry
            if isinstance(entry, CustomEntry) and isinstance(entry.data, dict):
                if entry.custom_type == CALL_STARTED and entry.data.get("position") == position:
                    return True
                if entry.custom_type == ANSWERED and entry.data.get("id") == approval_id:
                    return False
        return False

    async def _outcome(self, found: OpenCall, signal: AbortSignal, may_run: bool) -> Outcome | None:
        """What a call has come to; nothing if it may have been run before."""
        verdict = self._verdict(found)
        if verdict is not None and not verdict.approved:
            if found.progress == "begun" and verdict.reason is None:
                return None  # not again; that it was refused would say that it never ran
            return error_outcome(verdict.reason or REFUSED.format(name=found.call.name))
        if verdict is None and not may_run:
            return None
        call = found.call
        if verdict is not None and verdict.args is not None:
            call = ToolCall(id=call.id, name=call.name, arguments=verdict.args)
        once = getattr(self._registry.find(found.call.name), "replay", "never") != "safe"
        self._c.log.append_call_started(found.call, found.position, once=once)
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
