"""Rows about calls: what is refused, what an error is, who may end a run, what a call inside of a tool is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon import STRICT, AfterOverride, BeforeDecision, Policy, ToolResult, run_tool_call, tool
from antiphon.core.content import Text, ToolCall
from antiphon.core.events import ToolExecutionEnd, ToolExecutionUpdate
from antiphon.core.hooks import AfterToolCall, BeforeToolCall, Context
from antiphon.core.messages import AssistantMessage, ToolResultMessage, message_to_wire
from antiphon.core.policy import DEFAULT
from antiphon.testing import ScriptedTool, World, call, calls, cut_off, fails, says, who
from antiphon.tools import coding_tools
from antiphon.tools.workspace import LocalWorkspace

requirement = pytest.mark.requirement


def results_of(messages: Any) -> list[ToolResultMessage]:
    return [m for m in messages if isinstance(m, ToolResultMessage)]


def boom(*_given: object) -> Any:
    raise RuntimeError("the hook failed")


ERRORS: dict[str, tuple[dict[str, Any], Any]] = {
    "unknown": ({}, None),
    "invalid": ({}, None),
    "blocked": ({"before_tool_call": lambda _c, _s: BeforeDecision(block=True, reason="not today")}, "fine"),
    "before hook raised": ({"before_tool_call": boom}, "fine"),
    "raised": ({}, ValueError("no such file")),
    "reported": ({}, ToolResult(content=(Text(text="exit 1"),), is_error=True)),
    "after hook raised": ({"after_tool_call": boom}, "fine"),
}


@requirement("S1-12", "S3-4", "S3-60", "S3-61", "S3-112", "S0-2", "S0-32", "S0-47", "S0-48")
@pytest.mark.parametrize("kind", ERRORS)
async def test_every_failure_of_a_call_is_a_result_the_model_can_read(kind: str) -> None:
    """The sibling finishes, the model is asked again, and no stack trace is told."""
    options, result = ERRORS[kind]
    world = World([calls("A", "B"), says("I see")], results={"A": result} if result is not None else {}, **options)
    tools = [ScriptedTool("A", world.calls, parameters=_schema(kind)), ScriptedTool("B", world.calls)]
    world.agent.tools = tools[1:] if kind == "unknown" else tools

    messages = await world.prompt("go")

    first, second = results_of(messages)
    assert first.is_error
    assert (first.tool_call_id, first.tool_name) == ("A", "A")
    assert "Traceback" not in str(first.content)
    assert second.is_error == (kind in ("blocked", "before hook raised", "after hook raised"))
    assert who(messages[-1]) == "assistant"
    assert world.outcome.reason == "stop"


def _schema(kind: str) -> dict[str, Any]:
    return {"type": "object", "required": ["path"] if kind == "invalid" else []}


@requirement("S3-60", "S0-52")
async def test_a_call_that_was_cancelled_is_an_error_result() -> None:
    world = World([calls("A", "B"), says("never")], policy=structs.replace(DEFAULT, abort_grace=0.01))
    world.hold("A", stubborn=True)
    running = world.start("go")
    await world.recording.heard("tool_execution_end B")

    world.agent.abort()
    messages = await running

    first, second = results_of(messages)
    assert first.details == {"cutOff": True, "reason": "aborted"}
    assert (first.is_error, second.is_error) == (True, False)
    assert len(world.requests) == 1


@requirement("S3-17", "S3-55", "S3-56", "S3-58", "S1-3")
async def test_the_start_comes_before_the_checks_and_the_after_hook_only_behind_an_execution() -> None:
    told: list[str] = []

    def before(context: BeforeToolCall, _signal: Any) -> BeforeDecision | None:
        told.append(f"before {context.tool_call.id}")
        return BeforeDecision(block=True) if context.tool_call.id == "B" else None

    def after(context: AfterToolCall, _signal: Any) -> None:
        told.append(f"after {context.tool_call.id}")

    world = World([calls("A", "B"), says("done")], before_tool_call=before, after_tool_call=after)
    world.agent.subscribe(lambda e, _s: told.append(f"{e.type[15:]} {e.tool_call_id}") if "tool_e" in e.type else None)

    await world.prompt("go")

    assert told == ["start A", "before A", "start B", "before B", "end B", "after A", "end A"]


@requirement("S1-13")
async def test_the_after_hook_may_rewrite_a_result() -> None:
    def redact(context: AfterToolCall, _signal: Any) -> AfterOverride:
        return AfterOverride(content=(Text(text="[removed]"),), is_error=True, terminate=True)

    world = World([calls("A")], results={"A": "the password is swordfish"}, after_tool_call=redact)

    messages = await world.prompt("go")

    (result,) = results_of(messages)
    assert (result.content, result.is_error) == ((Text(text="[removed]"),), True)
    assert world.outcome.reason == "terminated"


@requirement("S3-62", "X1", "S0-37", "S0-38", "S3-102")
async def test_a_cut_answer_runs_no_call_and_may_be_repeated() -> None:
    """The arguments parse and fit, and still nobody knows whether they are whole."""
    world = World([cut_off(calls("write", "write_b")), calls("write"), says("done")])

    messages = await world.prompt("go")

    refused = results_of(messages)[:2]
    assert [r.details for r in refused] == [{"skipped": True, "reason": "length"}] * 2
    assert all(r.is_error for r in refused)
    assert world.calls.executed_ids == ["write"]
    assert world.outcome.reason == "stop"


@requirement("X1", "S0-35", "S0-36", "S0-38", "S0-42")
async def test_the_strict_profile_ends_behind_a_cut_answer() -> None:
    world = World([cut_off(calls("A", "B")), says("never")], policy=STRICT)

    messages = await world.prompt("go")

    assert [message_to_wire(r) | {"timestamp": 0, "content": 0} for r in results_of(messages)] == [
        {
            "role": "toolResult",
            "toolCallId": name,
            "toolName": name,
            "content": 0,
            "details": {"skipped": True, "reason": "length"},
            "isError": True,
            "timestamp": 0,
        }
        for name in ("A", "B")
    ]
    assert (len(world.requests), world.calls.executed_ids) == (1, [])
    assert world.outcome.reason == "length"


@requirement("X1b", "X4", "X5", "S0-14", "S0-15", "S0-28", "S0-40", "S0-41")
@pytest.mark.parametrize(
    ("policy", "answer", "executed", "reason"),
    [
        (DEFAULT, cut_off(says("so far")), 0, "length"),
        (STRICT, cut_off(says("so far")), 0, "length"),
        (DEFAULT, replace(calls("A"), stop_reason="stop"), 1, "stop"),
        (STRICT, replace(calls("A"), stop_reason="stop"), 0, "error"),
        (DEFAULT, replace(says("hm"), stop_reason="toolUse"), 0, "stop"),
        (STRICT, replace(says("hm"), stop_reason="toolUse"), 0, "error"),
    ],
)
async def test_where_the_profiles_differ(policy: Policy, answer: Any, executed: int, reason: str) -> None:
    world = World([answer, says("done")], policy=policy)

    messages = await world.prompt("go")

    assert len(world.calls.executed) == executed
    assert world.outcome.reason == reason
    assert len(results_of(messages)) == len(answer.tool_names)


@requirement("X3", "S0-39")
@pytest.mark.parametrize("policy", [DEFAULT, STRICT])
async def test_calls_of_a_failed_answer_do_not_run_and_are_answered(policy: Policy) -> None:
    """Every provider wants pairs: an unanswered call would make the next request fail."""
    world = World([fails("overloaded", after=calls("A", "B")), says("better")], policy=policy)

    messages = await world.prompt("go")
    await world.prompt("again")

    assert [r.details for r in results_of(messages)] == [{"skipped": True, "reason": "error"}] * 2
    assert world.calls.executed_ids == []
    assert world.outcome.reason == "stop"


@requirement("S3-63", "S1-14", "S3-42", "S3-102")
@pytest.mark.parametrize(("wishes", "requests"), [((True, True), 1), ((True, False), 2), ((True, 1), 2), ((), 1)])
async def test_terminate_must_be_unanimous(wishes: tuple[Any, ...], requests: int) -> None:
    names = [f"t{i}" for i in range(len(wishes))]
    results = {name: ToolResult(terminate=wish) for name, wish in zip(names, wishes, strict=True)}
    world = World([calls(*names) if names else says("no calls"), says("more")], results=results)

    await world.prompt("go")

    assert len(world.requests) == requests
    assert world.outcome.reason == ("terminated" if requests == 1 and wishes else "stop")


@requirement("X11", "S0-60", "S0-10")
async def test_one_id_twice_never_runs_twice() -> None:
    world = World([calls(call("A", id="same"), call("B", id="same")), says("done")])

    messages = await world.prompt("go")

    assert [item.tool for item in world.calls.executed] == ["A"]
    first, second = results_of(messages)
    assert not first.is_error
    assert second.details == {"skipped": True, "reason": "duplicate-id"}


@requirement("S0-30", "S3-122")
async def test_progress_carries_the_id_of_its_call() -> None:
    world = World([calls("A", "B"), says("done")])
    world.calls.updates["A"] = ["1 of 2"]
    world.calls.updates["B"] = ["2 of 2"]

    await world.prompt("go")

    updates = [(e.tool_call_id, e.partial_result) for e in world.recording.of(ToolExecutionUpdate)]
    assert updates == [("A", "1 of 2"), ("B", "2 of 2")]


@tool
async def double(n: int) -> str:
    """Twice a number."""
    return str(2 * n)


ASKED = AssistantMessage(content=(), stop_reason="toolUse")


@requirement("S3-113", "S3-116", "X12", "S1-11")
async def test_one_call_can_be_made_by_a_tool_and_passes_the_same_hooks() -> None:
    """Nothing is emitted, nothing is appended, failures come back as results."""
    seen: list[Any] = []

    def before(context: BeforeToolCall, _signal: Any) -> BeforeDecision | None:
        seen.append(context.args)
        return BeforeDecision(block=True, reason="too large") if context.args["n"] > 9 else None

    async def ask(name: str, n: Any) -> tuple[str, bool]:
        outcome = await run_tool_call(
            ToolCall(id="c", name=name, arguments={"n": n}),
            tools=[double],
            assistant_message=ASKED,
            context=Context(),
            before_tool_call=before,
        )
        return outcome.result.content[0].text, outcome.is_error

    assert await ask("double", "4") == ("8", False)
    assert await ask("double", 10) == ("too large", True)
    assert (await ask("double", "many"))[1]
    assert (await ask("triple", 1))[1]
    assert seen == [{"n": 4}, {"n": 10}]


@requirement("S3-115")
async def test_structured_content_stays_out_of_the_request_and_goes_with_the_content() -> None:
    rich = ToolResult(content=(Text(text="3 files"),), structured_content={"files": 3})
    world = World([calls("A"), says("ok")], results={"A": rich})
    await world.prompt("go")
    assert world.recording.of(ToolExecutionEnd)[0].result.structured_content == {"files": 3}
    assert "structuredContent" not in message_to_wire(world.requests[1][-1])

    short = AfterOverride(content=(Text(text="some files"),))
    world = World([calls("A"), says("ok")], results={"A": rich}, after_tool_call=lambda _c, _s: short)
    await world.prompt("go")
    assert "structuredContent" not in str(message_to_wire(world.messages[2]))
    assert not isinstance(world.recording.of(ToolExecutionEnd)[0].result.structured_content, dict)


@requirement("S3-117", "X12", "S0-2")
async def test_anything_with_four_attributes_is_a_tool() -> None:
    """A tool of another protocol needs no other loop: name, description, parameters and execute are enough."""

    class Remote:
        name, description = "remote", "asks another program"
        parameters: dict[str, Any] = {"type": "object"}

        async def execute(self, call_id: str, args: dict[str, Any], signal: Any, on_update: Any) -> str:
            return f"{call_id} answered"

    world = World([call("remote", id="c7"), says("done")], tools=[Remote()])

    (result,) = results_of(await world.prompt("go"))

    assert (result.tool_call_id, result.tool_name, result.content) == ("c7", "remote", (Text(text="c7 answered"),))


@requirement("S0-66")
async def test_the_tools_for_files_and_commands_need_no_other_loop(tmp_path: Path) -> None:
    script = [
        call("write", {"path": "a.txt", "content": "one\n"}),
        call("edit", {"path": "a.txt", "edits": [{"oldText": "one", "newText": "two"}]}),
        calls(call("read", {"path": "a.txt"}), call("bash", {"command": "wc -l < a.txt"})),
        says("done"),
    ]
    world = World(script, tools=coding_tools(LocalWorkspace(tmp_path)))

    results = results_of(await world.prompt("make a file"))

    assert [r.is_error for r in results] == [False] * 4
    assert (tmp_path / "a.txt").read_text() == "two\n"
    assert [r.content[0].text.strip() for r in results[2:]] == ["two", "1"]


@requirement("S1-12", "S3-60")
async def test_a_plain_function_that_raises_fails_its_call_and_not_the_run() -> None:
    @tool
    def find_user(name: str) -> str:
        """Look a user up."""
        raise LookupError(f"no user is called {name}")

    world = World([call("find_user", {"name": "Ann"}), says("I see")], tools=[find_user])

    (result,) = results_of(await world.prompt("find Ann"))

    assert (result.is_error, result.content) == (True, (Text(text="no user is called Ann"),))
    assert world.outcome.reason == "stop"
