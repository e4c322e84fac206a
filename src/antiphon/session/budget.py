"""How much work a conversation may do: a soft mark that the model is told of, and a hard end at a boundary.

The hard end is the loop's own (`core/limits`): one ledger counts over all runs of a prompt, or of the whole session.
What is left may be handed on: a sub-agent gets a part of it, and what it has used comes back with its result.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, Struct, structs

from antiphon.core.content import ToolCall
from antiphon.core.limits import NOTHING_USED, LimitReached, Tally, reached
from antiphon.core.limits import Budget as Ledger
from antiphon.core.messages import AssistantMessage, HostMessage, Message, ToolResultMessage, calls_of, host_message
from antiphon.core.policy import EndReason, RunLimits
from antiphon.core.session_events import BudgetName, BudgetReached
from antiphon.core.usage import Usage, add_usage, total_tokens
from antiphon.errors import LimitStillReached
from antiphon.loop.outcome import RunOutcome
from antiphon.session.conversation import Conversation
from antiphon.session.progress import Progress
from antiphon.session_log.totals import Totals

Scope: TypeAlias = Literal["prompt", "session"]

NOTICE = "antiphon.budget"
_NAMES: dict[EndReason, BudgetName] = {
    "max_turns": "turns",
    "max_tool_calls": "tool_calls",
    "max_tokens": "tokens",
    "max_cost": "cost",
    "deadline": "seconds",
    "no_progress": "progress",
}
NAMES: tuple[BudgetName, ...] = ("turns", "tool_calls", "tokens", "cost", "seconds", "progress")
_UNITS: dict[BudgetName, str] = {
    "turns": "turns",
    "tool_calls": "tool calls",
    "tokens": "tokens",
    "cost": "USD",
    "seconds": "seconds",
    "progress": "failures in a row",
}


@final
class Budget(Struct, frozen=True, kw_only=True):
    """Bounds of a prompt, or of a whole session; `None` is no bound. `soft`: the part after which the model is told.

    `no_progress`: so many failures in a row that teach nothing new (`session/progress`).
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    no_progress: int | None = None
    soft: float = 0.8
    scope: Scope = "prompt"

    def __post_init__(self) -> None:
        self.limits()
        if self.no_progress is not None and self.no_progress < 1:
            raise ValueError(f"no_progress must be at least 1, not {self.no_progress}")
        if not 0 < self.soft <= 1:
            raise ValueError(f"soft must be above 0 and at most 1, not {self.soft}")

    def limits(self, base: RunLimits | None = None) -> RunLimits:
        """As limits of runs; what this says nothing of stays as it is in `base`."""
        own: dict[str, Any] = {
            "max_turns": self.max_turns,
            "max_tool_calls": self.max_tool_calls,
            "max_tokens": self.max_tokens,
            "max_cost": self.max_cost,
            "max_seconds": self.max_seconds,
        }
        return structs.replace(base or RunLimits(), **{name: value for name, value in own.items() if value is not None})


