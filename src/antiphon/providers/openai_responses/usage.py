"""Token counts of Responses servers, and what a service tier does to the price. Source: providers specification 5."""

from __future__ import annotations

from typing import Any, Final, cast

from antiphon.core.model import Model
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject
from antiphon.providers.cost import count, priced

_TIERS: Final = {"flex": 0.5, "priority": 2.0, "fast": 2.0}
_DEAR_PRIORITY: Final = {"gpt-5.5": 2.5}


def read_usage(raw: JsonObject, model: Model, tier: Any) -> Usage:
    """Usage with cost; `tier` is the service tier that answered, or was asked for."""
    given, made = _object(raw, "input_tokens_details"), _object(raw, "output_tokens_details")
    read, written = count(given.get("cached_tokens")), count(given.get("cache_write_tokens"))
    usage = Usage(
        input=max(0, count(raw.get("input_tokens")) - read - written),
        output=count(raw.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        reasoning=count(made.get("reasoning_tokens")),
        total_tokens=count(raw.get("total_tokens")),
    )
    return priced(usage, model.cost, _multiplier(model, tier))


def _multiplier(model: Model, tier: Any) -> float:
    if not isinstance(tier, str):
        return 1.0
    if tier in ("priority", "fast"):
        return _DEAR_PRIORITY.get(model.id, _TIERS[tier])
    return _TIERS.get(tier, 1.0)


def _object(raw: JsonObject, name: str) -> JsonObject:
    value = raw.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}
