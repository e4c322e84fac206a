"""When it is time to compact. Pure; the session does what is decided here.

After a run an answer is looked at once. If the context was too long for it, it is taken out of the context and asked
for again after a compaction, once per user message. If it came but the context is nearly full, a compaction follows
and nothing is repeated.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, final

from msgspec import Struct

from antiphon.core.messages import AssistantMessage
from antiphon.core.usage import total_tokens
from antiphon.session_log.compaction.cut import CompactionSettings
from antiphon.session_log.failures import is_overflow, is_recoverable_length

Decision: TypeAlias = Literal["nothing", "recover", "give up", "compact"]
"""`recover`: omit the attempt, compact, ask again. `give up`: it was tried already; report it."""


def over_threshold(tokens: int, context_window: int, settings: CompactionSettings) -> bool:
    """Is less than the reserve left of the window? A window that is not known is never full."""
    return settings.enabled and context_window > 0 and tokens > context_window - settings.reserve_tokens


@final
class AfterRun(Struct, frozen=True, kw_only=True):
    """What there is to know about the last answer of a run.

    `same_model`: it came from the model that is in force. `already_tried`: since the last user message, or the last
    answer that ended well, a compaction was made for its sake. `is_old`: it stands before the last compaction.
    `projected`: tokens of the projection; `has_edits`: the path has edits behind the last compaction. `listed`: the
    estimate over all messages, nothing if it starts from usage that was reported before the last compaction.
    """

    answer: AssistantMessage
    same_model: bool
    already_tried: bool
    is_old: bool
    projected: int
    has_edits: bool
    listed: int | None
    context_window: int
    max_tokens: int

    def decide(self, settings: CompactionSettings) -> Decision:
        """What to do now."""
        if not settings.enabled or self.answer.stop_reason == "aborted":
            return "nothing"
        if self.is_old:
            return "nothing"
        if self.same_model and self._did_not_fit():
            return "give up" if self.already_tried else "recover"
        if self.same_model and is_overflow(self.answer, self.context_window):
            return "compact"
        tokens = self._tokens()
        return "compact" if tokens is not None and over_threshold(tokens, self.context_window, settings) else "nothing"

    def _did_not_fit(self) -> bool:
        """Failed for length, or cut off for lack of room. An answer that ended well is kept, however long it is."""
        if is_recoverable_length(self.answer, self.max_tokens):
            return True
        return self.answer.stop_reason != "stop" and is_overflow(self.answer, self.context_window)

    def _tokens(self) -> int | None:
        """How long the context is; nothing if that is not known."""
        if self.has_edits:
            return self.projected
        used = total_tokens(self.answer.usage)
        if self.answer.stop_reason != "error" and used > 0:
            return used
        return self.listed


def renews_permission(answer: AssistantMessage) -> bool:
    """Does this answer show that the context fits again, so that a later one may be recovered once more?"""
    return answer.stop_reason not in ("error", "length")
