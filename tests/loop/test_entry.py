"""The low-level ways in: callback and event stream, in the profiles that close a run and in the one that raises."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.loop.rig import QUICK, PlainTool, Stubborn, details, never, within

from antiphon.core.events import AgentEnd, AgentEvent, MessageEnd
from antiphon.core.hooks import Context
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, host_message, user
from antiphon.core.policy import PI
from antiphon.core.trace import check_trace
from antiphon.core.transcript import Transcript
from antiphon.errors import CannotContinue, NothingToContinue, RunFault
from antiphon.loop.abort import AbortController
from antiphon.loop.config import LoopConfig
from antiphon.loop.entry import agent_loop, agent_loop_continue, run_agent_loop, run_agent_loop_continue
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import SCRIPTED_MODEL, ScriptedModel, calls, raises, says, settle, who
from antiphon.testing.check import no_tasks_left

ANSWER = AssistantMessage(content=(), stop_reason="stop")


def config(**options: Any) -> LoopConfig:
    return LoopConfig(model=SCRIPTED_MODEL, **{"policy": QUICK, "close_timeout": 0.02, **options})


class Run:
    """One low-level run and what it told."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.model = ScriptedModel(script)
        self.config = config(**options)
        self.events: list[AgentEvent] = []
        self.controller = AbortController()

    async def emit(self, event: AgentEvent) -> None:
        await asyncio.sleep(0)
        self.events.append(event)

    async def prompt(self, *prompts: Message, context: Context | None = None) -> RunOutcome:
        context = Context() if context is None else context
        running = run_agent_loop(prompts, context, self.config, self.emit, self.controller.signal, self.model)
        return await within(running)

    async def continue_(self, context: Context) -> RunOutcome:
        running = run_agent_loop_continue(context, self.config, self.emit, self.controller.signal, self.model)
        return await within(running)


async def test_a_run_tells_its_events_and_gives_its_new_messages() -> None:
    run = Run(says("hello"))
    outcome = await run.prompt(user("go"), context=Context([user("before")]))

    assert [who(message) for message in outcome.new_messages] == ["user", "assistant"]
    assert [who(message) for message in run.model.asked[0]] == ["user", "user"]
    end = run.events[-1]
    assert isinstance(end, AgentEnd)
    assert end.messages == outcome.new_messages
    check_trace(run.events, QUICK)


async def test_without_prompts_the_transcript_is_asked_as_it_is() -> None:
    for history in ([], [user("before")], [ANSWER]):
        run = Run(says("hello"))
        outcome = await run.prompt(context=Context(history))
        assert [who(message) for message in outcome.new_messages] == ["assistant"]
        assert list(run.model.asked[0]) == history


async def test_a_callback_may_be_plain_and_a_signal_missing() -> None:
    events: list[AgentEvent] = []
    outcome = await run_agent_loop([user("go")], Context(), config(), events.append, None, ScriptedModel([says("x")]))

    assert (outcome.reason, events[-1].type) == ("stop", "agent_end")


@pytest.mark.parametrize(("history", "error"), [([], NothingToContinue), ([user("x"), ANSWER], CannotContinue)])
async def test_continuing_is_refused_before_any_event(history: list[Message], error: type[Exception]) -> None:
    for policy in (QUICK, PI):
        run = Run(says("hello"), policy=policy)
        with pytest.raises(error):
            await run.continue_(Context(history))
        with pytest.raises(error):
            agent_loop_continue(Context(history), run.config, None, run.model)
        assert (run.events, run.model.requests) == ([], [])


@pytest.mark.parametrize("tail", [user("x"), host_message("note"), SystemMessage(content="be kind")])
async def test_every_other_tail_is_continued(tail: Message) -> None:
    run = Run(says("hello"))
    outcome = await run.continue_(Context([tail]))

    assert [who(message) for message in outcome.new_messages] == ["assistant"]
    assert [event.type for event in run.events][:3] == ["agent_start", "turn_start", "message_start"]


@pytest.mark.parametrize("kind", [list, tuple, Transcript])
async def test_lists_of_the_caller_are_never_changed(kind: Any) -> None:
    """I10, D9."""
    history = kind([user("before")])
    tools = [PlainTool("A", lambda *_: "done")]
    prompts: list[Message] = [user("go")]
    kept = list(history)
    for _ in range(2):
        run = Run(calls("A"), says("end"))
        context = Context(history, tools)
        await run.continue_(context)
        await Run(says("x")).prompt(*prompts, context=context)
        assert list(history) == kept
        assert (len(tools), len(prompts)) == (1, 1)
        assert context.messages is history


# -- faults ------------------------------------------------------------------------------------------------------------


