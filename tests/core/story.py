"""The loop once more, as one would tell it: a loop of turns, a turn from its messages to its end, a batch of calls.

This is not the product. It shares values with it and no decision, so a random world in which story and machine do not
do the same shows a fault in one of them. Whoever wants to know what the machine is about should read this first.

The outside raises `Broken` when foreign code fails, and sets `stopped` as soon as nobody wants the run any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from msgspec import UNSET, structs

from antiphon.core.calls import Outcome, SkipReason, result_message, skipped
from antiphon.core.content import Content, Text, ToolCall
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
from antiphon.core.hooks import NextTurn, RequestUpdate
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of
from antiphon.core.model import Model
from antiphon.core.policy import Policy, RunLimits
from antiphon.core.response import AnswerSoFar, answer_begun
from antiphon.core.response_events import Growth, Start
from antiphon.core.system_state import declare, replay

Messages = tuple[Message, ...]
Results = tuple[ToolResultMessage, ...]
FINAL = ("stop", "deferred", "toolUse", "length", "error", "aborted")


class Broken(Exception):
    """Foreign code has failed. `unbegun`: before the calls that were just told to start could begin. `critical`: it was
    a listener that the run cannot do without.
    """

    def __init__(self, text: str, *, unbegun: bool = False, critical: bool = False) -> None:
        super().__init__(text)
        self.text, self.unbegun, self.critical = text, unbegun, critical


class Over(Exception):
    """The run ends here."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Outside(Protocol):
    """Everything that the loop did not write. Whatever gives an answer may raise `Broken` instead."""

    stopped: str | None

    def say(self, event: AgentEvent) -> None: ...
    def commit(self) -> None: ...
    def deliver(self, event: MessageEnd) -> None: ...
    def give_back(self, leased: Messages, prepared: Messages) -> None: ...
    def poll(self, queue: str) -> Messages: ...
    def prepare_request(self) -> RequestUpdate | None: ...
    def compose(self, messages: Messages, model: Model, level: Any) -> None: ...
    def call_model(self) -> None: ...
    def hear(self) -> Start | Growth | AssistantMessage: ...
    def check(self, position: int) -> Outcome | None: ...
    def begin(self, position: int) -> None: ...
    def news(self) -> tuple[int, Outcome | str]: ...
    def decide(self, turn: tuple[AssistantMessage, Messages, int]) -> tuple[Any, bool]: ...
    def look(self) -> None: ...
    def prepare_next(self) -> NextTurn | None: ...
    def cleared(self, pending: Messages) -> Messages: ...


