"""Work that gets nowhere is stopped, judged by outcomes: honest repetition passes, rotating an argument does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.session.stage import Stage, texts

from antiphon.core.session_events import BudgetReached
from antiphon.errors import LimitStillReached
from antiphon.session.budget import NOTICE, Budget
from antiphon.testing import Answer, CallScript, ScriptedTool, call, says

BOUND = Budget(no_progress=5)


def stage_of(script: list[Answer], tools: dict[str, Any], budget: Budget = BOUND) -> Stage:
    """Tools are functions from arguments to a result; a text that begins with ! is raised."""
    made = []
    for name, act in tools.items():
        results = CallScript({f"{name}{n}": _executed(act) for n in range(200)})
        made.append(ScriptedTool(name, results))
    return Stage(script, tools=made, budget=budget)


def _executed(act: Any) -> Any:
    async def execute(arguments: Any) -> str:
        text: str = act(arguments)
        if text.startswith("!"):
            raise RuntimeError(text[1:])
        return text

    return execute


def times(count: int, name: str, arguments: Any) -> list[Answer]:
    return [call(name, arguments(n), id=f"{name}{n}") for n in range(count)]


async def test_sixty_edits_are_work() -> None:
    edits = times(60, "edit", lambda n: {"path": "a.py", "old": f"line {n}", "new": f"better {n}"})
    stage = stage_of([*edits, says("done")], {"edit": lambda _: "Successfully replaced 1 block(s) in a.py."})
    settlement = await stage.session.prompt("go")
    assert (settlement.reason, settlement.final_text) == ("stop", "done"), settlement.error
    assert stage.of(BudgetReached) == []


@pytest.mark.parametrize("done", ["still running", "12 percent"])
async def test_twelve_polls_are_patience(done: str) -> None:
    polls = times(12, "poll", lambda _: {"job": 7})
    stage = stage_of([*polls, says("done")], {"poll": lambda _: done})
    settlement = await stage.session.prompt("go")
    assert (settlement.reason, settlement.final_text) == ("stop", "done"), settlement.error


async def test_one_rotating_argument_under_the_same_error_gets_nowhere() -> None:
    tries = times(30, "read", lambda n: {"path": f"src/file{n}.py"})
    stage = stage_of([*tries, says("never")], {"read": lambda a: f"!No such file: {a['path']} (errno 2)"})
    settlement = await stage.session.prompt("go")
    assert settlement.reason == "no_progress"
    assert settlement.limit is not None
    assert (settlement.limit.allowed, settlement.limit.reached) == (5, 5)
    assert len(stage.model.requests) == 6
    assert [(e.name, e.hard) for e in stage.of(BudgetReached)] == [("progress", False), ("progress", True)]
    assert stage.told[-1] == "agent_settled"


async def test_the_model_is_told_before() -> None:
    tries = times(30, "read", lambda n: {"path": f"f{n}"})
    stage = stage_of([*tries], {"read": lambda a: f"!No such file: {a['path']}"})
    await stage.session.prompt("go")
    notices = [m for m in stage.session.messages if getattr(m, "data", {}).get("customType") == NOTICE]
    assert len(notices) == 1
    assert "the last 4 failures taught nothing" in str(notices[0].data)  # type: ignore[union-attr]


async def test_empty_work_between_failures_does_not_hide_them() -> None:
    script: list[Answer] = []
    for n in range(30):
        script += [call("read", {"path": f"f{n}"}, id=f"read{n}"), call("ls", {}, id=f"ls{n}")]
    stage = stage_of(script, {"read": lambda a: f"!No such file: {a['path']}", "ls": lambda _: "a b c"})
    assert (await stage.session.prompt("go")).reason == "no_progress"
    assert len(stage.model.requests) < 15


async def test_news_makes_failures_forgotten() -> None:
    script: list[Answer] = []
    for n in range(30):
        script += [call("read", {"path": f"f{n}"}, id=f"read{n}"), call("ls", {"path": f"d{n}"}, id=f"ls{n}")]
    stage = stage_of(
        [*script, says("done")], {"read": lambda a: f"!No such file: {a['path']}", "ls": lambda a: f"in {a['path']}"}
    )
    assert (await stage.session.prompt("go")).reason == "stop"


async def test_different_errors_are_news() -> None:
    tries = times(12, "run", lambda n: {"command": "make"})
    errors = iter(["cannot find cc", "missing header", "undefined symbol", *[f"test {w} fails" for w in "abcdefghi"]])
    stage = stage_of([*tries, says("done")], {"run": lambda _: "!" + next(errors)})
    assert (await stage.session.prompt("go")).reason == "stop"


async def test_it_goes_on_when_the_bound_is_raised_or_something_else_is_said() -> None:
    tries = times(8, "read", lambda n: {"path": f"f{n}"})
    stage = stage_of([*tries, says("I give up")], {"read": lambda a: f"!No such file: {a['path']}"})
    assert (await stage.session.prompt("go")).reason == "no_progress"
    with pytest.raises(LimitStillReached, match="gets nowhere: 5 of 5"):
        await stage.session.continue_()

    stage.session.set_budget(Budget(no_progress=20))
    settlement = await stage.session.continue_()
    assert settlement.final_text == "I give up"
    assert texts(stage.session.messages)[-1] == "assistant: I give up"


async def test_a_new_prompt_begins_anew() -> None:
    tries = times(6, "read", lambda n: {"path": f"f{n}"})
    stage = stage_of([*tries, says("fine")], {"read": lambda a: f"!No such file: {a['path']}"})
    assert (await stage.session.prompt("go")).reason == "no_progress"
    assert (await stage.session.prompt("try something else")).final_text == "fine"


async def test_the_answer_of_a_stuck_model_is_an_answer() -> None:
    tries = times(5, "read", lambda n: {"path": f"f{n}"})
    stage = stage_of([*tries, says("It is not there.")], {"read": lambda a: f"!No such file: {a['path']}"})
    assert (await stage.session.prompt("go")).reason == "stop"


def test_an_impossible_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="no_progress must be at least 1"):
        Budget(no_progress=0)
