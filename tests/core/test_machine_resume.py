"""A run that is stopped after any step, stored as bytes and resumed, comes to the same end."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.core.bounded_world import Tool
from tests.core.stored_state import restored, stored

from antiphon.core import states as c
from antiphon.core.calls import Outcome, text_result
from antiphon.core.content import Text, ToolCall
from antiphon.core.growing import grown
from antiphon.core.hooks import Context, NextTurn, RequestUpdate
from antiphon.core.limits import NOTHING_USED
from antiphon.core.machine import step
from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of, user
from antiphon.core.model import Model
from antiphon.core.policy import PROFILES, RunLimits
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Start, TextDelta
from antiphon.core.resume import outcome_unknown, resume, running_calls
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript
from antiphon.errors import ProtocolError

TOOLS = {tool.name: tool for tool in (Tool("look"), Tool("wait"), Tool("write", execution_mode="sequential"))}
MODELS = (Model(id="first", provider="p", api="a"), Model(id="second", provider="p", api="a"))


class Oracle:
    """Answers every question from the state alone: whoever asks again, hears the same."""

    def __init__(self, seed: int, profile: str) -> None:
        self.seed = seed
        dice = Random(seed)
        mode: Any = dice.choice(("parallel", "sequential"))
        self.rules = c.rules_of(PROFILES[profile], RunLimits(max_turns=4, repeat_limit=5), mode)
        self.tools = dice.sample(sorted(TOOLS), dice.randint(0, 3))

    def prompt(self) -> c.Prompt:
        run = c.Run(
            rules=self.rules,
            transcript=Transcript([user("before")]),
            toolbox=Toolbox([TOOLS[name] for name in self.tools]),
            new=grown(),
            model=MODELS[0],
            thinking_level="off",
            tally=NOTHING_USED,
        )
        return c.Prompt(run=run, messages=(user("go"),), at=0)

    def dice(self, state: Any, *more: Any) -> Random:
        return Random(f"{self.seed} {type(state).__name__} {len(state.run.new)} {more}")

    def answer(self, state: Any) -> c.Input:
        rules = {
            c.Composing: self.prepared,
            c.Asking: self.composed,
            c.Requesting: self.heard,
            c.Responding: self.heard,
            c.Checking: self.checked,
            c.Executing: self.news,
            c.Finishing: self.decided,
            c.Limited: lambda _state: c.Looked(),
            c.Preparing: self.next_prepared,
        }
        return rules.get(type(state), self.drained)(state)

    def drained(self, state: Any) -> c.Input:
        count = self.dice(state).choice((0, 0, 1, 2))
        return c.Drained(tuple(user(f"queued {len(state.run.new)} {n}") for n in range(count)), 0)

    def prepared(self, state: c.Composing) -> c.Input:
        return c.RequestPrepared(self.dice(state).choice((None, None, RequestUpdate(model=MODELS[1]))))

    def composed(self, state: c.Asking) -> c.Input:
        return c.Composed(ModelRequest(state.run.model, (), "off", None))  # type: ignore[arg-type]

    def heard(self, state: c.Requesting | c.Responding) -> c.Input:
        count = state.answer.count + 1 if isinstance(state, c.Responding) else 0
        dice = Random(f"{self.seed} answer {len(state.run.new)}")
        if count == 0 and dice.random() < 0.8:
            return Start(message=AssistantMessage(content=(), stop_reason="pending"))
        if count == 1:
            return TextDelta(content_index=0, delta="so far")
        names = [dice.choice(sorted(TOOLS)) for _ in range(dice.choice((0, 1, 2, 3)))]
        calls = [ToolCall(id=dice.choice("abcd"), name=name, arguments={"n": n}) for n, name in enumerate(names)]
        why: Any = dice.choice(("toolUse" if calls else "stop",) * 6 + ("length", "error", "stop"))
        return c.Answered(AssistantMessage(content=(Text(text="answer"), *calls), stop_reason=why))

    def checked(self, state: c.Checking) -> c.Input:
        dice = self.dice(state, state.batch.looked_at)
        return c.Checked(None if dice.random() < 0.8 else Outcome(result=text_result("no"), is_error=True), 0)

    def news(self, state: c.Executing) -> c.Input:
        running = [command.position for command in running_calls(state)]
        position = self.dice(state, len(state.batch.settled)).choice(running)
        return c.Finished(position, Outcome(result=text_result(f"result {position}"), is_error=False), 0)

    def decided(self, state: c.Finishing) -> c.Input:
        return c.Decided(self.dice(state).choice((None, None, None, "continue", "end")), False, 0)

    def next_prepared(self, state: c.Preparing) -> c.Input:
        choice = self.dice(state).choice((None, "messages", "context"))
        if choice is None:
            return c.Prepared(None, 0)
        if choice == "messages":
            return c.Prepared(NextTurn(messages=(user("prepared"),)), 0)
        return c.Prepared(NextTurn(context=Context((user("rewritten"),), (TOOLS["look"],))), 0)


def run(oracle: Oracle, state: c.State) -> list[c.State]:
    """The states from here to the end."""
    passed = [state]
    while type(state) is not c.Ended:
        state, _ = step(state, oracle.answer(state))
        passed.append(state)
        assert len(passed) < 1_000
    return passed


def end_of(state: c.State) -> Any:
    assert isinstance(state, c.Ended)
    run = state.run
    return state.reason, state.limit, run.new.tuple(), tuple(run.transcript), run.tally, run.model, run.toolbox.tools


@pytest.mark.parametrize("profile", PROFILES)
def test_stopped_after_any_step_and_resumed_the_run_ends_the_same(profile: str) -> None:
    """Only bytes are kept. Whatever had been said, the same messages are in the transcript at the end."""
    stops = 0
    for seed in range(30):
        oracle = Oracle(seed, profile)
        passed = run(oracle, step(c.Idle(), oracle.prompt())[0])
        for state in passed:
            again, _ = resume(restored(stored(state), oracle.rules, TOOLS))
            assert end_of(run(oracle, again)[-1]) == end_of(passed[-1]), f"seed {seed}, {type(state).__name__}"
            stops += 1

    assert stops > 300


@pytest.mark.parametrize("profile", PROFILES)
def test_the_questions_asked_again_are_those_that_were_asked(profile: str) -> None:
    """Except for an answer that was arriving, and for calls that were allowed and have to be checked again."""
    for seed in range(60):
        oracle = Oracle(seed, profile)
        state, commands = step(c.Idle(), oracle.prompt())
        while type(state) is not c.Ended:
            _, asked = resume(state)
            questions = [command for command in commands if type(command) in QUESTIONS]
            if type(state) is c.Checking:
                assert asked[-1:] == questions
            elif questions and type(state) is not c.Requesting:
                assert asked == questions
            state, commands = step(state, oracle.answer(state))


QUESTIONS = c.Question.__args__


@pytest.mark.parametrize("profile", PROFILES)
def test_calls_whose_end_is_unknown_are_answered_and_do_not_run_twice(profile: str) -> None:
    """A tool that must not run twice is not started again: the model is told that nobody knows."""
    seen = 0
    for seed in range(40):
        oracle = Oracle(seed, profile)
        for state in run(oracle, step(c.Idle(), oracle.prompt())[0]):
            unknown = running_calls(state)
            if not unknown:
                continue
            again, asked = resume(restored(stored(state), oracle.rules, TOOLS))
            assert asked == list(unknown)
            for command in unknown:
                again, _ = step(again, c.Finished(command.position, outcome_unknown(command.call), 0))
            told = [m for m in end_of(run(oracle, again)[-1])[2] if isinstance(m, ToolResultMessage)]
            assert sum(m.details == {"cutOff": True, "reason": "unknown"} for m in told) == len(unknown)
            seen += 1

    assert seen > 20


@pytest.mark.parametrize("profile", PROFILES)
def test_a_stored_abort_stays_an_abort(profile: str) -> None:
    """Stopped in any state, stored, resumed: the run ends, and every call of it has its result."""
    for seed in range(15):
        oracle = Oracle(seed, profile)
        for state in run(oracle, step(c.Idle(), oracle.prompt())[0])[:-1]:
            stopped, _ = step(state, c.Interrupt("stop it"))
            again, _ = resume(restored(stored(stopped), oracle.rules, TOOLS))
            last = run(oracle, again)[-1]
            calls = [call for m in end_of(last)[2] if isinstance(m, AssistantMessage) for call in paired(m, profile)]
            results = [m for m in end_of(last)[2] if isinstance(m, ToolResultMessage)]
            assert [call.id for call in calls] == [result.tool_call_id for result in results]


def paired(message: AssistantMessage, profile: str) -> tuple[ToolCall, ...]:
    left = profile == "pi" and message.stop_reason in ("error", "aborted")
    return () if left else calls_of(message)


def test_an_answer_that_was_arriving_is_asked_for_again_and_counted_once() -> None:
    oracle = Oracle(0, "default")
    state, _ = step(c.Idle(), oracle.prompt())
    while type(state) is not c.Responding:
        state, _ = step(state, oracle.answer(state))

    again, asked = resume(state)

    assert type(again) is c.Asking
    assert asked == [c.Compose(again.run)]
    assert again.run.tally.turns == state.run.tally.turns - 1 == 0


def test_nothing_is_asked_before_and_after_a_run() -> None:
    oracle = Oracle(0, "default")
    ended = run(oracle, step(c.Idle(), oracle.prompt())[0])[-1]

    assert resume(c.Idle()) == (c.Idle(), [])
    assert resume(ended) == (ended, [])


def test_allowed_calls_are_checked_again_before_the_one_that_was_being_checked() -> None:
    """What had been prepared for them is gone with the process."""
    oracle = Oracle(1, "default")
    calls = tuple(ToolCall(id=i, name="look", arguments={}) for i in "abc")
    answer = AssistantMessage(content=calls, stop_reason="toolUse")
    state: c.State = c.Requesting(oracle.prompt().run)
    state, _ = step(state, c.Answered(answer))
    state, _ = step(state, c.Checked(None, 0))
    state, _ = step(state, c.Checked(None, 0))

    _, asked = resume(state)

    assert [(type(command), command.position) for command in asked if isinstance(command, c.Preflight)] == [
        (c.Preflight, 0),
        (c.Preflight, 1),
        (c.Preflight, 2),
    ]


def test_a_run_without_an_answer_is_not_between_two_turns() -> None:
    """A store that gives such a state has mixed up its runs."""
    run_ = Oracle(1, "default").prompt().run

    with pytest.raises(ProtocolError, match="has an answer"):
        resume(c.Preparing(run_, (), True, True, "stop"))
