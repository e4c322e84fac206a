"""An agent as a tool: a conversation of its own for one task, inside the one that asked for it.

It works within a part of its caller's budget, stops when the caller's call is stopped, and gives its last answer back.
If it fails, the result says so; nothing is raised. Its log is a session like any other: it can be looked at, and the
model can go on with it by naming its id.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final

from msgspec import UNSET

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import RunLimits
from antiphon.core.ports import AbortSignal, OnUpdate, Tool
from antiphon.core.session_events import SessionEvent
from antiphon.core.usage import NO_USAGE, Usage, add_usage
from antiphon.core.wire import JsonObject
from antiphon.errors import AntiphonError, LimitStillReached
from antiphon.session.budget import Budget
from antiphon.session.settlement import Settlement
from antiphon.session_log.log import SessionLog

if TYPE_CHECKING:
    from antiphon.session.agent_session import AgentSession

_SHOWN_UNITS = 200


class Logs(Protocol):
    """Where the sessions of sub-agents live; a `SessionStore` is one way."""

    def begin(self, parent: str | None) -> SessionLog:
        """A new session that names its caller's."""
        ...

    def resume(self, session_id: str) -> SessionLog:
        """An earlier one.

        Raises:
            SessionError: there is none with this id, or it is in use.
        """
        ...


Make = Callable[[SessionLog, Budget], "AgentSession"]
"""Makes the conversation of a sub-agent over its log, with its part of the budget."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentSpec:
    """What the model is told of it, and what it may use at most."""

    name: str = "agent"
    description: str = (
        "Give a task to another agent that works on its own and reports back. It knows nothing of this conversation: "
        "say all that it needs to know. Several may work at once."
    )
    max_turns: int | None = 50
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None


@final
class SubAgent:
    """The tool. It gets to know its session when it is registered there."""

    label = "agent"
    replay = "never"
    abort_grace = 5.0
    prompt_snippet = "Give a task to another agent"

    def __init__(
        self, make: Make, logs: Logs, spec: SubAgentSpec | None = None, *, caller: AgentSession | None = None
    ) -> None:
        self._make = make
        self._logs = logs
        self._spec = spec or SubAgentSpec()
        self._caller = caller
        self.name = self._spec.name
        self.description = self._spec.description

    @property
    def parameters(self) -> JsonObject:
        return {
            "type": "object",
            "properties": {
                "task": {"type": "string", "description": "What to do, with everything it needs to know"},
                "session": {"type": "string", "description": "Go on with an earlier agent: the id from its result"},
            },
            "required": ["task"],
            "additionalProperties": False,
        }

    def using_session(self, session: AgentSession) -> Tool:
        """The same tool for calls of this session."""
        return SubAgent(self._make, self._logs, self._spec, caller=session)

    async def execute(
        self, _call_id: str, arguments: JsonObject, signal: AbortSignal, on_update: OnUpdate
    ) -> ToolResult:
        """Work on the task to its end."""
        try:
            with ExitStack() as stack:
                budget = self._budget(stack)
                child = self._make(self._log(arguments.get("session")), budget)
                try:
                    return await self._worked(child, arguments["task"], signal, on_update)
                finally:
                    await child.dispose()
        except LimitStillReached as spent:
            return _failure(f"The agent could not start: {spent}")
        except AntiphonError as error:
            return _failure(f"The agent failed: {error}")

    def _log(self, session_id: Any) -> SessionLog:
        if isinstance(session_id, str):
            return self._logs.resume(session_id)
        return self._logs.begin(None if self._caller is None else self._caller.session_file)

    def _budget(self, stack: ExitStack) -> Budget:
        """Its part of what the caller has left.

        Raises:
            LimitStillReached: nothing is left.
        """
        spec = self._spec
        wanted = RunLimits(max_tokens=spec.max_tokens, max_cost=spec.max_cost, max_seconds=spec.max_seconds)
        if self._caller is not None:
            wanted = stack.enter_context(self._caller.budget_keeper.carved(wanted))
        return Budget(
            max_turns=spec.max_turns,
            max_tokens=wanted.max_tokens,
            max_cost=wanted.max_cost,
            max_seconds=wanted.max_seconds,
        )

    async def _worked(self, child: AgentSession, task: str, signal: AbortSignal, on_update: OnUpdate) -> ToolResult:
        used = _Used()
        child.subscribe(used)
        child.subscribe(lambda event: _report(event, on_update))
        unhook = signal.on_abort(lambda: child.request_abort(signal.reason))
        try:
            settlement = await child.prompt(task, source="extension", expand=False)
        finally:
            unhook()
        return _result(child, settlement, used.usage)


class _Used:
    """Adds up what a conversation uses, its summaries and the results of its own sub-agents included."""

    def __init__(self) -> None:
        self.usage: Usage = NO_USAGE

    def __call__(self, event: SessionEvent) -> None:
        found: Any = UNSET
        if event.type == "message_end":
            found = getattr(event.message, "usage", UNSET)
        elif event.type == "compaction_end" and event.result is not UNSET:
            found = event.result.usage
        if found is not UNSET:
            self.usage = add_usage(self.usage, found)


def _report(event: SessionEvent, on_update: OnUpdate) -> None:
    """Progress: the last thing that the agent has said."""
    if event.type == "message_end" and isinstance(event.message, AssistantMessage):
        text = "".join(block.text for block in event.message.content if isinstance(block, Text)).strip()
        if text:
            on_update(ToolResult(content=(Text(text=text[:_SHOWN_UNITS]),)))


def _result(child: AgentSession, settlement: Settlement, usage: Usage) -> ToolResult:
    """What the caller's model reads: the answer, or why there is none, and how to go on."""
    answer = settlement.final_text
    trouble = _trouble(settlement)
    parts = [answer or "(the agent gave no answer)"]
    if trouble is not None:
        parts.append(f"[{trouble} To go on, call this tool with session {child.session_id!r}.]")
    details: JsonObject = {
        "sessionId": child.session_id,
        "reason": settlement.reason,
        "turns": 0 if settlement.outcome is None else settlement.outcome.turns,
    }
    if child.session_file is not None:
        details["sessionFile"] = child.session_file
    return ToolResult(
        content=(Text(text="\n\n".join(parts)),),
        details=details,
        usage=UNSET if usage is NO_USAGE else usage,
        is_error=True if trouble is not None else UNSET,
    )


def _trouble(settlement: Settlement) -> str | None:
    if settlement.aborted:
        return "The agent was stopped before it was done."
    if settlement.limit is not None or settlement.reason == "deadline":
        return "The agent used up its budget before it was done."
    if settlement.reason == "error":
        return f"The agent failed: {settlement.error or 'no reason was given'}."
    return "The answer of the agent was cut off." if settlement.reason == "length" else None


def _failure(text: str) -> ToolResult:
    return ToolResult(content=(Text(text=text),), is_error=True)
