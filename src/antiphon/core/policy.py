"""Where profiles differ, as data. The loop has one set of rules; a `Policy` answers the questions that they leave open.

`PI` does exactly what the reference does, `DEFAULT` repairs it where it loses messages or leaves calls unanswered,
`STRICT` is the loop of the course. Every row in which `DEFAULT` differs from `PI` has its reason in `DEVIATIONS`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias, final, get_args

from msgspec import Struct
from msgspec.structs import replace

from antiphon.core.calls import SkipReason
from antiphon.core.messages import StopReason


@final
class RunLimits(Struct, frozen=True):
    """Bounds of one run; `None` is no bound. Asked at a turn boundary, only when a further request would follow.

    `max_seconds` is wall clock and also aborts inside a turn. `repeat_limit` k: the same (tool, arguments, result) k
    times in a row, in call order, is no progress. `max_calls_of` bounds single tools: pairs of name and number.
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_calls_of: tuple[tuple[str, int], ...] = ()
    max_tokens: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    repeat_limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tool_calls", "max_tokens", "repeat_limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        for name in ("max_cost", "max_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")


NO_LIMITS = RunLimits()


@final
class Policy(Struct, frozen=True):
    """One answer for each question that the rules of the loop leave open. Source: loop specification, section 8.1."""

    name: str
    on_length_calls: Literal["retry", "end"] = "retry"
    length_retry_limit: int | None = None
    on_length_end: Literal["natural", "end"] = "natural"
    pair_unexecuted: Literal["never", "always"] = "always"
    on_stop_with_calls: Literal["execute", "error"] = "execute"
    on_tooluse_empty: Literal["end", "error"] = "end"
    on_unknown_stop: Literal["as_stop", "failure"] = "failure"
    check_abort_before_request: bool = True
    aborted_empty_turn: Literal["append", "event only"] = "event only"
    duplicate_call_id: Literal["allow", "error_second", "error_all"] = "error_second"
    skip_details: Literal["empty", "typed"] = "typed"
    abort_grace: float | None = 2.0
    return_undelivered: bool = True
    listener_fault: Literal["ends the run", "recorded"] = "recorded"
    fault_closing: Literal["failure sequence", "innermost first"] = "innermost first"
    hook_messages: Literal["live list", "snapshot"] = "snapshot"
    natural_end: Literal["natural", "end"] = "natural"
    nameless_error: Literal["empty", "class name"] = "class name"
    limits: RunLimits = NO_LIMITS


VERY_MANY_TURNS = 1_000_000

PI = Policy(
    name="pi",
    pair_unexecuted="never",
    on_unknown_stop="as_stop",
    check_abort_before_request=False,
    aborted_empty_turn="append",
    duplicate_call_id="allow",
    skip_details="empty",
    abort_grace=None,
    return_undelivered=False,
    listener_fault="ends the run",
    fault_closing="failure sequence",
    hook_messages="live list",
    nameless_error="empty",
)

DEFAULT = Policy(name="default", limits=RunLimits(max_turns=VERY_MANY_TURNS))

STRICT = replace(
    DEFAULT,
    name="strict",
    on_length_calls="end",
    on_length_end="end",
    on_stop_with_calls="error",
    on_tooluse_empty="error",
    natural_end="end",
    limits=NO_LIMITS,
)

PROFILES: dict[str, Policy] = {"pi": PI, "default": DEFAULT, "strict": STRICT}


EndReason: TypeAlias = Literal[
    "stop",
    "length",
    "error",
    "aborted",
    "terminated",
    "ended_by_host",
    "max_turns",
    "max_tool_calls",
    "max_tokens",
    "max_cost",
    "deadline",
    "no_progress",
]
"""Why a run is over."""


Calls: TypeAlias = Literal["none", "run", "refuse", "leave"]


@final
class After(Struct, frozen=True):
    """What a final answer leads to.

    `calls`: run them, refuse them for a reason, or leave them without a result. `then`: "go on" (queues and further
    turns as usual), "hard end" (no queue is read), or "fail" (the answer broke the protocol: it becomes a failure).
    `reason`: how the run ends at a hard end.
    """

    calls: Calls
    then: Literal["go on", "hard end", "fail"]
    skip: SkipReason = "error"
    reason: EndReason = "stop"


STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)


@lru_cache(maxsize=64)
def decision_table(policy: Policy) -> dict[tuple[str, bool], After]:
    """(why the model stopped, are there calls?) -> what follows. Total over every stop reason there is."""
    stop = After("run", "go on") if policy.on_stop_with_calls == "execute" else _REFUSED_STOP
    natural = After("none", "go on") if policy.natural_end == "natural" else After("none", "hard end")
    pair: Calls = "refuse" if policy.pair_unexecuted == "always" else "leave"
    retry = policy.on_length_calls == "retry"
    broken = policy.on_unknown_stop == "failure"
    cut = natural if policy.on_length_end == "natural" else After("none", "hard end", reason="length")
    return {
        ("stop", False): natural,
        ("stop", True): stop,
        ("deferred", False): natural,
        ("deferred", True): stop,
        ("toolUse", False): natural if policy.on_tooluse_empty == "end" else After("none", "hard end", reason="error"),
        ("toolUse", True): After("run", "go on"),
        ("length", False): cut,
        ("length", True): After("refuse", "go on" if retry else "hard end", "length", "length"),
        ("error", False): After("none", "hard end", reason="error"),
        ("error", True): After(pair, "hard end", "error", "error"),
        ("aborted", False): After("none", "hard end", reason="aborted"),
        ("aborted", True): After(pair, "hard end", "aborted", "aborted"),
        ("pending", False): After("none", "fail", reason="error") if broken else natural,
        ("pending", True): After(pair, "fail", "error", "error") if broken else stop,
    }


_REFUSED_STOP = After("refuse", "hard end", "unexpected-stop", "error")


def after_response(table: dict[tuple[str, bool], After], stop_reason: str, has_calls: bool) -> After:
    """The row of a decision table; a stop reason that nobody knows counts as `pending`."""
    return table.get((stop_reason, has_calls)) or table["pending", has_calls]


@final
class Deviation(Struct, frozen=True):
    """One way in which `DEFAULT` differs from the reference, and why that is safer."""

    id: str
    fields: tuple[str, ...]
    reference: str
    ours: str
    reason: str
