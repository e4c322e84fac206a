"""An agent as a tool: its own log and budget, stopped with its caller, failing as a result, resumable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.session.stage import MODEL, Stage, texts

from antiphon.core.messages import ToolResultMessage
from antiphon.core.usage import Usage
from antiphon.errors import SessionError
from antiphon.session.agent_session import AgentSession
from antiphon.session.budget import Budget
from antiphon.session.create import Services, create_agent_session
from antiphon.session.ports import GivenModels
from antiphon.session.retry import NEVER
from antiphon.session.settings import SessionSettings
from antiphon.session.subagent import SubAgent, SubAgentSpec
from antiphon.session_log import SessionLog, SessionStore
from antiphon.testing import ScriptedModel, call, calls, fails, falls_silent, says

USED = Usage(input=8, output=2, total_tokens=10)


class Den:
    """Where sub-agents live: a scripted model for each in turn, logs in one folder."""

    def __init__(self, folder: Path, *scripts: list[Any]) -> None:
        self.store = SessionStore(folder, cwd=str(folder))
        self.scripts = list(scripts)
        self.models: list[ScriptedModel] = []
        self.budgets: list[Budget] = []
        self.sessions: list[AgentSession] = []

    def begin(self, parent: str | None) -> SessionLog:
        return self.store.create(parent_session=parent)

    def resume(self, session_id: str) -> SessionLog:
        for row in self.store.listing():
            if row.facts.id == session_id:
                return self.store.resume(row.path)
        raise SessionError(f"there is no session {session_id!r}")

    def make(self, log: SessionLog, budget: Budget) -> AgentSession:
        model = ScriptedModel(self.scripts.pop(0))
        self.models.append(model)
        self.budgets.append(budget)
        services = Services(cwd=log.cwd, models=GivenModels(model, (MODEL,)), settings=SessionSettings(retry=NEVER))
        session = create_agent_session(services, log, model=MODEL, budget=budget).session
        self.sessions.append(session)
        return session


def tool(den: Den, **spec: Any) -> SubAgent:
    return SubAgent(den.make, den, SubAgentSpec(**spec))


def result_of(stage: Stage, number: int = 0) -> ToolResultMessage:
    return [m for m in stage.session.messages if isinstance(m, ToolResultMessage)][number]


async def test_a_task_is_done_elsewhere_and_its_answer_is_the_result(tmp_path: Path) -> None:
    den = Den(tmp_path, [says("42").costing(USED)])
    stage = Stage([call("agent", {"task": "6 * 7?"}), says("it is 42")], tools=[tool(den)])
    settlement = await stage.session.prompt("go")

    result = result_of(stage)
    assert texts([result]) == ["toolResult: 42"]
    assert not result.is_error
    assert result.usage == USED
    assert settlement.outcome is not None
    assert settlement.outcome.usage.total_tokens == 10
    (row,) = den.store.listing()
    assert row.facts.id == result.details["sessionId"]


async def test_a_failure_is_a_result_that_says_how_to_go_on(tmp_path: Path) -> None:
    den = Den(tmp_path, [fails("401 Unauthorized")], [says("now it works")])
    stage = Stage(
        [
            call("agent", {"task": "try"}),
            lambda _request: call("agent", {"task": "again", "session": den.sessions[0].session_id}, id="second"),
            says("good"),
        ],
        tools=[tool(den)],
    )
    await stage.session.prompt("go")
    first, second = result_of(stage, 0), result_of(stage, 1)
    assert first.is_error
    assert "401 Unauthorized" in texts([first])[0]
    assert den.sessions[0].session_id in texts([first])[0]
    assert texts([second]) == ["toolResult: now it works"]
    assert texts(den.models[1].asked[0])[0] == "user: try"


async def test_an_unknown_session_is_an_error_result(tmp_path: Path) -> None:
    den = Den(tmp_path)
    stage = Stage([call("agent", {"task": "x", "session": "ghost"}), says("oh")], tools=[tool(den)])
    await stage.session.prompt("go")
    assert result_of(stage).is_error
    assert "ghost" in texts([result_of(stage)])[0]


async def test_it_stops_with_the_call_that_made_it(tmp_path: Path) -> None:
    den = Den(tmp_path, [falls_silent(says("x"))])
    stage = Stage([call("agent", {"task": "slow"}), says("never")], tools=[tool(den)])
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.until("tool_execution_start")
    while not den.models or not den.models[0].requests:
        await asyncio.sleep(0)
    await stage.session.abort()
    assert (await going).aborted
    assert den.sessions[0].phase == "disposed"
    assert result_of(stage).is_error
    assert "stopped before it was done" in texts([result_of(stage)])[0]


async def test_it_works_within_a_part_of_what_its_caller_has_left(tmp_path: Path) -> None:
    den = Den(tmp_path, [says("a").costing(USED)], [says("b").costing(USED)])
    stage = Stage(
        [calls(call("agent", {"task": "1"}, id="a"), call("agent", {"task": "2"}, id="b")), says("done")],
        tools=[tool(den, max_tokens=60, max_turns=3)],
        budget=Budget(max_tokens=100),
    )
    await stage.session.prompt("go")
    assert [budget.max_tokens for budget in den.budgets] == [60, 40]
    assert [budget.max_turns for budget in den.budgets] == [3, 3]


async def test_without_anything_left_it_does_not_start(tmp_path: Path) -> None:
    den = Den(tmp_path)
    spent = Usage(input=95, output=5, total_tokens=100)
    answer = call("agent", {"task": "1"}).costing(spent)
    stage = Stage([answer, says("never")], tools=[tool(den)], budget=Budget(max_tokens=100))
    await stage.session.prompt("go")
    assert "no tokens are left" in texts([result_of(stage)])[0]
    assert den.sessions == []


async def test_a_used_up_budget_is_told(tmp_path: Path) -> None:
    den = Den(tmp_path, [calls("ghost"), says("never")])
    stage = Stage([call("agent", {"task": "1"}), says("I see")], tools=[tool(den, max_turns=1)])
    await stage.session.prompt("go")
    assert "used up its budget" in texts([result_of(stage)])[0]
    assert result_of(stage).is_error
