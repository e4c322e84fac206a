"""Where profiles differ, as data. The loop has one set of rules; a `Policy` answers the questions that they leave open.

`PI` does exactly what the reference does, `DEFAULT` repairs it where it loses messages or leaves calls unanswered,
`STRICT` is the loop of the course. Every row in which `DEFAULT` differs from `PI` has its reason in `DEVIATIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Bounds of one run; `None` is no bound. Asked at a turn boundary, only when a further request would follow.

    `max_seconds` is wall clock and also aborts inside a turn. `repeat_limit` k: the same (tool, arguments, result) k
    times in a row, in call order, is no progress. `max_calls_of` bounds single tools by name.
    """

    max_turns: int | None = None
    max_tool_calls: int | None = None
    max_calls_of: dict[str, int] = field(default_factory=dict[str, int])
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


@dataclass(frozen=True, slots=True)
class Policy:
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
