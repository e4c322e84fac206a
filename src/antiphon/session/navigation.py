"""Going to another place in the tree of a conversation, with or without a summary of what is left behind."""

from __future__ import annotations

import inspect
from typing import Any, final

from msgspec import UNSET, Struct

from antiphon.core.content import text_of
from antiphon.core.messages import UserMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.session_events import SummarizationRetryAttemptStart
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.session.compactor import Summarizer
from antiphon.session.conversation import Conversation
from antiphon.session.hooks import TreeAnswer, TreeGiven
from antiphon.session.refusals import CompactionAborted
from antiphon.session_log.branches import branch_budget, left_behind, prepare_branch
from antiphon.session_log.entries import BranchSummaryEntry, CustomMessageEntry, Entry, MessageEntry

_ANNOUNCE = SummarizationRetryAttemptStart(source="branchSummary")


@final
class Navigation(Struct, frozen=True):
    """Where it has led. `editor_text`: the words of the message that one now stands before."""

    cancelled: bool
    editor_text: str | None = None
    summary_entry: BranchSummaryEntry | None = None


@final
class Wish(Struct, frozen=True, kw_only=True):
    """What is wanted. `replace_instructions`: the instructions stand in place of ours, not behind them."""

    target_id: str
    summarize: bool = False
    instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


@final
class _Told(Struct, frozen=True):
    text: str
    usage: Usage
    details: Any
    from_hook: bool


@final
class Navigator:
    """Moves one conversation. The phase of the conversation sees to it that nothing else goes on."""

    def __init__(self, conversation: Conversation, summarizer: Summarizer) -> None:
        self._c = conversation
        self._summarizer = summarizer

    async def go(self, wish: Wish, signal: AbortSignal) -> Navigation:
        """Move the leaf.

        Raises:
            NoSuchEntry: there is no such entry; nothing has moved.
            SummaryRefused: the summary could not be made; nothing has moved.
        """
        c = self._c
        target = c.log.entry(wish.target_id)
        leaf, text = _landing(target)
        if wish.target_id == c.log.leaf_id:
            return Navigation(cancelled=False)
        left, common = self._left(leaf)
        try:
            told = await self._asked(wish, left, common, signal)
            if told is None and wish.summarize and left:
                told = await self._summarized(wish, left, signal)
        except CompactionAborted:
            return Navigation(cancelled=True)
        if signal.aborted:
            return Navigation(cancelled=True)
        return Navigation(cancelled=False, editor_text=text, summary_entry=self._move(leaf, wish, told))

    def _left(self, leaf: str | None) -> tuple[list[Entry], str | None]:
        c = self._c
        if c.log.leaf_id is None:
            return [], None
        return left_behind(c.log.path_entries(), [] if leaf is None else c.log.path_entries(leaf))

    async def _asked(self, wish: Wish, left: list[Entry], common: str | None, signal: AbortSignal) -> _Told | None:
        """What an extension says: it may give the summary, or (CompactionAborted) refuse the move."""
        c = self._c
        hook = c.hooks.before_tree
        if hook is None:
            return None
        given = TreeGiven(
            wish.target_id,
            c.log.leaf_id,
            common,
            tuple(entry.id for entry in left),
            wish.summarize,
            wish.instructions,
            signal,
        )
        try:
            answer = hook(given)
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - the border to extensions
            c.report("session_before_tree", error, hook)
            return None
        if not isinstance(answer, TreeAnswer):
            return None
        if answer.cancel:
            raise CompactionAborted
        return None if answer.summary is None else _Told(answer.summary, NO_USAGE, answer.details, from_hook=True)

    async def _summarized(self, wish: Wish, left: list[Entry], signal: AbortSignal) -> _Told:
        c = self._c
        budget = branch_budget(c.context_window or None, c.settings.branch_reserve_tokens)
        preparation = prepare_branch(left, budget)
        request = preparation.request(wish.instructions, replace=wish.replace_instructions)
        answers = [] if request is None else await self._summarizer.answers([request], signal, _ANNOUNCE)
        text, usage = preparation.summary(answers[0] if answers else None)
        return _Told(text, usage, preparation.files.details(), from_hook=False)

    def _move(self, leaf: str | None, wish: Wish, told: _Told | None) -> BranchSummaryEntry | None:
        """The move itself: remembered by what is stored there, or by a mark."""
        c = self._c
        if told is None:
            if leaf is None:
                c.log.reset_leaf()
            else:
                c.log.branch(leaf)
            if wish.label is not None:
                c.log.set_label(wish.target_id, wish.label)
            return None
        entry_id = c.log.branch_with_summary(
            leaf,
            told.text,
            details=UNSET if told.details is None else told.details,
            from_hook=True if told.from_hook else UNSET,
            usage=UNSET if told.usage is NO_USAGE else told.usage,
        )
        if wish.label is not None:
            c.log.set_label(entry_id, wish.label)
        entry = c.log.entry(entry_id)
        return entry if isinstance(entry, BranchSummaryEntry) else None


def _landing(target: Entry) -> tuple[str | None, str | None]:
    """Where the leaf goes: before a message that somebody wrote, whose words are handed back; else behind the entry."""
    match target:
        case MessageEntry(message=UserMessage(content=content)):
            return target.parent_id, text_of(content)
        case CustomMessageEntry(content=content):
            text = text_of(content)
            return target.parent_id, text
        case _:
            return target.id, None
