"""From token counts to money. Prices are USD per million tokens, costs are USD."""

from __future__ import annotations

import math
from typing import Any, cast

import msgspec
from msgspec import UNSET

from antiphon.core.model import Prices, PriceTier
from antiphon.core.usage import Cost, Usage
from antiphon.core.wire import JsonObject

_MILLION = 1_000_000

MOST_TOKENS = 2**53 - 1


def priced(usage: Usage, prices: Prices, multiplier: float = 1.0) -> Usage:
    """The usage with its cost at these prices; `multiplier` scales every part (service tiers).

    Cache writes that live for an hour cost twice the input rate, whatever the write rate is.
    """
    rates = _rates(usage, prices)
    hour = 0 if usage.cache_write_1h is UNSET else usage.cache_write_1h
    written = (usage.cache_write - hour) * rates.cache_write + hour * 2 * rates.input
    parts = (
        usage.input * rates.input / _MILLION * multiplier,
        usage.output * rates.output / _MILLION * multiplier,
        usage.cache_read * rates.cache_read / _MILLION * multiplier,
        written / _MILLION * multiplier,
    )
    cost = Cost(
        input=parts[0],
        output=parts[1],
        cache_read=parts[2],
        cache_write=parts[3],
        total=sum(parts),
        total_from_provider=False,
    )
    return msgspec.structs.replace(usage, cost=cost)


def _rates(usage: Usage, prices: Prices) -> Prices | PriceTier:
    """The tier with the highest threshold that the whole input exceeds, else the base prices."""
    if prices.tiers is UNSET:
        return prices
    tokens = usage.input + usage.cache_read + usage.cache_write
    reached = [tier for tier in prices.tiers if tokens > tier.input_tokens_above]
    return max(reached, key=lambda tier: tier.input_tokens_above) if reached else prices


def charged(usage: Usage, raw: JsonObject) -> Usage:
    """The usage with the total that a router says it charged; the parts stay estimates.

    With a key of one's own at the upstream provider (`is_byok`) the upstream's part comes on top. Source: 5.7.
    """
    cost = _number(raw.get("cost"))
    byok = raw.get("is_byok")
    if cost is None or not isinstance(byok, bool):
        return usage
    if byok:
        upstream = _upstream(raw.get("cost_details"))
        if upstream is None:
            return usage
        cost += upstream
    return msgspec.structs.replace(
        usage, cost=msgspec.structs.replace(usage.cost, total=cost, total_from_provider=True)
    )


def _upstream(details: Any) -> float | None:
    if not isinstance(details, dict):
        return None
    given = cast("JsonObject", details)
    whole = _number(given.get("upstream_inference_cost"))
    if whole is not None:
        return whole
    prompt = _number(given.get("upstream_inference_prompt_cost"))
    completions = _number(given.get("upstream_inference_completions_cost"))
    return None if prompt is None or completions is None else prompt + completions


def _number(value: Any) -> float | None:
    """A finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def count(value: Any) -> int:
    """A token count from the wire: null, missing and nonsense are 0.

    Nonsense are negative ones, which would give a budget back, and those that no number of JavaScript holds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value <= MOST_TOKENS else 0
