"""The run as a pure transition function: `step(state, input) -> (state, commands)`.

Read the table `ROWS` from top to bottom: it is the story of a run. Every line names a state, an input and the function
that says what follows. Nothing here waits, reads a clock or calls foreign code; whoever drives the machine performs the
commands and brings back the answers.

An abort or a failure may be told in every state of a run (`Interrupt`, `Fault`). An abort is noted and changes what the
next answer leads to; a failure closes what is open, from the inside out: answer or calls, turn, run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, structs

from antiphon.core.batch import (
    batch_faulted,
    call_checked,
    call_finished,
    call_progressed,
    look_at_next,
    open_batch,
    refuse_all,
)
from antiphon.core.content import Content, Text, ToolCall
from antiphon.core.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
)
from antiphon.core.growing import Grown, grown
from antiphon.core.hooks import NextTurn, RequestUpdate, Turn
from antiphon.core.limits import LimitReached, reached, with_answer, with_results
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, calls_of
from antiphon.core.policy import After, EndReason, after_response
from antiphon.core.response import answer_begun
from antiphon.core.response_events import (
    Growth,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.states import (
    Answered,
    AskDecision,
    Asking,
    CallModel,
    Checked,
    Checking,
    Command,
    Commit,
    Compose,
    Composed,
    Composing,
    Decided,
    Deliver,
    Drain,
    Drained,
    Ended,
    Executing,
    Fault,
    Finished,
    Finishing,
    FollowUp,
    GiveBack,
    Idle,
    Input,
    Interrupt,
    Latecomers,
    Limited,
    LookAgain,
    Looked,
    Opening,
    Prepared,
    PrepareNext,
    PrepareRequest,
    Preparing,
    Progress,
    Prompt,
    Requesting,
    RequestPrepared,
    Responding,
    Run,
    State,
    Steering,
    Withdrawn,
)
from antiphon.core.system_state import declare
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript
from antiphon.errors import ProtocolError

Step: TypeAlias = tuple[State, list[Command]]

AGENT_START = AgentStart()
TURN_START = TurnStart()


# ---- opening --------------------------------------------------------------------------------------------------------


def opened(s: Idle, i: Prompt) -> Step:
    """Announce run, first turn and prompts; then look for steering, unless it is what the run was started with."""
    run, messages = i.run, i.messages
    if not i.continuing:
        run, messages, _ = _declared(run, messages, i.at)
    commands: list[Command] = [AGENT_START, TURN_START]
    run = _announce(run, messages, commands)
    if not i.polls_first:
        return _announced_turn(run, (), (), i.at, commands)
    commands.append(Drain("steering"))
    return Opening(run), commands


def first_poll_answered(s: Opening, i: Drained) -> Step:
    """Steering that waits already belongs to the first turn."""
    return _announced_turn(s.run, (), i.messages, i.at, [])


def _announced_turn(
    run: Run, prepared: tuple[Message, ...], pending: tuple[Message, ...], at: int, commands: list[Command]
) -> Step:
    """Announce what the turn brings, with declared tool changes, and go on to its request."""
    if pending:
        commands.insert(0, Commit())
    run, messages, inserted = _declared(run, prepared + pending, at)
    run = _announce(run, messages, commands, leased_from=len(prepared), inserted=inserted)
    if run.stopped is not None and run.rules.policy.check_abort_before_request:
        return _close_unanswered(run, at, commands)
    if not run.rules.asks_request:
        commands.append(Compose(run))
        return Asking(run), commands
    commands.append(PrepareRequest(run))
    return Composing(run), commands


def _declared(run: Run, messages: tuple[Message, ...], at: int) -> tuple[Run, tuple[Message, ...], int]:
    """The messages with the tool changes that have to be told, and the place of a message put among them (or -1)."""
    if run.declared is run.toolbox and run.toolbox.unique and not any(type(m) is SystemMessage for m in messages):
        return run, messages, -1
    told = declare(messages, run.transcript.system, run.toolbox.tools, timestamp=at)
    inserted = -1 if len(told) == len(messages) else 0
    return structs.replace(run, declared=run.toolbox), told, inserted


def _announce(
    run: Run, messages: tuple[Message, ...], commands: list[Command], leased_from: int = -1, inserted: int = -1
) -> Run:
    """Start, end and append each message. From `leased_from` on (not counting `inserted`) they come from a queue."""
    if not messages:
        return run
    transcript, new = run.transcript, run.new
    place = 0
    for index, message in enumerate(messages):
        end = MessageEnd(message=message)
        leased = index != inserted and 0 <= leased_from <= place
        place += index != inserted
        commands += (MessageStart(message=message), Deliver(end) if leased else end)
        transcript = transcript.append(message)
        new = new.append(message)
    return structs.replace(run, transcript=transcript, new=new)


# ---- request and answer ---------------------------------------------------------------------------------------------


def request_prepared(s: Composing, i: RequestPrepared) -> Step:
    """Take over what the hook wants for this and later requests; then compose it."""
    run = s.run if i.update is None else _updated(s.run, i.update)
    return Asking(run), [Compose(run)]


def request_composed(s: Asking, i: Composed) -> Step:
    """The last look at the abort before a request leaves."""
    run = s.run if i.transcript is None else structs.replace(s.run, transcript=i.transcript)
    if run.stopped is not None and run.rules.policy.check_abort_before_request:
        return _close_unanswered(run, i.at, [])
    run = structs.replace(run, tally=structs.replace(run.tally, turns=run.tally.turns + 1))
    return Requesting(run), [CallModel(i.request)]


def response_started(s: Requesting, i: Start) -> Step:
    """The partial answer becomes visible."""
    answer = answer_begun(i.message)
    return Responding(s.run, answer), [MessageStart(message=answer)]


def response_started_again(s: Responding, i: Start) -> Step:
    """One response has one start: what comes now replaces the placeholder, without a second announcement."""
    return Responding(s.run, answer_begun(i.message)), []


def growth_dropped(s: Requesting, i: Growth) -> Step:
    """Growth of an answer that never started is not shown; the final message brings it anyway."""
    return s, []


def answer_grew(s: Responding, i: Growth) -> Step:
    """The placeholder is replaced, never appended to the transcript."""
    answer = s.answer.grow(i)
    return Responding(s.run, answer), [MessageUpdate(message=answer, assistant_message_event=i)]


def answered(s: Requesting | Responding, i: Answered) -> Step:
    """The response is final: append it once, then do with its calls what the decision table says."""
    run = s.run
    message = structs.replace(i.message, thinking_level=run.thinking_level)
    calls = calls_of(message)
    after = after_response(run.rules.table, message.stop_reason, bool(calls))
    if after.then == "fail":
        message = _broken(message)
    return _answer_done(run, message, calls, after, announced=type(s) is Responding)


def _answer_done(
    run: Run, message: AssistantMessage, calls: tuple[ToolCall, ...], after: After, *, announced: bool
) -> Step:
    commands: list[Command] = [] if announced else [MessageStart(message=message)]
    commands.append(MessageEnd(message=message))
    run = structs.replace(
        run,
        transcript=run.transcript.append(message),
        new=run.new.append(message),
        tally=with_answer(run.tally, message),
    )
    if after.calls == "run":
        batch = open_batch(message, calls, run)
        state = look_at_next(run, after, batch, int(message.timestamp), commands, _calls_closed)
        return state, commands
    return _without_calls(run, message, calls, after, commands)


def _without_calls(
    run: Run, message: AssistantMessage, calls: tuple[ToolCall, ...], after: After, commands: list[Command]
) -> Step:
    """No call runs: refuse them, leave them, or there are none."""
    results: tuple[ToolResultMessage, ...] = ()
    refused = after.calls == "refuse"
    if refused:
        results = refuse_all(run, message, calls, after.skip, int(message.timestamp), commands)
        after = _length_retry(run, after)
        run = structs.replace(run, tally=with_results(run.rules.limits, run.tally, message, results))
    tools_left = refused and after.then == "go on"
    state = _finish(run, after, message, results, tools_left, terminated=False, commands=commands)
    return state, commands


def _length_retry(run: Run, after: After) -> After:
    """A truncated batch is sent again by the model, as often in a row as the policy allows."""
    allowed = run.rules.policy.length_retry_limit
    if after.skip == "length" and after.then == "go on" and allowed is not None and run.tally.length_retries > allowed:
        return After("refuse", "hard end", "length", "length")
    return after


def _broken(message: AssistantMessage) -> AssistantMessage:
    text = f"The model stream broke its protocol: it ended with stop reason {message.stop_reason!r}."
    return structs.replace(message, stop_reason="error", error_message=text, thinking_level=UNSET)


def _calls_closed(
    run: Run,
    after: After,
    message: AssistantMessage,
    results: tuple[ToolResultMessage, ...],
    unanimous: bool,
    commands: list[Command],
) -> State:
    """All calls are settled. Tools ask for a further request, unless every result says that it is not needed."""
    tally = with_results(run.rules.limits, run.tally, message, results)
    run = run if tally is run.tally else structs.replace(run, tally=tally)
    return _finish(run, after, message, results, not unanimous, terminated=unanimous, commands=commands)


def _finish(
    run: Run,
    after: After,
    message: AssistantMessage,
    results: tuple[ToolResultMessage, ...],
    tools_left: bool,
    *,
    terminated: bool,
    commands: list[Command],
) -> State:
    for result in results:
        run = _appended(run, result)
    if run.fault is not None:
        at = int(max(message.timestamp, *(result.timestamp for result in results), 0))
        return _failed_turn(run, run.fault, results, at, commands)
    state = Finishing(run, after, message, results, tools_left, terminated)
    if not run.rules.asks_finish and run.stopped is None:
        following, more = decided(state, Decided(None, False, 0))  # nobody to ask, and no abort to weigh
        commands += more
        return following
    commands.append(AskDecision(_turn(run, message, results)))
    return state


# ---- the boundary between turns -------------------------------------------------------------------------------------


def decided(s: Finishing, i: Decided) -> Step:
    """The turn is over. An order to end comes before every queue; then steering is asked."""
    commands: list[Command] = [TurnEnd(message=s.message, tool_results=s.results)]
    run = s.run
    if s.after.then != "go on":
        return _end(run, _stop_reason(run, s.after.reason), commands)
    if i.action == "end":
        return _end(run, "ended_by_host", commands)
    ends = _natural_end(s)
    wants_more = i.action == "continue"
    if run.stopped is not None and run.rules.policy.check_abort_before_request:
        goes_on = s.tools_left or wants_more or i.queued
        return _end(run, _stop_reason(run, "aborted") if goes_on else ends, commands)
    if s.tools_left or wants_more:
        limit = reached(run.rules.limits, run.tally)
        if limit is not None:
            commands.append(LookAgain())
            return Limited(run, limit), commands
    commands.append(Drain("steering"))
    turn = _turn(run, s.message, s.results) if run.rules.asks_next else None
    return Steering(run, turn, s.tools_left, wants_more, ends), commands


def looked_again(s: Limited, i: Looked) -> Step:
    """The bound ends the run, unless a listener of the batch or of the turn's end has aborted it: that comes first."""
    if s.run.stopped is not None and s.run.rules.policy.check_abort_before_request:
        return _end(s.run, _stop_reason(s.run, "aborted"), [])
    return _end(s.run, s.limit.name, [], s.limit)


