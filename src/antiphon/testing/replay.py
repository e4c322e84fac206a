"""A recorded conversation played again: the loop of today with the answers and tool outputs of then.

    report = await replay(messages)
    assert report.difference is None, report

Models and tools say what was recorded, time stands, nothing is asked of the outside. What the loop makes of it must be
the same messages in the same order, by the rules of a legal sequence of events. The first difference is reported: after
a change of the loop, or of a tool's declaration, it says where an old conversation would have gone another way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from msgspec import UNSET

from antiphon.core.events import AgentEvent
from antiphon.core.hooks import Context, NextTurn, RequestInfo, RequestUpdate, Turn
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, message_to_wire
from antiphon.core.model import Model
from antiphon.core.policy import DEFAULT, Policy
from antiphon.core.ports import AbortSignal, ModelRequest
from antiphon.core.response_events import ResponseEvent
from antiphon.core.system_state import SystemState
from antiphon.core.trace import check_trace
from antiphon.core.transcript import Transcript
from antiphon.core.wire import JsonObject, encode
from antiphon.errors import ProtocolError
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import run_agent_loop, run_agent_loop_continue
from antiphon.testing.recorded import (
    NOTHING_MORE,
    RecordedTool,
    StandingClock,
    answered,
    behind,
    level_of,
    model_of,
    results_behind,
    was_refused,
)

TRIED_AGAIN = ("error", "aborted", "length")
"""How an answer ended that may be followed by another one without a word between them."""
UNCOMPARED = frozenset({"timestamp", "durationMs", "nestedCalls"})
"""Members of a message that depend on the moment, or are made by tools for displays.

A level is compared if one was recorded: answers that no model gave, and those of others, name none.
"""


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """`at` counts the messages of the record from 0. `recorded` or `played` None: that side has no message there."""

    at: int
    what: str
    recorded: JsonObject | None = None
    played: JsonObject | None = None

    def __str__(self) -> str:
        lines = [f"message {self.at}: {self.what}"]
        for name, value in (("recorded", self.recorded), ("played", self.played)):
            if value is not None:
                lines.append(f"  {name}: {encode(value).decode()}")
        return "\n".join(lines)


@final
@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came of it: how many messages are alike, in how many runs, and the first that is not."""

    messages: int
    runs: int
    difference: Difference | None = None


async def replay(messages: Sequence[Message], policy: Policy = DEFAULT) -> ReplayReport:
    """Play a conversation again, as far as it goes alike."""
    player = _Player(tuple(messages), policy)
    runs = 0
    while player.at < len(player.record) and player.difference is None:
        before = player.at
        if not player.has_answers:
            player.at = len(player.record)  # said, and never answered: the process ended, or it was said beside a run
            break
        await player.play_run()
        runs += 1
        if player.at == before and player.difference is None:
            player.differs("the loop has nothing to say here", player.record[player.at], None)
    return ReplayReport(player.at, runs, player.difference)


async def assert_replays(messages: Sequence[Message], policy: Policy = DEFAULT) -> None:
    """The conversation goes the same way again.

    Raises:
        AssertionError: the first difference.
    """
    report = await replay(messages, policy)
    assert report.difference is None, str(report.difference)