async def test_by_default_a_fault_is_closed_and_on_the_outcome() -> None:
    run = Run(raises(ValueError("lost")))
    outcome = await run.prompt(user("go"))

    assert (outcome.reason, outcome.error) == ("error", "lost")
    check_trace(run.events, QUICK)
    with pytest.raises(RunFault, match="model stream failed: lost"):
        outcome.raise_for_fault()
    (await Run(says("x")).prompt(user("go"))).raise_for_fault()


async def test_in_profile_pi_it_is_raised_and_events_just_stop() -> None:
    run = Run(raises(ValueError("lost")), policy=PI)
    with pytest.raises(ValueError, match="lost"):
        await run.prompt(user("go"))
    assert run.events[-1].type == "message_end"

    async def emit(event: AgentEvent) -> None:
        raise OSError("nobody listens")

    with pytest.raises(OSError, match="nobody listens"):
        await run_agent_loop([user("go")], Context(), config(policy=PI), emit, None, ScriptedModel([says("x")]))


async def test_in_profile_pi_calls_that_run_when_it_is_raised_are_left_but_not_alone() -> None:
    """The others are cancelled: no task of the run outlives it (I8)."""
    ended: list[str] = []

    async def hangs(*_: Any) -> str:
        try:
            await never()
        finally:
            ended.append("hangs")
        return "never"

    async def emit(event: AgentEvent) -> None:
        if event.type == "tool_execution_end":
            raise OSError("nobody listens")

    tools = [PlainTool("A", lambda *_: "a"), PlainTool("B", hangs)]
    model = ScriptedModel([calls("A", "B"), says("end")])
    async with no_tasks_left():
        with pytest.raises(OSError, match="nobody"):
            await within(run_agent_loop([user("go")], Context((), tools), config(policy=PI), emit, None, model))
    assert ended == ["hangs"]


async def test_a_failing_callback_is_recorded_and_the_run_goes_on() -> None:
    def emit(event: AgentEvent) -> None:
        raise OSError("nobody listens")

    reported: list[str] = []
    settings = config(on_fault=lambda record: reported.append(record.event.type))
    outcome = await run_agent_loop([user("go")], Context(), settings, emit, None, ScriptedModel([says("x")]))

    assert outcome.reason == "stop"
    assert len(outcome.faults) == len(reported) == 11
    assert reported[0] == "agent_start"


async def test_who_is_told_of_faults_cannot_become_one() -> None:
    def fails(_record: Any) -> None:
        raise RuntimeError("cannot report")

    run = Run(raises(ValueError("lost")), on_fault=fails)
    outcome = await run.prompt(user("go"))

    assert [fault.where for fault in outcome.faults] == ["model stream", "on_fault"]
    assert outcome.error == "lost"


async def test_in_profile_pi_what_is_raised_while_a_cancelled_run_closes_does_not_hide_the_cancellation() -> None:
    begun = asyncio.Event()

    async def execute(*_: Any) -> str:
        begun.set()
        return await never()

    def finish(*_: Any) -> None:
        raise ValueError("hook")

    run = Run(calls("A"), says("x"), policy=PI, finish_turn=finish)
    context = Context(tools=[PlainTool("A", execute)])
    running = asyncio.create_task(run.prompt(user("go"), context=context))
    await within(begun.wait())
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert running.cancelled()


async def test_a_second_cancellation_is_not_kept_waiting_by_the_callback() -> None:
    heard: list[str] = []

    def emit(event: AgentEvent) -> Any:
        heard.append(event.type)
        return never() if event.type in ("turn_end", "agent_end") else None

    model = ScriptedModel([says("x")])
    settings = config(close_timeout=60)
    running = asyncio.create_task(run_agent_loop([user("go")], Context(), settings, emit, None, model))
    await settle()
    assert heard[-1] == "turn_end"
    running.cancel()
    await settle()
    running.cancel()
    await asyncio.wait([running], timeout=5)

    assert running.cancelled()
    assert heard[-1] == "agent_end"


async def test_a_callback_that_was_let_go_has_nobody_behind_it() -> None:
    stubborn = asyncio.Event()

    async def emit(event: AgentEvent) -> None:
        while event.type == "turn_start" and not stubborn.is_set():
            try:
                await stubborn.wait()
            except asyncio.CancelledError:
                continue

    controller = AbortController()
    model = ScriptedModel([says("x")])
    running = asyncio.create_task(run_agent_loop([user("go")], Context(), config(), emit, controller.signal, model))
    await settle()
    controller.abort("enough")
    outcome = await within(running)
    stubborn.set()

    assert (outcome.reason, outcome.abandoned) == ("aborted", ("listener of TurnStart",))


