"""Where profiles differ, as data. The loop has one set of rules; a `Policy` answers the questions that they leave open.

`PI` does exactly what the reference does, `DEFAULT` repairs it where it loses messages or leaves calls unanswered,
`STRICT` is the loop of the course. Every row in which `DEFAULT` differs from `PI` has its reason in `DEVIATIONS`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, TypeAlias, final, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from antiphon.core.calls import SkipReason
from antiphon.core.messages import StopReason
from antiphon.errors import WrongArgument


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
            if value is not None and not _is_count(value, least=1):
                raise WrongArgument(f"RunLimits: {name} must be a whole number of at least 1, not {value!r}")
        for name in ("max_cost", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and value > 0):
                raise WrongArgument(f"RunLimits: {name} must be a number above 0, not {value!r}")
        if not _are_counts(self.max_calls_of):
            raise WrongArgument(
                "RunLimits: max_calls_of must be a tuple of pairs such as (('bash', 3),): names, and whole numbers of "
                "at least 0"
            )


def _is_number(value: Any) -> bool:
    """A number that can be compared: NaN is above and below nothing, so it would be no bound at all."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_count(value: Any, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_counts(given: Any) -> bool:
    return isinstance(given, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) and _is_count(pair[1], least=0)
        for pair in given
    )


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
    equal_tool_names: Literal["first counts", "refuse"] = "refuse"
    skip_details: Literal["empty", "typed"] = "typed"
    abort_grace: float | None = 2.0
    return_undelivered: bool = True
    listener_fault: Literal["ends the run", "recorded"] = "recorded"
    fault_closing: Literal["failure sequence", "innermost first"] = "innermost first"
    hook_messages: Literal["live list", "snapshot"] = "snapshot"
    natural_end: Literal["natural", "end"] = "natural"
    nameless_error: Literal["empty", "class name"] = "class name"
    limits: RunLimits = NO_LIMITS

    def __post_init__(self) -> None:
        for name, choices in _choices().items():
            if getattr(self, name) not in choices:
                raise WrongArgument(f"Policy: {name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        grace, retries = self.abort_grace, self.length_retry_limit
        if grace is not None and not (_is_number(grace) and grace >= 0):
            raise WrongArgument(f"Policy: abort_grace must be seconds, 0 or more, or None, not {grace!r}")
        if retries is not None and not _is_count(retries, least=0):
            raise WrongArgument(f"Policy: length_retry_limit must be a whole number or None, not {retries!r}")
        if not isinstance(self.limits, RunLimits):
            raise WrongArgument(f"Policy: limits must be RunLimits(...), not {self.limits!r}")


@lru_cache(maxsize=1)
def _choices() -> dict[str, tuple[str, ...]]:
    """The words that each question of a policy can be answered with, read from its declaration."""
    hints = get_type_hints(Policy)
    return {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}


VERY_MANY_TURNS = 1_000_000

PI = Policy(
    name="pi",
    pair_unexecuted="never",
    on_unknown_stop="as_stop",
    check_abort_before_request=False,
    aborted_empty_turn="append",
    duplicate_call_id="allow",
    equal_tool_names="first counts",
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


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "D1",
        ("check_abort_before_request", "aborted_empty_turn"),
        "The abort signal is not looked at between turns: steering is taken, hooks are asked, a request leaves.",
        "After an abort no request leaves and no tool starts. Seen at a boundary, it ends the run there; a turn that "
        "is open and unanswered is closed by an event whose message is not appended.",
        "Stop means no further cost and no further effects, also with a model that ignores the signal. (X8, X9)",
    ),
    Deviation(
        "D2",
        ("abort_grace",),
        "A tool, hook or stream that ignores the signal keeps the run for ever.",
        "After an abort foreign code has a grace of 2 seconds, then it is cancelled, then let go of and named.",
        "Stop means stop, and says what may have happened.",
    ),
    Deviation(
        "D3",
        ("return_undelivered",),
        "Messages that a poll took are lost if something fails before they are announced.",
        "They go back to the head of their queue, in their order.",
        "They are the words of the user.",
    ),
    Deviation(
        "D4",
        ("pair_unexecuted",),
        "Calls of a failed or aborted answer, and calls that a fault cut off, stay without results.",
        "When a turn ends every call of it has one result, which says why it did not run.",
        "Providers refuse calls without results, so the next prompt would fail. (X3)",
    ),
    Deviation(
        "D5",
        ("listener_fault",),
        "A listener that raises ends the run, and later listeners miss the event.",
        "Its fault is recorded and reported, the others are told, the run goes on. A critical listener ends the run.",
        "An observer is no controller; a store is.",
    ),
    Deviation(
        "D6",
        ("duplicate_call_id",),
        "Two calls with one id both run, and the first end clears the id from the pending ones.",
        "The second is refused at its own position; an id is pending until its last call has ended.",
        "A call is executed at most once, and a display does not show idle during work. (X11)",
    ),
    Deviation(
        "equal_tool_names",
        ("equal_tool_names",),
        "Of two tools of one name an agent uses the first, and nobody hears of the second.",
        "An agent refuses them where they are given.",
        "A tool that can never be called is a mistake of the host.",
    ),
    Deviation(
        "D7",
        ("fault_closing",),
        "A stream function or hook that raises leaves answer, calls and turn open; the failure is told beside them.",
        "The content so far becomes the failure answer, calls are answered, then turn and run are closed.",
        "Every consumer sees one shape of failure, and what had arrived is kept.",
    ),
    Deviation(
        "D8",
        (),
        "An event stream whose producer raised, or that was ended without a result, never ends; of several readers "
        "one is woken.",
        "It ends for everybody who waits, with the error. In every profile.",
        "Nobody hangs in silence.",
    ),
    Deviation(
        "D9",
        (),
        "Continuing a low-level run appends to the caller's own list.",
        "Lists of the caller are never changed. In every profile.",
        "Lists are shared, and runs are retried.",
    ),
    Deviation(
        "D10",
        (),
        "A follow-up that a listener of the last event queues waits for ever.",
        "The outcome says that something is queued; `run_until_idle` delivers it. In every profile.",
        "Nothing that was accepted is forgotten.",
    ),
    Deviation(
        "D11",
        ("limits",),
        "A loop without end has no brake.",
        "A run ends after very many turns; every other bound is one word away.",
        "Cost.",
    ),
    Deviation(
        "D12",
        (),
        "A second start of one response leaves an orphan in the context.",
        "It replaces what was there; one response is announced once. In every profile.",
        "A partial answer never enters the transcript.",
    ),
    Deviation(
        "D13",
        ("hook_messages",),
        "Hooks get the live list of messages, and an edit changes the transcript.",
        "They get a snapshot.",
        "History is changed on purpose or not at all.",
    ),
    Deviation(
        "D14",
        (),
        "A listener added during an event gets that event; a function subscribed twice is called once.",
        "An event goes to the subscriptions of its moment, and each of them counts. In every profile.",
        "Predictable.",
    ),
    Deviation(
        "D15",
        ("fault_closing",),
        "The events that close a failed run stop at the first error of a listener, and the caller gets that error.",
        "Every closing event reaches every listener.",
        "Displays do not hang in working.",
    ),
    Deviation(
        "on_unknown_stop",
        ("on_unknown_stop",),
        "An answer that ends as pending, or with a stop reason that nobody knows, counts as a natural stop.",
        "It is a failure answer: the stream broke its protocol.",
        "A broken provider is not mistaken for a finished task.",
    ),
    Deviation(
        "skip_details",
        ("skip_details",),
        "Results of calls that did not run carry empty details.",
        "They say that and why they were skipped.",
        "Hosts and displays need not read prose.",
    ),
    Deviation(
        "nameless_error",
        ("nameless_error",),
        "An exception without words gives a result, or an error, without words.",
        "Its class name stands in.",
        "A model can react to a name, not to nothing.",
    ),
)
"""Every way in which `DEFAULT` differs from the reference. Without a field, a row holds in every profile: what the
reference does there is a hang or a loss that no record needs.
"""
