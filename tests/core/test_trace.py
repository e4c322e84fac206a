"""The checker accepts legal runs and names the rule that an illegal one breaks.

First events alone: a legal trace is taken and one thing in it is changed. Then whole steps: a machine is made to lie.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.core.play import FINE, LAST, NO, Play, calls, request, says, user
from tests.core.random_world import RandomWorld, play_machine

from antiphon.core import states as c
from antiphon.core.calls import Outcome, result_message, skipped, text_result
from antiphon.core.content import Text, ToolCall
from antiphon.core.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from antiphon.core.hooks import Context, NextTurn, RequestUpdate
from antiphon.core.limits import Tally
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage
from antiphon.core.policy import PI, PROFILES, RunLimits
from antiphon.core.response import answer_begun
from antiphon.core.response_events import TextDelta
from antiphon.core.trace import TraceChecker, check_trace
from antiphon.core.transcript import Transcript
from antiphon.errors import ProtocolError

# -- a legal trace, as labelled events ---------------------------------------------------------------------------------

GO, MORE = user("go"), user("more")
PARTIAL = answer_begun(AssistantMessage(content=(), stop_reason="pending"))
CALLS = calls("a", "b", "a")
DONE = says("done")
OUTCOMES = tuple(Outcome(result=text_result(f"result {n}"), is_error=False) for n in range(3))
BLOCKS: tuple[ToolCall, ...] = CALLS.content  # type: ignore[assignment]
RESULTS = tuple(result_message(call, outcome, 0) for call, outcome in zip(BLOCKS, OUTCOMES, strict=True))
FAILURE = AssistantMessage(content=(), stop_reason="error", error_message="it broke")
STOPPED = AssistantMessage(content=(), stop_reason="aborted", error_message="Operation aborted")

Trace = list[tuple[str, AgentEvent]]


def said(label: str, message: Message) -> Trace:
    return [(f"start {label}", MessageStart(message=message)), (f"end {label}", MessageEnd(message=message))]


def call(position: int) -> tuple[str, AgentEvent]:
    block = BLOCKS[position]
    start = ToolExecutionStart(tool_call_id=block.id, tool_name=block.name, args=block.arguments, position=position)
    return f"call {position}", start


def over(position: int, outcome: Outcome | None = None) -> tuple[str, AgentEvent]:
    block, outcome = BLOCKS[position], outcome or OUTCOMES[position]
    end = ToolExecutionEnd(
        tool_call_id=block.id,
        tool_name=block.name,
        result=outcome.result,
        is_error=outcome.is_error,
        position=position,
    )
    return f"over {position}", end


def progress(position: int) -> tuple[str, AgentEvent]:
    block = BLOCKS[position]
    update = ToolExecutionUpdate(
        tool_call_id=block.id, tool_name=block.name, args={}, partial_result="half", position=position
    )
    return f"progress {position}", update


UPDATE = MessageUpdate(message=PARTIAL, assistant_message_event=TextDelta(content_index=0, delta="…"))


def legal() -> Trace:
    """Two turns: three calls that run together, two of them with one id; then an answer."""
    return [
        ("agent_start", AgentStart()),
        ("turn_start 1", TurnStart()),
        *said("go", GO),
        ("start calls", MessageStart(message=PARTIAL)),
        ("update", UPDATE),
        ("end calls", MessageEnd(message=CALLS)),
        call(0),
        call(1),
        call(2),
        progress(2),
        over(2),
        over(0),
        over(1),
        *said("result 0", RESULTS[0]),
        *said("result 1", RESULTS[1]),
        *said("result 2", RESULTS[2]),
        ("turn_end 1", TurnEnd(message=CALLS, tool_results=RESULTS)),
        ("turn_start 2", TurnStart()),
        *said("more", MORE),
        *said("done", DONE),
        ("turn_end 2", TurnEnd(message=DONE, tool_results=())),
        ("agent_end", AgentEnd(messages=(GO, CALLS, *RESULTS, MORE, DONE))),
    ]


def one_by_one() -> Trace:
    """The same calls one after the other."""
    trace = legal()
    head = trace[: labels(trace).index("call 0")]
    tail = trace[labels(trace).index("turn_end 1") :]
    batch: Trace = []
    for position in range(3):
        batch += [call(position), over(position), *said(f"result {position}", RESULTS[position])]
    return [*head, *batch, *tail]


def labels(trace: Trace) -> list[str]:
    return [label for label, _ in trace]


def events(trace: Trace) -> list[AgentEvent]:
    return [event for _, event in trace]


def without(*gone: str) -> Trace:
    assert set(gone) <= set(labels(legal()))
    return [item for item in legal() if item[0] not in gone]


def twice(label: str) -> Trace:
    trace = legal()
    place = labels(trace).index(label)
    return [*trace[: place + 1], *trace[place:]]


def moved(label: str, before: str, trace: Trace | None = None) -> Trace:
    trace = trace or legal()
    item = trace.pop(labels(trace).index(label))
    trace.insert(labels(trace).index(before), item)
    return trace


def inserted(before: str, *items: tuple[str, AgentEvent], trace: Trace | None = None) -> Trace:
    trace = trace or legal()
    place = labels(trace).index(before)
    return [*trace[:place], *items, *trace[place:]]


def replaced(label: str, event: AgentEvent, trace: Trace | None = None) -> Trace:
    trace = trace or legal()
    assert label in labels(trace)
    return [(name, event if name == label else old) for name, old in trace]


def result_of(position: int, **changes: Any) -> ToolResultMessage:
    return structs.replace(RESULTS[position], **changes)


def test_legal_traces_are_accepted() -> None:
    check_trace(events(legal()))
    check_trace(events(one_by_one()))
    check_trace([])


def test_several_runs_may_follow_each_other() -> None:
    check_trace([*events(legal()), *events(legal())])


def test_a_host_role_may_be_announced() -> None:
    note = SystemMessage(content="note")
    trace = inserted("start more", *said("note", note))

    check_trace(events(replaced("agent_end", AgentEnd(messages=(GO, CALLS, *RESULTS, note, MORE, DONE)), trace)))


@pytest.mark.parametrize("cut", range(1, len(legal())))
def test_a_run_that_just_stops_has_no_end(cut: int) -> None:
    """Only the reference's low-level functions may raise in the middle."""
    with pytest.raises(ProtocolError, match="I4 at event"):
        check_trace(events(legal())[:cut])
    check_trace(events(legal())[:cut], PI)