def _natural_end(s: Finishing) -> EndReason:
    if s.terminated:
        return "terminated"
    return "length" if s.message.stop_reason == "length" else "stop"


def steering_answered(s: Steering, i: Drained) -> Step:
    """Steering or unanswered tools: a further turn. Else follow-ups are asked."""
    if not i.messages and not s.tools_left:
        return FollowUp(s.run, s.turn, s.wants_more, s.ends), [Drain("follow_up")]
    return _toward_next(s.run, s.turn, i.messages, i.at, asked=s.tools_left or s.wants_more, ends=s.ends)


def follow_up_answered(s: FollowUp, i: Drained) -> Step:
    """A follow-up, or a host that asked for more: a further turn. Else the run ends by itself."""
    if not i.messages and not s.wants_more:
        return _end(s.run, s.ends, [])
    return _toward_next(s.run, s.turn, i.messages, i.at, asked=s.wants_more, ends=s.ends)


def _toward_next(
    run: Run, turn: Turn | None, pending: tuple[Message, ...], at: int, *, asked: bool, ends: EndReason
) -> Step:
    """Prepare a further turn; `asked`: the limits were consulted before the queues."""
    stopped = run.stopped is not None and run.rules.policy.check_abort_before_request
    limit = None if asked else reached(run.rules.limits, run.tally)
    if stopped or limit is not None:
        reason = _stop_reason(run, "aborted") if limit is None or stopped else limit.name
        return _give_back(run, pending, (), reason, None if stopped else limit)
    state = Preparing(run, pending, run.rules.polls_twice and not pending, asked, ends)
    if turn is None:
        return next_turn_prepared(state, Prepared(None, at))
    return state, [PrepareNext(turn)]


