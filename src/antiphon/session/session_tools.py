"""The face of a session that has tools: which are there, which wait for a person, how much they may do."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.core.ports import Tool
from antiphon.core.wire import JsonObject
from antiphon.session.approvals import Approval
from antiphon.session.budget import Budget, BudgetKeeper
from antiphon.session.session_parts import SessionParts
from antiphon.session.tool_registry import ToolInfo, ToolSource


class SessionTools(SessionParts):
    """Tools of a conversation, approvals of their calls, and the budget of its work."""

    def get_active_tool_names(self) -> tuple[str, ...]:
        return self._registry.active_names

    def set_active_tools_by_name(self, names: Sequence[str]) -> tuple[str, ...]:
        """Declare exactly these from the next request on; gives the names that nobody knows."""
        return self._registry.set_active(names)

    def get_callable_tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self._registry.callable_tools())

    def get_all_tools(self) -> tuple[ToolInfo, ...]:
        return self._registry.infos()

    def get_tool_definition(self, name: str) -> Tool | None:
        return self._registry.find(name)

    def register_tool(self, tool: Tool, source: ToolSource = "sdk") -> None:
        """Add a tool, or replace the one of that name; the model is told before its next request."""
        self._registry.register(tool, source)

    def unregister_tool(self, name: str) -> None:
        self._registry.unregister(name)

    def set_prompt_section(self, name: str, text: str | None) -> None:
        """Add a section to the prompt, change it, or (None) take it away; the model is told before its next request."""
        self._prompt.set_section(name, text)

    @property
    def pending_approvals(self) -> tuple[Approval, ...]:
        """Calls that wait for a person, also those that an earlier process has left."""
        return self._approvals.pending

    def answer_approval(
        self, approval_id: str, approved: bool, *, args: JsonObject | None = None, reason: str | None = None
    ) -> None:
        """Say yes or no. `args`: run the call with these instead; `reason` is what the model reads of a refusal.

        Raises:
            NoSuchApproval: it is not pending.
            ConfigurationError: the edited arguments do not fit; it stays pending.
        """
        self._approvals.answer(approval_id, approved, args=args, reason=reason)

    @property
    def budget(self) -> Budget | None:
        return self._budget.budget

    @property
    def budget_keeper(self) -> BudgetKeeper:
        """For those to whom a part of the budget is handed on."""
        return self._budget

    def set_budget(self, budget: Budget | None) -> None:
        """Another budget from the next run on. Raise it, then `continue_`, after work was stopped."""
        self._budget.set(budget, self._statistics.totals())