MULTILINE = AssistantMessage(content=(Text(text="another"),), stop_reason="stop")

BROKEN: dict[str, tuple[str, Trace]] = {
    # I1: answers
    "a partial answer is appended": ("I1", replaced("end calls", MessageEnd(message=PARTIAL))),  # type: ignore[arg-type]
    "an answer is still pending": ("I1", replaced("end done", MessageEnd(message=says(why="pending")))),
    "a second answer": ("I1", inserted("turn_end 2", *said("again", MULTILINE))),
    # I2: pairing
    "a result is missing": ("I2", without("start result 2", "end result 2")),
    "a result without a call": ("I2", inserted("turn_end 1", *said("more", RESULTS[0]))),
    "a result behind an answer without calls": ("I2", inserted("turn_end 2", *said("result", RESULTS[0]))),
    # I3: nothing in between
    "a message between an answer and its calls": ("I3", inserted("call 0", *said("late", MORE))),
    "a message between results": ("I3", inserted("start result 1", *said("late", MORE))),
    "a message behind the results": ("I3", inserted("turn_end 1", *said("late", MORE))),
    "an answer between an answer and its results": ("I3", inserted("start result 1", *said("answer", DONE))),
    # I4: brackets
    "no agent_start": ("I4", without("agent_start")),
    "two agent_starts in one run": ("I4", inserted("agent_end", ("agent_start", AgentStart()))),
    "no turn_start": ("I4", without("turn_start 2")),
    "two turn_starts": ("I4", twice("turn_start 2")),
    "no turn_end": ("I4", without("turn_end 1")),
    "two turn_ends": ("I4", twice("turn_end 2")),
    "a turn before the run": ("I4", moved("agent_start", "start go")),
    "a turn without an answer": ("I4", without("start done", "end done")),
    "a turn_end of another message": ("I4", replaced("turn_end 2", TurnEnd(message=CALLS, tool_results=()))),
    "two agent_ends": ("I4", twice("agent_end")),
    "agent_end inside a turn": ("I4", without("turn_end 2")),
    "a message that does not begin": ("I4", without("start go")),
    "a message that does not end": ("I4", without("end go")),
    "a message inside a message": ("I4", moved("start calls", "end go")),
    "a message that ends as another": ("I4", replaced("end go", MessageEnd(message=MORE))),
    "a message that ends in another role": ("I4", replaced("end go", MessageEnd(message=DONE))),
    "growth without an answer": ("I4", moved("update", "start calls")),
    "growth of a user message": ("I4", inserted("end go", ("update", UPDATE))),
    "growth of something that is no answer": (
        "I4",
        replaced("update", MessageUpdate(message=GO, assistant_message_event=UPDATE.assistant_message_event)),
    ),
    "a call inside a message": ("I4", moved("call 0", "end calls")),
    "a call outside of a turn": ("I4", moved("call 0", "turn_start 1")),
    "progress inside a message": ("I4", moved("progress 2", "end result 0")),
    "a result before its call has ended": ("I4", moved("over 0", "start result 1")),
    "a turn_end inside a message": ("I4", moved("turn_end 2", "end done")),
    # I5: three orders
    "calls are started out of order": ("I5", moved("call 1", "call 0")),
    "a call is started with other arguments": (
        "I5",
        replaced("call 0", ToolExecutionStart(tool_call_id="a", tool_name="tool", args={}, position=0)),
    ),
    "a call is started under another name": (
        "I5",
        replaced("call 0", ToolExecutionStart(tool_call_id="a", tool_name="x", args={"for": "a"}, position=0)),
    ),
    "results are told out of order": (
        "I5",
        moved("end result 1", "start result 0", moved("start result 1", "start result 0")),
    ),
    "a result before the last end": (
        "I5",
        moved("end result 0", "over 1", moved("start result 0", "over 1")),
    ),
    "a result with other content": ("I5", replaced("start result 0", MessageStart(message=RESULTS[1]))),
    "a result says something else": (
        "I5",
        replaced("start result 0", MessageStart(message=result_of(0, content=(Text(text="else"),)))),
    ),
    "a result hides an error": ("I5", replaced("start result 0", MessageStart(message=result_of(0, is_error=True)))),
    "turn_end has other results": ("I5", replaced("turn_end 1", TurnEnd(message=CALLS, tool_results=RESULTS[:2]))),
    "turn_end has results in another order": (
        "I5",
        replaced("turn_end 1", TurnEnd(message=CALLS, tool_results=RESULTS[::-1])),
    ),
    "the next call is started before the result of the last": (
        "I5",
        moved("call 2", "start result 1", one_by_one()),
    ),
    # I12: identity
    "a call is started twice": ("I12", twice("call 2")),
    "a call ends twice": ("I12", twice("over 1")),
    "a call ends that never began": ("I12", moved("over 2", "call 2")),
    "a call starts under another position": (
        "I12",
        replaced("call 0", ToolExecutionStart(tool_call_id="a", tool_name="tool", args={"for": "a"}, position=2)),
    ),
    "progress of a call that has ended": ("I12", moved("progress 2", "over 0")),
    # I13: the same list
    "agent_end lacks a message": ("I13", replaced("agent_end", AgentEnd(messages=(GO, CALLS, *RESULTS, MORE)))),
    "agent_end has another order": (
        "I13",
        replaced("agent_end", AgentEnd(messages=(CALLS, GO, *RESULTS, MORE, DONE))),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    rule, trace = BROKEN[name]

    with pytest.raises(ProtocolError, match=rf"^{rule} at event \d+: "):
        check_trace(events(trace))


def test_the_place_of_the_fault_is_told() -> None:
    """The first event of a run is number 1."""
    with pytest.raises(ProtocolError, match="at event 3: message_end without message_start"):
        check_trace(events(without("start go")))


def test_a_failed_turn_is_the_last_one() -> None:
    failed: Trace = [
        ("agent_start", AgentStart()),
        ("turn_start", TurnStart()),
        *said("failure", FAILURE),
        ("turn_end", TurnEnd(message=FAILURE, tool_results=())),
    ]
    check_trace([*events(failed), AgentEnd(messages=(FAILURE,))])

    with pytest.raises(ProtocolError, match=r"^4.1 at event 6: a further turn"):
        check_trace([*events(failed), TurnStart()])


def test_a_failure_may_stand_behind_the_results() -> None:
    trace = legal()[: labels(legal()).index("turn_end 1")]
    trace += said("failure", FAILURE)

    check_trace(
        [
            *events(trace),
            TurnEnd(message=FAILURE, tool_results=RESULTS),
            AgentEnd(messages=(GO, CALLS, *RESULTS, FAILURE)),
        ]
    )


def test_an_aborted_turn_may_have_no_answer_and_its_message_is_not_kept() -> None:
    head = [AgentStart(), TurnStart(), MessageStart(message=GO), MessageEnd(message=GO)]
    tail = [TurnEnd(message=STOPPED, tool_results=()), AgentEnd(messages=(GO,))]
    check_trace([*head, *tail])

    with pytest.raises(ProtocolError, match="I4"):
        check_trace([*head, TurnEnd(message=FAILURE, tool_results=()), *tail[1:]])
    with pytest.raises(ProtocolError, match="I4"):
        check_trace([*head, *tail], PI)


def test_the_reference_may_leave_calls_of_a_failed_answer_without_results() -> None:
    failed = calls("a", why="error")
    trace = [
        AgentStart(),
        TurnStart(),
        *events(said("failed", failed)),
        TurnEnd(message=failed, tool_results=()),
        AgentEnd(messages=(failed,)),
    ]
    check_trace(trace, PI)

    with pytest.raises(ProtocolError, match="I2 at event 5: 0 results for 1 calls"):
        check_trace(trace)


@pytest.mark.parametrize("cut", range(3, len(legal()) + 1))
def test_the_reference_tells_its_failure_wherever_it_is(cut: int) -> None:
    """And leaves open what is open. Everybody else closes it first."""
    sequence = [
        *events(said("failure", FAILURE)),
        TurnEnd(message=FAILURE, tool_results=()),
        AgentEnd(messages=(FAILURE,)),
    ]
    trace = [*events(legal())[:cut], *sequence]
    check_trace(trace, PI)

    with pytest.raises(ProtocolError):
        check_trace(trace)


def test_equal_ids_on_the_wire_are_told_apart_by_their_order() -> None:
    """Decoded events have no positions: all say 0."""
    trace = [_from_the_wire(event) for event in events(legal())]
    check_trace(trace, by_id=True)

    with pytest.raises(ProtocolError, match="I12"):
        check_trace(trace)
    with pytest.raises(ProtocolError, match="I12"):
        check_trace([_from_the_wire(event) for event in events(twice("over 1"))], by_id=True)


def _from_the_wire(event: AgentEvent) -> AgentEvent:
    return structs.replace(event, position=0) if hasattr(event, "position") else event


@pytest.mark.parametrize("profile", PROFILES)
def test_what_the_machine_says_is_legal_also_for_those_who_hear_only_events(profile: str) -> None:
    for seed in range(300):
        world = RandomWorld(seed, profile)
        play_machine(world)

        told = [entry[1] if type(entry) is tuple and entry[0] == "delivered" else entry for entry in world.log]
        check_trace([event for event in told if type(event) in EVENTS], world.policy)


EVENTS = frozenset(AgentEvent.__args__)  # type: ignore[attr-defined]


def test_the_work_per_event_does_not_grow() -> None:
    """A batch of many calls: ten times the calls, about ten times the calls of functions."""
    few, many = _work(100), _work(1_000)

    assert many < few * 11


def _work(count: int) -> int:
    """How many functions are called to check a batch of so many calls."""
    blocks = tuple(ToolCall(id=f"{n}", name="tool", arguments={}) for n in range(count))
    answer = AssistantMessage(content=blocks, stop_reason="toolUse")
    trace: list[AgentEvent] = [AgentStart(), TurnStart(), MessageStart(message=answer), MessageEnd(message=answer)]
    results = []
    for n, block in enumerate(blocks):
        trace.append(ToolExecutionStart(tool_call_id=block.id, tool_name="tool", args={}, position=n))
    for n, block in enumerate(blocks):
        outcome = FINE.result
        trace.append(
            ToolExecutionEnd(tool_call_id=block.id, tool_name="tool", result=outcome, is_error=False, position=n)
        )
    for block in blocks:
        results.append(result_message(block, FINE, 0))
        trace += (MessageStart(message=results[-1]), MessageEnd(message=results[-1]))
    trace += (TurnEnd(message=answer, tool_results=tuple(results)), AgentEnd(messages=(answer, *results)))
    counted = 0

    def count_call(_frame: object, what: str, _argument: object) -> None:
        nonlocal counted
        counted += what in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        check_trace(trace)
    finally:
        sys.setprofile(None)
    return counted


# -- whole steps: a machine that lies ----------------------------------------------------------------------------------

Lie = Callable[[list[Any]], list[Any]]
"""What the checker is shown instead of the commands of the machine."""


class Watched:
    """A run of the real machine under a checker."""

    def __init__(self, profile: str = "default", **settings: Any) -> None:
        self.play = Play(profile=profile, **settings)
        self.checker = TraceChecker(self.play.prompt.run.rules.policy)
        self.checker.step(self.play.prompt, self.play.commands, self.play.state)

    def tell(self, *given: Any) -> Watched:
        for one in given:
            self.play.tell(one)
            self.checker.step(one, self.play.commands, self.play.state)
        return self

    def until(self, kind: type, answer: AssistantMessage | None = None) -> Watched:
        while type(self.play.state) is not kind:
            answers = type(self.play.state) in (c.Requesting, c.Responding)
            self.tell(self.play._dull(answer, {}))
            answer = None if answers else answer
        return self

    def refuses(self, rule: str, given: Any, commands: list[Any], state: c.State | None = None) -> None:
        """The checker sees this step and refuses it."""
        with pytest.raises(ProtocolError, match=rf"^{rule} at event \d+: "):
            self.checker.step(given, commands, self.play.state if state is None else state)

    def lies(self, rule: str, given: Any, lie: Lie) -> None:
        """The machine takes the step, its commands are changed, and the checker refuses them."""
        self.play.tell(given)
        with pytest.raises(ProtocolError, match=rf"^{rule} at event \d+: "):
            self.checker.step(given, lie(self.play.commands), self.play.state)

    @property
    def state(self) -> Any:
        return self.play.state


def test_legal_steps_are_accepted() -> None:
    w = Watched().until(c.Executing, calls("a", "b")).until(c.Ended)
    w.checker.finish()


def test_events_can_be_fed_beside_inputs() -> None:
    """Whoever sees events one by one feeds them one by one."""
    play = Play()
    checker = TraceChecker()
    checker.input(play.prompt)
    for command in play.commands[:-1]:
        checker.event(command)
    checker.command(play.commands[-1])
    checker.state(play.state)


def test_one_checker_watches_one_run() -> None:
    checker = TraceChecker()
    checker.event(AgentStart())

    with pytest.raises(ProtocolError, match="I4 at event 2: a second agent_start"):
        checker.event(AgentStart())


def test_nothing_is_known_of_an_idle_machine() -> None:
    TraceChecker().state(c.Idle())


def test_a_run_that_is_watched_has_an_end_in_every_profile() -> None:
    with pytest.raises(ProtocolError, match="I4 .* the run has no end"):
        Watched("pi").checker.finish()


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (c.Opening, c.Checked(None, 0)),
        (c.Composing, c.Drained((), 0)),
        (c.Checking, c.Answered(DONE)),
        (c.Finishing, TextDelta(content_index=0, delta="x")),
        (c.Opening, c.Progress(0, "x")),
        (c.Executing, c.Finished(7, FINE, 0)),
        (c.Executing, c.Fault("broke", 0, (7,))),
        (c.Opening, c.Withdrawn(())),
    ],
)
def test_an_answer_to_nothing_is_the_drivers_fault(kind: type, given: Any) -> None:
    w = Watched().until(kind, calls("a"))

    w.refuses("driver", given, [])


