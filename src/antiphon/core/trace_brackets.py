"""The grammar of events: what is open at this moment of a run, and what may therefore be said next.

    run      = agent_start turn+ agent_end
    turn     = turn_start message* answer call* result* failure? turn_end
    message  = message_start message_end
    answer   = message_start message_update* message_end
    call     = tool_execution_start tool_execution_update* tool_execution_end

Calls of one turn overlap; three orders hold them together: starts and results in call order, ends as they come. Only a
turn that was aborted before its request has no answer. Each event costs O(1), an answer O(its calls), the end of a run
O(its messages).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NoReturn, cast, final

from antiphon.core.content import ToolCall
from antiphon.core.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    LiveMessage,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.policy import Policy
from antiphon.core.response import AnswerSoFar
from antiphon.errors import ProtocolError

HARD_ENDS = frozenset({"error", "aborted"})


@final
class Brackets:
    """What is open after the events so far. `by_id`: events come from the wire, where a call has no position."""

    __slots__ = (
        "answer",
        "by_id",
        "calls",
        "count",
        "ended",
        "ids_repeat",
        "last_turn",
        "message",
        "new",
        "open",
        "policy",
        "results",
        "run",
        "started",
        "turn",
        "unanimous",
    )

    def __init__(self, policy: Policy, *, by_id: bool = False) -> None:
        self.policy = policy
        self.by_id = by_id
        self.count = 0
        """Number of the last event; the first one is 1."""
        self.run: Literal["not begun", "open", "over"] = "not begun"
        self.last_turn = False
        """The turn ended in a way that only the end of the run may follow."""
        self.new: list[Message] = []
        """Messages that ended in this run."""
        self.message: LiveMessage | None = None
        """Begun and not ended."""
        self.turn = False
        self._clear_turn()

    def _clear_turn(self) -> None:
        self.answer: AssistantMessage | None = None
        self.calls: tuple[ToolCall, ...] = ()
        self.ids_repeat = False
        self.started = 0
        self.open: dict[str, list[int]] = {}
        """Positions of calls that were started and have not ended, by id."""
        self.ended: dict[int, ToolExecutionEnd] = {}
        self.results: list[ToolResultMessage] = []
        self.unanimous = True
        """Every call that ended says that no further request is needed for it."""

    @property
    def all_answered(self) -> bool:
        """Has every call of this turn its result? Calls of a failed answer may go without if the policy says so."""
        if len(self.results) == len(self.calls):
            return True
        answer = self.answer
        left = self.policy.pair_unexecuted == "never" and answer is not None and answer.stop_reason in HARD_ENDS
        return left and not self.started

    def refuse(self, rule: str, what: str) -> NoReturn:
        """
        Raises:
            ProtocolError: always; the text names rule and place.
        """
        raise ProtocolError(f"{rule} at event {self.count}: {what}")

    def event(self, event: AgentEvent, *, announced: bool) -> None:
        """Take one event. `announced`: a message of the host, whatever its role, so neither an answer nor a result."""
        self.count += 1
        if self.run == "over" and not self._failure_begins(event):
            self.refuse("I4", f"{event.type} behind agent_end")
        if type(event) is MessageStart:
            self._message_begins(event, announced)
        elif type(event) is MessageEnd:
            self._message_ends(event, announced)
        else:
            _RULES[type(event)](self, event)

    # -- run and turn ---------------------------------------------------------------------------------------------

    def _run_begins(self, _event: AgentStart) -> None:
        if self.run != "not begun":
            self.refuse("I4", "a second agent_start")
        self.run = "open"

    def _turn_begins(self, _event: TurnStart) -> None:
        if self.run != "open" or self.turn:
            self.refuse("I4", "turn_start inside a turn or outside of a run")
        if self.last_turn:
            self.refuse("4.1", "a further turn behind one that ends the run")
        self.turn = True
        self._clear_turn()

    def _turn_ends(self, event: TurnEnd) -> None:
        self._nothing_said("turn_end")
        if self.answer is None:
            self._unanswered_turn_ends(event)
        elif event.message is not self.answer and event.message != self.answer:
            self.refuse("I4", "turn_end carries another message than the answer of its turn")
        if not self.all_answered:
            self.refuse("I2", f"{len(self.results)} results for {len(self.calls)} calls at turn_end")
        if len(event.tool_results) != len(self.results) or any(
            a is not b and a != b for a, b in zip(event.tool_results, self.results, strict=True)
        ):
            self.refuse("I5", "the results of turn_end are not those that were told, in call order")
        self.last_turn = event.message.stop_reason in HARD_ENDS
        self.turn = False

    def _unanswered_turn_ends(self, event: TurnEnd) -> None:
        """Only an aborted turn may end without an answer; its message is told here and appended nowhere."""
        if self.policy.aborted_empty_turn != "event only" or event.message.stop_reason != "aborted":
            self.refuse("I4", "turn_end without an answer")

    def _run_ends(self, event: AgentEnd) -> None:
        if self.run != "open" or self.turn:
            self.refuse("I4", "agent_end inside a turn or outside of a run")
        if self._only_the_failure(event.messages):
            self.new = list(event.messages)
        elif len(event.messages) != len(self.new) or any(
            a is not b and a != b for a, b in zip(event.messages, self.new, strict=True)
        ):
            self.refuse("I13", "agent_end does not carry the messages that ended in this run")
        self.run = "over"

    # -- messages -------------------------------------------------------------------------------------------------

    def _nothing_said(self, what: str) -> None:
        if not self.turn:
            self.refuse("I4", f"{what} outside of a turn")
        if self.message is not None:
            self.refuse("I4", f"{what} while a message is open")

    def _message_begins(self, event: MessageStart, announced: bool) -> None:
        message = event.message
        if self._failure_begins(event):
            self._give_up()
        self._nothing_said("message_start")
        if announced:
            if self.answer is not None:
                self.refuse("I3", f"a {message.role} message behind the answer of an open turn")
        elif isinstance(message, ToolResultMessage):
            self._result_begins(message)
        elif self.answer is not None:
            self._second_answer_begins(message)
        self.message = message

    def _second_answer_begins(self, message: LiveMessage) -> None:
        """Behind answer and results one more message may stand: the failure that ends the run."""
        if not self.all_answered:
            self.refuse("I3", "a further answer between an answer and its results")
        if not _is_failure(message):
            self.refuse("I1", "a second answer in one turn")

    def _message_grows(self, event: MessageUpdate) -> None:
        if self.message is None or self.message.role != "assistant":
            self.refuse("I4", "message_update without an open answer")
        if event.message.role != "assistant":
            self.refuse("I4", "message_update of something that is no answer")

    def _message_ends(self, event: MessageEnd, announced: bool) -> None:
        begun, message = self.message, event.message
        if begun is None:
            self.refuse("I4", "message_end without message_start")
        if isinstance(message, AnswerSoFar):
            self.refuse("I1", "a partial answer was appended")
        if begun.role != message.role:
            self.refuse("I4", f"message_end of a {message.role} message, open is a {begun.role} message")
        if begun is not message and begun.role != "assistant" and begun != message:
            self.refuse("I4", "message_end of another message than the one that began")
        self.message = None
        self.new.append(message)
        if announced:
            return
        if isinstance(message, ToolResultMessage):
            self.results.append(message)
        else:
            self._answer_ends(cast("AssistantMessage", message))

    def _answer_ends(self, message: AssistantMessage) -> None:
        if message.stop_reason == "pending" and self.policy.on_unknown_stop == "failure":
            self.refuse("I1", "an answer that is still pending was appended")
        if self.answer is None:
            self.calls = calls_of(message)
            self.ids_repeat = len({call.id for call in self.calls}) < len(self.calls)
        self.answer = message

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call_begins(self, event: ToolExecutionStart) -> None:
        self._nothing_said("tool_execution_start")
        position = self.started
        if position >= len(self.calls):
            self.refuse("I12", "a call was started that is not in the answer, or twice")
        call = self.calls[position]
        same = event.args is call.arguments or event.args == call.arguments
        if event.tool_call_id != call.id or event.tool_name != call.name or not same:
            self.refuse("I5", f"call {position} of the answer is next, started was {event.tool_call_id!r}")
        if not self.by_id and event.position != position:
            self.refuse("I12", f"call {position} was started under position {event.position}")
        if self.results and len(self.results) < position:
            self.refuse("I5", "calls that run one by one have their results before the next call is started")
        self.started += 1
        self.open.setdefault(call.id, []).append(position)

    def _call_progresses(self, event: ToolExecutionUpdate) -> None:
        self._nothing_said("tool_execution_update")
        self._position_of(event)

    def _call_ends(self, event: ToolExecutionEnd) -> None:
        self._nothing_said("tool_execution_end")
        position = self._position_of(event)
        waiting = self.open[event.tool_call_id]
        waiting.remove(position)
        if not waiting:
            del self.open[event.tool_call_id]
        self.ended[position] = event
        self.unanimous = self.unanimous and event.result.terminate is True

    def _position_of(self, event: ToolExecutionUpdate | ToolExecutionEnd) -> int:
        """The place of an open call in its answer."""
        waiting = self.open.get(event.tool_call_id, ())
        if self.by_id and waiting:
            return waiting[0]
        if event.position not in waiting:
            self.refuse("I12", f"{event.type} of a call that is not open: {event.tool_call_id!r} at {event.position}")
        return event.position

    def _result_begins(self, message: ToolResultMessage) -> None:
        position = len(self.results)
        if position >= len(self.calls):
            self.refuse("I2", "a result without a call")
        call = self.calls[position]
        if message.tool_call_id != call.id or message.tool_name != call.name:
            self.refuse("I5", f"the result of call {position} is next, told was {message.tool_call_id!r}")
        end = self.ended.get(position)
        if end is None:
            self.refuse("I4", f"the result of call {position} before its end")
        one_by_one = self.started == position + 1
        if not one_by_one and len(self.ended) < len(self.calls):
            self.refuse("I5", "calls that run together have their results behind the last end")
        if not self._same_result(end, message):
            self.refuse("I5", f"the result of call {position} is not what the call ended with")

    def _same_result(self, end: ToolExecutionEnd, message: ToolResultMessage) -> bool:
        if self.by_id and self.ids_repeat:
            return True  # equal ids cannot be told apart on the wire
        return message.content == end.result.content and message.is_error == end.is_error

    # -- the failure sequence of the reference --------------------------------------------------------------------

    def _failure_begins(self, event: AgentEvent) -> bool:
        """Is this the failure that the reference tells wherever it is, leaving open what is open?"""
        return (
            self.policy.fault_closing == "failure sequence"
            and type(event) is MessageStart
            and _is_failure(event.message)
            and (self.run == "over" or self.message is not None or not self.turn or self.answer is not None)
            and self.run != "not begun"
        )

    def _give_up(self) -> None:
        self.run = "open"
        self.message = None
        self.turn = True
        self._clear_turn()

    def _only_the_failure(self, messages: tuple[Message, ...]) -> bool:
        return (
            self.policy.fault_closing == "failure sequence"
            and len(messages) == 1
            and bool(self.new)
            and messages[0] is self.new[-1]
            and _is_failure(messages[0])
        )


def _is_failure(message: LiveMessage) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason in HARD_ENDS and not calls_of(message)


_RULES: dict[type, Callable[[Brackets, Any], None]] = {
    AgentStart: Brackets._run_begins,
    TurnStart: Brackets._turn_begins,
    MessageUpdate: Brackets._message_grows,
    ToolExecutionStart: Brackets._call_begins,
    ToolExecutionUpdate: Brackets._call_progresses,
    ToolExecutionEnd: Brackets._call_ends,
    TurnEnd: Brackets._turn_ends,
    AgentEnd: Brackets._run_ends,
}