def next_turn_prepared(s: Preparing, i: Prepared) -> Step:
    """Take over what the hook wants. If nothing is pending, steering that came meanwhile is taken as well."""
    run = s.run
    prepared: tuple[Message, ...] = ()
    if i.update is not None:
        run, prepared = _updated(run, i.update), tuple(i.update.messages)
    if s.polls_again:
        return Latecomers(run, prepared), [Drain("steering")]
    if not (s.asked or s.pending or prepared):
        return _end(run, s.ends, [])
    return _open_turn(run, prepared, s.pending, i.at)


def pending_withdrawn(s: Preparing, i: Withdrawn) -> Step:
    """What was cleared is not announced. If nothing else asks for the turn, it will not be opened."""
    gone = {id(message) for message in i.messages}
    return structs.replace(s, pending=tuple(m for m in s.pending if id(m) not in gone)), []


def latecomers_answered(s: Latecomers, i: Drained) -> Step:
    """Now everything that the turn brings is known."""
    return _open_turn(s.run, s.prepared, i.messages, i.at)


def _open_turn(run: Run, prepared: tuple[Message, ...], pending: tuple[Message, ...], at: int) -> Step:
    if run.stopped is not None and run.rules.policy.check_abort_before_request:
        return _give_back(run, pending, prepared, _stop_reason(run, "aborted"), None)
    return _announced_turn(run, prepared, pending, at, [TURN_START])