def test_a_prompt_inside_a_run_is_the_drivers_fault() -> None:
    w = Watched()

    w.refuses("driver", w.play.prompt, [])


def test_what_is_being_announced_cannot_be_cleared() -> None:
    w = Watched().until(c.Steering)
    waiting = user("wait")
    w.tell(c.Drained((waiting,), 0), c.Withdrawn((waiting,)))
    w.tell(c.Prepared(None, 0))
    assert type(w.state) is c.Ended


def test_the_end_of_a_call_has_to_be_told_at_once() -> None:
    w = Watched().until(c.Executing, calls("a", "b"))
    w.play.tell(c.Finished(0, FINE, 0))
    w.checker.input(c.Finished(0, FINE, 0))
    w.checker.state(w.state)

    with pytest.raises(ProtocolError, match="I2 .* the end of call 0 was not told"):
        w.checker.input(c.Finished(1, FINE, 0))


def ask(question: Any) -> Lie:
    """Ask this instead of what the machine asks."""
    return lambda commands: [*commands[:-1], question]


def test_questions_come_one_at_a_time() -> None:
    Watched().lies("4.1", c.Drained((), 0), lambda commands: [*commands, c.Drain("steering")])
    w = Watched().until(c.Executing, calls("a", "b"))
    w.lies("4.1", c.Finished(0, FINE, 0), lambda commands: [*commands, c.Drain("steering")])


