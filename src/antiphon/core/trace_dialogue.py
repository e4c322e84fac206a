"""What is asked and answered beside the events: questions, executions, queues, abort and failure.

The grammar of events cannot see that a refused call was begun, that a request left after an abort, or that a message
taken from a queue was forgotten. Here inputs and questions are watched as well. Everything costs O(1), but for the
first start of a call, O(calls of its answer).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, final

from antiphon.core import states as c
from antiphon.core.calls import Outcome
from antiphon.core.events import AgentEnd, AgentEvent, MessageEnd, MessageStart, ToolExecutionEnd, TurnEnd, TurnStart
from antiphon.core.messages import Message, SystemMessage
from antiphon.core.response_events import Start
from antiphon.core.trace_brackets import HARD_ENDS, Brackets

ANSWERS: dict[type, type] = {
    c.Drained: c.Drain,
    c.RequestPrepared: c.PrepareRequest,
    c.Composed: c.Compose,
    Start: c.CallModel,
    c.Answered: c.CallModel,
    c.Checked: c.Preflight,
    c.Decided: c.AskDecision,
    c.Looked: c.LookAgain,
    c.Prepared: c.PrepareNext,
}
"""Which input answers which question. Growth of an answer belongs to `CallModel`, `UNASKED` to no question."""

UNASKED: frozenset[type] = frozenset({c.Prompt, c.Interrupt, c.Fault, c.Withdrawn, c.Progress, c.Finished})


@final
class Dialogue:
    """Questions and answers of one run so far."""

    __slots__ = (
        "allowed",
        "answered",
        "asked",
        "brackets",
        "checked",
        "committed",
        "ended_by_host",
        "executed",
        "executions",
        "executions_of",
        "failed",
        "first_of_id",
        "given",
        "leased",
        "owed",
        "requests",
        "rules",
        "running",
        "stopped",
        "tools_left",
        "wants_more",
    )

    def __init__(self, brackets: Brackets) -> None:
        self.brackets = brackets
        self.rules = c.rules_of(brackets.policy, None, "parallel")
        self.asked: c.Question | None = None
        """The question that waits for its answer; running calls are asked in `running`."""
        self.answered: tuple[type, bool] = (c.Prompt, False)
        """The input that came last, and whether it brought messages."""
        self.stopped = False
        self.failed = False
        self.ended_by_host = False
        self.tools_left = False
        self.wants_more = False
        self.given: deque[Message] = deque()
        """Prompts and prepared messages that wait to be announced."""
        self.leased: deque[Message] = deque()
        """Messages taken from a queue that wait to be announced."""
        self.committed = False
        """They will be announced now, and can no longer be cleared."""
        self.requests = 0
        self.executions = 0
        self.executions_of: dict[str, int] = {}
        self.running: set[int] = set()
        self.owed: dict[int, Outcome] = {}
        """What calls came to that have to be told as ended now."""
        self._clear_turn()

    def _clear_turn(self) -> None:
        self.checked: set[int] = set()
        self.allowed: set[int] = set()
        self.executed: set[int] = set()
        self.first_of_id: dict[str, int] = {}

    # -- inputs ---------------------------------------------------------------------------------------------------

    def input(self, given: c.Input) -> None:
        """Take one input, before the commands it leads to."""
        kind = type(given)
        if self.owed:
            self.brackets.refuse("I2", f"the end of call {min(self.owed)} was not told")
        if kind in UNASKED:
            _GIVEN[kind](self, given)
            return
        wanted = ANSWERS.get(kind, c.CallModel)
        asked = self.asked
        if type(asked) is not wanted:
            self.brackets.refuse("driver", f"{kind.__name__} answers nothing that was asked")
        if wanted is not c.CallModel or kind is c.Answered:
            self.asked = None
        self.answered = (kind, False)
        rule = _GIVEN.get(kind)
        if rule is not None:
            rule(self, given, asked)

    def _prompted(self, given: c.Prompt) -> None:
        if self.brackets.run != "not begun":
            self.brackets.refuse("driver", "a prompt inside a run")
        self.rules = given.run.rules
        used = given.run.tally  # by earlier runs that share a budget with this one
        self.requests, self.executions, self.executions_of = used.turns, used.tool_calls, dict(used.calls_of)
        self.given.extend(given.messages)

    def _interrupted(self, _given: c.Interrupt) -> None:
        self.stopped = self.stopped or self.brackets.run != "over"

    def _faulted(self, given: c.Fault) -> None:
        self.failed = True
        self.asked = None
        self.answered = (c.Fault, False)
        for position in given.withdrawn:
            if position not in self.running:
                self.brackets.refuse("driver", f"call {position} was withdrawn and is not running")
            self.running.remove(position)
            self.executed.remove(position)
            self.executions -= 1
            self.executions_of[self.brackets.calls[position].name] -= 1

    def _news(self, given: c.Progress | c.Finished) -> None:
        if given.position not in self.running:
            self.brackets.refuse("driver", f"{type(given).__name__} of call {given.position}, which is not running")
        self.answered = (type(given), False)
        if isinstance(given, c.Finished):
            self.running.remove(given.position)
            self.owed[given.position] = given.outcome

    def _drained(self, given: c.Drained, asked: c.Drain) -> None:
        self.leased.extend(given.messages)
        self.committed = False
        self.answered = (c.Drained, bool(given.messages) or asked.queue == "follow_up")

    def _withdrawn(self, given: c.Withdrawn) -> None:
        if self.committed or type(self.asked) is not c.PrepareNext:
            self.brackets.refuse("driver", "messages are cleared that are being announced")
        gone = {id(message) for message in given.messages}
        self.leased = deque(message for message in self.leased if id(message) not in gone)

    def _next_prepared(self, given: c.Prepared, _asked: c.PrepareNext) -> None:
        if given.update is not None:
            self.given.extend(given.update.messages)

    def _call_checked(self, given: c.Checked, asked: c.Preflight) -> None:
        if given.refusal is None:
            self.allowed.add(asked.position)
        else:
            self.owed[asked.position] = given.refusal

    def _turn_decided(self, given: c.Decided, _asked: c.AskDecision) -> None:
        self.ended_by_host = given.action == "end"
        self.wants_more = given.action == "continue"

    # -- questions ------------------------------------------------------------------------------------------------

    def ask(self, question: c.Question) -> None:
        """Take one question."""
        kind = type(question)
        refuse = self.brackets.refuse
        if self.brackets.run != "open":
            refuse("I4", f"{kind.__name__} outside of a run")
        if self.asked is not None or (self.running and kind is not c.StartTool):
            refuse("4.1", f"{kind.__name__} while another question is open")
        if self.failed and kind is not c.AskDecision:
            refuse("D7", f"{kind.__name__} after a failure that ends the run")
        if kind is not c.StartTool:
            self.asked = question
        _ASKED[kind](self, question)

    def _polls(self, question: c.Drain) -> None:
        b = self.brackets
        kind, brought = self.answered
        if self.ended_by_host or b.last_turn:
            b.refuse("7", "a queue is read behind an end that was ordered")
        if b.turn and b.answer is not None:
            b.refuse("7", "a queue is read between an answer and the end of its turn")
        if question.queue == "follow_up" and (b.turn or kind is not c.Drained or brought or self.tools_left):
            b.refuse("7", "follow-ups are read while tools are left to answer, or before steering")
        if self.leased:
            b.refuse("7", "a queue is read while messages of another poll wait")

    def _prepares_request(self, _question: c.PrepareRequest) -> None:
        self._request_is_legal("PrepareRequest")
        self._nothing_waits("PrepareRequest")

    def _composes(self, _question: c.Compose) -> None:
        self._request_is_legal("Compose")
        self._nothing_waits("Compose")
        if self.rules.asks_request and self.answered[0] is not c.RequestPrepared:
            self.brackets.refuse("4.1", "a request is composed that was not prepared")

    def _requests(self, _question: c.CallModel) -> None:
        b = self.brackets
        self._request_is_legal("CallModel")
        if self.answered[0] is not c.Composed:
            b.refuse("4.1", "a request leaves that was not composed")
        if self.stopped and b.policy.check_abort_before_request:
            b.refuse("D1", "a request leaves after an abort")
        self.requests += 1
        most = self.rules.limits.max_turns
        if most is not None and self.requests > most:
            b.refuse("D11", f"request {self.requests} of at most {most}")

    def _request_is_legal(self, what: str) -> None:
        b = self.brackets
        if not b.turn or b.answer is not None:
            b.refuse("4.1", f"{what} outside of a turn that waits for an answer")

    def _checks(self, question: c.Preflight) -> None:
        self._is_open_call(question)
        if question.position in self.checked:
            self.brackets.refuse("I12", f"call {question.position} is checked a second time")
        self.checked.add(question.position)
        self._may_run(question.position)

    def _starts(self, question: c.StartTool) -> None:
        b, position = self.brackets, question.position
        self._is_open_call(question)
        if position in self.executed:
            b.refuse("I12", f"call {position} is executed a second time")
        if position not in self.allowed:
            b.refuse("I6", f"call {position} is executed and was not allowed")
        if self.stopped:
            b.refuse("I6", f"call {position} is executed after an abort")
        self._may_run(position)
        self._count(question.call.name)
        self.executed.add(position)
        self.running.add(position)

    def _is_open_call(self, question: c.Preflight | c.StartTool) -> None:
        b, position = self.brackets, question.position
        if position >= b.started or position in b.ended:
            b.refuse("I4", f"{type(question).__name__} of call {position}, which is not open")
        if b.calls[position] is not question.call and b.calls[position] != question.call:
            b.refuse("I12", f"{type(question).__name__} of call {position} with another call")

    def _may_run(self, position: int) -> None:
        """Truncated, failed and doubled calls never run."""
        b = self.brackets
        answer, policy = b.answer, b.policy
        if answer is None or answer.stop_reason in ("length", "error", "aborted"):
            b.refuse("I6", f"call {position} of an answer that was cut off")
        if policy.on_stop_with_calls == "error" and answer.stop_reason != "toolUse":
            b.refuse("I6", f"call {position} of an answer that ended with {answer.stop_reason}")
        if policy.duplicate_call_id != "allow" and b.ids_repeat:
            if not self.first_of_id:
                for place, call in enumerate(b.calls):
                    self.first_of_id.setdefault(call.id, place)
            if self.first_of_id[b.calls[position].id] != position:
                b.refuse("I6", f"call {position} has the id of an earlier one")

    def _count(self, name: str) -> None:
        limits = self.rules.limits
        self.executions += 1
        self.executions_of[name] = self.executions_of.get(name, 0) + 1
        if limits.max_tool_calls is not None and self.executions > limits.max_tool_calls:
            self.brackets.refuse("I6", f"call {self.executions} of at most {limits.max_tool_calls} is executed")
        for limited, allowed in limits.max_calls_of:
            if name == limited and self.executions_of[name] > allowed:
                self.brackets.refuse("I6", f"more than {allowed} calls of {name} are executed")

    def _decides(self, _question: c.AskDecision) -> None:
        b = self.brackets
        if not b.turn or b.answer is None or b.message is not None:
            b.refuse("4.1", "the end of a turn is decided before its answer is there")
        if not b.all_answered:
            b.refuse("I2", "the end of a turn is decided while calls have no result")

    def _looks(self, _question: c.LookAgain) -> None:
        b = self.brackets
        if b.turn or b.last_turn or not (self.tools_left or self.wants_more):
            b.refuse("10.2", "a bound is asked inside a turn, or where no request would follow")

    def _prepares_next(self, _question: c.PrepareNext) -> None:
        b = self.brackets
        if b.turn or b.last_turn or self.ended_by_host:
            b.refuse("4.1", "a further turn is prepared inside a turn, or behind an end that was ordered")
        if not (self.tools_left or self.leased or self.wants_more):
            b.refuse("7", "a further turn that nothing asks for")

    def _nothing_waits(self, before: str) -> None:
        if self.leased or self.given:
            self.brackets.refuse("I7", f"{before} while messages wait to be announced")

    # -- what is given back, and what is told -----------------------------------------------------------------------

    def commit(self) -> None:
        """From now on what is leased is announced, message by message."""
        if not self.leased or self.committed:
            self.brackets.refuse("I7", "nothing is there to be announced")
        self.committed = True

    def give_back(self, command: c.GiveBack) -> None:
        """Take messages as given back: all that wait, in their order."""
        if list(command.leased) != list(self.leased) or list(command.prepared) != list(self.given):
            self.brackets.refuse("I7", "what is given back is not what was taken and not announced")
        if self.committed:
            self.brackets.refuse("I7", "messages are given back that are being announced")
        self.leased.clear()
        self.given.clear()

    def announces(self, event: AgentEvent) -> bool:
        """Is this a message of the host: a prompt, one from a queue or a hook, or the declaration of tools?"""
        if type(event) is not MessageStart and type(event) is not MessageEnd:
            return False
        message = event.message
        if message.role not in ("assistant", "toolResult"):
            return True
        waiting = self.given or self.leased
        return bool(waiting) and waiting[0] is message

    def told(self, event: AgentEvent, *, delivered: bool, announced: bool) -> None:
        """Take an event, after the grammar has. `delivered`: its message leaves the lease."""
        rule = _TOLD.get(type(event))
        if rule is not None:
            rule(self, event)
        elif announced and type(event) is MessageEnd:
            self._announced(event.message, delivered)
        elif delivered:
            self.brackets.refuse("I7", f"{event.type} is no announcement of a queued message")

    def _announced(self, message: Message, delivered: bool) -> None:
        """Prepared messages come before queued ones. A system message may be corrected, or put in between."""
        waiting = self.leased if delivered else self.given
        if delivered and (self.given or not self.committed):
            self.brackets.refuse("I7", "a queued message is announced before a prepared one, or without a commit")
        head = waiting[0] if waiting else None
        if head is message or (head is not None and head == message):
            waiting.popleft()
        elif isinstance(message, SystemMessage) and (isinstance(head, SystemMessage) or not delivered):
            if isinstance(head, SystemMessage):
                waiting.popleft()
        else:
            self.brackets.refuse("I7", f"the {message.role} message that was announced is not the next one")

    def _call_told(self, event: ToolExecutionEnd) -> None:
        b, position = self.brackets, event.position
        owed = self.owed.pop(position, None)
        if owed is not None:
            if event.result != owed.result or event.is_error != owed.is_error:
                b.refuse("I5", f"call {position} ended with something else")
        elif position in self.executed:
            b.refuse("I4", f"the end of call {position} was told while it runs")
        elif not event.is_error or not self._says_skipped(event):
            b.refuse("8.2", f"call {position} did not run and does not say so")

    def _says_skipped(self, event: ToolExecutionEnd) -> bool:
        if self.brackets.policy.skip_details == "empty":
            return event.result.details == {}
        details: Any = event.result.details
        return isinstance(details, dict) and details.get("skipped") is True and "reason" in details

    def _turn_told(self, _event: TurnEnd) -> None:
        b = self.brackets
        self._all_told()
        self.tools_left = bool(b.calls) and not b.unanimous
        self._clear_turn()
        if b.answer is None and not self.stopped:
            b.refuse("D1", "a turn ends without an answer and nobody aborted it")

    def _turn_opened(self, _event: TurnStart) -> None:
        b = self.brackets
        self.wants_more = False
        self.tools_left = False
        if self.stopped and not self.failed and b.policy.check_abort_before_request:
            b.refuse("D1", "a turn begins after an abort")
        if self.answered[0] not in (c.Prompt, c.Prepared, c.Drained, c.Fault):
            b.refuse("4.1", "a turn begins that was not prepared")

    def _run_told(self, _event: AgentEnd) -> None:
        lost = self.failed and self.brackets.policy.fault_closing == "failure sequence"
        if lost:
            self.leased.clear()
            self.given.clear()
            self.running.clear()
            self.owed.clear()
        self._nothing_waits("agent_end")
        self._all_told()

    def _all_told(self) -> None:
        b = self.brackets
        if b.policy.fault_closing == "failure sequence" and self.failed:
            return
        if self.asked is not None or self.running or self.owed:
            b.refuse("I4", "a turn or run ends while a question or a call is open")


_GIVEN: dict[type, Callable[..., None]] = {
    c.Withdrawn: Dialogue._withdrawn,
    c.Progress: Dialogue._news,
    c.Finished: Dialogue._news,
    c.Prompt: Dialogue._prompted,
    c.Interrupt: Dialogue._interrupted,
    c.Fault: Dialogue._faulted,
    c.Drained: Dialogue._drained,
    c.Prepared: Dialogue._next_prepared,
    c.Checked: Dialogue._call_checked,
    c.Decided: Dialogue._turn_decided,
}
_ASKED: dict[type, Callable[[Dialogue, Any], None]] = {
    c.Drain: Dialogue._polls,
    c.PrepareRequest: Dialogue._prepares_request,
    c.Compose: Dialogue._composes,
    c.CallModel: Dialogue._requests,
    c.Preflight: Dialogue._checks,
    c.StartTool: Dialogue._starts,
    c.AskDecision: Dialogue._decides,
    c.LookAgain: Dialogue._looks,
    c.PrepareNext: Dialogue._prepares_next,
}
_TOLD: dict[type, Callable[[Dialogue, Any], None]] = {
    ToolExecutionEnd: Dialogue._call_told,
    TurnEnd: Dialogue._turn_told,
    TurnStart: Dialogue._turn_opened,
    AgentEnd: Dialogue._run_told,
}
QUESTIONS = frozenset(_ASKED)

__all__ = ["ANSWERS", "HARD_ENDS", "QUESTIONS", "Dialogue"]