# ---- abort and failure ----------------------------------------------------------------------------------------------


def interrupted(s: Any, i: Interrupt) -> Step:
    """Note the abort. What follows is decided where it matters: before a call, a request, a turn."""
    if s.run.stopped is not None:
        return s, []
    return structs.replace(s, run=structs.replace(s.run, stopped=i.reason)), []


def request_failed(s: Opening | Composing | Asking | Requesting, i: Fault) -> Step:
    """The open turn gets a failure as its answer, and ends as a failed answer does."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    run = _struck(s.run, i)
    if run.stopped is not None and run.rules.policy.check_abort_before_request and type(s) is not Requesting:
        return _close_unanswered(run, i.at, [])  # nothing was asked, so there is no answer to keep
    message = _failure(run, i.text, (), i.at)
    return _answer_done(run, message, (), _failed_after(run, ()), announced=False)


def answer_failed(s: Responding, i: Fault) -> Step:
    """The content so far becomes the failure."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    run = _struck(s.run, i)
    message = _failure(run, i.text, s.answer.content, i.at)
    calls = calls_of(message)
    return _answer_done(run, message, calls, _failed_after(run, calls), announced=True)


def calls_failed(s: Checking | Executing, i: Fault) -> Step:
    """Every call of the batch is answered before the failure is told."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    return batch_faulted(s, i, _calls_closed)


def finishing_failed(s: Finishing, i: Fault) -> Step:
    """The failure stands behind the results, in the same turn."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    commands: list[Command] = []
    state = _failed_turn(_struck(s.run, i), i.text, s.results, i.at, commands)
    return state, commands