def test_nothing_is_asked_outside_of_a_run() -> None:
    w = Watched().until(c.FollowUp)

    w.lies("I4", c.Drained((), 0), lambda commands: [*commands, c.Drain("steering")])


def test_nothing_is_asked_after_a_failure() -> None:
    w = Watched().until(c.Composing)

    w.lies("D7", c.Fault("broke", 0), ask(c.Drain("steering")))


def test_no_queue_is_read_behind_an_order_to_end() -> None:
    w = Watched().until(c.Finishing)
    w.lies("7", c.Decided("end", False, 0), ask(c.Drain("steering")))

    w = Watched().until(c.Finishing, says(why="error"))
    w.lies("7", c.Decided(None, False, 0), ask(c.Drain("steering")))


def test_no_queue_is_read_inside_a_turn_that_has_its_answer() -> None:
    w = Watched().until(c.Requesting)

    w.lies("7", c.Answered(DONE), ask(c.Drain("steering")))


def test_follow_ups_are_read_behind_steering_when_no_tools_are_left() -> None:
    Watched().until(c.Finishing).lies("7", c.Decided(None, False, 0), ask(c.Drain("follow_up")))
    Watched().until(c.Steering, calls("a")).lies("7", c.Drained((), 0), ask(c.Drain("follow_up")))
    Watched().until(c.Steering).lies("7", c.Drained((MORE,), 0), ask(c.Drain("follow_up")))
    Watched().lies("7", c.Drained((), 0), ask(c.Drain("follow_up")))


