"""A world that answers at random, the same way to whoever asks the same questions in the same order.

It writes down everything that happens: what is said, asked, begun, given back. Story and machine each get a world of
one seed; if the two logs differ, one of them is wrong. `play_story` and `play_machine` play a run against it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, cast

from msgspec.structs import replace
from tests.core.bounded_world import Tool
from tests.core.story import Broken, Messages, Story

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.calls import Outcome, ToolResult, text_result
from antiphon.core.content import Content, Text, ToolCall
from antiphon.core.events import AgentEvent, MessageEnd
from antiphon.core.growing import grown
from antiphon.core.hooks import Context, NextTurn, RequestUpdate
from antiphon.core.limits import NOTHING_USED
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, calls_of, host_message, user
from antiphon.core.model import Model
from antiphon.core.policy import PROFILES, Policy, RunLimits, decision_table
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import (
    Growth,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from antiphon.core.toolbox import Toolbox
from antiphon.core.trace import TraceChecker
from antiphon.core.transcript import Transcript

STOP_REASONS = ("stop", "toolUse", "length", "error", "aborted", "deferred", "pending", "surprise")
MODELS = (Model(id="first", provider="p", api="a"), Model(id="second", provider="q", api="b"))
TOOLS = (Tool("look"), Tool("wait"), Tool("write", execution_mode="sequential"))
TIRED = 90
"""After so many questions the world becomes calm, so that every run ends."""


class RandomWorld:
    """`setting` is drawn first, so both sides get the same policy, limits and tools."""

    def __init__(self, seed: int, profile: str) -> None:
        self.dice = dice = Random(f"{profile} {seed}")
        self.log: list[Any] = []
        self.stopped: str | None = None
        self.asked = 0
        self.running: list[int] = []
        self.fresh = False
        self.message_count = 0
        self.hooks = dice.random() < 0.7
        self.finish_hook = dice.random() < 0.8
        self.policy = self._policy(PROFILES[profile])
        self.limits = self._limits()
        self.tools = tuple(dice.sample(TOOLS, dice.randint(1, 3)))
        self.sequential = dice.random() < 0.3
        self.nervous = dice.choice((0.0, 0.02, 0.1))
        """How likely each question brings an abort, or a failure."""
        self.odd = dice.choice((0.1, 0.1, 0.7))
        """How likely an answer ends in some other way than its calls suggest."""
        self.polls_first = dice.random() < 0.9
        self.history: tuple[Message, ...] = (user("before"),) if dice.random() < 0.3 else ()
        self.prompts = tuple(self._message() for _ in range(dice.choice((1, 1, 1, 2, 0))))

    def _policy(self, policy: Policy) -> Policy:
        """Sometimes a choice that no profile makes. `chosen` are the fields that differ from the profile."""
        self.chosen: dict[str, Any] = {}
        if policy.name == "default" and self.dice.random() < 0.5:
            self.chosen = {"length_retry_limit": 1}
        elif policy.name == "default" and self.dice.random() < 0.3:
            self.chosen = {"duplicate_call_id": "error_all"}
        return replace(policy, **self.chosen)

    def _limits(self) -> RunLimits:
        dice = self.dice
        return RunLimits(
            max_turns=dice.choice((None, None, None, 1, 2, 4)),
            max_tool_calls=dice.choice((None, None, 1, 3)),
            max_calls_of=dice.choice(((), (), (("look", 1), ("wait", 2)))),
        )

    def _message(self) -> Message:
        self.message_count += 1
        text, kind = f"message {self.message_count}", self.dice.random()
        if kind < 0.1:
            return SystemMessage(content=text)
        return host_message("note", text=text) if kind < 0.15 else user(text)

    # -- what is told ------------------------------------------------------------------------------------------------

    def say(self, event: AgentEvent) -> None:
        self.log.append(event)

    def commit(self) -> None:
        self.log.append("commit")

    def deliver(self, event: MessageEnd) -> None:
        self.log.append(("delivered", event))

    def give_back(self, leased: Messages, prepared: Messages) -> None:
        self.log.append(("given back", leased, prepared))

    # -- what is asked -----------------------------------------------------------------------------------------------

    def _asks(self, *what: Any) -> None:
        """Write a question down. On the way to its answer the run may be stopped, or foreign code may fail."""
        self.log.append(what)
        self.asked += 1
        fresh, self.fresh = self.fresh, False
        if self.stopped is None and self.dice.random() < self.nervous:
            self.stopped = self.dice.choice(("stop it", "deadline"))
        if self.dice.random() < self.nervous:
            unbegun = fresh and what[0] == "news" and self.dice.random() < 0.5
            if unbegun:
                self.running = []
            critical = self.dice.random() < 0.3
            raise Broken(f"failure at question {self.asked}", unbegun=unbegun, critical=critical)

    @property
    def calm(self) -> bool:
        return self.asked > TIRED

    def poll(self, queue: str) -> Messages:
        self._asks("poll", queue)
        count = 0 if self.calm else self.dice.choice((0, 0, 0, 0, 1, 1, 2))
        return tuple(self._message() for _ in range(count))

    def _context(self) -> Context | None:
        if self.dice.random() < 0.85:
            return None
        tools = tuple(self.dice.sample(TOOLS, self.dice.randint(0, 2)))
        return Context([user("rewritten")], tools if tools or self.dice.random() < 0.5 else None)

    def prepare_request(self) -> RequestUpdate | None:
        if not self.hooks:
            return None
        self._asks("prepare request")
        if self.dice.random() < 0.7:
            return None
        return RequestUpdate(
            context=self._context(),
            model=self.dice.choice((None, *MODELS)),
            thinking_level=self.dice.choice((None, "off", "high")),
        )

    def compose(self, messages: Messages, model: Model, level: Any) -> None:
        self._asks("compose", messages, model, level)

    def call_model(self) -> None:
        self.log.append("call model")

    def hear(self) -> Start | Growth | AssistantMessage:
        self._asks("hear")
        kind = 9 if self.calm else self.dice.randint(0, 9)
        if kind == 0:
            return Start(message=AssistantMessage(content=(), stop_reason="pending"))
        if kind <= 4:
            return self._growth()
        return self._answer()

    def _growth(self) -> Growth:
        call = ToolCall(id="c", name="look", arguments={"part": 1})
        return self.dice.choice(
            (
                TextStart(content_index=0),
                TextDelta(content_index=0, delta="some "),
                TextEnd(content_index=0, content="some text"),
                ThinkingDelta(content_index=1, delta="hm"),
                ToolCallStart(content_index=2, id="c", name="look"),
                ToolCallDelta(content_index=2, delta='{"par'),
                ToolCallEnd(content_index=2, tool_call=call),
            )
        )

    def _answer(self) -> AssistantMessage:
        dice = self.dice
        count = 0 if self.calm else dice.choice((0, 1, 1, 2, 3, 4))
        calls = [
            ToolCall(id=dice.choice("abcdef"), name=dice.choice(("look", "wait", "write")), arguments={"n": n})
            for n in range(count)
        ]
        why: Any = "toolUse" if calls else "stop"
        if not self.calm and dice.random() < self.odd:
            why = dice.choice((*STOP_REASONS, "length", "length", "length"))
        content: Content = (Text(text=f"answer {self.asked}"), *calls)
        return AssistantMessage(content=content, stop_reason=why, model="m")

    def check(self, position: int) -> Outcome | None:
        self._asks("check", position)
        if self.dice.random() < 0.75:
            return None
        result = ToolResult(content=(Text(text="blocked"),), details={}, terminate=self.dice.choice((True, False)))
        return Outcome(result=result, is_error=True)

    def begin(self, position: int) -> None:
        self.log.append(("begin", position))
        self.running.append(position)
        self.fresh = True

    def news(self) -> tuple[int, Outcome | str]:
        self._asks("news")
        position = self.dice.choice(self.running)
        if self.dice.random() < 0.2:
            return position, f"progress {self.asked}"
        self.running.remove(position)
        text = f"result {self.asked}"
        terminate: Any = True if self.dice.random() < 0.5 else self.dice.choice((False, 1, "yes"))
        result = ToolResult(content=(Text(text=text),), terminate=terminate)
        if self.dice.random() < 0.3:
            result = text_result(text)
        return position, Outcome(result=result, is_error=self.dice.random() < 0.2, executed=True)

    def decide(self, turn: tuple[AssistantMessage, Messages, int]) -> tuple[Any, bool]:
        if not self.finish_hook and self.stopped is None:
            return None, False
        self._asks("decide", turn)
        action = None if self.calm else self.dice.choice((None, None, None, None, "continue", "end", "else"))
        return action, self.dice.random() < 0.3

    def look(self) -> None:
        self._asks("look")

    def prepare_next(self) -> NextTurn | None:
        if not self.hooks:
            return None
        self._asks("prepare next")
        if self.dice.random() < 0.6:
            return None
        messages = tuple(self._message() for _ in range(self.dice.choice((0, 1, 2))))
        return NextTurn(messages=messages, context=self._context(), model=self.dice.choice((None, *MODELS)))

    def cleared(self, pending: Messages) -> Messages:
        """Those of the messages taken from a queue that the host clears while the next turn is prepared."""
        return tuple(m for m in pending if self.hooks and self.dice.random() < 0.1)


# -- two ways to play a run --------------------------------------------------------------------------------------------


def play_story(world: RandomWorld) -> str:
    """The run as the story tells it; gives the reason of its end."""
    tale = Story(
        w=world,
        policy=world.policy,
        limits=world.limits,
        tools=world.tools,
        model=MODELS[0],
        sequential=world.sequential,
        polls_twice=world.hooks,
        transcript=list(world.history),
    )
    return tale.tell(world.prompts, polls=world.polls_first)


def play_machine(
    world: RandomWorld,
    step: Callable[[c.State, c.Input], tuple[c.State, list[Any]]] = machine.step,
    *,
    table: Callable[[Policy], Any] = decision_table,
    profile: Policy | None = None,
    watched: bool = True,
) -> str:
    """The same run by the machine, watched by the checker. A broken machine has its own step, table and profile."""
    checker = TraceChecker(world.policy) if watched else None
    state: c.State = c.Idle()
    given: c.Input | None = _prompt(world, table, profile)
    interrupted = False
    for _ in range(5_000):
        if world.stopped is not None and not interrupted:
            interrupted = True
            state = _told(checker, step, state, c.Interrupt(world.stopped))[0]
        state, commands = _told(checker, step, state, given)
        given = None
        for command in commands:
            given = _perform(world, command) or given
        if type(state) is c.Ended:
            if checker is not None:
                checker.finish()
            return state.reason
        if given is None:
            given = _heard(world) if type(state) in (c.Requesting, c.Responding) else _news(world)
        if type(state) is c.Preparing and type(given) is c.Prepared:
            gone = world.cleared(state.pending)
            if gone:
                state = _told(checker, step, state, c.Withdrawn(gone))[0]
    raise AssertionError("the run does not end")


def _told(checker: TraceChecker | None, step: Any, state: c.State, given: Any) -> tuple[c.State, list[Any]]:
    state, commands = step(state, given)
    if checker is not None:
        checker.step(given, commands, state)
    return state, commands


def _prompt(world: RandomWorld, table: Callable[[Policy], Any], profile: Policy | None) -> c.Prompt:
    policy = world.policy
    if profile is not None:
        chosen = {name: getattr(policy, name) for name in world.chosen}
        policy = replace(profile, **chosen)
    rules = c.Rules(
        policy=policy,
        limits=world.limits,
        tool_execution="sequential" if world.sequential else "parallel",
        table=table(policy),
        asks_request=world.hooks,
        asks_finish=world.finish_hook,
        asks_next=world.hooks,
        polls_twice=world.hooks,
    )
    run = c.Run(
        rules=rules,
        transcript=Transcript(world.history),
        toolbox=Toolbox(world.tools),
        new=grown(),
        model=MODELS[0],
        thinking_level="off",
        tally=NOTHING_USED,
    )
    return c.Prompt(run=run, messages=world.prompts, polls_first=world.polls_first, at=0)


def _perform(world: RandomWorld, command: Any) -> c.Input | None:
    match command:
        case c.Commit():
            world.commit()
        case c.Deliver(event=event):
            world.deliver(cast("MessageEnd", event))
        case c.GiveBack(leased=leased, prepared=prepared):
            world.give_back(leased, prepared)
        case c.CallModel():
            world.call_model()
        case c.StartTool(position=position):
            world.begin(position)
        case _ if type(command) in _ASK:
            try:
                return _ASK[type(command)](world, command)
            except Broken as failure:
                return _fault(failure)
        case _:
            world.say(command)
    return None


def _composed(world: RandomWorld, command: c.Compose) -> c.Input:
    run = command.run
    world.compose(tuple(run.transcript), run.model, run.thinking_level)
    return c.Composed(ModelRequest(run.model, (), run.thinking_level, None))  # type: ignore[arg-type]


def _decided(world: RandomWorld, command: c.AskDecision) -> c.Input:
    turn = command.turn
    return c.Decided(*world.decide((turn.message, turn.tool_results, len(turn.new_messages))), 0)


def _looked(world: RandomWorld, _command: c.LookAgain) -> c.Input:
    world.look()
    return c.Looked()


_ASK: dict[type, Callable[[RandomWorld, Any], c.Input]] = {
    c.Drain: lambda world, command: c.Drained(world.poll(command.queue), 0),
    c.PrepareRequest: lambda world, command: c.RequestPrepared(world.prepare_request()),
    c.Compose: _composed,
    c.Preflight: lambda world, command: c.Checked(world.check(command.position), 0),
    c.AskDecision: _decided,
    c.LookAgain: _looked,
    c.PrepareNext: lambda world, command: c.Prepared(world.prepare_next(), 0),
}


def _heard(world: RandomWorld) -> c.Input:
    try:
        heard = world.hear()
    except Broken as failure:
        return _fault(failure)
    return c.Answered(heard) if isinstance(heard, AssistantMessage) else heard


def _fault(failure: Broken, begun: tuple[int, ...] = ()) -> c.Fault:
    return c.Fault(failure.text, 0, begun if failure.unbegun else (), failure.critical)


def _news(world: RandomWorld) -> c.Input:
    begun = tuple(world.running)
    try:
        position, said = world.news()
    except Broken as failure:
        return _fault(failure, begun)
    return c.Finished(position, said, 0) if isinstance(said, Outcome) else c.Progress(position, said)


__all__ = ["RandomWorld", "calls_of", "play_machine", "play_story"]
