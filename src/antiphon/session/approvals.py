"""Calls that wait for a person: each is an entry of the log, so it may be answered in any order, later, from anywhere.

The first call of an answer that needs approval opens the approvals of all its calls, so a person sees them together.
Each call then waits for its own. An answer is an entry, too. A process that ends in between loses nothing: whoever
opens the session next finds what is pending, answers it, and lets the conversation go on.

A refusal is an ordinary result that the model reads. Edited arguments are checked like the model's own.
"""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, cast, final

from msgspec import UNSET, Struct, field, structs

from antiphon.core.batch import refused_doubles
from antiphon.core.content import ToolCall
from antiphon.core.hooks import BeforeDecision, BeforeToolCall, Context, position_of
from antiphon.core.messages import AssistantMessage, calls_of
from antiphon.core.ports import AbortSignal
from antiphon.core.session_events import ApprovalAnswered, ApprovalRequested
from antiphon.core.wire import JsonObject
from antiphon.errors import ConfigurationError
from antiphon.loop.arguments import ArgumentsRefused, check_arguments
from antiphon.session.conversation import Conversation
from antiphon.session.refusals import NoSuchApproval
from antiphon.session.tool_registry import ToolRegistry
from antiphon.session_log.entries import CustomEntry, MessageEntry

Need: TypeAlias = bool | str | None
"""Does a call need approval? A text is the question to ask."""
Approver: TypeAlias = Callable[[BeforeToolCall], Need | Awaitable[Need]]

REQUESTED = "antiphon.approval"
ANSWERED = "antiphon.approval_answer"
REFUSED = "The user did not allow this call of {name}."
WENT_ON = "The user did not allow this call of {name}, and went on with something else."


@final
class Approval(Struct, frozen=True, kw_only=True):
    """A call that waits. `position`: its place among the calls of its answer, because ids may repeat."""

    id: str
    tool_call_id: str
    tool_name: str
    position: int
    args: JsonObject
    question: str | None = None
    asked_ms: int = 0


@final
class Verdict(Struct, frozen=True):
    """What a person said. `live`: the call was waiting for it, so it may have run since."""

    approved: bool
    args: JsonObject | None = None
    reason: str | None = None
    live: bool = False


class _Waiting(Struct):
    approval: Approval
    verdict: Verdict | None = None
    answered: asyncio.Event = field(default_factory=asyncio.Event)