def test_no_queue_is_read_while_messages_wait() -> None:
    w = Watched().until(c.Steering)

    w.lies("7", c.Drained((MORE,), 0), ask(c.Drain("steering")))


def test_every_announcement_comes_before_the_request() -> None:
    hook = ask(c.PrepareRequest(None))  # type: ignore[arg-type]
    w = Watched()
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: commands[-1:])
    w = Watched(hooks=False)
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: commands[-1:])
    Watched().until(c.Steering).lies("4.1", c.Drained((MORE,), 0), hook)


def test_a_request_is_prepared_then_composed_then_sent() -> None:
    Watched().lies("4.1", c.Drained((), 0), ask(c.Compose(None)))  # type: ignore[arg-type]
    Watched().until(c.Composing).lies("4.1", c.RequestPrepared(None), ask(c.CallModel(request())))


def test_no_request_leaves_inside_an_answered_turn() -> None:
    Watched().until(c.Requesting).lies("4.1", c.Answered(DONE), ask(c.CallModel(request())))


def test_no_request_leaves_after_an_abort() -> None:
    w = Watched().until(c.Asking).tell(c.Interrupt("stop"))
    w.refuses("D1", c.Composed(request()), [c.CallModel(request())])

    Watched("pi").until(c.Asking).tell(c.Interrupt("stop"), c.Composed(request()))


