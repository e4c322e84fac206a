"""Token counts, prices and cost. Prices are USD per million tokens, costs are USD."""

from __future__ import annotations

from typing import final

from msgspec import UNSET, UnsetType, field

from antiphon.core.wire import Wire


@final
class Cost(Wire, frozen=True, kw_only=True, gc=False):
    """USD by kind of token. `total_from_provider`: is `total` what the provider says it charged, not our estimate?"""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0
    total_from_provider: bool | UnsetType = UNSET


@final
class Usage(Wire, frozen=True, kw_only=True, gc=False):
    """Tokens of one answer. `input` excludes cached ones; `reasoning` is part of `output`."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int | UnsetType = field(default=UNSET, name="cacheWrite1h")
    reasoning: int | UnsetType = UNSET
    total_tokens: int = 0
    cost: Cost = Cost()


NO_USAGE = Usage()


def total_tokens(usage: Usage) -> int:
    """What the provider called the total, or the sum of the four parts if it said nothing."""
    return usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write


def add_usage(left: Usage, right: Usage) -> Usage:
    """Member-wise sum. An optional split appears if either side has it; a provider's own total only if both have it."""
    if right is NO_USAGE:
        return left
    if left is NO_USAGE:
        return right
    return Usage(
        input=left.input + right.input,
        output=left.output + right.output,
        cache_read=left.cache_read + right.cache_read,
        cache_write=left.cache_write + right.cache_write,
        cache_write_1h=_either(left.cache_write_1h, right.cache_write_1h),
        reasoning=_either(left.reasoning, right.reasoning),
        total_tokens=left.total_tokens + right.total_tokens,
        cost=_add_cost(left.cost, right.cost),
    )


def _either(left: int | UnsetType, right: int | UnsetType) -> int | UnsetType:
    if left is UNSET:
        return right
    return left if right is UNSET else left + right


def _add_cost(left: Cost, right: Cost) -> Cost:
    both = left.total_from_provider is not UNSET and right.total_from_provider is not UNSET
    return Cost(
        input=left.input + right.input,
        output=left.output + right.output,
        cache_read=left.cache_read + right.cache_read,
        cache_write=left.cache_write + right.cache_write,
        total=left.total + right.total,
        total_from_provider=(left.total_from_provider is True and right.total_from_provider is True) if both else UNSET,
    )
