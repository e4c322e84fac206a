"""Leaving a branch: what of it is told in its summary, and what is stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from msgspec import UNSET, Struct

from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.session_log.compaction.conversation import FileLists, file_lists
from antiphon.session_log.compaction.estimate import estimated_tokens
from antiphon.session_log.compaction.summary import SummaryRequest, answer_text, branch_request
from antiphon.session_log.entries import BranchSummaryEntry, CompactionEntry, Entry
from antiphon.session_log.projection import contribution, last_edits

DEFAULT_WINDOW, RESERVE_TOKENS = 128_000, 16_384
FULL = 0.9
"""A summary that exceeds the budget is still taken while less than this part of it is used."""

BRANCH_PREAMBLE = "The user went another way from here and came back. What happened there:\n\n"
NOTHING_SAID = "Nothing was said on this branch."


def left_behind(old_path: Sequence[Entry], target_path: Sequence[Entry]) -> tuple[list[Entry], str | None]:
    """The entries of a path that are not on the way to the target, oldest first, and the last entry both share."""
    shared = 0
    for old, target in zip(old_path, target_path, strict=False):
        if old.id != target.id:
            break
        shared += 1
    return list(old_path[shared:]), old_path[shared - 1].id if shared else None


def branch_budget(context_window: int | None, reserve_tokens: int = RESERVE_TOKENS) -> int:
    """Tokens of a branch that a summariser can be shown.

    A reserve that takes up the whole window leaves a small part of it, not, as in the reference, no limit at all.
    """
    window = context_window or DEFAULT_WINDOW
    return max(window - reserve_tokens, window // 10, 1)


@final
class BranchPreparation(Struct, frozen=True):
    """What is told of a branch: `messages`, oldest first, of so many `tokens`, and the files it touched."""

    messages: tuple[Message, ...]
    tokens: int
    files: FileLists

    def request(self, instructions: str | None = None, *, replace: bool = False) -> SummaryRequest | None:
        """What to ask; nothing if nothing was said."""
        return branch_request(self.messages, instructions, replace=replace) if self.messages else None

    def summary(self, answer: AssistantMessage | None) -> tuple[str, Usage]:
        """The text to store and what it cost. No answer: nothing was said.

        Raises:
            SummaryRefused: an answer that must not be stored.
        """
        if answer is None:
            return NOTHING_SAID, NO_USAGE
        return BRANCH_PREAMBLE + answer_text(answer) + self.files.as_text(), answer.usage


def prepare_branch(entries: Sequence[Entry], budget: int) -> BranchPreparation:
    """What to tell of the entries that are left behind: the newest that fit the budget (0 or less: all)."""
    edits = last_edits(entries)
    told = [(entry, message) for entry in entries for message in _told(entry, edits)]
    taken: list[Message] = []
    tokens = 0
    for entry, message in reversed(told):
        size = estimated_tokens(message)
        if budget > 0 and tokens + size > budget:
            if isinstance(entry, CompactionEntry | BranchSummaryEntry) and tokens < budget * FULL:
                taken.append(message)
                tokens += size
            break
        taken.append(message)
        tokens += size
    taken.reverse()
    return BranchPreparation(tuple(taken), tokens, file_lists(taken, _earlier(entries)))


def _told(entry: Entry, edits: dict[str, Any]) -> tuple[Message, ...]:
    """The messages of an entry, without results and prompts; a compaction is told by its summary."""
    messages = contribution(entry, edits.get(entry.id), leads=True)
    return tuple(message for message in messages if not isinstance(message, ToolResultMessage | SystemMessage))


def _earlier(entries: Sequence[Entry]) -> list[Any]:
    """File lists of branch summaries among the entries, unless an extension made them."""
    return [
        entry.details
        for entry in entries
        if isinstance(entry, BranchSummaryEntry) and entry.details is not UNSET and entry.from_hook is not True
    ]