def test_no_request_leaves_over_the_limit() -> None:
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Finishing, calls("a"))
    more = [
        TurnEnd(message=w.state.message, tool_results=w.state.results),
        c.Drain("steering"),
    ]
    w.checker.step(c.Decided(None, False, 0), more, c.Steering(w.state.run, None, True, False, "stop"))
    w.checker.step(c.Drained((), 0), [c.PrepareNext(None)], c.Preparing(w.state.run, (), True, True, "stop"))  # type: ignore[arg-type]
    w.checker.step(c.Prepared(None, 0), [c.Drain("steering")], c.Latecomers(w.state.run, ()))
    w.checker.step(c.Drained((), 0), [TurnStart(), c.PrepareRequest(w.state.run)], c.Composing(w.state.run))
    w.checker.step(c.RequestPrepared(None), [c.Compose(w.state.run)], c.Asking(w.state.run))

    w.refuses("D11", c.Composed(request()), [c.CallModel(request())])


def test_an_abort_is_named_before_a_limit() -> None:
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Limited, calls("a")).tell(c.Interrupt("stop"))
    state, end = w.state, AgentEnd(messages=w.state.run.new.tuple())
    w.checker.input(c.Looked())
    w.checker.command(end)
    with pytest.raises(ProtocolError, match=r"10\.3"):
        w.checker.state(c.Ended(state.run, "max_turns", state.limit))

    Watched("pi", limits=RunLimits(max_turns=1)).until(c.Limited, calls("a")).tell(c.Interrupt("stop"), c.Looked())


def test_a_limit_is_looked_at_between_turns_where_a_request_would_follow() -> None:
    Watched().until(c.Finishing).lies("10.2", c.Decided(None, False, 0), ask(c.LookAgain()))
    Watched().until(c.Composing).lies("10.2", c.RequestPrepared(None), ask(c.LookAgain()))


def test_a_budget_that_was_used_before_counts() -> None:
    play = Play()
    used = Tally(turns=3, tool_calls=2, calls_of=(("tool", 2),))
    prompt = structs.replace(play.prompt, run=structs.replace(play.prompt.run, tally=used))
    checker = TraceChecker()
    state, commands = play.step(c.Idle(), prompt)

    checker.step(prompt, commands, state)


def test_a_call_is_checked_once_and_only_while_it_is_open() -> None:
    w = Watched().until(c.Checking, calls("a", "b"))
    w.lies("I12", c.Checked(None, 0), lambda commands: [*commands[:-1], c.Preflight(0, BLOCKS[0], CALLS, None)])  # type: ignore[arg-type]
    w = Watched().until(c.Checking, calls("a", "b"))
    w.lies("I4", c.Checked(NO, 0), lambda commands: [*commands[:-1], c.Preflight(0, BLOCKS[0], CALLS, None)])  # type: ignore[arg-type]
    w = Watched().until(c.Checking, calls("a", "b"))
    w.lies("I4", c.Checked(None, 0), lambda commands: [c.Preflight(1, BLOCKS[1], CALLS, None)])  # type: ignore[arg-type]
    w = Watched().until(c.Checking, calls("a", "b"))
    w.lies("I12", c.Checked(None, 0), lambda commands: [*commands[:-1], c.Preflight(1, BLOCKS[0], CALLS, None)])  # type: ignore[arg-type]


def start(position: int) -> c.StartTool:
    return c.StartTool(position, BLOCKS[position])


def test_a_refused_call_is_never_executed() -> None:
    w = Watched().until(c.Checking, calls("a", "b"))
    w.tell(c.Checked(NO, 0))
    w.lies("I4", c.Checked(None, 0), lambda commands: [*commands, start(0)])

    w = Watched().until(c.Checking, calls("a", "b"))
    w.lies("I6", c.Checked(None, 0), lambda commands: [*commands[:1], start(1)])


def test_a_call_is_executed_once() -> None:
    w = Watched().until(c.Checking, calls("a", "b")).tell(c.Checked(None, 0))

    w.lies("I12", c.Checked(None, 0), lambda commands: [*commands, commands[0]])


def test_no_call_is_executed_after_an_abort() -> None:
    w = Watched().until(c.Checking, calls("a")).tell(c.Interrupt("stop"))

    w.refuses("I6", c.Checked(None, 0), [start(0)])


@pytest.mark.parametrize("why", ["length", "error", "aborted"])
def test_no_call_of_a_cut_answer_is_looked_at(why: str) -> None:
    w = Watched().until(c.Requesting)
    answer = calls("a", why=why)
    block: Any = answer.content[0]
    begun = ToolExecutionStart(tool_call_id="a", tool_name="tool", args=block.arguments, position=0)

    told = [MessageStart(message=answer), MessageEnd(message=answer), begun, c.Preflight(0, block, answer, None)]  # type: ignore[arg-type]
    w.refuses("I6", c.Answered(answer), told)


