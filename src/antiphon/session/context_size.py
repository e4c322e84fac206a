"""What an answer asks for: is the context still short enough? Pure; counting and deciding is the log's business."""

from __future__ import annotations

from msgspec import structs

from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.core.session_events import CompactionReason
from antiphon.core.usage import total_tokens
from antiphon.session.phases import Judged
from antiphon.session_log.compaction import CompactionSettings, context_tokens
from antiphon.session_log.compaction.when import AfterRun
from antiphon.session_log.entries import PositionEntry
from antiphon.session_log.failures import is_overflow
from antiphon.session_log.log import SessionLog
from antiphon.session_log.projection import Projected


def ends_with_compaction(view: Projected) -> bool:
    """Was nothing said since the last compaction?"""
    return view.compacted and all(isinstance(item.entry, PositionEntry) for item in view.items[view.after :])


def judge(
    log: SessionLog,
    answer: AssistantMessage,
    model: Model | None,
    settings: CompactionSettings,
    *,
    already_tried: bool,
    before_prompt: bool = False,
) -> Judged:
    """What the last answer asks for. `before_prompt`: aborted answers are looked at, too."""
    if not settings.enabled or model is None:
        return Judged("nothing")
    is_old = log.projection().compacted and log.was_compacted(answer)
    if before_prompt and answer.stop_reason == "aborted":
        answer = structs.replace(answer, stop_reason="stop")
    same = (answer.provider, answer.model) == (model.provider, model.id)
    after = _facts(log, answer, model, same_model=same, already_tried=already_tried, is_old=is_old)
    decision = after.decide(settings)
    reason: CompactionReason = "threshold"
    if decision in ("recover", "give up") or (same and is_overflow(answer, model.context_window)):
        reason = "overflow"
    return Judged(decision, reason, cut=answer.stop_reason == "length")


def _facts(
    log: SessionLog, answer: AssistantMessage, model: Model, *, same_model: bool, already_tried: bool, is_old: bool
) -> AfterRun:
    """What there is to know. An answer that reports usage says itself how long the context is."""
    view = log.projection()
    silent = answer.stop_reason == "error" or total_tokens(answer.usage) == 0
    has_edits = silent and view.trusted_from > view.after
    return AfterRun(
        answer=answer,
        same_model=same_model,
        already_tried=already_tried,
        is_old=is_old,
        projected=log.context_tokens().tokens if has_edits else 0,
        has_edits=has_edits,
        listed=_listed(view) if silent and not has_edits else None,
        context_window=model.context_window,
        max_tokens=model.max_tokens,
    )


def _listed(view: Projected) -> int | None:
    """The estimate over all messages, unless it starts from usage that was reported before the compaction in force."""
    found = context_tokens(view.messages)
    behind = sum(len(item.messages) for item in view.items[view.after :])
    index = found.last_usage_index
    return None if view.compacted and index is not None and index < len(view.messages) - behind else found.tokens
