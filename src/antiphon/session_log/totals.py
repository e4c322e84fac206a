"""What a session cost, over all branches, and how full the context is. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from msgspec import UNSET, Struct, field

from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.usage import NO_USAGE, Usage, add_usage
from antiphon.session_log.compaction.estimate import projected_tokens
from antiphon.session_log.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry, UsageEntry
from antiphon.session_log.projection import Projected


@final
class Totals(Struct):
    """Counts of messages by role, of tool calls and results, and all usage: answers, results, summaries, extras."""

    usage: Usage = NO_USAGE
    messages: dict[str, int] = field(default_factory=dict[str, int])
    tool_calls: int = 0

    def add(self, entry: Entry) -> None:
        """Count one more entry."""
        match entry:
            case MessageEntry(message=message):
                self._add_message(message)
            case UsageEntry(usage=usage):
                self.usage = add_usage(self.usage, usage)
            case CompactionEntry(usage=usage) | BranchSummaryEntry(usage=usage) if usage is not UNSET:
                self.usage = add_usage(self.usage, usage)
            case _:
                pass

    def _add_message(self, message: Message) -> None:
        self.messages[message.role] = self.messages.get(message.role, 0) + 1
        match message:
            case AssistantMessage():
                self.tool_calls += len(calls_of(message))
                self.usage = add_usage(self.usage, message.usage)
            case ToolResultMessage(usage=usage) if usage is not UNSET:
                self.usage = add_usage(self.usage, usage)
            case _:
                pass


def totals(entries: Iterable[Entry]) -> Totals:
    """Totals over the entries of a whole session."""
    found = Totals()
    for entry in entries:
        found.add(entry)
    return found


@final
class ContextUsage(Struct, frozen=True, gc=False):
    """Tokens of the context and what part of the window they are; unknown (None) right after a compaction."""

    tokens: int | None
    context_window: int
    percent: float | None


def context_usage(view: Projected, context_window: int) -> ContextUsage:
    """How full the context is. After a compaction nobody knows until an answer has reported usage."""
    if view.compacted and not view.reports:
        return ContextUsage(None, context_window, None)
    tokens = projected_tokens(view).tokens
    return ContextUsage(tokens, context_window, 100 * tokens / context_window if context_window > 0 else None)
