"""A stored state goes on: what has to be asked again, and what is not known.

A state is all there is to know about a run, but for four things that live outside of it and have to be brought back by
whoever resumes: the tools, the policy, messages that were leased from a queue, and an abort (a state that has noted one
stays aborted). Commands of the last step may or may not have been performed: events of that step can repeat or be
missing, so listeners that store must accept a repeat.

Most states just ask their question again. Three do not:

- An answer that was arriving is gone. The run steps back to composing its request; the part that was shown is dropped.
- Calls that were allowed and not begun are checked again, since what was prepared for them is gone. The machine waits
  for the last of the checks only; a call that is refused now is answered when it is told to start.
- Of calls that were running nobody knows what they did. They are asked for again as `StartTool`; whoever resumes starts
  those that may run twice (`replay` of the tool), and answers the others with `outcome_unknown`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from msgspec import structs

from antiphon.core.calls import Outcome, text_result
from antiphon.core.content import ToolCall
from antiphon.core.hooks import Turn
from antiphon.core.messages import AssistantMessage, ToolResultMessage
from antiphon.core.states import (
    AskDecision,
    Asking,
    Checking,
    Compose,
    Composing,
    Drain,
    Ended,
    Executing,
    Finishing,
    FollowUp,
    Idle,
    Latecomers,
    Limited,
    LookAgain,
    Opening,
    Preflight,
    PrepareNext,
    PrepareRequest,
    Preparing,
    Question,
    Requesting,
    Responding,
    Run,
    StartTool,
    State,
    Steering,
)
from antiphon.errors import ProtocolError

Resumed: TypeAlias = tuple[State, list[Question]]


def resume(state: State) -> Resumed:
    """The state from which a stored run goes on, and the questions to ask for it. Nothing is told."""
    return _RESUMES[type(state)](state)


def running_calls(state: State) -> tuple[StartTool, ...]:
    """The calls that had begun and whose end is unknown."""
    if not isinstance(state, Executing):
        return ()
    batch = state.batch
    settled = {one.position for one in batch.settled}
    return tuple([StartTool(p, batch.calls[p]) for p in range(batch.looked_at) if p not in settled])


def outcome_unknown(call: ToolCall) -> Outcome:
    """What a call that must not run twice is answered with: it had begun, and nobody knows how far it came."""
    text = f"The run was interrupted while tool {call.name} was running; whether it had effects is not known."
    result = text_result(text, details={"cutOff": True, "reason": "unknown"})
    return Outcome(result=result, is_error=True, executed=True)


def _nothing(state: Idle | Ended) -> Resumed:
    return state, []


def _steering(state: Opening | Steering | Latecomers) -> Resumed:
    return state, [Drain("steering")]


def _follow_up(state: FollowUp) -> Resumed:
    return state, [Drain("follow_up")]


def _request(state: Composing) -> Resumed:
    return state, [PrepareRequest(state.run)]


def _compose(state: Asking) -> Resumed:
    return state, [Compose(state.run)]


def _request_again(state: Requesting | Responding) -> Resumed:
    """The request counts when it leaves; this one will leave again."""
    run = state.run
    run = structs.replace(run, tally=structs.replace(run.tally, turns=run.tally.turns - 1))
    return Asking(run), [Compose(run)]


def _checks(state: Checking) -> Resumed:
    run, batch = state.run, state.batch
    positions = (*batch.ready, batch.looked_at - 1)
    return state, [Preflight(p, batch.calls[p], batch.message, run) for p in positions]


def _calls(state: Executing) -> Resumed:
    return state, list(running_calls(state))


def _decision(state: Finishing) -> Resumed:
    return state, [AskDecision(Turn(state.message, state.results, state.run.context, state.run.new))]


def _look(state: Limited) -> Resumed:
    return state, [LookAgain()]


def _next_turn(state: Preparing) -> Resumed:
    return state, [PrepareNext(_last_turn(state.run))]


def _last_turn(run: Run) -> Turn:
    """The turn that has just ended: the last answer of the run, and the results behind it. O(its calls).

    Raises:
        ProtocolError: there is none; the store has mixed up its runs.
    """
    new, place = run.new.items, len(run.new) - 1
    while place >= 0 and isinstance(new[place], ToolResultMessage):
        place -= 1
    message = new[place] if place >= 0 else None
    if not isinstance(message, AssistantMessage):
        raise ProtocolError("a run between two turns has an answer; this one has none")
    results = cast("list[ToolResultMessage]", new[place + 1 : len(run.new)])
    return Turn(message, tuple(results), run.context, run.new)


_RESUMES: dict[type, Callable[[Any], Resumed]] = {
    Idle: _nothing,
    Opening: _steering,
    Composing: _request,
    Asking: _compose,
    Requesting: _request_again,
    Responding: _request_again,
    Checking: _checks,
    Executing: _calls,
    Finishing: _decision,
    Limited: _look,
    Steering: _steering,
    FollowUp: _follow_up,
    Preparing: _next_turn,
    Latecomers: _steering,
    Ended: _nothing,
}

__all__ = ["Resumed", "outcome_unknown", "resume", "running_calls"]