@final
class _Player:
    """The record and how far it has been played. `at`: the next message that is expected."""

    def __init__(self, record: tuple[Message, ...], policy: Policy) -> None:
        self.record = record
        self.policy = policy
        self.at = 0
        self.difference: Difference | None = None
        self._events: list[AgentEvent] = []
        self._given: list[ToolResultMessage] = []
        self._system, self._system_at = SystemState(), 0

    @property
    def has_answers(self) -> bool:
        """Is there an answer still to come?"""
        return any(isinstance(message, AssistantMessage) for message in behind(self.record, self.at))

    # -- one run

    async def play_run(self) -> None:
        """From here to the end of a run: a prompt, or one more try after an answer that failed."""
        prompts = self._next_said()
        before = self.record[self.at - 1] if self.at else None
        if not prompts and isinstance(before, AssistantMessage) and before.stop_reason not in TRIED_AGAIN:
            self.differs("nothing leads to this answer", self.record[self.at], None)
            return
        context = self._context(prompts)
        config = LoopConfig(
            model=self._model(),
            policy=self.policy,
            clock=StandingClock(self._moment),
            get_steering_messages=lambda: self._split_said()[1],
            get_follow_up_messages=self._follow_ups,
            prepare_next_turn=self._prepare_next_turn,
            prepare_request=self._prepare_request,
            finish_turn=self._finish_turn,
        )
        self._events.clear()
        if prompts:
            await run_agent_loop(prompts, context, config, self._told, None, self._stream)
        else:
            await run_agent_loop_continue(context, config, self._told, None, self._stream)
        self._check_events()

    def _context(self, prompts: Sequence[Message]) -> Context:
        """What was said so far, without answers that failed: they were taken out before it went on."""
        said = list(self.record[: self.at])
        while said and isinstance(said[-1], AssistantMessage):
            said.pop()
        return Context(messages=said, tools=self._tools(self._system_here(), prompts))

    def _system_here(self) -> SystemState:
        """Prompt and tools in force at this place of the record. It only goes forward, so each message is read once."""
        for place in range(self._system_at, self.at):
            message = self.record[place]
            if isinstance(message, SystemMessage):
                self._system = self._system.apply(message)
        self._system_at = self.at
        return self._system

    def _next_said(self) -> list[Message]:
        """What people and hosts say next in the record: everything up to the next answer."""
        found: list[Message] = []
        for message in behind(self.record, self.at):
            if isinstance(message, AssistantMessage | ToolResultMessage):
                break
            found.append(message)
        return found

    def _split_said(self) -> tuple[list[Message], list[Message]]:
        """The same in two: up to the last patch of the prompt, which the host puts in front, and what was queued."""
        said = self._next_said()
        patches = [number for number, message in enumerate(said) if isinstance(message, SystemMessage)]
        cut = patches[-1] + 1 if patches else 0
        return said[:cut], said[cut:]

    def _follow_ups(self) -> list[Message]:
        """What was said behind an answer; with a patch in front of it, it began a run of its own."""
        patches, queued = self._split_said()
        return [] if patches else queued

    def _prepare_next_turn(self, turn: Turn, _signal: AbortSignal) -> NextTurn:
        patches, _ = self._split_said()
        said = turn.context.messages
        return NextTurn(messages=patches, context=Context(said, self._tools(_system_of(said), patches)))

    def _model(self) -> Model:
        answer = next((m for m in behind(self.record, self.at) if isinstance(m, AssistantMessage)), None)
        return model_of(answer)

    # -- the world

    async def _stream(self, _request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        return answered(self._next_answer())

    def _next_answer(self) -> AssistantMessage | None:
        message = self.record[self.at] if self.at < len(self.record) else None
        if isinstance(message, AssistantMessage):
            return message
        if message is not None or isinstance(self.record[-1], AssistantMessage):
            self.differs("the loop asks the model", message, None)
        return None

    def _tools(self, system: SystemState, said: Sequence[Message] = ()) -> list[RecordedTool]:
        """The tools in force behind these messages, with what they gave."""
        for message in said:
            if isinstance(message, SystemMessage):
                system = system.apply(message)
        return [RecordedTool(tool, self.result_of) for tool in system.tools]

    def result_of(self, call_id: str) -> ToolResultMessage | None:
        """What the call gave then: among the results of this answer, for another one may have used the same id."""
        found = next((m for m in self._given if m.tool_call_id == call_id), None)
        if found is not None:
            self._given.remove(found)
            if was_refused(found):
                self.differs("a call is executed that was refused", found, None)
        return found

    def _moment(self) -> int:
        """The time of the message that comes next."""
        at = min(self.at, len(self.record) - 1)
        return int(getattr(self.record[at], "timestamp", 0)) if at >= 0 else 0

    def _prepare_request(self, info: RequestInfo, _signal: AbortSignal) -> RequestUpdate:
        """Model and level of the answer that comes next: answers name them. And the tools of the moment."""
        message = self.record[self.at] if self.at < len(self.record) else None
        answer = message if isinstance(message, AssistantMessage) else None
        context = Context(info.context.messages, self._tools(_system_of(info.context.messages)))
        return RequestUpdate(context=context, model=model_of(answer), thinking_level=level_of(answer))

    def _finish_turn(self, turn: Turn, _signal: AbortSignal) -> Any:
        """Where the record stopped behind results (a limit, an abort, a tool that ended it), it stops again."""
        over = self.at >= len(self.record) and bool(turn.tool_results)
        return "end" if over or self.difference is not None else None

    # -- comparing

    def _told(self, event: AgentEvent) -> None:
        self._events.append(event)
        if event.type == "message_end" and self.difference is None and not self._is_stand_in(event.message):
            self._compare(event.message)

    def _is_stand_in(self, message: Message) -> bool:
        """What we said ourselves because the record has no answer any more."""
        return self.at >= len(self.record) and getattr(message, "error_message", UNSET) == NOTHING_MORE

    def _compare(self, played: Message) -> None:
        recorded = self.record[self.at] if self.at < len(self.record) else None
        if recorded is None and isinstance(played, ToolResultMessage):
            return  # the process ended while the call ran, and nobody has gone on since
        if recorded is None:
            self.differs("the record ends here", None, played)
        elif (names := _unlike(message_to_wire(recorded), message_to_wire(played))) is not None:
            self.differs(names, recorded, played)
        else:
            self.at += 1
            if isinstance(recorded, AssistantMessage):
                self._given = results_behind(self.record, self.at)

    def _check_events(self) -> None:
        try:
            check_trace(self._events, self.policy)
        except ProtocolError as error:
            if self.difference is None:
                self.difference = Difference(self.at, f"the events broke a rule: {error}")

    def differs(self, what: str, recorded: Message | None, played: Message | None) -> None:
        """Note a difference; the first one stays."""
        if self.difference is None:
            self.difference = Difference(
                self.at,
                what,
                None if recorded is None else message_to_wire(recorded),
                None if played is None else message_to_wire(played),
            )


def _unlike(recorded: JsonObject, played: JsonObject) -> str | None:
    """Which members of two messages differ; nothing if none that counts does."""
    if recorded.get("role") != played.get("role"):
        return f"a message of {recorded.get('role')} was recorded, one of {played.get('role')} was played"
    uncompared = UNCOMPARED if "thinkingLevel" in recorded else UNCOMPARED | {"thinkingLevel"}
    names = sorted((recorded.keys() | played.keys()) - uncompared)
    unlike = [name for name in names if recorded.get(name, UNSET) != played.get(name, UNSET)]
    return f"{', '.join(unlike)} of the {recorded.get('role')} message" if unlike else None


def _system_of(said: Sequence[Message]) -> SystemState:
    """Prompt and tools in force behind these messages. A transcript knows; nothing is read again."""
    return (said if isinstance(said, Transcript) else Transcript(said)).system