def test_a_strict_run_executes_no_call_behind_stop() -> None:
    w = Watched("strict").until(c.Requesting)
    answer = calls("a", why="stop")
    block: Any = answer.content[0]
    begun = ToolExecutionStart(tool_call_id="a", tool_name="tool", args=block.arguments, position=0)

    told = [MessageStart(message=answer), MessageEnd(message=answer), begun, c.Preflight(0, block, answer, None)]  # type: ignore[arg-type]
    w.refuses("I6", c.Answered(answer), told)


def test_the_second_of_two_equal_ids_is_not_looked_at() -> None:
    w = Watched().until(c.Checking, calls("a", "a"))
    begun = ToolExecutionStart(tool_call_id="a", tool_name="tool", args=BLOCKS[0].arguments, position=1)

    w.refuses("I6", c.Checked(None, 0), [begun, c.Preflight(1, BLOCKS[0], CALLS, None)])  # type: ignore[arg-type]


@pytest.mark.parametrize("limits", [RunLimits(max_tool_calls=1), RunLimits(max_calls_of=(("tool", 1),))])
def test_no_call_is_executed_over_the_limit(limits: RunLimits) -> None:
    w = Watched(limits=limits).until(c.Checking, calls("a", "b"))
    checked = w.play.commands[-1]
    w.checker.step(
        c.Checked(None, 0),
        [call(1)[1], c.Preflight(1, BLOCKS[1], checked.message, checked.run)],
        w.state,
    )

    w.refuses("I6", c.Checked(None, 0), [start(0), start(1)])


def test_the_end_of_a_turn_is_not_decided_too_early() -> None:
    decision = c.AskDecision(None)  # type: ignore[arg-type]
    Watched().lies("4.1", c.Drained((), 0), ask(decision))
    w = Watched().until(c.Executing, calls("a", "b")).tell(c.Finished(0, FINE, 0))
    w.lies("I2", c.Finished(1, FINE, 0), lambda commands: [commands[0], decision])


def test_a_further_turn_needs_a_reason() -> None:
    following = c.PrepareNext(None)  # type: ignore[arg-type]
    w = Watched().until(c.Steering)
    w.lies("7", c.Drained((), 0), ask(following))
    w = Watched().until(c.Requesting)
    w.lies("4.1", c.Answered(DONE), ask(following))
    w = Watched().until(c.Executing, calls("a")).tell(c.Finished(0, LAST, 0), c.Decided(None, False, 0))
    w.lies("7", c.Drained((), 0), ask(following))


def test_what_is_given_back_is_what_was_taken() -> None:
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Steering)
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: [c.GiveBack((), ()), *commands[1:]])
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Steering)
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: commands[1:])
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Steering)
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: [c.Commit(), *commands])


def test_messages_are_announced_in_their_order() -> None:
    w = Watched()
    w.lies("I7", c.Drained((MORE, GO), 0), lambda commands: [commands[0], *commands[3:]])
    w = Watched().until(c.Preparing, calls("a")).tell(c.Prepared(NextTurn(messages=(user("prepared"),)), 0))
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: [*commands[:2], *commands[4:]])
    w = Watched()
    w.lies("I7", c.Drained((), 0), lambda commands: [*events(said("unknown", MORE)), *commands])


def test_queued_messages_are_committed_and_delivered() -> None:
    Watched().lies("I7", c.Drained((MORE,), 0), lambda commands: commands[1:])
    Watched().lies("I7", c.Drained((), 0), lambda commands: [c.Commit(), *commands])
    Watched().lies("I7", c.Drained((MORE,), 0), lambda commands: [commands[0], *commands])
    Watched().lies("I7", c.Drained((MORE,), 0), lambda commands: [commands[0], c.Deliver(commands[1]), *commands[2:]])
    w = Watched().until(c.Requesting)
    w.lies("I7", c.Answered(DONE), lambda commands: [commands[0], c.Deliver(commands[1]), commands[2]])


def test_a_system_message_may_be_corrected_but_not_be_delivered_for_another() -> None:
    rules = SystemMessage(content="rules")
    Watched().tell(c.Drained((rules,), 0))
    w = Watched()
    other = structs.replace(rules, content="corrected")
    told = [
        c.Commit(),
        MessageStart(message=other),
        c.Deliver(MessageEnd(message=other)),
        c.PrepareRequest(w.state.run),
    ]
    w.checker.input(c.Drained((rules,), 0))
    for command in told:
        w.checker.command(command)
    w = Watched()
    w.lies("I7", c.Drained((MORE,), 0), lambda commands: [c.Commit(), *told[1:]])


def test_a_host_may_announce_answers_of_its_own() -> None:
    """Whoever shows the inputs may have any role announced, results too."""
    history = (calls("a"), RESULTS[0], GO)

    Watched(prompts=history).until(c.Ended)


def test_a_call_ends_with_what_it_came_to() -> None:
    w = Watched().until(c.Executing, calls("a", "b"))
    w.refuses("I5", c.Finished(0, FINE, 0), [over(0, NO)[1]])
    w = Watched().until(c.Checking, calls("a", "b"))
    w.refuses("I5", c.Checked(NO, 0), [over(0, FINE)[1]])


