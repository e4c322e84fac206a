"""Ids of calls that another model made, spelled for a Responses server. Source: providers specification 3.4."""

from __future__ import annotations

from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model
from antiphon.providers.handoff import RewriteId, digest, plain_id

_PAIRED = ("openai", "openai-codex", "opencode")
_MAX = 64


def rewriter(model: Model) -> RewriteId:
    """How foreign call ids are spelled for this model."""

    def rewrite(id_: str, message: AssistantMessage) -> str:
        if model.provider not in _PAIRED:
            return _part(id_)
        call, bar, item = id_.partition("|")
        if not bar:
            return _part(call)
        if message.provider != model.provider or message.api != model.api:
            return f"{_part(call)}|fc_{digest(id_, 24)}"
        return f"{_part(call)}|{_part(item if item.startswith('fc_') else f'fc_{item}')}"

    return rewrite


def _part(text: str) -> str:
    return plain_id(text)[:_MAX].rstrip("_")
