"""What may be set about a conversation. Plain values: where they come from is the business of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from msgspec import Struct, field
from msgspec.structs import replace

from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.queues import QueueMode
from antiphon.session.retry import RetrySettings
from antiphon.session_log.branches import RESERVE_TOKENS
from antiphon.session_log.compaction import CompactionSettings

_RETRY = RetrySettings()
_COMPACTION = CompactionSettings()


@final
class CompactionOverride(Struct, frozen=True, kw_only=True):
    """Other numbers for one model; each that is left out stays as it is."""

    reserve_tokens: int | None = None
    keep_recent_tokens: int | None = None


@final
class SessionSettings(Struct, frozen=True, kw_only=True):
    """The settings of a conversation.

    `default_thinking_level` None: nobody chose one. `compaction_overrides` and `model_thinking_levels` are by
    `provider/id`. `request_options` go to the provider with each request (transport, thinking_budgets, ...).
    `default_tools` None: the product's own default.
    """

    retry: RetrySettings = _RETRY
    compaction: CompactionSettings = _COMPACTION
    compaction_overrides: Mapping[str, CompactionOverride] = field(default_factory=dict[str, CompactionOverride])
    branch_reserve_tokens: int = RESERVE_TOKENS
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    default_thinking_level: ThinkingLevel | None = None
    model_thinking_levels: Mapping[str, ThinkingLevel] = field(default_factory=dict[str, ThinkingLevel])
    default_tools: tuple[str, ...] | None = None
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    auto_resize_images: bool = True
    block_images: bool = False
    request_options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def compaction_for(self, model: Model | None) -> CompactionSettings:
        """The numbers that hold for a model.

        Those for all models are fitted to its window; what was chosen for this very model holds as it is.
        """
        if model is None:
            return self.compaction
        common = self.compaction.fitted(model.context_window)
        other = self.compaction_overrides.get(model_key(model))
        if other is None:
            return common
        reserve, keep = other.reserve_tokens, other.keep_recent_tokens
        return replace(
            common,
            reserve_tokens=common.reserve_tokens if reserve is None else reserve,
            keep_recent_tokens=common.keep_recent_tokens if keep is None else keep,
        )

    def with_retry(self, *, enabled: bool) -> SessionSettings:
        return replace(self, retry=replace(self.retry, enabled=enabled))

    def with_compaction(self, *, enabled: bool) -> SessionSettings:
        return replace(self, compaction=replace(self.compaction, enabled=enabled))


def model_key(model: Model) -> str:
    """The name of a model in settings."""
    return f"{model.provider}/{model.id}"
