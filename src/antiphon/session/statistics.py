"""What a conversation has come to in numbers, and what of it can be shown."""

from __future__ import annotations

from typing import final

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.content import Text, text_of
from antiphon.core.messages import AssistantMessage, UserMessage
from antiphon.core.model import Model
from antiphon.core.usage import Usage
from antiphon.session_log.entries import MessageEntry
from antiphon.session_log.log import SessionLog
from antiphon.session_log.totals import ContextUsage, Totals, context_usage
from antiphon.session_log.tree import USER


@final
class Tokens(Struct, frozen=True, gc=False, rename="camel"):
    input: int
    output: int
    cache_read: int
    cache_write: int
    total: int


@final
class UsageOfContext(Struct, frozen=True, gc=False, rename="camel"):
    """Unknown (None) right after a compaction, until an answer has reported usage."""

    tokens: int | None
    context_window: int
    percent: float | None


@final
class SessionStats(Struct, frozen=True, gc=False, rename="camel"):
    """Counts and costs (USD) over the whole log, not only the branch."""

    session_id: str
    user_messages: int
    assistant_messages: int
    tool_calls: int
    tool_results: int
    total_messages: int
    tokens: Tokens
    cost: float
    session_file: str | UnsetType = UNSET
    context_usage: UsageOfContext | UnsetType = UNSET


@final
class ForkPoint(Struct, frozen=True, gc=False, rename="camel"):
    """A message of the user that one may fork before."""

    entry_id: str
    text: str


@final
class Statistics:
    """Numbers of one log. Entries are counted once; later questions count only what is new."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._totals = Totals()
        self._counted = 0

    def totals(self) -> Totals:
        """Counts over all entries so far. Read only."""
        ids = self._log.table.ids
        for number in range(self._counted, len(ids)):
            self._totals.add(self._log.entry(ids[number]))
        self._counted = len(ids)
        return self._totals

    def stats(self, model: Model | None) -> SessionStats:
        totals = self.totals()
        path = self._log.path
        usage = context_usage_of(self._log, model)
        counts = totals.messages
        return SessionStats(
            session_id=self._log.session_id,
            user_messages=counts.get("user", 0),
            assistant_messages=counts.get("assistant", 0),
            tool_calls=totals.tool_calls,
            tool_results=counts.get("toolResult", 0),
            total_messages=sum(counts.values()),
            tokens=tokens_in(totals.usage),
            cost=totals.usage.cost.total,
            session_file=UNSET if path is None else str(path),
            context_usage=UNSET if usage is None else usage,
        )


def tokens_in(usage: Usage) -> Tokens:
    total = usage.input + usage.output + usage.cache_read + usage.cache_write
    return Tokens(usage.input, usage.output, usage.cache_read, usage.cache_write, total)


def context_usage_of(log: SessionLog, model: Model | None) -> UsageOfContext | None:
    """How full the context is; nothing without a model or a known window."""
    if model is None or model.context_window <= 0:
        return None
    found: ContextUsage = context_usage(log.projection(), model.context_window)
    return UsageOfContext(found.tokens, found.context_window, found.percent)


def last_answer_text(log: SessionLog) -> str | None:
    """The words of the last answer that ended well or has words; nothing if they are blank."""
    messages = log.messages()
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if type(message) is not AssistantMessage:
            continue
        text = "".join(block.text for block in message.content if type(block) is Text)
        if message.stop_reason == "stop" or text:
            return text if text.strip() else None
    return None


def fork_points(log: SessionLog) -> tuple[ForkPoint, ...]:
    """The messages of the user on the active path, oldest first."""
    table = log.table
    found: list[ForkPoint] = []
    for number in table.path(table.number(log.leaf_id)):
        if table.kinds[number] != USER:
            continue
        entry = log.entry(table.ids[number])
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            found.append(ForkPoint(entry.id, text_of(entry.message.content)))
    return tuple(found)