async def test_an_abort_of_the_signal_ends_the_run() -> None:
    async def hangs(*_: Any) -> str:
        await never()
        return "never"

    run = Run(calls("A"), says("end"))
    running = asyncio.create_task(run.prompt(user("go"), context=Context((), [PlainTool("A", hangs)])))
    await settle(60)
    run.controller.abort("enough")
    outcome = await within(running)

    assert (outcome.reason, outcome.abort_reason) == ("aborted", "enough")
    assert details(outcome.new_messages) == [{"cutOff": True, "reason": "aborted"}]
    check_trace(run.events, QUICK)


async def test_a_signal_that_was_aborted_before_lets_nothing_leave() -> None:
    run = Run(says("never"))
    run.controller.abort()
    outcome = await run.prompt(user("go"))

    assert (outcome.reason, run.model.requests) == ("aborted", [])
    assert [who(message) for message in outcome.new_messages] == ["user"]
    check_trace(run.events, QUICK)


# -- event streams -----------------------------------------------------------------------------------------------------


async def read(stream: Any) -> tuple[list[AgentEvent], RunOutcome]:
    events = [event async for event in stream]
    return events, await stream.result()


async def test_the_same_as_an_event_stream() -> None:
    model = ScriptedModel([says("one"), says("two")])
    events, outcome = await within(read(agent_loop([user("go")], Context(), config(), None, model)))
    assert (events[-1].type, outcome.final_text) == ("agent_end", "one")

    history: Sequence[Message] = [user("before")]
    events, outcome = await within(read(agent_loop_continue(Context(history), config(), None, model)))
    assert [event.message for event in events if isinstance(event, MessageEnd)] == list(outcome.new_messages)


async def test_a_stream_ends_with_its_error_whatever_happens_to_the_run() -> None:
    """D8: in the profile that raises, the error reaches `result()` and each reader."""
    stream = agent_loop([user("go")], Context(), config(policy=PI), None, ScriptedModel([raises(ValueError("lost"))]))
    events: list[AgentEvent] = []
    with pytest.raises(ValueError, match="lost"):
        async for event in stream:
            events.append(event)  # noqa: PERF401 - it raises in between
    with pytest.raises(ValueError, match="lost"):
        await stream.result()
    assert events[-1].type == "message_end"


async def test_a_cancelled_producer_ends_its_stream() -> None:
    async def silent(_request: Any) -> Any:
        await never()

    async with no_tasks_left():
        stream = agent_loop([user("go")], Context(), config(), None, silent)
        reader = asyncio.ensure_future(read(stream))
        await settle()
        stream.producer.cancel()  # type: ignore[attr-defined]
        await asyncio.wait([reader], timeout=5)
    assert reader.cancelled()


async def test_what_is_no_exception_reaches_the_reader_too() -> None:
    def fails(_request: Any) -> Any:
        pytest.fail("said a test inside of a stream function")

    stream = agent_loop([user("go")], Context(), config(), None, fails)
    with pytest.raises(pytest.fail.Exception, match="said a test"):
        await within(read(stream))


def test_an_exit_of_the_process_leaves_the_event_loop() -> None:
    def exits(_request: Any) -> Any:
        raise SystemExit(3)

    async def main() -> None:
        await within(read(agent_loop([user("go")], Context(), config(), None, exits)))

    with pytest.raises(SystemExit):
        asyncio.run(main())


async def test_in_a_hurry_the_callback_is_called_and_not_awaited() -> None:
    foreign = Stubborn(1)
    heard: list[str] = []

    def emit(event: AgentEvent) -> Any:
        heard.append(event.type)
        if event.type == "turn_end":
            return foreign.wait()
        return never() if event.type == "agent_end" else None

    settings = config(close_timeout=60)
    running = asyncio.create_task(
        run_agent_loop([user("go")], Context(), settings, emit, None, ScriptedModel([says("x")]))
    )
    await settle()
    for _ in range(2):
        running.cancel()
        await settle()
    await asyncio.wait([running], timeout=5)

    assert running.cancelled()
    assert heard[-1] == "agent_end"


async def test_a_callback_that_fails_while_an_exit_is_closed_is_recorded() -> None:
    reported: list[Any] = []

    def emit(event: AgentEvent) -> None:
        if event.type == "message_update":
            raise KeyboardInterrupt
        if reported:
            raise ValueError("behind it")

    settings = config(on_fault=reported.append)
    with pytest.raises(KeyboardInterrupt):
        await run_agent_loop([user("go")], Context(), settings, emit, None, ScriptedModel([says("x")]))

    assert [record.where for record in reported][:2] == ["exit", "listener"]