@dataclass
class Story:
    """One run. `tell` gives the reason of its end."""

    w: Outside
    policy: Policy
    limits: RunLimits
    tools: Any
    model: Model
    sequential: bool = False
    polls_twice: bool = True
    level: Any = "off"
    transcript: list[Message] = field(default_factory=list[Message])
    new: list[Message] = field(default_factory=list[Message])
    turns: int = 0
    ran: list[str] = field(default_factory=list[str])
    refused: str | None = None
    truncated: int = 0
    struck: bool = False

    def tell(self, prompts: Messages, *, polls: bool = True) -> str:
        self.w.say(AgentStart())
        self.w.say(TurnStart())
        try:
            self.announce((), prompts, leased=False)
            brings: tuple[Messages, Messages] | None = None
            while True:
                brings = self.between_turns(*self.turn(brings, polls=polls))
        except Over as over:
            self.w.say(AgentEnd(messages=tuple(self.new)))
            return over.reason
        except Broken as failure:  # the reference tells it wherever it is, and leaves open what is open
            self.struck = failure.critical
            message = self.failure(failure.text, (Text(text=""),))
            self.append(message)
            self.w.say(TurnEnd(message=message, tool_results=()))
            self.w.say(AgentEnd(messages=(message,)))
            return self.stopped_or("error")

    # -- one turn --------------------------------------------------------------------------------------------------

    def turn(self, brings: tuple[Messages, Messages] | None, *, polls: bool) -> tuple[bool, bool, str]:
        """From its first message to `turn_end`: are tools left, does the host want more, how would the run end?"""
        w, partial, asked = self.w, None, False
        try:
            prepared, pending = brings or ((), w.poll("steering") if polls else ())
            if pending:
                w.commit()
            if brings is not None:
                w.say(TurnStart())
            self.announce(prepared, pending)
            self.go_on_or_close()
            self.adopt(w.prepare_request())
            w.compose(tuple(self.transcript), self.model, self.level)
            self.go_on_or_close()
            self.turns, asked = self.turns + 1, True
            w.call_model()
            while not isinstance(heard := w.hear(), AssistantMessage):
                partial = self.grow(partial, heard)
            message = structs.replace(heard, thinking_level=self.level)
        except Broken as failure:
            if self.policy.fault_closing == "failure sequence":
                raise
            self.struck = failure.critical
            if not asked:
                self.go_on_or_close()
            message = self.failure(failure.text, partial.content if partial else ())
        if message.stop_reason not in FINAL and self.policy.on_unknown_stop == "failure":
            text = f"The model stream broke its protocol: it ended with stop reason {message.stop_reason!r}."
            message = structs.replace(message, stop_reason="error", error_message=text, thinking_level=UNSET)
        self.append(message, started=partial is not None)
        return self.finish(message, *self.answer_calls(message))

    def finish(
        self, message: AssistantMessage, results: Results, tools_left: bool, natural: str
    ) -> tuple[bool, bool, str]:
        self.transcript += results
        self.new += results
        try:
            action, queued = self.w.decide((message, results, len(self.new)))
        except Broken as failure:
            self.close_with(failure, results)
        self.w.say(TurnEnd(message=message, tool_results=results))
        hard = self.hard_end(message)
        if hard is not None:
            raise Over(self.stopped_or(hard))
        if action == "end":
            raise Over("ended_by_host")
        if self.halted and (tools_left or action == "continue" or queued):
            raise Over(self.stopped_or("aborted"))
        if self.halted:
            raise Over(natural)
        return tools_left, action == "continue", natural

    def hard_end(self, message: AssistantMessage) -> str | None:
        """How an answer ends the run, whatever waits in the queues."""
        why, calls, policy = message.stop_reason, calls_of(message), self.policy
        if why in ("error", "aborted"):
            return why
        if why == "length" and calls:
            too_often = policy.length_retry_limit is not None and self.truncated > policy.length_retry_limit
            return "length" if too_often or policy.on_length_calls == "end" else None
        if why == "length":
            return "length" if policy.on_length_end == "end" else None
        if why == "toolUse":
            return "error" if not calls and policy.on_tooluse_empty == "error" else None
        if calls:
            return "error" if policy.on_stop_with_calls == "error" else None
        return "stop" if policy.natural_end == "end" else None

    def grow(self, partial: AnswerSoFar | None, heard: Start | Growth) -> AnswerSoFar | None:
        if isinstance(heard, Start):
            begun = answer_begun(heard.message)
            if partial is None:
                self.w.say(MessageStart(message=begun))
            return begun
        if partial is not None:
            partial = partial.grow(heard)
            self.w.say(MessageUpdate(message=partial, assistant_message_event=heard))
        return partial

    # -- the calls of one answer -----------------------------------------------------------------------------------

    def answer_calls(self, message: AssistantMessage) -> tuple[Results, bool, str]:
        """Results, whether tools ask for a further request, and how the run would end by itself."""
        calls, why, policy = calls_of(message), message.stop_reason, self.policy
        self.truncated = self.truncated + 1 if why == "length" and calls else 0
        reason: SkipReason | None = None
        if why == "length" or why == "error" or why == "aborted":
            reason = why
        elif why != "toolUse" and policy.on_stop_with_calls == "error":
            reason = "unexpected-stop"
        if not calls or (why in ("error", "aborted") and policy.pair_unexecuted == "never"):
            return (), False, "length" if why == "length" else "stop"
        batch = Batch(self, message, calls)
        batch.go_through(reason)
        if batch.failure is not None:
            self.transcript += batch.results
            self.new += batch.results
            self.close_with(batch.failure, batch.results)
        unanimous = all(outcome.terminates for outcome in batch.outcomes.values())
        return batch.results, not unanimous, "terminated" if unanimous else "length" if why == "length" else "stop"

    # -- between turns ---------------------------------------------------------------------------------------------

    def between_turns(self, tools_left: bool, more: bool, natural: str) -> tuple[Messages, Messages]:
        """What the next turn brings, prepared and from a queue, if there is one."""
        w, asked = self.w, tools_left or more
        prepared: Messages = ()
        pending: Messages = ()
        try:
            if asked and (limit := self.limit()) is not None:
                w.look()
                raise Over(self.stopped_or("aborted") if self.halted else limit)
            pending = w.poll("steering")
            if not pending and not tools_left:
                pending = w.poll("follow_up")
                if not pending and not more:
                    raise Over(natural)
            if self.halted or (not asked and self.limit() is not None):
                self.hand_back(pending, (), self.limit())
            polls_again = self.polls_twice and not pending
            update = w.prepare_next()
            gone = w.cleared(pending)
            pending = tuple(m for m in pending if not any(m is g for g in gone))
            self.adopt(update)
            prepared = tuple(update.messages) if update is not None else ()
            if polls_again:
                pending = w.poll("steering")
            elif not (asked or pending or prepared):
                raise Over(natural)
            if self.halted:
                self.hand_back(pending, prepared, None)
        except Broken as failure:
            if self.policy.fault_closing == "failure sequence":
                raise
            if pending or prepared:
                w.give_back(pending, prepared)
            w.say(TurnStart())
            self.close_with(failure, ())
        return prepared, pending

    def hand_back(self, pending: Messages, prepared: Messages, limit: str | None) -> NoReturn:
        if pending or prepared:
            self.w.give_back(pending, prepared)
        raise Over(self.stopped_or("aborted") if self.halted else limit or "")

    def limit(self) -> str | None:
        if self.limits.max_turns is not None and self.turns >= self.limits.max_turns:
            return "max_turns"
        if self.refused is not None and self.used_up(self.refused, self.ran):
            return "max_tool_calls"
        return None

    def used_up(self, name: str, ran: list[str]) -> bool:
        """Would one more call of this tool be too many?"""
        limits = self.limits
        if limits.max_tool_calls is not None and len(ran) >= limits.max_tool_calls:
            return True
        return any(name == limited and ran.count(name) >= most for limited, most in limits.max_calls_of)

    # -- small things ----------------------------------------------------------------------------------------------

    @property
    def halted(self) -> bool:
        return self.w.stopped is not None and self.policy.check_abort_before_request

    def go_on_or_close(self) -> None:
        if self.halted:
            message = self.failure("Operation aborted", ())
            self.w.say(TurnEnd(message=message, tool_results=()))
            raise Over(self.stopped_or("aborted"))

    def stopped_or(self, reason: str) -> str:
        if self.w.stopped is None or reason not in ("error", "aborted"):
            return reason
        if self.struck:
            return "error"
        return "deadline" if self.w.stopped == "deadline" else "aborted"

    def close_with(self, failure: Broken, results: Results) -> NoReturn:
        if self.policy.fault_closing == "failure sequence":
            raise failure
        self.struck = self.struck or failure.critical
        message = self.failure(failure.text, ())
        self.append(message)
        self.w.say(TurnEnd(message=message, tool_results=results))
        raise Over(self.stopped_or("error"))

    def failure(self, text: str, content: Content) -> AssistantMessage:
        why: Any = "error" if self.w.stopped is None else "aborted"
        m = self.model
        return AssistantMessage(
            content=content, api=m.api, provider=m.provider, model=m.id, stop_reason=why, error_message=text
        )

    def adopt(self, update: RequestUpdate | NextTurn | None) -> None:
        if update is None:
            return
        if update.context is not None:
            self.transcript, self.tools = list(update.context.messages), update.context.tools
        self.model = update.model or self.model
        self.level = update.thinking_level or self.level

    def announce(self, prepared: Messages, pending: Messages, *, leased: bool = True) -> None:
        given = (*prepared, *pending)
        told = declare(given, replay(self.transcript), self.tools)
        ours = len(told) - len(pending)
        for place, message in enumerate(told):
            self.append(message, leased=leased and place >= ours)

    def append(self, message: Message, *, started: bool = False, leased: bool = False) -> None:
        if not started:
            self.w.say(MessageStart(message=message))
        end = MessageEnd(message=message)
        self.w.deliver(end) if leased else self.w.say(end)
        self.transcript.append(message)
        self.new.append(message)


