"""Which model is asked, and how hard it should think. No catalogue: that lives with the providers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.wire import JsonObject, Wire

ThinkingLevel: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]

THINKING_LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


@final
class PriceTier(Wire, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """Prices that hold from a number of input tokens on."""

    input_tokens_above: int
    input: float
    output: float
    cache_read: float
    cache_write: float


@final
class Prices(Wire, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """USD per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    tiers: tuple[PriceTier, ...] | UnsetType = UNSET


@final
class Model(Wire, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=False):
    """One model of one provider. `api` names the wire protocol; `context_window` and `max_tokens` are tokens."""

    id: str
    provider: str
    api: str
    name: str = ""
    base_url: str = ""
    reasoning: bool = False
    thinking_level_map: dict[str, str | None] | UnsetType = UNSET
    input: tuple[str, ...] = ("text",)
    cost: Prices = Prices()
    context_window: int = 0
    max_tokens: int = 0
    headers: dict[str, str | None] | UnsetType = UNSET
    sampling_params: JsonObject | UnsetType = UNSET
    sampling_params_by_thinking_level: dict[str, JsonObject] | UnsetType = UNSET
    input_limits: JsonObject | UnsetType = UNSET
    prompt_cache: Any | UnsetType = UNSET
    compat: JsonObject | UnsetType = UNSET

    def __repr__(self) -> str:
        """Without headers, which may hold a key."""
        return f"<Model {self.provider}/{self.id} over {self.api}>"


UNKNOWN_MODEL = Model(id="unknown", provider="unknown", api="unknown")
