"""The rules of a legal run as a fold: what may never happen, whatever the model, the tools and the hosts do.

`check_trace` looks at events alone: a log, a replay, the listener of a test. `TraceChecker` also watches inputs and
commands of the machine, since much of what must not happen is invisible in the events. Both name the broken rule by its
number in the loop specification: I1 to I13 are the invariants, D1 to D15 the faults, the rest are its sections.

What a profile leaves open is read from its policy. The reference, for example, may leave the calls of a failed answer
unanswered, and tells a failure wherever it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, final, get_args

from antiphon.core import states as c
from antiphon.core.events import AgentEvent, AgentStart
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.trace_brackets import Brackets
from antiphon.core.trace_dialogue import QUESTIONS, Dialogue

WAITS_FOR: dict[type, type] = {
    c.Opening: c.Drain,
    c.Composing: c.PrepareRequest,
    c.Asking: c.Compose,
    c.Requesting: c.CallModel,
    c.Responding: c.CallModel,
    c.Checking: c.Preflight,
    c.Finishing: c.AskDecision,
    c.Limited: c.LookAgain,
    c.Steering: c.Drain,
    c.FollowUp: c.Drain,
    c.Preparing: c.PrepareNext,
    c.Latecomers: c.Drain,
}
"""The question whose answer a state waits for. `Executing` waits for running calls, `Idle` and `Ended` for nothing."""

EVENTS: frozenset[type] = frozenset(get_args(AgentEvent))
LIMITS = frozenset({"max_turns", "max_tool_calls", "max_tokens", "max_cost", "no_progress"})


@final
class TraceChecker:
    """Watches one run of the machine: for each step the input, then its commands in order, then the state.

    Whoever has only events feeds only events. Every method raises `ProtocolError` with the name of the broken rule and
    the number of the last event; afterwards the checker is of no further use.
    """

    __slots__ = ("_brackets", "_compared", "_dialogue", "_transcript", "_watches")

    def __init__(self, policy: Policy = DEFAULT, *, by_id: bool = False) -> None:
        self._brackets = Brackets(policy, by_id=by_id)
        self._dialogue = Dialogue(self._brackets)
        self._watches = False
        self._compared = 0
        self._transcript = 0
        """Length of the transcript, without what this run has appended since a hook replaced it."""

    def step(self, given: c.Input, commands: Iterable[c.Command], state: c.State) -> None:
        """One step of the machine, in the order in which it has to be told."""
        self.input(given)
        for command in commands:
            self.command(command)
        self.state(state)

    def input(self, given: c.Input) -> None:
        """What the machine is told."""
        self._watches = True
        self._dialogue.input(given)
        replaced = _replaced_transcript(given)
        if replaced is not None:
            self._transcript = replaced - len(self._brackets.new)

    def command(self, command: c.Command) -> None:
        """What the machine asks for; events are commands too."""
        kind = type(command)
        if kind in EVENTS:
            self._told(cast("AgentEvent", command), delivered=False)
        elif kind in QUESTIONS:
            self._dialogue.ask(cast("c.Question", command))
        elif isinstance(command, c.Deliver):
            self._told(command.event, delivered=True)
        elif isinstance(command, c.GiveBack):
            self._dialogue.give_back(command)
        else:
            self._dialogue.commit()

    def event(self, event: AgentEvent) -> None:
        """An event. Without inputs, a message of the host is known by its role."""
        if self._watches:
            self._told(event, delivered=False)
        else:
            self._brackets.event(event, announced=self._dialogue.announces(event))

    def _told(self, event: AgentEvent, *, delivered: bool) -> None:
        announced = self._dialogue.announces(event)
        self._brackets.event(event, announced=announced)
        self._dialogue.told(event, delivered=delivered, announced=announced)

    def state(self, state: c.State) -> None:
        """What the machine holds after a step: the messages that were told, and a question somebody will answer."""
        if isinstance(state, c.Idle):
            return
        b = self._brackets
        self._waits(state)
        told = len(b.new) - (len(b.results) if isinstance(state, c.Checking | c.Executing) else 0)
        if self._dialogue.failed and b.policy.fault_closing == "failure sequence":
            return  # what was open stays open, and only the failure counts
        self._compare(state.run, told)
        self._count(state)

    def finish(self) -> None:
        """Nothing more will come."""
        b = self._brackets
        if b.run == "open" and (self._watches or b.policy.fault_closing == "innermost first"):
            b.refuse("I4", "the run has no end")

    def _waits(self, state: c.State) -> None:
        b, d = self._brackets, self._dialogue
        if (b.run == "over") != isinstance(state, c.Ended):
            b.refuse("I4", f"{type(state).__name__} after the events of a run that is {b.run}")
        asked, waits_for = d.asked, WAITS_FOR.get(type(state))
        if (None if asked is None else type(asked)) is not waits_for:
            b.refuse("4.1", f"{type(state).__name__} waits for something that nobody was asked")
        if isinstance(state, c.Executing) != bool(d.running):
            b.refuse("4.1", f"{len(d.running)} calls run in {type(state).__name__}")

    def _compare(self, run: c.Run, told: int) -> None:
        """The transcript and the list of this run end with what was told, and with nothing else."""
        b, new = self._brackets, run.new
        if len(new) != told:
            b.refuse("I1", f"{told} messages were told, the run has {len(new)}")
        if len(run.transcript) != self._transcript + told:
            b.refuse("I1", f"{told} messages were told, the transcript has {len(run.transcript) - self._transcript}")
        start = min(self._compared, told)
        for place in range(start, told):
            message = new.items[place]
            if message is not b.new[place] and message != b.new[place]:
                b.refuse("I13", f"message {place} of the run is not the one that was told")
            seat = self._transcript + place
            if seat >= 0 and run.transcript[seat] is not message:
                b.refuse("I1", f"message {place} of the run is not in its place in the transcript")
        self._compared = told

    def _count(self, state: Any) -> None:
        b, d = self._brackets, self._dialogue
        run: c.Run = state.run
        if (run.stopped is not None) != d.stopped and not isinstance(state, c.Ended):
            b.refuse("D1", "the abort was forgotten, or invented")
        if run.tally.turns != d.requests or run.tally.tool_calls != d.executions:
            b.refuse("I11", f"{run.tally.turns} requests and {run.tally.tool_calls} calls were counted")
        if any(d.executions_of.get(name, 0) != count for name, count in run.tally.calls_of):
            b.refuse("I11", f"calls were counted as {dict(run.tally.calls_of)}, begun were {d.executions_of}")
        if isinstance(state, c.Ended) and state.reason in LIMITS:
            if state.limit is None:
                b.refuse("I11", f"the run ended by {state.reason} and does not say which")
            if d.stopped and b.policy.check_abort_before_request:
                b.refuse("10.3", f"the run was aborted and ended by {state.reason}")


def _replaced_transcript(given: c.Input) -> int | None:
    """The length of the transcript that this input puts in the place of the present one."""
    if isinstance(given, c.Prompt):
        return len(given.run.transcript)
    if isinstance(given, c.Composed):
        return None if given.transcript is None else len(given.transcript)
    if isinstance(given, c.RequestPrepared | c.Prepared):
        context = None if given.update is None else given.update.context
        return None if context is None else len(context.messages)
    return None


def check_trace(events: Iterable[AgentEvent], policy: Policy = DEFAULT, *, by_id: bool = False) -> None:
    """Check events of one or more runs, told one after the other. `by_id`: they come from the wire, without positions.

    Raises:
        ProtocolError: they break a rule; the text names it, and the number of the event in its run.
    """
    checker = TraceChecker(policy, by_id=by_id)
    for event in events:
        if type(event) is AgentStart:
            checker.finish()
            checker = TraceChecker(policy, by_id=by_id)
        checker.event(event)
    checker.finish()


__all__ = ["LIMITS", "WAITS_FOR", "TraceChecker", "check_trace"]
