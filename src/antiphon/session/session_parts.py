"""What an `AgentSession` is made of, and who asks whom. No rule of its own, and nothing that a caller sees."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.events import AgentEnd, AgentEvent
from antiphon.core.messages import Message, ToolResultMessage
from antiphon.core.policy import RunLimits
from antiphon.core.ports import AbortSignal, Tool
from antiphon.session.approvals import Approvals, Approver
from antiphon.session.beginning import Beginning
from antiphon.session.budget import Budget, BudgetKeeper
from antiphon.session.choices import Choices, Persist, ScopedModel
from antiphon.session.compactor import Compactor, Summarizer
from antiphon.session.conversation import Conversation
from antiphon.session.driver import Driver
from antiphon.session.inbox import Ask, Inbox
from antiphon.session.narrator import Narrator
from antiphon.session.navigation import Navigator
from antiphon.session.nested_calls import NestedCalls, ToolCalls
from antiphon.session.notes import Notes
from antiphon.session.open_batch import OpenBatch
from antiphon.session.performing import NestedUsage, Performer
from antiphon.session.prompt_writer import PromptWriter
from antiphon.session.queue_view import QueueView
from antiphon.session.recorder import Recorder
from antiphon.session.run_hooks import RunHooks
from antiphon.session.statistics import (
    Statistics,
)
from antiphon.session.tool_registry import ToolRegistry
from antiphon.session.user_shell import UserShell
from antiphon.tools.port import Workspace


class SessionParts:
    """The parts of one conversation, plugged together."""

    def __init__(
        self,
        conversation: Conversation,
        registry: ToolRegistry,
        *,
        scoped_models: Sequence[ScopedModel] = (),
        persist: Persist | None = None,
        workspace: Workspace | None = None,
        limits: RunLimits | None = None,
        budget: Budget | None = None,
        approve: Approver | None = None,
    ) -> None:
        c = self._c = conversation
        self._registry = registry
        self._statistics = Statistics(c.log)
        self._narrator = Narrator(c, Recorder(c.log), QueueView())
        summarizer = Summarizer(c)
        self._compactor = Compactor(c, summarizer)
        self._navigator = Navigator(c, summarizer)
        self._choices = Choices(c, scoped_models, persist)
        self._prompt = PromptWriter(c.cwd)
        self._run_hooks = RunHooks(c, registry, self._prompt, self._compactor)
        self._budget = BudgetKeeper(c, limits)
        self._approvals = Approvals(c, registry, approve)
        performer = Performer(c, registry)
        self._nested = NestedCalls(
            performer.nested,
            c.emit,
            find=registry.find,
            sequential=lambda: c.agent.tool_execution == "sequential",
        )
        self._open_batch = OpenBatch(c, registry, self._approvals, self._narrator.recorder, performer.left_open)
        driver = Driver(c, self._narrator, self._compactor)
        self._beginning = Beginning(
            c,
            driver,
            self._narrator,
            self._run_hooks,
            registry,
            self._choices,
            self._budget,
            self._approvals,
            self._open_batch,
        )
        self._inbox = Inbox(c, self._narrator.queue, self._beginning)
        self._notes = Notes(
            c,
            self._narrator,
            next_turn=self._beginning.next_turn.append,
            prompt=lambda message: self._inbox.prompt(Ask(given=message, expand=False)),
        )
        self.shell = UserShell(c, workspace, self._notes.keep_shell_result)
        self._has_moved = False
        self._suspends = False
        self._plug_together(driver, approve)
        if budget is not None:
            self._budget.set(budget, self._statistics.totals())

    def _plug_together(self, driver: Driver, approve: Approver | None) -> None:
        """Who asks whom."""
        c, narrator, run_hooks = self._c, self._narrator, self._run_hooks
        driver.before_run = self._before_run
        driver.after_run = self._budget.after_run
        driver.prompt_patch = run_hooks.prompt_patch
        narrator.on_stored = self._budget.count
        self._nested_usage = NestedUsage(self._nested)
        narrator.amend = self._nested_usage.amended
        narrator.recorder.withheld = self._is_withheld
        run_hooks.notices = self._budget.notices
        if approve is not None:
            run_hooks.gate = self._approvals.gate
            run_hooks.is_held_up = self._approvals.is_held_up
        self._registry.bind = self._bound
        self._leave = (
            c.agent.subscribe(narrator.store, critical=True),
            c.agent.subscribe(narrator.tell),
            c.agent.subscribe(self._run_over),
        )

    def _before_run(self) -> None:
        """The agent gets its limits, tools and hooks as they are now.

        Raises:
            LimitStillReached: the budget is used up.
        """
        self._budget.before_run()
        self._run_hooks.is_stuck = self._budget.is_stuck if self._budget.watches_progress else None
        self._run_hooks.install()

    def _bound(self, tool: Tool) -> Tool:
        """A tool that wants to call others, to find them, or to know its session gets the means to."""
        using_calls = getattr(tool, "using_calls", None)
        if using_calls is not None:
            self._run_hooks.override = self._nested_usage.override
            tool = using_calls(ToolCalls(self._nested, self._registry.callable_tools))
        using_registry = getattr(tool, "using_registry", None)
        if using_registry is not None:
            tool = using_registry(self._registry.searchable, self._registry.activate)
        using_session = getattr(tool, "using_session", None)
        bound: Tool = tool if using_session is None else using_session(self)
        return bound

    def _is_withheld(self, message: Message) -> bool:
        """A call that was not begun because of a suspension keeps its place in the log without a result."""
        if not self._suspends or type(message) is not ToolResultMessage or not isinstance(message.details, dict):
            return False
        return message.details.get("skipped") is True and message.details.get("reason") == "aborted"

    def _run_over(self, event: AgentEvent, _signal: AbortSignal) -> None:
        if type(event) is AgentEnd:
            self._nested.clear()
            self._approvals.run_ended()
