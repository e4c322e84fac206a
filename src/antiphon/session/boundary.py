"""Entries that extensions propose at the end of a turn or a run: checked together, then all stored, or none."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from antiphon.session.conversation import Conversation
from antiphon.session.hooks import CompactionDraft, CustomDraft, CustomMessageDraft, Draft, EditDraft
from antiphon.session_log.refusals import EntryRefused, NoSuchEntry


def store_drafts(conversation: Conversation, drafts: Sequence[Draft]) -> bool:
    """Store all of them and tell; if one cannot be, none is, and that is reported. Was it done?"""
    fault = _fault_of(conversation, drafts)
    if fault is not None:
        conversation.report("boundary", fault)
        return False
    for draft in drafts:
        conversation.entry_appended(_store(conversation, draft))
    return True


def _fault_of(conversation: Conversation, drafts: Sequence[Draft]) -> Exception | None:
    """What is wrong with a proposal."""
    on_path = set(conversation.log.path_ids()) if any(_names_entry(draft) for draft in drafts) else set[str]()
    for draft in drafts:
        if not isinstance(draft, CustomDraft | CustomMessageDraft | EditDraft | CompactionDraft):
            return EntryRefused(f"{type(draft).__name__} is no entry that can be proposed")
        wanted = _target(draft)
        if wanted is not None and not conversation.log.has(wanted):
            return NoSuchEntry(wanted)
        if wanted is not None and wanted not in on_path:
            return EntryRefused(f"entry {wanted} is not on the active path")
    return None


def _names_entry(draft: Draft) -> bool:
    return _target(draft) is not None


def _target(draft: Draft) -> str | None:
    match draft:
        case EditDraft(target_id=target):
            return target
        case CompactionDraft(first_kept_id=kept):
            return kept
        case _:
            return None


def _store(conversation: Conversation, draft: Draft) -> str:
    """The id of the entry.

    Raises:
        SessionError: it cannot be stored.
    """
    log = conversation.log
    match draft:
        case CustomDraft(custom_type=kind, data=data):
            return log.append_custom(kind, UNSET if data is None else data)
        case CustomMessageDraft(custom_type=kind, content=content, display=display, details=details):
            return log.append_custom_message(
                kind, content, display=display, details=UNSET if details is None else details
            )
        case EditDraft(target_id=target, content=content):
            return log.append_context_edit(target, content)
        case CompactionDraft():
            tokens = draft.tokens_before
            return log.append_compaction(
                draft.summary,
                draft.first_kept_id,
                log.context_tokens().tokens if tokens is None else tokens,
                details=UNSET if draft.details is None else draft.details,
                usage=UNSET if draft.usage is None else draft.usage,
                from_hook=True,
            )
