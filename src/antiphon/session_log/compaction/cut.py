"""Where to cut a context: what is summarised, what is kept. Pure.

Works on the projection, entry by entry. A cut is never made between a call and its result: cut points are entries that
say something themselves. Two things differ from the reference, which keeps less or splits more than it must: system
messages and shell output hidden from the model do not count toward the kept amount, since they are never summarised or
never sent; and whether a turn is split is decided by the first entry that says something at or behind the cut, not by
the settings or labels that happen to stand there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from msgspec import Struct
from msgspec.structs import replace

from antiphon.core.messages import AssistantMessage, HostMessage, Message, SystemMessage, UserMessage
from antiphon.session_log.compaction.estimate import estimated_tokens
from antiphon.session_log.entries import CompactionEntry, ContextEditEntry, MessageEntry, PositionEntry
from antiphon.session_log.projection import Contribution, Projected

_SPEAKING_HOSTS = frozenset({"bashExecution", "custom", "branchSummary"})


@final
class CompactionSettings(Struct, frozen=True):
    """Token numbers: `reserve` is kept free for the answer, `keep_recent` is not summarised."""

    enabled: bool = True
    reserve_tokens: int = 16_384
    keep_recent_tokens: int = 20_000

    def fitted(self, context_window: int) -> CompactionSettings:
        """The same for a model whose window is too small for them, unchanged if it is not (or not known: 0).

        Reserve and kept part must fit into the window together, or a compaction frees nothing: with a reserve above
        the window every context would be over the threshold, and be compacted after every turn. Then a quarter of the
        window at most is kept free, and half of the rest at most is kept word for word.
        """
        if context_window <= 0 or self.reserve_tokens + self.keep_recent_tokens <= context_window:
            return self
        reserve = min(self.reserve_tokens, context_window // 4)
        keep = min(self.keep_recent_tokens, (context_window - reserve) // 2)
        return replace(self, reserve_tokens=reserve, keep_recent_tokens=keep)


@final
class Cut(Struct, frozen=True):
    """`first_kept`: where the kept part begins. `turn_start`: where the turn that is split begins, or None.

    Both are places in the projection. Summarised is what lies from `start` to the turn's start, or else to the cut; the
    rest before the cut is the beginning of a turn whose end is kept.
    """

    start: int
    first_kept: int
    turn_start: int | None

    @property
    def history_end(self) -> int:
        return self.first_kept if self.turn_start is None else self.turn_start


def speaks(message: Message) -> bool:
    """May the kept part begin with this message?"""
    if type(message) is HostMessage:
        return message.role in _SPEAKING_HOSTS
    return type(message) in (UserMessage, AssistantMessage)


def starts_turn(message: Message) -> bool:
    """Does a turn begin with this message?"""
    return speaks(message) and type(message) is not AssistantMessage


def summarisable(message: Message) -> bool:
    """Can it be told in a summary? Prompts are kept apart, an earlier summary is handed over as such."""
    if type(message) is HostMessage:
        return message.role != "compactionSummary"
    return type(message) is not SystemMessage


def counted_tokens(item: Contribution) -> int:
    """Tokens that keeping an entry costs."""
    return sum(estimated_tokens(message) for message in item.messages if _counts(message))


def _counts(message: Message) -> bool:
    if type(message) is HostMessage and message.role == "bashExecution":
        return not message.data.get("excludeFromContext")
    return type(message) is not SystemMessage


def find_cut(view: Projected, keep_recent_tokens: int) -> Cut | None:
    """Where to cut a projection; nothing if there is nothing to summarise or no place to cut."""
    if _ends_with_compaction(view):
        return None
    items, start = view.items, 1 if view.compacted else 0
    points = [at for at in range(start, len(items)) if any(map(speaks, items[at].messages))]
    if not points:
        return None
    reached = _budget_place(items, start, keep_recent_tokens)
    if reached is None:
        cut = points[0]
    else:
        cut = next((point for point in points if point >= reached), points[-1])
        if _only_a_failed_attempt_follows(items, cut):
            cut += 1
    cut = _joined_with_silent(items, start, cut)
    found = Cut(start, cut, _split_turn(items, start, cut))
    return found if _summarises_anything(items, found) else None


def _ends_with_compaction(view: Projected) -> bool:
    """Was the last thing that happened a compaction? Behind it stand at most marks of where the user went."""
    return view.compacted and all(isinstance(item.entry, PositionEntry) for item in view.items[view.after :])


def _budget_place(items: Sequence[Contribution], start: int, keep_recent_tokens: int) -> int | None:
    """The entry at which the kept amount is reached, counted from the end; nothing if all of it is less."""
    kept = 0
    for at in range(len(items) - 1, start - 1, -1):
        if items[at].messages:
            kept += counted_tokens(items[at])
            if kept >= keep_recent_tokens:
                return at
    return None


def _only_a_failed_attempt_follows(items: Sequence[Contribution], cut: int) -> bool:
    """Is all that stands behind the cut entry an attempt that was taken out of the context?

    Then keeping the entry would only repeat it: it is too long itself. Not if an edit behind it changes something
    earlier, for that was the remedy.
    """
    rest = items[cut + 1 :]
    if any(item.messages for item in rest):
        return False
    inside = {item.entry.id for item in rest}
    remedies = [
        item.entry.target_id
        for item in rest
        if isinstance(item.entry, ContextEditEntry) and item.entry.replacement is not None
    ]
    attempts = [
        item for item in rest if isinstance(item.entry, MessageEntry) and type(item.entry.message) is AssistantMessage
    ]
    return bool(attempts) and all(target in inside for target in remedies)


def _joined_with_silent(items: Sequence[Contribution], start: int, cut: int) -> int:
    """The cut moved back over entries that say nothing: settings and labels stay with what follows them."""
    while cut > start and not items[cut - 1].messages and not isinstance(items[cut - 1].entry, CompactionEntry):
        cut -= 1
    return cut


def _split_turn(items: Sequence[Contribution], start: int, cut: int) -> int | None:
    """Where the turn begins that the cut goes through; nothing if the kept part begins with a turn."""
    first = next((item for item in items[cut:] if item.messages), None)
    if first is not None and any(map(starts_turn, first.messages)):
        return None
    for at in range(cut - 1, start - 1, -1):
        if any(map(starts_turn, items[at].messages)):
            return at
    return None


def _summarises_anything(items: Sequence[Contribution], cut: Cut) -> bool:
    return any(summarisable(message) for item in items[cut.start : cut.first_kept] for message in item.messages)