def test_a_running_call_does_not_end_by_itself() -> None:
    w = Watched().until(c.Executing, calls("a", "b"))

    w.refuses("I4", c.Finished(0, FINE, 0), [over(0, FINE)[1], over(1, FINE)[1]])


def test_a_call_that_did_not_run_says_so() -> None:
    """In the reference such a result has empty details."""
    typed = skipped(BLOCKS[0], "length", typed=True)
    untyped = skipped(BLOCKS[0], "length", typed=False)
    for profile, wrong in (("default", untyped), ("default", FINE), ("pi", typed)):
        w = Watched(profile).until(c.Requesting)
        answer = calls("a", why="length")
        begun = ToolExecutionStart(tool_call_id="a", tool_name="tool", args=BLOCKS[0].arguments, position=0)
        told = [MessageStart(message=answer), MessageEnd(message=answer), begun, over(0, wrong)[1]]
        w.refuses("8.2", c.Answered(answer), told)


def test_nothing_ends_while_a_question_or_a_call_is_open() -> None:
    w = Watched().until(c.Composing)
    w.refuses("I4", c.Interrupt("stop"), [TurnEnd(message=STOPPED, tool_results=())])


def test_only_an_abort_closes_a_turn_without_an_answer() -> None:
    w = Watched().until(c.Composing)

    w.refuses("D1", c.RequestPrepared(None), [TurnEnd(message=STOPPED, tool_results=())])


def test_no_turn_begins_after_an_abort_or_unprepared() -> None:
    w = Watched().until(c.Latecomers, calls("a")).tell(c.Interrupt("stop"))
    w.refuses("D1", c.Drained((), 0), [TurnStart()])

    w = Watched().until(c.Finishing)
    w.lies("4.1", c.Decided(None, False, 0), lambda commands: [commands[0], TurnStart()])


def test_a_state_waits_for_the_question_that_was_asked() -> None:
    w = Watched()
    w.play.tell(c.Drained((), 0))
    w.refuses("4.1", c.Drained((), 0), w.play.commands, c.Asking(w.state.run))
    w = Watched()
    w.lies("4.1", c.Drained((), 0), lambda commands: commands[:-1])
    w = Watched().until(c.Executing, calls("a"))
    w.refuses("4.1", c.Progress(0, "x"), [], c.Checking(w.state.run, w.state.after, w.state.batch))
    w = Watched().until(c.Checking, calls("a"))
    w.refuses("4.1", c.Checked(None, 0), [], c.Executing(w.state.run, w.state.after, w.state.batch))


def test_the_end_of_the_run_is_a_state_and_an_event() -> None:
    w = Watched().until(c.FollowUp)
    w.lies("I4", c.Drained((), 0), lambda commands: [])
    w = Watched().until(c.FollowUp)
    follow_up = w.state
    w.play.tell(c.Drained((), 0))
    w.refuses("I4", c.Drained((), 0), w.play.commands, follow_up)


def changed_run(state: Any, **changes: Any) -> Any:
    return structs.replace(state, run=structs.replace(state.run, **changes))


def test_the_lists_of_the_run_hold_what_was_told() -> None:
    def after(**changes: Any) -> Callable[[Any], Any]:
        return lambda state: changed_run(state, **{name: change(state.run) for name, change in changes.items()})

    lies: list[tuple[str, Callable[[Any], Any]]] = [
        ("I1", after(new=lambda run: run.new.append(DONE))),
        ("I1", after(transcript=lambda run: run.transcript.append(DONE))),
        ("I13", after(new=lambda run: Play(prompts=(MORE,)).state.run.new)),
        ("I1", after(transcript=lambda run: Play(prompts=(MORE,)).state.run.transcript)),
        ("D1", after(stopped=lambda run: "stop")),
        ("I11", after(tally=lambda run: Tally(turns=1))),
        ("I11", after(tally=lambda run: Tally(calls_of=(("tool", 1),)))),
    ]
    for rule, lie in lies:
        play = Play()
        with pytest.raises(ProtocolError, match=rf"^{rule} at event \d+: "):
            TraceChecker().step(play.prompt, play.commands, lie(play.state))


def test_a_run_that_a_limit_has_ended_says_which() -> None:
    w = Watched(limits=RunLimits(max_turns=1)).until(c.Limited, calls("a"))
    w.play.tell(c.Looked())

    w.refuses("I11", c.Looked(), w.play.commands, c.Ended(w.state.run, "max_turns", None))


def test_transcripts_that_hooks_replace_are_followed() -> None:
    short = Context((user("short"),))
    w = Watched().until(c.Composing).tell(c.RequestPrepared(RequestUpdate(context=short)))
    w.tell(c.Composed(request(), 0, Transcript((user("live"), user("list")))))
    w.until(c.Preparing, calls("a")).tell(c.Prepared(NextTurn(context=short), 0))
    w.until(c.Ended)
