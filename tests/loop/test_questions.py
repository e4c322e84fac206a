"""What hooks and polls are asked, when, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.rig import QUICK, Stubborn, legal, never, result_texts, within

from antiphon.core.hooks import BeforeDecision, Context, NextTurn, RequestUpdate
from antiphon.core.messages import HostMessage, Message, host_message, user
from antiphon.core.model import Model
from antiphon.core.policy import PI
from antiphon.loop import leash, questions
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import run_agent_loop
from antiphon.testing import SCRIPTED_MODEL, ScriptedModel, World, calls, fails, says, settle, who

OTHER = Model(id="other", provider="elsewhere", api="scripted")
HOOKS = [
    "transform_context",
    "convert_to_llm",
    "get_api_key",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "before_tool_call",
    "after_tool_call",
]


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leash, "PULL_EVERY", 0.002)


def both(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    """A hook as a plain and as an async function."""

    async def later(*given: Any) -> Any:
        await asyncio.sleep(0)
        return function(*given)

    return [function, later]


def a_world(**options: Any) -> World:
    return World([calls("A"), says("end")], **{"policy": QUICK, "close_timeout": 0.02, **options})


# -- composing a request -----------------------------------------------------------------------------------------------


async def test_the_order_of_the_questions_of_one_turn() -> None:
    asked: list[str] = []

    def hook(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def asks(*given: Any) -> Any:
            asked.append(name)
            return answer(*given)

        return asks

    nothing: Callable[..., Any] = lambda *_: None  # noqa: E731
    same: Callable[..., Any] = lambda messages, *_: messages  # noqa: E731
    world = a_world(**{name: hook(name, same if name in HOOKS[:2] else nothing) for name in HOOKS})
    await world.prompt("go")

    request = ["prepare_request", "transform_context", "convert_to_llm", "get_api_key"]
    tools = ["before_tool_call", "after_tool_call", "finish_turn", "prepare_next_turn"]
    assert asked == [*request, *tools, *request, "finish_turn"]


async def test_the_host_may_change_what_the_model_sees_but_not_the_transcript() -> None:
    for transform in both(lambda messages, signal: [*messages, host_message("note", text="x"), user("seen by it")]):
        for convert in both(lambda messages: [m for m in messages if not isinstance(m, HostMessage)]):
            world = World([says("end")], transform_context=transform, convert_to_llm=convert)
            await world.prompt("go")
            assert [who(message) for message in world.requests[0]] == ["user", "user"]
            assert [who(message) for message in world.messages] == ["user", "assistant"]


async def test_by_default_messages_of_host_roles_stay_out_of_the_request() -> None:
    world = World([says("end")], messages=[user("before"), host_message("note", text="x")])
    await world.prompt("go")
    assert [who(message) for message in world.requests[0]] == ["user", "user"]

    world = World([says("end")], transform_context=lambda m, s: [*m, host_message("note")])
    await world.prompt("go")
    assert [who(message) for message in world.requests[0]] == ["user"]


async def test_a_hook_that_edits_the_list_it_got_changes_nothing_but_in_profile_pi() -> None:
    """D13, I10."""

    def edits(messages: Any, _signal: Any) -> Any:
        if isinstance(messages, list):
            messages.append(user("smuggled"))
        return messages

    world = World([calls("A"), says("end")], policy=QUICK, transform_context=edits)
    await world.prompt("go")
    assert "smuggled" not in str(list(world.messages))

    live = World([calls("A"), says("end")], policy=PI, transform_context=edits)
    await live.prompt("go")
    assert str(live.requests[1]).count("smuggled") == 2


@pytest.mark.parametrize(
    ("given", "used"), [("found", "found"), ("", "static"), (None, "static")], ids=["found", "empty", "none"]
)
async def test_the_key_that_was_looked_up_or_else_the_static_one(given: str | None, used: str) -> None:
    for look_up in both(lambda provider: given if provider == "scripted" else pytest.fail(provider)):
        world = World([says("end")], get_api_key=look_up, api_key="static")
        await world.prompt("go")
        assert world.model.requests[0].api_key == used


async def test_what_prepare_request_changes_counts_for_this_and_later_requests() -> None:
    seen: list[tuple[int, str, str]] = []

    def prepares(info: Any, _signal: Any) -> RequestUpdate | None:
        seen.append((len(info.context.messages), info.model.id, info.thinking_level))
        if len(seen) > 1:
            return None
        return RequestUpdate(context=Context(info.context.messages[-1:], info.context.tools), model=OTHER)

    for hook in both(prepares):
        seen.clear()
        world = a_world(prepare_request=hook, thinking_level="low")
        await world.prompt("go")
        assert [who(message) for message in world.requests[0]] == ["user"]
        assert [who(message) for message in world.requests[1]] == ["user", "assistant", "result A", "system"]
        assert [request.model.id for request in world.model.requests] == ["other", "other"]
        assert seen[1][1:] == ("other", "low")
        assert [who(message) for message in world.messages][:2] == ["system", "user"]  # where tools were declared first


async def test_what_prepare_next_turn_brings_is_announced_in_that_turn() -> None:
    for hook in both(lambda turn, signal: NextTurn(messages=[user("prepared")], thinking_level="high")):
        world = a_world(prepare_next_turn=hook)
        await world.prompt("go")
        assert [who(message) for message in world.messages][-2:] == ["user", "assistant"]
        assert world.model.requests[1].thinking_level == "high"
        legal(world.recording)


# -- decisions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, "go", 5, {"action": "end"}, True])
async def test_other_answers_of_finish_turn_mean_nothing(answer: Any) -> None:
    for hook in both(lambda *_: answer):
        world = a_world(finish_turn=hook)
        await world.prompt("go")
        assert (world.outcome.reason, len(world.requests), world.outcome.faults) == ("stop", 2, ())


async def test_finish_turn_may_end_or_go_on() -> None:
    for hook in both(lambda *_: "end"):
        world = a_world(finish_turn=hook)
        world.steer_while_running("A", "waits")
        await world.prompt("go")
        assert (world.outcome.reason, world.outcome.has_queued_messages) == ("ended_by_host", True)
        assert [who(message) for message in world.messages][-1] == "result A"

    asked: list[str] = []

    def once(turn: Any, _signal: Any) -> str | None:
        asked.append(turn.message.stop_reason)
        return "continue" if len(asked) == 1 else None

    world = World([says("one"), says("two")], finish_turn=once)
    await world.prompt("go")
    assert (world.outcome.turns, asked) == (2, ["stop", "stop"])


async def test_at_a_hard_end_finish_turn_only_observes() -> None:
    seen: list[str] = []

    def hook(turn: Any, _signal: Any) -> str:
        seen.append(turn.message.stop_reason)
        return "continue"

    world = World([fails("overloaded"), says("never")], finish_turn=hook)
    await world.prompt("go")
    assert (world.outcome.reason, seen, len(world.requests)) == ("error", ["error"], 1)


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("error", [ValueError("mine"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_a_failing_hook_is_a_failure_answer_or_a_result(name: str, error: BaseException, is_async: bool) -> None:
    def now(*_: Any) -> Any:
        raise error

    async def later(*_: Any) -> Any:
        await asyncio.sleep(0)
        raise error

    world = a_world(**{name: later if is_async else now})
    await within(world.prompt("go"))

    legal(world.recording)
    if name.endswith("tool_call"):
        assert (world.outcome.reason, world.outcome.faults) == ("stop", ())
        assert result_texts(world.messages) != ["ok A"]
        return
    assert world.outcome.reason == "error"
    assert [fault.where for fault in world.outcome.faults] == [name]
    assert "mine" in (world.outcome.error or "") or "CancelledError" in (world.outcome.error or "")
    with pytest.raises(Exception, match=name):
        world.outcome.raise_for_fault()


WRONG = [
    ("transform_context", 5),
    ("transform_context", "text"),
    ("transform_context", None),
    ("convert_to_llm", {"a": 1}),
    ("convert_to_llm", None),
    ("get_api_key", 5),
    ("prepare_request", {"model": OTHER}),
    ("prepare_next_turn", {"messages": []}),
    ("prepare_next_turn", NextTurn(messages=["text"])),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("name", "answer"), WRONG)
async def test_an_answer_of_the_wrong_type_is_a_failure_that_names_it(name: str, answer: Any) -> None:
    world = a_world(**{name: lambda *_: answer})
    await within(world.prompt("go"))

    legal(world.recording)
    assert world.outcome.reason == "error"
    assert [fault.where for fault in world.outcome.faults] == [name]
    assert name in (world.outcome.error or "")


@pytest.mark.parametrize(
    "update",
    [
        RequestUpdate(context=Context(messages=5)),  # type: ignore[arg-type]
        RequestUpdate(context=5),  # type: ignore[arg-type]
    ],
)
async def test_an_update_that_the_machine_cannot_use_is_a_failure(update: RequestUpdate) -> None:
    world = a_world(prepare_request=lambda *_: update)
    await within(world.prompt("go"))

    legal(world.recording)
    assert world.outcome.reason == "error"
    assert [fault.where for fault in world.outcome.faults] == ["prepare_request"]


@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_that_hangs_is_cut_after_an_abort(name: str) -> None:
    async def hangs(*_: Any) -> Any:
        await never()

    world = a_world(**{name: hangs})
    prompt = world.start("go")
    await settle(40)
    assert not prompt.done()
    world.agent.abort()
    await within(prompt)

    assert world.outcome.reason == "aborted"
    assert world.outcome.abandoned == ()
    legal(world.recording)


@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_that_does_not_stop_is_named(name: str) -> None:
    foreign = Stubborn()

    async def hangs(*_: Any) -> Any:
        await foreign.wait()

    world = a_world(**{name: hangs})
    prompt = world.start("go")
    await settle(40)
    world.agent.abort()
    await within(prompt)
    foreign.released.set()

    assert world.outcome.abandoned == (("tool A (A)",) if name == "after_tool_call" else (name,))
    legal(world.recording)


@pytest.mark.parametrize("name", [*HOOKS, "prepare_arguments"])
async def test_an_exit_of_the_process_out_of_a_hook_closes_the_run_first(name: str) -> None:
    def exits(*_: Any) -> Any:
        raise KeyboardInterrupt

    world = a_world(**({} if name == "prepare_arguments" else {name: exits}))
    if name == "prepare_arguments":
        world.agent.tools[0].prepare_arguments = exits  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        await world.agent.prompt("go")

    assert len(world.requests) <= 1
    assert not world.agent.is_streaming
    legal(world.recording)


async def test_a_decision_that_comes_too_late_is_not_asked_for() -> None:
    """An abort inside of the hook wins over what it decides."""

    def aborts(*_: Any) -> BaseException | BeforeDecision:
        world.agent.abort()
        return BeforeDecision(block=True, reason="unread")

    world = a_world(before_tool_call=aborts)
    await within(world.prompt("go"))

    assert result_texts(world.messages) == ["Operation aborted"]


# -- polls -------------------------------------------------------------------------------------------------------------


async def low_level(**polls: Any) -> tuple[Any, list[Any]]:
    events: list[Any] = []
    model = ScriptedModel([says("one"), says("two"), says("three")])
    config = LoopConfig(model=SCRIPTED_MODEL, policy=QUICK, **polls)
    outcome = await within(run_agent_loop([user("go")], Context(), config, events.append, None, model))
    return outcome, events


def once(*messages: Any) -> Callable[[], Any]:
    waiting = list(messages)

    def poll() -> list[Message]:
        taken, waiting[:] = list(waiting), []
        return taken

    return poll


async def test_polls_may_be_plain_or_async_and_give_any_sequence() -> None:
    shapes: list[Callable[[list[Any]], Any]] = [list, tuple, iter, lambda given: (each for each in given)]
    for shape in shapes:
        take = once(user("steering"))
        for poll in both(lambda take=take, shape=shape: shape(take())):
            outcome, _ = await low_level(get_steering_messages=poll)
            assert outcome.reason == "stop"
    outcome, _ = await low_level(get_follow_up_messages=once(user("more")))
    assert [message.role for message in outcome.new_messages] == ["user", "assistant", "user", "assistant"]


@pytest.mark.parametrize("queue", ["steering", "follow_up"])
@pytest.mark.parametrize("error", [ValueError("mine"), asyncio.CancelledError()], ids=["error", "cancelled"])
async def test_a_failing_poll_is_a_failure_in_a_turn_of_its_own(queue: str, error: BaseException) -> None:
    def fails_now() -> Any:
        raise error

    for poll in both(fails_now):
        outcome, _ = await low_level(**{f"get_{queue}_messages": poll})
        assert outcome.reason == "error"
        assert [fault.where for fault in outcome.faults] == [f"{queue} poll"]


async def test_a_poll_that_gives_something_else_is_a_failure() -> None:
    for answer in (["text"], [user("x"), 5]):
        for poll in both(lambda answer=answer: answer):
            outcome, _ = await low_level(get_steering_messages=poll)
            assert outcome.reason == "error"
            assert "steering poll" in outcome.error


async def test_an_exit_of_the_process_out_of_a_poll() -> None:
    def exits() -> Any:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await low_level(get_steering_messages=exits)


async def test_what_a_plain_poll_gave_and_nobody_announced_is_named_undelivered() -> None:
    """7: a plain poll cannot take back."""

    def prepares(*_: Any) -> Any:
        raise ValueError("mine")

    message = user("steering")
    taken: list[int] = []

    def poll() -> list[Message]:
        taken.append(1)
        return [message] if len(taken) == 2 else []

    outcome, _ = await low_level(get_steering_messages=poll, prepare_next_turn=prepares)

    assert (outcome.reason, outcome.undelivered) == ("error", (message,))


def test_messages_for_the_model_are_filtered_only_if_there_is_something_to_filter() -> None:
    given = [user("a"), user("b")]
    assert questions.for_model(given) is given
    assert questions.for_model([*given, host_message("note")]) == given


async def test_a_context_of_what_is_no_message_is_refused_before_the_request() -> None:
    world = a_world(transform_context=lambda messages, _signal: [*messages, {"role": "user", "content": "hm"}])
    await world.prompt("go")

    assert (world.outcome.reason, world.requests) == ("error", [])
    assert "transform_context: a dict is no message" in (world.outcome.error or "")