@dataclass
class Batch:
    """The calls of one answer, known by their place: ids may repeat."""

    story: Story
    message: AssistantMessage
    calls: tuple[ToolCall, ...]
    outcomes: dict[int, Outcome] = field(default_factory=dict[int, Outcome])
    ready: list[int] = field(default_factory=list[int])
    results: Results = ()
    failure: Broken | None = None
    one_by_one: bool = False

    def go_through(self, refused: SkipReason | None) -> None:
        s = self.story
        self.one_by_one = refused is not None or s.sequential or any(self.ordered(call.name) for call in self.calls)
        for position, call in enumerate(self.calls):
            start = ToolExecutionStart(
                tool_call_id=call.id, tool_name=call.name, args=call.arguments, position=position
            )
            s.w.say(start)
            reason = refused or self.no_chance(position)
            try:
                outcome = s.w.check(position) if reason is None else self.skip(position, reason)
            except Broken as failure:
                self.fails(failure, [*self.ready, position])
                self.ready = []
                continue
            if outcome is not None:
                self.settle(position, outcome)
            elif self.one_by_one:
                self.run([position])
            else:
                self.ready.append(position)
        self.run(self.ready)
        self.tell_results()

    def ordered(self, name: str) -> bool:
        found = next((tool for tool in self.story.tools or () if tool.name == name), None)
        return found is not None and found.execution_mode == "sequential"

    def no_chance(self, position: int) -> SkipReason | None:
        s, call = self.story, self.calls[position]
        if self.failure is not None:
            return "fault"
        ids = [c.id for c in self.calls]
        rule = s.policy.duplicate_call_id
        if (rule == "error_second" and call.id in ids[:position]) or (rule == "error_all" and ids.count(call.id) > 1):
            return "duplicate-id"
        if s.used_up(call.name, [*s.ran, *(self.calls[p].name for p in self.ready)]):
            s.refused = call.name
            return "limit"
        return None

    def run(self, positions: list[int]) -> None:
        """Begin these calls together and wait until all have ended."""
        s = self.story
        if s.w.stopped is not None:
            for position in positions:
                self.settle(position, self.skip(position, "aborted"))
            return
        for position in positions:
            s.ran.append(self.calls[position].name)
            s.w.begin(position)
        running = set(positions)
        while running:
            try:
                position, said = s.w.news()
            except Broken as failure:
                unbegun = positions if failure.unbegun else []
                self.fails(failure, unbegun)
                del s.ran[len(s.ran) - len(unbegun) :]
                running -= set(unbegun)
                continue
            if isinstance(said, Outcome):
                self.settle(position, said)
                running.remove(position)
                continue
            call = self.calls[position]
            update = ToolExecutionUpdate(
                tool_call_id=call.id, tool_name=call.name, args=call.arguments, partial_result=said, position=position
            )
            s.w.say(update)

    def fails(self, failure: Broken, given_up: list[int]) -> None:
        if self.story.policy.fault_closing == "failure sequence":
            raise failure
        self.failure = self.failure or failure
        self.story.struck = self.story.struck or failure.critical
        for position in given_up:
            self.settle(position, self.skip(position, "fault"))

    def skip(self, position: int, reason: SkipReason) -> Outcome:
        return skipped(self.calls[position], reason, typed=self.story.policy.skip_details == "typed")

    def settle(self, position: int, outcome: Outcome) -> None:
        call = self.calls[position]
        self.outcomes[position] = outcome
        end = ToolExecutionEnd(
            tool_call_id=call.id,
            tool_name=call.name,
            result=outcome.result,
            is_error=outcome.is_error,
            duration_ms=outcome.duration_ms,
            position=position,
        )
        self.story.w.say(end)
        if self.one_by_one:
            self.tell_results()

    def tell_results(self) -> None:
        """Those that were not told yet, in call order."""
        for position in range(len(self.results), len(self.outcomes)):
            result = result_message(self.calls[position], self.outcomes[position], 0)
            self.results += (result,)
            self.story.w.say(MessageStart(message=result))
            self.story.w.say(MessageEnd(message=result))