@final
class BudgetKeeper:
    """Counts what one conversation uses, run by run, and says when it is enough."""

    def __init__(self, conversation: Conversation, base: RunLimits | None) -> None:
        self._c = conversation
        self._base = base
        self.budget: Budget | None = None
        self._ledger = Ledger()
        self._live: Tally = NOTHING_USED
        self._seconds = 0.0
        self._began: float | None = None
        self._told: set[BudgetName] = set()
        self._reserved: list[RunLimits] = []
        self._progress = Progress()
        self._calls: dict[str, ToolCall] = {}

    def set(self, budget: Budget | None, totals: Totals) -> None:
        """Another budget, from the next request on. `totals`: what the session has used, for one of scope session."""
        scope = None if self.budget is None else self.budget.scope
        self.budget = budget
        self._told.clear()
        if budget is not None and budget.scope == "session" and scope != "session":
            self._ledger = Ledger(_tally_of(totals))
        elif budget is None or budget.scope != scope:
            self._ledger = Ledger()
        self._live = self._ledger.used

    # -- runs -----------------------------------------------------------------------------------------------------

    def new_prompt(self) -> None:
        """A prompt was accepted: what is counted by prompts begins anew."""
        self._progress = Progress()
        if self.budget is None or self.budget.scope == "prompt":
            self._ledger = Ledger()
            self._seconds = 0.0
            self._told.clear()
        self._live = self._ledger.used

    def check(self) -> None:
        """May anything be asked at all?

        Raises:
            LimitStillReached: the budget is used up; raise it, then go on.
        """
        if self.budget is None:
            return
        limits = self.budget.limits()
        limit = reached(limits, self._ledger.used)
        if limit is not None:
            raise LimitStillReached(f"the budget is used up: {limit.name} {limit.reached:g} of {limit.allowed:g}")
        if limits.max_seconds is not None and self._seconds >= limits.max_seconds:
            raise LimitStillReached(f"the budget is used up: {self._seconds:g} of {limits.max_seconds:g} seconds")
        if self.is_stuck():
            allowed, used = self._figures("progress")
            raise LimitStillReached(f"the work gets nowhere: {used:g} of {allowed:g} failures in a row taught nothing")

    def before_run(self) -> None:
        """Give the agent the limits of its next run.

        Raises:
            LimitStillReached: there is nothing left.
        """
        agent = self._c.agent
        if self.budget is None:
            agent.limits, agent.budget = self._base, None
            return
        self.check()
        limits = self.budget.limits(self._base)
        if self.budget.max_seconds is not None:
            limits = structs.replace(limits, max_seconds=self.budget.max_seconds - self._seconds)
        agent.limits, agent.budget = limits, self._ledger
        self._live = self._ledger.used
        self._began = self._c.clock.monotonic()

    @property
    def watches_progress(self) -> bool:
        return self.budget is not None and self.budget.no_progress is not None

    def is_stuck(self) -> bool:
        """Does the work get nowhere?"""
        allowed, used = self._figures("progress")
        return self.watches_progress and used >= allowed

    def after_run(self, outcome: RunOutcome) -> RunOutcome:
        """Count the time, and say if the work had to stop; gives the outcome with the bound that ended it."""
        if self._began is not None:
            self._seconds += self._c.clock.monotonic() - self._began
            self._began = None
        self._live = self._ledger.used
        if self.budget is None:
            return outcome
        if outcome.reason == "ended_by_host" and self.is_stuck():
            limit = LimitReached("no_progress", *self._figures("progress"))
            outcome = structs.replace(outcome, reason="no_progress", limit=limit)
        name: EndReason | None = outcome.reason if outcome.reason in _NAMES else None
        if name is not None:
            allowed, used = self._figures(_NAMES[name])
            self._c.emit(BudgetReached(name=_NAMES[name], hard=True, allowed=allowed, used=used))
        return outcome

    def charge(self, usage: Usage) -> None:
        """Count what was used outside of runs, such as by a summary."""
        tally = self._ledger.used
        self._ledger.used = structs.replace(tally, usage=add_usage(tally.usage, usage))

    # -- the soft mark --------------------------------------------------------------------------------------------

    def count(self, message: Message) -> None:
        """A message was stored: keep the live count up to date."""
        if self.budget is None:
            return
        tally = self._live
        if type(message) is AssistantMessage:
            self._calls = {call.id: call for call in calls_of(message)}
            self._live = structs.replace(
                tally,
                turns=tally.turns + 1,
                tool_calls=tally.tool_calls + len(calls_of(message)),
                usage=add_usage(tally.usage, message.usage),
            )
        elif type(message) is ToolResultMessage:
            call = self._calls.get(message.tool_call_id)
            if call is not None and self.watches_progress:
                self._progress.note(call, message)
            if message.usage is not UNSET:
                self._live = structs.replace(tally, usage=add_usage(tally.usage, message.usage))

    def notices(self) -> list[Message]:
        """What the model is told before a further turn: once, when the soft mark of a bound is passed."""
        if self.budget is None:
            return []
        passed: list[BudgetName] = [name for name in NAMES if name not in self._told and self._is_nearly_used(name)]
        self._told.update(passed)
        notices: list[Message] = []
        for name in passed:
            allowed, used = self._figures(name)
            self._c.emit(BudgetReached(name=name, hard=False, allowed=allowed, used=used))
            notices.append(_notice(name, allowed, used, self._c.clock.now_ms()))
        return notices

    def _is_nearly_used(self, name: BudgetName) -> bool:
        allowed, used = self._figures(name)
        return self.budget is not None and allowed > 0 and used >= allowed * self.budget.soft

    def _figures(self, name: BudgetName) -> tuple[float, float]:
        """What is allowed (0: no bound) and what is used."""
        limits = RunLimits() if self.budget is None else self.budget.limits()
        live = self._live
        running = 0.0 if self._began is None else self._c.clock.monotonic() - self._began
        table: dict[BudgetName, tuple[float | None, float]] = {
            "turns": (limits.max_turns, live.turns),
            "tool_calls": (limits.max_tool_calls, live.tool_calls),
            "tokens": (limits.max_tokens, total_tokens(live.usage)),
            "cost": (limits.max_cost, live.usage.cost.total),
            "seconds": (limits.max_seconds, self._seconds + running),
            "progress": (None if self.budget is None else self.budget.no_progress, self._progress.without_news),
        }
        allowed, used = table[name]
        return (0.0 if allowed is None else float(allowed)), float(used)

    # -- handing on -----------------------------------------------------------------------------------------------

    @contextmanager
    def carved(self, wanted: RunLimits) -> Generator[RunLimits]:
        """A part of what is left, for somebody else; what it reserves cannot be carved twice at the same time.

        Raises:
            LimitStillReached: nothing is left to hand on.
        """
        part = structs.replace(
            wanted,
            max_tokens=_whole(self._left("tokens", wanted.max_tokens)),
            max_cost=self._left("cost", wanted.max_cost),
            max_seconds=self._left("seconds", wanted.max_seconds),
        )
        self._reserved.append(part)
        try:
            yield part
        finally:
            self._reserved.remove(part)

    def _left(self, name: BudgetName, wanted: float | None) -> float | None:
        allowed, used = self._figures(name)
        if allowed == 0:
            return wanted
        field = f"max_{name}"
        taken = 0.0 if name == "seconds" else sum(getattr(part, field) or 0 for part in self._reserved)
        left = allowed - used - taken
        if left <= 0:
            raise LimitStillReached(f"the budget is used up: no {_UNITS[name]} are left")
        return left if wanted is None else min(left, wanted)


def _whole(value: float | None) -> int | None:
    return None if value is None else max(1, int(value))


def _tally_of(totals: Totals) -> Tally:
    return Tally(turns=totals.messages.get("assistant", 0), tool_calls=totals.tool_calls, usage=totals.usage)


def _notice(name: BudgetName, allowed: float, used: float, timestamp: int) -> HostMessage:
    if name == "progress":
        text = (
            f"Note: the last {used:g} failures taught nothing that was not known before. After {allowed:g} the work is "
            "stopped. Do something else, or say what stands in the way."
        )
        return host_message("custom", customType=NOTICE, content=text, display=True, timestamp=timestamp)
    text = (
        f"Note on the budget of this work: {used:g} of {allowed:g} {_UNITS[name]} are used. When it is used up the "
        "work is stopped. Finish what matters most, and say what is left to do."
    )
    return host_message("custom", customType=NOTICE, content=text, display=True, timestamp=timestamp)