def boundary_failed(s: Limited | Steering | FollowUp | Preparing | Latecomers, i: Fault) -> Step:
    """No turn is open: one is opened for the failure. What was taken from a queue goes back first."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    leased = s.pending if isinstance(s, Preparing) else ()
    prepared = s.prepared if isinstance(s, Latecomers) else ()
    commands: list[Command] = [GiveBack(leased, prepared)] if leased or prepared else []
    commands.append(TURN_START)
    state = _failed_turn(_struck(s.run, i), i.text, (), i.at, commands)
    return state, commands


def ended_failed(s: Ended, i: Fault) -> Step:
    """A listener of the last event failed: there is nothing left to close."""
    if s.run.rules.policy.fault_closing == "failure sequence":
        return _failure_sequence(s.run, i)
    return Ended(s.run, "error", s.limit), []


def _struck(run: Run, i: Fault) -> Run:
    return structs.replace(run, struck=True) if i.critical else run


def _failed_turn(
    run: Run, text: str, results: tuple[ToolResultMessage, ...], at: int, commands: list[Command]
) -> State:
    message = _failure(run, text, (), at)
    run = _appended(run, message)
    commands += (
        MessageStart(message=message),
        MessageEnd(message=message),
        TurnEnd(message=message, tool_results=results),
    )
    return _end(run, _stop_reason(run, "error"), commands)[0]


def _failure_sequence(run: Run, i: Fault) -> Step:
    """What the reference tells after an unexpected error: only the failure, and nothing that was open is closed."""
    told = run if run.rules.host_model is None else structs.replace(run, model=run.rules.host_model)
    message = _failure(told, i.text, (Text(text=""),), i.at)
    run = structs.replace(_appended(_struck(run, i), message), new=_only(message))
    commands: list[Command] = [
        MessageStart(message=message),
        MessageEnd(message=message),
        TurnEnd(message=message, tool_results=()),
        AgentEnd(messages=(message,)),
    ]
    return Ended(run, _stop_reason(run, "error")), commands


def _only(message: Message) -> Grown[Message]:
    empty: Grown[Message] = grown()
    return empty.append(message)


def _failure(run: Run, text: str, content: Content, at: int) -> AssistantMessage:
    return AssistantMessage(
        content=content,
        api=run.model.api,
        provider=run.model.provider,
        model=run.model.id,
        stop_reason="error" if run.stopped is None else "aborted",
        error_message=text,
        timestamp=at,
    )


def _failed_after(run: Run, calls: tuple[ToolCall, ...]) -> After:
    return after_response(run.rules.table, "error" if run.stopped is None else "aborted", bool(calls))


def _close_unanswered(run: Run, at: int, commands: list[Command]) -> Step:
    """A turn that was opened and will not be asked: closed by an event whose message is not part of the transcript."""
    message = _failure(run, "Operation aborted", (), at)
    commands.append(TurnEnd(message=message, tool_results=()))
    return _end(run, _stop_reason(run, "aborted"), commands)


def _give_back(
    run: Run,
    leased: tuple[Message, ...],
    prepared: tuple[Message, ...],
    reason: EndReason,
    limit: LimitReached | None,
) -> Step:
    commands: list[Command] = [GiveBack(leased, prepared)] if leased or prepared else []
    return _end(run, reason, commands, limit)


def _end(run: Run, reason: EndReason, commands: list[Command], limit: LimitReached | None = None) -> Step:
    commands.append(AgentEnd(messages=run.new.tuple()))
    return Ended(run, reason, limit), commands


def _stop_reason(run: Run, otherwise: EndReason) -> EndReason:
    """An abort says how the run ends, before anything milder does."""
    if run.stopped is None or otherwise not in ("aborted", "error"):
        return otherwise
    if run.struck:
        return "error"
    return "deadline" if run.stopped == "deadline" else "aborted"


# ---- small steps shared by the rows ---------------------------------------------------------------------------------


def _appended(run: Run, message: Message) -> Run:
    return structs.replace(run, transcript=run.transcript.append(message), new=run.new.append(message))


def _turn(run: Run, message: AssistantMessage, results: tuple[ToolResultMessage, ...]) -> Turn:
    return Turn(message, results, run.context, run.new)


def _updated(run: Run, update: RequestUpdate | NextTurn) -> Run:
    """The run with the context, model and level that a hook gave; what it left out stays."""
    transcript, toolbox = run.transcript, run.toolbox
    if update.context is not None:
        transcript = Transcript(update.context.messages)
        if update.context.tools is not toolbox.tools:
            toolbox = Toolbox(update.context.tools)
    return structs.replace(
        run,
        transcript=transcript,
        toolbox=toolbox,
        declared=run.declared if update.context is None else None,
        model=run.model if update.model is None else update.model,
        thinking_level=run.thinking_level if update.thinking_level is None else update.thinking_level,
    )


# ---- the table ------------------------------------------------------------------------------------------------------

S = TypeVar("S")
I = TypeVar("I")  # noqa: E741
Row: TypeAlias = tuple[type, type, Callable[[Any, Any], Step]]


def row(state: type[S], given: type[I], then: Callable[[S, I], Step]) -> Row:
    """One line of the table; the type checker compares its three columns."""
    return state, given, then


def _checked(s: Checking, i: Checked) -> Step:
    return call_checked(s, i, _calls_closed)


def _finished(s: Executing, i: Finished) -> Step:
    return call_finished(s, i, _calls_closed)


ROWS: tuple[Row, ...] = (
    row(Idle, Prompt, opened),
    row(Opening, Drained, first_poll_answered),
    row(Composing, RequestPrepared, request_prepared),
    row(Asking, Composed, request_composed),
    row(Requesting, Start, response_started),
    row(Requesting, Answered, answered),
    row(Responding, Start, response_started_again),
    row(Responding, Answered, answered),
    row(Checking, Checked, _checked),
    row(Executing, Progress, call_progressed),
    row(Executing, Finished, _finished),
    row(Finishing, Decided, decided),
    row(Limited, Looked, looked_again),
    row(Steering, Drained, steering_answered),
    row(FollowUp, Drained, follow_up_answered),
    row(Preparing, Prepared, next_turn_prepared),
    row(Preparing, Withdrawn, pending_withdrawn),
    row(Latecomers, Drained, latecomers_answered),
    row(Opening, Fault, request_failed),
    row(Composing, Fault, request_failed),
    row(Asking, Fault, request_failed),
    row(Requesting, Fault, request_failed),
    row(Responding, Fault, answer_failed),
    row(Checking, Fault, calls_failed),
    row(Executing, Fault, calls_failed),
    row(Finishing, Fault, finishing_failed),
    row(Limited, Fault, boundary_failed),
    row(Steering, Fault, boundary_failed),
    row(FollowUp, Fault, boundary_failed),
    row(Preparing, Fault, boundary_failed),
    row(Latecomers, Fault, boundary_failed),
    row(Ended, Fault, ended_failed),
)

GROWTH: tuple[type, ...] = (
    TextStart,
    TextDelta,
    TextEnd,
    ThinkingStart,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallStart,
    ToolCallDelta,
    ToolCallEnd,
)
INTERRUPTIBLE: tuple[type, ...] = tuple(dict.fromkeys(state for state, _, _ in ROWS if state is not Idle))


def _rules() -> dict[type, dict[type, Callable[[Any, Any], Step]]]:
    rules: dict[type, dict[type, Callable[[Any, Any], Step]]] = {}
    rows: list[Row] = list(ROWS)
    rows += [(Requesting, growth, growth_dropped) for growth in GROWTH]
    rows += [(Responding, growth, answer_grew) for growth in GROWTH]
    rows += [(state, Interrupt, interrupted) for state in INTERRUPTIBLE]
    for state, given, then in rows:
        rules.setdefault(state, {})[given] = then
    return rules


RULES = _rules()


def step(state: State, given: Input) -> Step:
    """The next state, and what to do now.

    Raises:
        ProtocolError: this state cannot receive this input; the driver or a provider is at fault.
    """
    try:
        rule = RULES[type(state)][type(given)]
    except KeyError:
        raise ProtocolError(f"{type(state).__name__} cannot receive {type(given).__name__}") from None
    return rule(state, given)
