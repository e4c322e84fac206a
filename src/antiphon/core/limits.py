"""What a run has used, and whether a bound is reached. Pure arithmetic; asked only where a further request would
follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from msgspec import UNSET, Struct, structs
from msgspec.json import Encoder

from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of
from antiphon.core.policy import EndReason, RunLimits
from antiphon.core.usage import NO_USAGE, Usage, add_usage, total_tokens


@final
class Tally(Struct, frozen=True, kw_only=True, gc=False):
    """What a run has used so far.

    `repeated`: how often the last call came with the same arguments and result in a row. `refused`: the tool whose call
    a bound has refused.
    """

    turns: int = 0
    tool_calls: int = 0
    calls_of: tuple[tuple[str, int], ...] = ()
    usage: Usage = NO_USAGE
    refused: str = ""
    length_retries: int = 0
    last_call: bytes = b""
    repeated: int = 0


NOTHING_USED = Tally()


@final
class Budget:
    """What several runs use together: give the same object to each, and their limits count over all of them."""

    __slots__ = ("used",)

    def __init__(self, used: Tally = NOTHING_USED) -> None:
        self.used = used


@final
class LimitReached(Struct, frozen=True, gc=False):
    """Which bound ended a run: its name, what was allowed, what was reached."""

    name: EndReason
    allowed: float
    reached: float


def reached(limits: RunLimits, tally: Tally) -> LimitReached | None:
    """The first bound that forbids a further request."""
    if limits.max_turns is not None and tally.turns >= limits.max_turns:
        return LimitReached("max_turns", limits.max_turns, tally.turns)
    if tally.refused and not may_start(limits, tally, tally.refused):
        return _refusing_bound(limits, tally)
    if limits.max_tokens is not None and total_tokens(tally.usage) >= limits.max_tokens:
        return LimitReached("max_tokens", limits.max_tokens, total_tokens(tally.usage))
    if limits.max_cost is not None and tally.usage.cost.total >= limits.max_cost:
        return LimitReached("max_cost", limits.max_cost, tally.usage.cost.total)
    if limits.repeat_limit is not None and tally.repeated >= limits.repeat_limit:
        return LimitReached("no_progress", limits.repeat_limit, tally.repeated)
    return None


def _refusing_bound(limits: RunLimits, tally: Tally) -> LimitReached:
    """The bound of calls that refused one: using a bound up is allowed, asking for more ends the run."""
    of_tool = dict(limits.max_calls_of).get(tally.refused)
    if of_tool is not None and _calls_of(tally, tally.refused) >= of_tool:
        return LimitReached("max_tool_calls", of_tool, _calls_of(tally, tally.refused))
    return LimitReached("max_tool_calls", limits.max_tool_calls or 0, tally.tool_calls)


def may_start(limits: RunLimits, tally: Tally, name: str) -> bool:
    """May one more call of this tool begin?"""
    if limits.max_tool_calls is not None and tally.tool_calls >= limits.max_tool_calls:
        return False
    return all(name != limited or _calls_of(tally, name) < allowed for limited, allowed in limits.max_calls_of)


def with_call(limits: RunLimits, tally: Tally, name: str) -> Tally:
    """The tally after one more call has begun. Calls are counted by name only where a bound asks for it."""
    calls_of = tally.calls_of
    if limits.max_calls_of and any(name == limited for limited, _ in limits.max_calls_of):
        counts = dict(calls_of)
        counts[name] = counts.get(name, 0) + 1
        calls_of = tuple(counts.items())
    return structs.replace(tally, tool_calls=tally.tool_calls + 1, calls_of=calls_of)


def without_calls(tally: Tally, names: Sequence[str]) -> Tally:
    """The tally after calls of these tools were taken back that had been counted and did not begin."""
    counts = dict(tally.calls_of)
    for name in names:
        if name in counts:
            counts[name] -= 1
    return structs.replace(tally, tool_calls=tally.tool_calls - len(names), calls_of=tuple(counts.items()))


def with_answer(tally: Tally, message: AssistantMessage) -> Tally:
    """The tally after an answer: its usage, and how many truncated answers with calls came in a row."""
    truncated = message.stop_reason == "length" and bool(calls_of(message))
    if message.usage is NO_USAGE and not truncated and tally.length_retries == 0:
        return tally
    return structs.replace(
        tally,
        usage=add_usage(tally.usage, message.usage),
        length_retries=tally.length_retries + 1 if truncated else 0,
    )


def with_results(
    limits: RunLimits, tally: Tally, message: AssistantMessage, results: Sequence[ToolResultMessage]
) -> Tally:
    """The tally after a batch: usage of the results, and repetition if a bound asks for it."""
    usage = tally.usage
    for result in results:
        if result.usage is not UNSET:
            usage = add_usage(usage, result.usage)
    last, repeated = tally.last_call, tally.repeated
    if limits.repeat_limit is not None:
        for call, result in zip(calls_of(message), results, strict=False):
            print_of_call = _PRINTS.encode([call.name, call.arguments, result.content, result.is_error])
            repeated = repeated + 1 if print_of_call == last else 1
            last = print_of_call
    if usage is tally.usage and last is tally.last_call and repeated == tally.repeated:
        return tally
    return structs.replace(tally, usage=usage, last_call=last, repeated=repeated)


_PRINTS = Encoder(enc_hook=repr)
"""Encodes what a call was and came to, whatever a provider has put into its arguments."""


def _calls_of(tally: Tally, name: str) -> int:
    return dict(tally.calls_of).get(name, 0)
