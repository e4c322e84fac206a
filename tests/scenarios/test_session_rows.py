"""Rows about the conversation above the agent: it stores, goes on by itself, settles, and lets go of its agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.messages import ToolResultMessage
from antiphon.core.model import Model
from antiphon.core.session_events import AgentSettled
from antiphon.core.usage import Usage
from antiphon.session.agent_session import AgentSession
from antiphon.session.create import Services, create_agent_session
from antiphon.session.hooks import SessionHooks
from antiphon.session.ports import GivenModels
from antiphon.session.retry import RetrySettings
from antiphon.session.settings import SessionSettings
from antiphon.session_log import SessionLog, SessionStore
from antiphon.session_log.compaction import CompactionSettings
from antiphon.testing import CallScript, ScriptedModel, ScriptedTool, calls, fails, says, who

requirement = pytest.mark.requirement
SMALL = Model(id="small", provider="scripted", api="scripted", context_window=1_000, max_tokens=100)
SETTINGS = SessionSettings(
    retry=RetrySettings(base_delay_ms=1),
    compaction=CompactionSettings(enabled=True, reserve_tokens=200, keep_recent_tokens=5),
)


def conversation(
    tmp_path: Path, script: list[Any], *, tools: tuple[Any, ...] = (), **wanted: Any
) -> tuple[AgentSession, ScriptedModel, SessionLog]:
    """A session over a real file, a scripted model that fits a thousand tokens, and no built-in tools."""
    model = ScriptedModel(script)
    services = Services(cwd=str(tmp_path), models=GivenModels(model, (SMALL,)), settings=SETTINGS)
    log = SessionStore(tmp_path / "sessions", cwd=str(tmp_path)).create()
    created = create_agent_session(services, log, model=SMALL, custom_tools=tools, **wanted)
    return created.session, model, log


def heard(session: AgentSession) -> list[str]:
    """Types of the events that the session tells, without growth."""
    told: list[str] = []
    session.subscribe(lambda event: told.append(event.type) if "update" not in event.type else None)
    return told


@requirement("S3-118", "S3-88", "S1-18", "S3-91")
async def test_every_message_is_stored_before_anybody_hears_that_it_is_final(tmp_path: Path) -> None:
    """The session listens from its beginning: its own listener is the first."""
    tool = ScriptedTool("A", CallScript())
    session, _, log = conversation(tmp_path, [calls("A"), says("done")], tools=(tool,))
    stored: list[bool] = []

    def look(event: Any) -> None:
        if event.type == "message_end":
            stored.append(log.messages()[-1] == event.message and log.has(event.entry_id))

    session.subscribe(look)
    await session.prompt("go")

    assert stored == [True] * 5
    assert [who(m) for m in log.messages()] == ["system", "user", "assistant", "result A", "assistant"]
    await session.dispose()


@requirement("S3-88")
async def test_a_session_that_is_closed_hears_nothing_more(tmp_path: Path) -> None:
    session, _, log = conversation(tmp_path, [says("one"), says("two")])
    await session.prompt("go")
    told, length = heard(session), len(log.messages())

    await session.dispose()
    outcome = await session.agent.prompt("behind its back")

    assert (outcome.reason, outcome.faults) == ("stop", ()), "nobody stands between who could fail"
    assert told == []
    assert len(log.messages()) == length


@requirement("S3-8", "S3-93", "S3-120", "S3-9")
async def test_a_conversation_goes_on_by_itself_and_then_settles_once(tmp_path: Path) -> None:
    """One prompt, two runs: the first failed for a while. A session holds runs, a run holds turns."""
    session, model, _ = conversation(tmp_path, [fails("overloaded_error"), says("better")])
    told = heard(session)

    settlement = await session.prompt("go")

    assert len(model.requests) == 2
    assert [t for t in told if not t.startswith(("message", "turn", "entry"))] == [
        "agent_start",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        "auto_retry_end",
        "agent_end",
        "agent_settled",
    ]
    assert told.count("turn_start") == 2
    assert settlement.final_text == "better"
    await session.dispose()


@requirement("S3-93")
async def test_what_is_queued_at_the_end_of_a_run_is_delivered_before_it_settles(tmp_path: Path) -> None:
    session, model, _ = conversation(tmp_path, [says("one"), says("two")])
    settled: list[int] = []
    pending = ["and now this"]

    async def one_more(event: Any) -> None:
        if event.type == "agent_end" and pending:
            await session.follow_up(pending.pop())
        if isinstance(event, AgentSettled):
            settled.append(len(model.requests))

    session.subscribe(one_more)
    await session.prompt("go")

    assert settled == [2]
    await session.dispose()


@requirement("S3-73", "S3-76")
async def test_a_context_that_is_nearly_full_is_compacted_between_two_turns(tmp_path: Path) -> None:
    """The next request gets what the log says the model should see: the summary in place of what was said."""
    tool = ScriptedTool("A", CallScript({"A": "y" * 80}))
    nearly_full = replace(calls("A"), usage=Usage(input=850, output=20, total_tokens=870))
    script = [nearly_full, says("SUMMARY"), says("done")]
    session, model, log = conversation(tmp_path, script, tools=(tool,))
    told = heard(session)

    await session.prompt("x" * 400)

    assert told.index("compaction_start") < told.index("turn_start", told.index("turn_end"))
    assert told.count("agent_start") == 1
    assert "SUMMARY" in str(model.asked[2])
    assert "x" * 400 not in str(model.asked[2])
    spoken = [who(m) for m in model.asked[2] if m.role in ("assistant", "toolResult")]
    assert [who(m) for m in log.messages() if m.role in ("assistant", "toolResult")] == [*spoken, "assistant"]
    await session.dispose()


@requirement("S3-73")
async def test_tools_that_change_during_a_run_are_told_before_the_next_turn(tmp_path: Path) -> None:
    script = CallScript()
    session, model, _ = conversation(tmp_path, [calls("A"), says("done")], tools=(ScriptedTool("A", script),))
    script.while_running("A", lambda: session.register_tool(ScriptedTool("B", script)))
    script.while_running("A", lambda: session.set_active_tools_by_name(["A", "B"]))

    await session.prompt("go")

    added = [t.name for m in model.asked[1] if m.role == "system" and m.tools_added for t in m.tools_added]
    assert added == ["A", "B"]
    await session.dispose()


@requirement("S3-114", "S3-116")
async def test_nested_calls_are_recorded_by_the_session_and_pass_its_hooks(tmp_path: Path) -> None:
    """The loop knows nothing of them; the record stands on the result of the call that the model made."""
    seen: list[str] = []
    script = CallScript()

    class Outer:
        """A tool that wants to call others is given the means to."""

        name, description = "outer", "calls another tool"
        parameters: dict[str, Any] = {"type": "object"}

        def using_calls(self, calls: Any) -> Outer:
            self.calls = calls
            return self

        async def execute(self, call_id: str, *_given: object) -> str:
            outcome = await self.calls.execute(call_id, "inner", {})
            return f"inner said {outcome.result.content[0].text}"

    tools = (Outer(), ScriptedTool("inner", script))
    hooks = SessionHooks(tool_call=lambda call, _signal: seen.append(call.tool_call.name))
    session, _, log = conversation(tmp_path, [calls("outer"), says("done")], tools=tools, hooks=hooks)
    told = heard(session)

    await session.prompt("go")

    (result,) = [m for m in log.messages() if isinstance(m, ToolResultMessage)]
    assert seen == ["outer", "inner"]
    assert result.content[0].text == "inner said ok outer/1"
    assert "inner" in str(result.nested_calls)
    assert told.count("tool_execution_end") == 2
    await session.dispose()
