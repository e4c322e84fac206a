"""One call from its arguments to its outcome: nothing that a model can repair is an exception."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest
from msgspec import UNSET
from tests.loop.rig import PlainTool, never, result_texts, within

from antiphon.core.calls import Outcome, ToolResult, text_result
from antiphon.core.content import Image, Text, ToolCall, text_of
from antiphon.core.hooks import AfterOverride, BeforeDecision, Context
from antiphon.core.messages import AssistantMessage
from antiphon.core.policy import DEFAULT, PI
from antiphon.core.usage import Usage
from antiphon.loop.abort import AbortController
from antiphon.loop.tool_call import as_result, error_text, run_tool_call
from antiphon.testing import Gate, World, calls, says, settle

CALL = ToolCall(id="c1", name="A", arguments={"n": "3"})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


async def call(execute: Any, given: ToolCall = CALL, **options: Any) -> Outcome:
    """The outcome of one call of a tool with this function; other options go to `run_tool_call`."""
    attributes = options.pop("attributes", {})
    asked = AssistantMessage(content=(given,), stop_reason="toolUse")
    tools = [PlainTool("A", execute, **{"parameters": SCHEMA, **attributes})]
    return await within(run_tool_call(given, tools=tools, assistant_message=asked, context=Context(), **options))


async def says_args(_id: str, args: Any, *_: Any) -> str:
    return repr(args)


def text(outcome: Outcome) -> str:
    return text_of(outcome.result.content)


# -- steps 1 to 5 ------------------------------------------------------------------------------------------------------


async def test_arguments_are_converted_on_a_copy() -> None:
    outcome = await call(says_args)

    assert (text(outcome), outcome.is_error, outcome.executed) == ("{'n': 3}", False, True)
    assert CALL.arguments == {"n": "3"}


async def test_an_aborted_signal_comes_before_everything() -> None:
    controller = AbortController()
    controller.abort()

    outcome = await call(says_args, ToolCall(id="c", name="unknown", arguments={}), signal=controller.signal)

    assert (text(outcome), outcome.executed, outcome.duration_ms) == ("Operation aborted", False, UNSET)
    assert outcome.result.details == {"skipped": True, "reason": "aborted"}
    plain = await call(says_args, signal=controller.signal, policy=PI)
    assert plain.result.details == {}


async def test_an_unknown_tool_is_named() -> None:
    outcome = await call(says_args, ToolCall(id="c", name="unknown", arguments={}))

    assert (text(outcome), outcome.is_error, outcome.result.details) == ("Tool unknown not found", True, {})


async def test_arguments_that_do_not_fit_are_refused_with_the_path() -> None:
    outcome = await call(says_args, ToolCall(id="c", name="A", arguments={"n": "many"}))

    assert outcome.is_error
    assert not outcome.executed
    assert "n" in text(outcome)
    assert "whole number" in text(outcome)


async def test_the_tool_may_prepare_its_raw_arguments() -> None:
    prepared = await call(says_args, attributes={"prepare_arguments": lambda raw: {"n": int(raw["n"]) * 2}})
    assert text(prepared) == "{'n': 6}"

    def fails(_raw: Any) -> Any:
        raise ValueError("cannot read this")

    def pretends(_raw: Any) -> Any:
        raise asyncio.CancelledError

    assert text(await call(says_args, attributes={"prepare_arguments": fails})) == "cannot read this"
    pretended = await call(says_args, attributes={"prepare_arguments": pretends})
    assert pretended.is_error
    assert "CancelledError" in text(pretended)


async def test_a_preparation_that_wants_the_process_to_end_is_heard() -> None:
    def exits(_raw: Any) -> Any:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await call(says_args, attributes={"prepare_arguments": exits})


@pytest.mark.parametrize("name", ["timeout", "abort_grace"])
async def test_a_limit_that_is_no_number_is_told_and_the_tool_not_run(name: str) -> None:
    outcome = await call(says_args, attributes={name: "5 s"})

    assert outcome.is_error
    assert f"`{name}` of tool A is a str" in text(outcome)
    assert not outcome.executed


# -- hooks -------------------------------------------------------------------------------------------------------------


async def test_the_before_hook_may_edit_what_the_tool_gets() -> None:
    def edits(told: Any, _signal: Any) -> None:
        told.args["n"] = "not checked again"

    assert text(await call(says_args, before_tool_call=edits)) == "{'n': 'not checked again'}"


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    ("decision", "expected", "terminates"),
    [
        (BeforeDecision(block=True, reason="not today"), "not today", False),
        (BeforeDecision(block=True), "Tool execution was blocked", False),
        (BeforeDecision(block=True, terminate=True), "Tool execution was blocked", True),
        (BeforeDecision(block=True, terminate=1), "Tool execution was blocked", False),
        (BeforeDecision(block=True, terminate="true"), "Tool execution was blocked", False),
        (BeforeDecision(block=False, reason="unread", terminate=True), "{'n': 3}", False),
        (None, "{'n': 3}", False),
    ],
)
async def test_what_the_before_hook_decides(
    decision: BeforeDecision | None, expected: str, terminates: bool, is_async: bool
) -> None:
    async def later(*_: Any) -> BeforeDecision | None:
        await asyncio.sleep(0)
        return decision

    outcome = await call(says_args, before_tool_call=later if is_async else lambda *_: decision)

    assert (text(outcome), outcome.terminates) == (expected, terminates)


async def test_an_error_of_the_before_hook_wins_over_an_abort_and_an_abort_over_its_decision() -> None:
    controller = AbortController()

    def aborts_and_fails(*_: Any) -> None:
        controller.abort()
        raise ValueError("mine")

    def aborts(*_: Any) -> BeforeDecision:
        controller.abort()
        return BeforeDecision(block=True, reason="unread")

    assert text(await call(says_args, before_tool_call=aborts_and_fails, signal=controller.signal)) == "mine"
    controller = AbortController()
    assert text(await call(says_args, before_tool_call=aborts, signal=controller.signal)) == "Operation aborted"


async def test_hooks_that_answer_with_something_else_are_told_so() -> None:
    before = await call(says_args, before_tool_call=lambda *_: {"block": True})
    assert text(before) == "the before hook answered with a dict, not with a BeforeDecision or None"
    assert not before.executed

    after = await call(says_args, after_tool_call=lambda *_: {"content": []})
    assert text(after) == "the after hook answered with a dict, not with a AfterOverride or None"
    assert after.is_error


@pytest.mark.parametrize("name", ["before_tool_call", "after_tool_call"])
async def test_hooks_that_cancel_themselves_are_told_apart_from_a_cancelled_caller(name: str) -> None:
    async def pretends(*_: Any) -> None:
        raise asyncio.CancelledError

    outcome = await call(says_args, **{name: pretends})
    assert outcome.is_error

    gate = Gate()

    async def waits(*_: Any) -> None:
        gate.open()
        await never()

    caller = asyncio.create_task(call(says_args, **{name: waits}))
    await within(gate.passed())
    caller.cancel()
    await settle()
    assert caller.cancelled()


async def test_a_field_of_an_override_replaces_one_field_of_the_result() -> None:
    result = ToolResult(
        content=(Text(text="told"),), details={"a": 1}, structured_content={"s": 1}, usage=Usage(input=1)
    )

    async def overridden(**fields: Any) -> Outcome:
        return await call(lambda *_: result, after_tool_call=lambda *_: AfterOverride(**fields))

    assert (await overridden()).result == result
    assert (await overridden(content=None, details=None, usage=None, is_error=None)).result == result
    content = (await overridden(content=[Text(text="new")])).result
    assert (text_of(content.content), content.structured_content, content.details) == ("new", UNSET, {"a": 1})
    both = (await overridden(content=[], structured_content={"s": 2})).result
    assert (both.content, both.structured_content) == ((), {"s": 2})
    assert (await overridden(details={"b": 2})).result.details == {"b": 2}
    assert (await overridden(usage=Usage(input=5))).result.usage == Usage(input=5)
    failed = await overridden(is_error=True)
    assert (failed.is_error, failed.result.is_error) == (True, UNSET)
    assert (await overridden(terminate=True)).terminates


@pytest.mark.parametrize("fields", [{"content": 5}, {"content": [5]}, {"content": "text"}, {"usage": 5}])
async def test_an_override_that_no_result_can_hold_is_told(fields: dict[str, Any]) -> None:
    outcome = await call(says_args, after_tool_call=lambda *_: AfterOverride(**fields))

    assert outcome.is_error
    assert "the after hook gave" in text(outcome)


async def test_a_failing_after_hook_replaces_the_whole_result() -> None:
    def fails(*_: Any) -> None:
        raise ValueError("cannot look at it")

    result = ToolResult(content=(Text(text="told"),), details={"a": 1}, usage=Usage(input=1), terminate=True)
    outcome = await call(lambda *_: result, after_tool_call=fails)

    assert (text(outcome), outcome.is_error, outcome.terminates) == ("cannot look at it", True, False)
    assert (outcome.result.details, outcome.result.usage) == ({}, UNSET)


# -- execution ---------------------------------------------------------------------------------------------------------


class Callable_:
    async def __call__(self, *_: Any) -> str:
        return "object"


async def returns_later(*_: Any) -> str:
    return "later"


@pytest.mark.parametrize(
    ("execute", "expected"),
    [
        (lambda *_: "plain", "plain"),
        (returns_later, "later"),
        (lambda *_: returns_later(), "later"),
        (Callable_(), "object"),
        (lambda *_: None, ""),
        (lambda *_: Text(text="block"), "block"),
        (lambda *_: [Text(text="a"), Text(text="b")], "a\nb"),
        (lambda *_: (Text(text="a"), Image(data="", mime_type="image/png")), "a"),
        (lambda *_: text_result("result"), "result"),
        (lambda *_: ToolResult(content=None), ""),  # type: ignore[arg-type]
    ],
)
async def test_what_a_tool_may_be_and_give_back(execute: Any, expected: str) -> None:
    outcome = await call(execute)

    assert (text(outcome), outcome.is_error) == (expected, False)


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_tool_raises_is_its_result(is_async: bool) -> None:
    async def later(*_: Any) -> str:
        raise ValueError("broken")

    def now(*_: Any) -> str:
        raise ValueError("broken")

    outcome = await call(later if is_async else now)

    assert (text(outcome), outcome.is_error, outcome.executed) == ("broken", True, True)
    assert isinstance(outcome.duration_ms, int)


async def test_a_result_may_say_itself_that_it_is_an_error() -> None:
    assert (await call(lambda *_: ToolResult(is_error=True))).is_error
    assert not (await call(lambda *_: ToolResult(is_error="yes"))).is_error  # type: ignore[arg-type]


async def test_exits_of_the_process_propagate() -> None:
    async def exits(*_: Any) -> str:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await call(exits)


async def test_a_cancelled_caller_is_cancelled() -> None:
    gate = Gate()

    async def waits(*_: Any) -> str:
        gate.open()
        await never()
        return "never"

    caller = asyncio.create_task(call(waits))
    await within(gate.passed())
    caller.cancel()
    await settle()

    assert caller.cancelled()


async def test_progress_goes_to_the_callback_until_the_tool_has_returned() -> None:
    told: list[Any] = []
    late: list[Any] = []

    async def reports(_id: str, _args: Any, _signal: Any, on_update: Any) -> str:
        on_update("half")
        late.append(on_update)
        return "done"

    await call(reports, on_update=told.append)
    late[0]("late")
    assert told == ["half"]

    assert text(await call(reports)) == "done"


def test_errors_without_words() -> None:
    assert error_text(ValueError("x")) == "x"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(ValueError(), DEFAULT) == "ValueError"
    assert error_text(ValueError(), PI) == ""


@pytest.mark.parametrize("returned", [5, {"content": []}, b"bytes", object()])
def test_what_is_no_result_is_named_by_its_type(returned: Any) -> None:
    with pytest.raises(TypeError, match=type(returned).__name__):
        as_result(returned)


async def test_a_partial_of_an_async_function_is_one() -> None:
    async def greets(greeting: str, *_: Any) -> str:
        return greeting

    assert text(await call(functools.partial(greets, "hello"))) == "hello"


async def test_a_cancelled_caller_leaves_a_thread_behind() -> None:
    working, go_on = threading.Event(), threading.Event()

    def waits(*_: Any) -> str:
        working.set()
        go_on.wait(5)
        return "late"

    caller = asyncio.create_task(call(waits))
    while not working.is_set():
        await asyncio.sleep(0.001)
    caller.cancel()
    await asyncio.wait([caller], timeout=5)
    go_on.set()

    assert caller.cancelled()


async def test_an_error_that_cannot_say_what_it_is_is_told_by_its_name() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    world = World([calls("A"), says("end")])
    world.calls.results["A"] = Mute()
    world.agent.subscribe(lambda *_: (_ for _ in ()).throw(Mute()))  # type: ignore[arg-type,return-value]
    await world.prompt("go")

    assert world.outcome.reason == "stop"
    assert result_texts(world.messages) == ["Mute"]