@final
class Approvals:
    """The approvals of one conversation."""

    def __init__(self, conversation: Conversation, registry: ToolRegistry, approver: Approver | None) -> None:
        self._c = conversation
        self._registry = registry
        self.approver = approver
        self._of: AssistantMessage | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._load()

    # -- what waits -----------------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[Approval, ...]:
        """Calls without an answer, in call order."""
        return tuple(w.approval for _, w in sorted(self._waiting.items()) if w.verdict is None)

    @property
    def positions(self) -> frozenset[int]:
        """Positions of the last answer's calls that were asked about, answered or not."""
        return frozenset(self._waiting)

    def id_of(self, position: int) -> str | None:
        waiting = self._waiting.get(position)
        return None if waiting is None else waiting.approval.id

    def is_unasked_or_stale(self, position: int) -> bool:
        """Does nobody think about this call at the moment?"""
        waiting = self._waiting.get(position)
        return waiting is None or waiting.verdict is not None

    def verdict(self, position: int) -> Verdict | None:
        waiting = self._waiting.get(position)
        return None if waiting is None else waiting.verdict

    def _load(self) -> None:
        """What the log says of the calls of the last answer that have no result."""
        if not self._c.has_open_calls():
            return
        open_positions = {open_call.position for open_call in self._c.log.open_calls()}
        for entry in self._records():
            data = cast("JsonObject", entry.data)
            if entry.custom_type == REQUESTED and data.get("position") in open_positions:
                approval = _approval_of(data)
                self._waiting[approval.position] = _Waiting(approval)
            elif entry.custom_type == ANSWERED:
                for waiting in self._waiting.values():
                    if waiting.approval.id == data.get("id"):
                        waiting.verdict = _verdict_of(data)

    def _records(self) -> Iterable[CustomEntry]:
        """Records behind the last answer, oldest first."""
        found: list[CustomEntry] = []
        for item in reversed(self._c.log.projection().items):
            entry = item.entry
            if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
                break
            if isinstance(entry, CustomEntry) and isinstance(entry.data, dict):
                found.append(entry)
        return reversed(found)

    # -- asking ---------------------------------------------------------------------------------------------------

    async def gate(self, call: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        """Let a call pass when a person has allowed it. Returns at once for calls that need no approval."""
        message = call.assistant_message
        position = position_of(call)
        if position is None:  # a nested call: it is judged alone
            return await self._nested(call, signal)
        if self._of is not message:
            self._of = message
            await self._open_all(message, call)
        waiting = self._waiting.get(position)
        if waiting is None:
            return None
        if waiting.verdict is None and not await _answered_or_aborted(waiting.answered, signal):
            return BeforeDecision(block=True, reason="Operation aborted")
        return self._passed(call, waiting)

    def is_held_up(self, call: BeforeToolCall) -> bool:
        """Does a call that was let pass start only when a person has judged a later one of its answer?

        Calls of one answer start together, unless they are made one after the other.
        """
        position = position_of(call)
        if position is None or self._of is not call.assistant_message:
            return False
        one_by_one = self._c.agent.tool_execution == "sequential" or any(
            getattr(self._registry.find(other.name), "execution_mode", None) == "sequential"
            for other in calls_of(call.assistant_message)
        )
        return not one_by_one and any(w.verdict is None and p > position for p, w in self._waiting.items())

    async def _nested(self, call: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        need = await self._need(call)
        if not need:
            return None
        waiting = self._request(call.tool_call, call.args, -1 - len(self._waiting), need)
        try:
            if not await _answered_or_aborted(waiting.answered, signal):
                return BeforeDecision(block=True, reason="Operation aborted")
            return self._passed(call, waiting)
        finally:
            del self._waiting[waiting.approval.position]

    def _passed(self, call: BeforeToolCall, waiting: _Waiting) -> BeforeDecision | None:
        """What an answer means for its call."""
        verdict = waiting.verdict
        if verdict is None or not verdict.approved:
            reason = None if verdict is None else verdict.reason
            return BeforeDecision(block=True, reason=reason or REFUSED.format(name=call.tool_call.name))
        if verdict.args is not None:
            call.args.clear()
            call.args.update(verdict.args)
        return None

    async def _open_all(self, message: AssistantMessage, first: BeforeToolCall) -> None:
        """Ask about every call of an answer that needs it, before the first of them waits."""
        self._waiting = {p: w for p, w in self._waiting.items() if p < 0}
        calls = calls_of(message)
        doubles = refused_doubles(calls, self._c.agent.policy.duplicate_call_id)
        for position, call in enumerate(calls):
            if position in doubles:  # the loop refuses it whatever a person says
                continue
            args = first.args if call is first.tool_call else self._checked(call, call.arguments)
            if args is None:
                continue
            need = await self._need(structs.replace(first, tool_call=call, args=args))
            if need:
                self._request(call, args, position, need)
        if self._waiting:
            self._c.log.flush()

    async def ask_about(self, message: AssistantMessage, call: ToolCall, position: int, question: str | None) -> None:
        """Ask about a call that an earlier process has left open. Without a question: if the host wants it asked."""
        args = self._checked(call, call.arguments)
        if args is None:
            return
        context = Context(self._c.agent.messages, self._c.agent.tools)
        given = BeforeToolCall(assistant_message=message, tool_call=call, args=args, context=context)
        need = question or await self._need(given)
        if need:
            self._request(call, args, position, need)
            self._c.log.flush()

    async def _need(self, call: BeforeToolCall) -> Need:
        """Does a call need approval? If nobody can say, it does."""
        if self.approver is None:
            return None
        try:
            need = self.approver(call)
            return await need if inspect.isawaitable(need) else need
        except Exception as error:  # noqa: BLE001 - the border to the host
            self._c.report("approve", error, self.approver)
            return True

    def _checked(self, call: ToolCall, arguments: JsonObject) -> JsonObject | None:
        """The arguments as the tool will get them; nothing if the call is going to be refused anyway."""
        tool = self._registry.find(call.name)
        if tool is None:
            return None
        try:
            return check_arguments(structs.replace(call, arguments=arguments), tool.parameters)
        except ArgumentsRefused:
            return None

    def _request(self, call: ToolCall, args: JsonObject, position: int, need: Need) -> _Waiting:
        """Open an approval. It is pending before anybody hears of it, so a listener may answer at once."""
        c = self._c
        approval = Approval(
            id=str(uuid.uuid4()),
            tool_call_id=call.id,
            tool_name=call.name,
            position=position,
            args=dict(args),
            question=need if isinstance(need, str) else None,
            asked_ms=c.clock.now_ms(),
        )
        waiting = self._waiting[position] = _Waiting(approval)
        c.log.append_custom(REQUESTED, _approval_data(approval))
        c.emit(
            ApprovalRequested(
                id=approval.id,
                tool_call_id=call.id,
                tool_name=call.name,
                args=approval.args,
                question=UNSET if approval.question is None else approval.question,
            )
        )
        return waiting

    # -- answering ------------------------------------------------------------------------------------------------

    def answer(
        self, approval_id: str, approved: bool, *, args: JsonObject | None = None, reason: str | None = None
    ) -> None:
        """Say yes or no to a pending call. `args`: run it with these instead; `reason` is what the model reads.

        Raises:
            NoSuchApproval: it is not pending.
            ConfigurationError: the edited arguments do not fit the tool; it stays pending.
        """
        waiting = next((w for w in self._waiting.values() if w.approval.id == approval_id), None)
        if waiting is None or waiting.verdict is not None:
            raise NoSuchApproval(approval_id)
        checked = None if args is None or not approved else self._edited(waiting.approval, args)
        live = self._of is not None or waiting.approval.position < 0
        self._store(waiting, Verdict(approved, checked, reason, live))

    def _edited(self, approval: Approval, args: JsonObject) -> JsonObject:
        tool = self._registry.find(approval.tool_name)
        if tool is None:
            raise ConfigurationError(f"tool {approval.tool_name} is not there any more")
        call = ToolCall(id=approval.tool_call_id, name=approval.tool_name, arguments=args)
        try:
            return check_arguments(call, tool.parameters)
        except ArgumentsRefused as refused:
            raise ConfigurationError(f"the edited arguments do not fit: {refused}") from refused

    def refuse_all(self) -> None:
        """The user goes on without answering: what is pending is refused."""
        for waiting in self._waiting.values():
            if waiting.verdict is None:
                reason = WENT_ON.format(name=waiting.approval.tool_name)
                self._store(waiting, Verdict(approved=False, reason=reason))

    def _store(self, waiting: _Waiting, verdict: Verdict) -> None:
        c = self._c
        c.log.append_custom(ANSWERED, _verdict_data(waiting.approval.id, verdict))
        c.log.flush()
        waiting.verdict = verdict
        waiting.answered.set()
        c.emit(
            ApprovalAnswered(
                id=waiting.approval.id,
                approved=verdict.approved,
                args=UNSET if verdict.args is None else verdict.args,
                reason=UNSET if verdict.reason is None else verdict.reason,
            )
        )

    def run_ended(self) -> None:
        """Nothing waits for an answer any more; what is still open in the log can be answered later."""
        self._of = None
        self._waiting.clear()
        self._load()


async def _answered_or_aborted(answered: asyncio.Event, signal: AbortSignal) -> bool:
    """Wait for an answer; false if the run is aborted first."""
    waits = (asyncio.ensure_future(answered.wait()), asyncio.ensure_future(signal.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waits:
            task.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
    return answered.is_set()


def _approval_data(approval: Approval) -> JsonObject:
    data: JsonObject = {
        "id": approval.id,
        "toolCallId": approval.tool_call_id,
        "toolName": approval.tool_name,
        "position": approval.position,
        "args": approval.args,
        "askedMs": approval.asked_ms,
    }
    if approval.question is not None:
        data["question"] = approval.question
    return data


def _approval_of(data: JsonObject) -> Approval:
    args: Any = data.get("args")
    return Approval(
        id=str(data.get("id", "")),
        tool_call_id=str(data.get("toolCallId", "")),
        tool_name=str(data.get("toolName", "")),
        position=int(data.get("position", 0)),
        args=args if isinstance(args, dict) else {},
        question=data.get("question"),
        asked_ms=int(data.get("askedMs", 0)),
    )


def _verdict_data(approval_id: str, verdict: Verdict) -> JsonObject:
    data: JsonObject = {"id": approval_id, "approved": verdict.approved, "live": verdict.live}
    if verdict.args is not None:
        data["args"] = verdict.args
    if verdict.reason is not None:
        data["reason"] = verdict.reason
    return data


def _verdict_of(data: JsonObject) -> Verdict:
    args: Any = data.get("args")
    reason: Any = data.get("reason")
    return Verdict(
        approved=data.get("approved") is True,
        args=args if isinstance(args, dict) else None,
        reason=reason if isinstance(reason, str) else None,
        live=data.get("live") is True,
    )
