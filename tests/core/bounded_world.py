"""A small world around the machine: whatever a model, tools, hooks, queues and listeners can do, within bounds.

The walk starts with a prompt and gives the machine, in every state, every input that the world allows. Two moments are
the same if the machine cannot tell them apart and the checker cannot either: then the second is not walked again. What
is left out of that comparison is the text of messages that are told already; the checker compares those on the way.

Nothing here is chosen at random. `python -m tests.core.walk` prints how much there is.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.calls import Outcome, ToolResult, text_result
from antiphon.core.content import Text, ToolCall
from antiphon.core.growing import grown
from antiphon.core.hooks import Context, NextTurn, RequestUpdate
from antiphon.core.limits import NOTHING_USED
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, UserMessage, user
from antiphon.core.model import Model
from antiphon.core.policy import PROFILES, Policy, RunLimits, decision_table
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Start, TextDelta
from antiphon.core.toolbox import Toolbox
from antiphon.core.trace import TraceChecker
from antiphon.core.trace_brackets import Brackets
from antiphon.core.trace_dialogue import Dialogue
from antiphon.core.transcript import Transcript

Step: TypeAlias = Callable[[c.State, c.Input], tuple[c.State, list[Any]]]

MODEL = Model(id="first", provider="p", api="a")
OTHER_MODEL = Model(id="second", provider="p", api="a")
PROMPT = user("go")


@dataclass(frozen=True)
class Tool:
    """Something that can be called; nobody runs it here."""

    name: str
    execution_mode: str | None = None
    description: str = "does it"
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    execute: Any = None

    __hash__ = object.__hash__


PARALLEL_TOOL = Tool("tool")
ORDERED_TOOL = Tool("tool", execution_mode="sequential")
EXTRA_TOOL = Tool("extra")


@dataclass(frozen=True)
class Bounds:
    """How much may happen in one run. `batch`: calls of one answer, in each answer; the rest is for the whole run.

    `changes`: a hook gives another model or another context. `cleared`: a host clears messages that were taken.
    """

    requests: int = 3
    batch: int = 3
    queued: int = 3
    aborts: int = 1
    faults: int = 1
    prepared: int = 0
    changes: int = 0
    cleared: int = 0
    critical: bool = False
    hooks: bool = True
    ordered: bool = False
    max_turns: int | None = None
    max_tool_calls: int | None = None
    length_retries: int | None = None


WORLDS: dict[str, Bounds] = {
    "together": Bounds(),
    "one by one": Bounds(requests=2, queued=1, ordered=True),
    "hooks": Bounds(requests=2, batch=1, queued=1, aborts=0, prepared=1, changes=1, cleared=1),
    "no hooks": Bounds(requests=2, batch=2, queued=1, hooks=False),
    "limits": Bounds(queued=1, max_turns=2, max_tool_calls=2, length_retries=1),
    "two failures": Bounds(requests=1, batch=2, queued=1, faults=2, critical=True),
}
"""Walked by every run of the tests."""

GREAT: dict[str, Bounds] = {
    "together": Bounds(requests=4, batch=4, queued=3, faults=2),
    "one by one": Bounds(requests=4, batch=4, queued=3, faults=2, ordered=True),
    "hooks": Bounds(requests=3, batch=2, queued=2, prepared=1, changes=1, cleared=1),
    "no hooks": Bounds(requests=5, batch=3, queued=4, faults=2, hooks=False),
    "limits": Bounds(requests=4, batch=4, queued=2, max_turns=3, max_tool_calls=5, length_retries=1),
}
"""Walked by name."""


class Left(NamedTuple):
    """What may still happen."""

    requests: int
    queued: int
    aborts: int
    faults: int
    prepared: int
    changes: int
    cleared: int


@dataclass(slots=True)
class Moment:
    """Where a run stands: the machine, who watches it, what may still come, and the calls it has just begun."""

    state: c.State
    checker: TraceChecker
    left: Left
    begun: tuple[int, ...] = ()


@dataclass
class Found:
    """What a walk has seen. `paths`: ways from the prompt to an end, each a run that could happen."""

    states: int = 0
    steps: int = 0
    ends: int = 0
    paths: int = 0
    reasons: set[str] = field(default_factory=set[str])
    pairs: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


# -- what can happen ---------------------------------------------------------------------------------------------------

FINE = Outcome(result=text_result("fine"), is_error=False, executed=True)
LAST = Outcome(result=ToolResult(content=(Text(text="last"),), terminate=True), is_error=False, executed=True)
BLOCKED = Outcome(result=text_result("blocked", details={}), is_error=True)
BLOCKED_LAST = Outcome(result=ToolResult(content=(Text(text="no"),), details={}, terminate=True), is_error=True)
STOP_REASONS = ("stop", "toolUse", "length", "error", "aborted", "deferred", "pending", "surprise")
FULL_BATCHES = ("toolUse", "length", "error")


@cache
def answer(stop_reason: str, ids: tuple[str, ...]) -> AssistantMessage:
    blocks = tuple(ToolCall(id=i, name="tool", arguments={}) for i in ids)
    return AssistantMessage(content=(Text(text="answer"), *blocks), stop_reason=stop_reason, timestamp=7)  # type: ignore[arg-type]


BEGUN = AssistantMessage(content=(), stop_reason="pending")
START = Start(message=BEGUN)
DELTA = TextDelta(content_index=0, delta="…")


@cache
def queued_message(number: int) -> UserMessage:
    return user(f"queued {number}")


PREPARED = user("prepared")
PREPARED_PROMPT = SystemMessage(content="prepared system text")


@dataclass
class World:
    """Everything that the outside may do in one profile, within bounds.

    The checker goes by `policy`. A machine with a planted fault gets its own `step`, `table`, and policy (`broken`).
    """

    policy: Policy
    bounds: Bounds = Bounds()
    step: Step = machine.step
    table: Callable[[Policy], Any] = decision_table
    broken: Policy | None = None

    def __post_init__(self) -> None:
        run_by = self.policy if self.broken is None else self.broken
        self.run_by = structs.replace(run_by, length_retry_limit=self.bounds.length_retries)
        self.toolbox = Toolbox([ORDERED_TOOL if self.bounds.ordered else PARALLEL_TOOL])

    def prompt(self) -> c.Prompt:
        limits = RunLimits(max_turns=self.bounds.max_turns, max_tool_calls=self.bounds.max_tool_calls)
        run = c.Run(
            rules=c.Rules(
                policy=self.run_by,
                limits=limits,
                table=self.table(self.run_by),
                asks_request=self.bounds.hooks,
                asks_finish=self.bounds.hooks,
                asks_next=self.bounds.hooks,
                polls_twice=self.bounds.hooks,
            ),
            transcript=Transcript(),
            toolbox=self.toolbox,
            new=grown(),
            model=MODEL,
            thinking_level="off",
            tally=NOTHING_USED,
        )
        return c.Prompt(run=run, messages=(PROMPT,), at=1)

    def first(self) -> Moment:
        b = self.bounds
        left = Left(b.requests, b.queued, b.aborts, b.faults, b.prepared, b.changes, b.cleared)
        return self.after(Moment(c.Idle(), TraceChecker(self.policy), left), self.prompt(), left)

    def after(self, moment: Moment, given: c.Input, left: Left) -> Moment:
        """The next moment. Raises what the machine raises, and what the checker has to say."""
        checker = fork(moment.checker)
        state, commands = self.step(moment.state, given)
        checker.step(given, commands, state)
        begun = tuple([command.position for command in commands if type(command) is c.StartTool])
        if type(given) is c.Interrupt:
            begun = moment.begun
        if type(state) is c.Ended:
            checker.finish()
        return Moment(state, checker, left, begun)

    def inputs(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        """Everything that may be told to the machine now."""
        state, left = moment.state, moment.left
        if type(state) is not c.Ended:
            if left.aborts:
                yield c.Interrupt("stop it"), left._replace(aborts=left.aborts - 1)
            yield from _ANSWERS[type(state)](self, moment)
        if left.faults:
            spent = left._replace(faults=left.faults - 1)
            yield c.Fault("it broke", 9, moment.begun), spent
            if moment.begun:
                yield c.Fault("it broke", 9), spent
            if self.bounds.critical:
                yield c.Fault("the store broke", 9, moment.begun, critical=True), spent

    def polled(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        left = moment.left
        first = self.bounds.queued - left.queued
        for count in range(left.queued + 1):
            messages = tuple(queued_message(first + n) for n in range(count))
            yield c.Drained(messages, 2), left._replace(queued=left.queued - count)

    def request_prepared(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        left = moment.left
        yield c.RequestPrepared(None), left
        if left.changes:
            spent = left._replace(changes=left.changes - 1)
            yield c.RequestPrepared(RequestUpdate(model=OTHER_MODEL, thinking_level="high")), spent
            context = Context((PROMPT,), (*(self.toolbox.tools or ()), EXTRA_TOOL))
            yield c.RequestPrepared(RequestUpdate(context=context)), spent

    def composed(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        yield c.Composed(REQUEST), moment.left

    def response(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        state, left = moment.state, moment.left
        grown_already = type(state) is c.Responding and state.answer.count > 0
        if not grown_already:
            yield START, left
            yield DELTA, left
        if left.requests:
            spent = left._replace(requests=left.requests - 1)
            for message in self.answers():
                yield c.Answered(message), spent

    def answers(self) -> Iterator[AssistantMessage]:
        for stop_reason in STOP_REASONS:
            yield answer(stop_reason, ())
            most = self.bounds.batch if stop_reason in FULL_BATCHES else min(self.bounds.batch, 1)
            for count in range(1, most + 1):
                yield answer(stop_reason, tuple("abcdef"[:count]))
            if stop_reason == "toolUse" and most > 1:
                yield answer(stop_reason, ("a",) * most)

    def checked(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        for refusal in (None, BLOCKED, BLOCKED_LAST):
            yield c.Checked(refusal, 3), moment.left

    def running(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        left = moment.left
        for position in sorted(moment.checker._dialogue.running):
            yield c.Progress(position, "half"), left
            for outcome in (FINE, LAST):
                yield c.Finished(position, outcome, 4), left

    def decided(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        for action in (None, "continue", "end"):
            yield c.Decided(action, False, 5), moment.left
        yield c.Decided(None, True, 5), moment.left

    def looked(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        yield c.Looked(), moment.left

    def next_prepared(self, moment: Moment) -> Iterator[tuple[c.Input, Left]]:
        left = moment.left
        yield c.Prepared(None, 6), left
        if left.prepared:
            spent = left._replace(prepared=left.prepared - 1)
            yield c.Prepared(NextTurn(messages=(PREPARED,)), 6), spent
            yield c.Prepared(NextTurn(messages=(PREPARED_PROMPT, PREPARED)), 6), spent
        if left.changes:
            spent = left._replace(changes=left.changes - 1)
            yield c.Prepared(NextTurn(context=Context((PROMPT,), (EXTRA_TOOL,))), 6), spent
        pending: tuple[Message, ...] = getattr(moment.state, "pending", ())
        if left.cleared and pending:
            spent = left._replace(cleared=left.cleared - 1)
            yield c.Withdrawn(pending), spent
            if len(pending) > 1:
                yield c.Withdrawn(pending[:1]), spent


class _Signal:
    aborted = False
    reason = None


REQUEST = ModelRequest(model=MODEL, messages=(), thinking_level="off", signal=_Signal())  # type: ignore[arg-type]

_ANSWERS: dict[type, Callable[[World, Moment], Iterator[tuple[c.Input, Left]]]] = {
    c.Opening: World.polled,
    c.Composing: World.request_prepared,
    c.Asking: World.composed,
    c.Requesting: World.response,
    c.Responding: World.response,
    c.Checking: World.checked,
    c.Executing: World.running,
    c.Finishing: World.decided,
    c.Limited: World.looked,
    c.Steering: World.polled,
    c.FollowUp: World.polled,
    c.Preparing: World.next_prepared,
    c.Latecomers: World.polled,
}


# -- the walk ----------------------------------------------------------------------------------------------------------


def walk(world: World, most_steps: int = 5_000_000) -> Found:
    """Visit every moment once. Raises what the checker says at the first step that breaks a rule."""
    collects = gc.isenabled()
    gc.disable()  # nothing here is cyclic, and the collector would look at every moment again and again
    try:
        return _walk(world, most_steps)
    finally:
        if collects:
            gc.enable()


def _walk(world: World, most_steps: int) -> Found:
    found = Found()
    first = world.first()
    seen: dict[Any, int] = {}
    trail: list[tuple[Any, Moment, Iterator[tuple[c.Input, Left]], list[int]]] = []

    def enter(moment: Moment) -> int | None:
        """Paths from here if that is known; else the moment is put on the trail."""
        key = key_of(moment)
        known = seen.get(key)
        if known is not None:
            return known
        seen[key] = 0
        trail.append((key, moment, world.inputs(moment), [0]))
        return None

    enter(first)
    while trail:
        key, moment, inputs, paths = trail[-1]
        following = next(inputs, None)
        if following is None:
            trail.pop()
            if type(moment.state) is c.Ended:
                found.ends += 1
                found.reasons.add(moment.state.reason)
                paths[0] += 1
            seen[key] = paths[0]
            if trail:
                trail[-1][3][0] += paths[0]
            continue
        given, left = following
        found.steps += 1
        if found.steps > most_steps:
            raise AssertionError(f"the walk does not end within {most_steps} steps")
        found.pairs.add((type(moment.state).__name__, type(given).__name__))
        try:
            known = enter(world.after(moment, given, left))
        except Exception as error:
            error.add_note("after " + _told(trail) + f" {given!r:.120}")
            raise
        if known is not None:
            paths[0] += known
    found.states = len(seen)
    found.paths = seen[key_of(first)]
    return found


def _told(trail: list[Any]) -> str:
    """The way to the last moment: the states passed."""
    return " > ".join(type(moment.state).__name__ for _, moment, _, _ in trail)


# -- when two moments are the same -------------------------------------------------------------------------------------


def key_of(moment: Moment) -> Any:
    """What the machine, the checker and the world may still depend on."""
    checker, state = moment.checker, moment.state
    b = checker._brackets
    if type(state) is c.Ended:
        return c.Ended, state.reason, state.run.stopped, b.run, checker._dialogue.failed, moment.left.faults
    return _state_key(state), _brackets_key(b), _dialogue_key(checker._dialogue), moment.left, moment.begun


def _state_key(state: c.State) -> Any:
    parts: list[Any] = [type(state)]
    for name in state.__struct_fields__:
        parts.append(_value_key(name, getattr(state, name)))
    return tuple(parts)


def _value_key(name: str, value: Any) -> Any:
    kind = type(value)
    if kind is c.Run:
        return _run_key(value)
    if kind is c.Batch:
        return _batch_key(value)
    if name == "turn":
        return None
    if name == "answer":
        return value.count
    if kind is AssistantMessage:
        return value.stop_reason
    if kind is tuple:
        return tuple([_message_key(item) for item in value])
    if name == "limit":
        return None if value is None else value.name
    return value


def _run_key(run: c.Run) -> Any:
    limits, counts = run.rules.limits, run.tally
    return (
        run.toolbox.tools,
        run.declared is run.toolbox,
        run.model.id,
        run.stopped,
        run.fault,
        run.struck,
        counts.turns,
        (counts.tool_calls, counts.refused) if limits.max_tool_calls is not None else None,
        counts.length_retries if run.rules.policy.length_retry_limit is not None else None,
    )


def _batch_key(batch: c.Batch) -> Any:
    return (
        len(batch.calls),
        batch.one_by_one,
        batch.doubles,
        batch.looked_at,
        batch.running,
        batch.ready.tuple(),
        tuple([(s.position, s.outcome.terminates) for s in batch.settled]),
    )


def _message_key(message: Message) -> Any:
    return id(message) if type(message) is UserMessage else message.role


def _brackets_key(b: Brackets) -> Any:
    return (
        b.run,
        b.last_turn,
        None if b.message is None else b.message.role,
        b.turn,
        None if b.answer is None else b.answer.stop_reason,
        tuple([call.id for call in b.calls]),
        b.started,
        tuple(sorted(b.ended)),
        len(b.results),
        b.unanimous,
    )


def _dialogue_key(d: Dialogue) -> Any:
    return (
        type(d.asked),
        d.answered,
        d.stopped,
        d.failed,
        d.ended_by_host,
        d.committed,
        d.tools_left,
        d.wants_more,
        tuple([_message_key(m) for m in d.given]),
        tuple([_message_key(m) for m in d.leased]),
        tuple(sorted(d.running)),
        tuple(d.owed),
        tuple(sorted(d.allowed)),
        tuple(sorted(d.executed)),
        len(d.checked),
    )


def fork(checker: TraceChecker) -> TraceChecker:
    """A checker that stands where this one stands."""
    twin = _copied(checker)
    twin._brackets = _copied(checker._brackets)
    twin._brackets.open = {i: list(positions) for i, positions in checker._brackets.open.items()}
    twin._dialogue = _copied(checker._dialogue)
    twin._dialogue.brackets = twin._brackets
    return twin


_CONTAINERS: dict[type, tuple[str, ...]] = {
    TraceChecker: (),
    Brackets: ("new", "ended", "results"),
    Dialogue: (
        "given",
        "leased",
        "executions_of",
        "running",
        "owed",
        "checked",
        "allowed",
        "executed",
        "first_of_id",
    ),
}


def _copied(value: Any) -> Any:
    kind = type(value)
    twin = object.__new__(kind)
    for name in kind.__slots__:
        setattr(twin, name, getattr(value, name))
    for name in _CONTAINERS[kind]:
        setattr(twin, name, getattr(value, name).copy())
    return twin


__all__ = ["GREAT", "PROFILES", "WORLDS", "Bounds", "Found", "Moment", "World", "fork", "key_of", "walk"]
