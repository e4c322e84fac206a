"""Streams of every shape: what they say becomes one answer, and what they break becomes a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from tests.loop.rig import QUICK, Stubborn, legal, never, within

from antiphon.agent import Agent
from antiphon.core.content import Text, text_of
from antiphon.core.events import AgentEvent, MessageEnd, MessageStart, MessageUpdate
from antiphon.core.messages import AssistantMessage, user
from antiphon.core.policy import PI
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent, Start, TextDelta, TextStart
from antiphon.errors import StreamBroken
from antiphon.loop import leash
from antiphon.loop.event_stream import response_stream
from antiphon.loop.outcome import RunOutcome
from antiphon.testing import Gate, Recording, ScriptedModel, says, settle
from antiphon.testing.script import SCRIPTED_MODEL, events_of

BEGUN = AssistantMessage(content=(), stop_reason="pending")
FINAL = AssistantMessage(content=(Text(text="final"),), stop_reason="stop")
EVENTS = events_of(says("Hel", "lo"), SCRIPTED_MODEL)


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leash, "PULL_EVERY", 0.002)


async def read(stream: Any, **options: Any) -> tuple[RunOutcome, Recording]:
    """One run with this stream function."""
    agent = Agent(stream=stream, policy=QUICK, **options)
    recording = Recording()
    agent.subscribe(recording)
    outcome = await within(agent.prompt("go"))
    legal(recording)
    return outcome, recording


def answer_events(recording: Recording) -> list[AgentEvent]:
    return [
        event
        for event in recording
        if isinstance(event, MessageStart | MessageUpdate | MessageEnd) and event.message.role == "assistant"
    ]


async def yields(*events: Any) -> AsyncIterator[Any]:
    for event in events:
        if isinstance(event, BaseException):
            raise event
        yield event


class Plain:
    """An asynchronous iterator that is no generator, without `aclose`; each step is an ordinary coroutine."""

    def __init__(self, *events: Any) -> None:
        self._events = list(events)

    def __aiter__(self) -> Plain:
        return self

    async def __anext__(self) -> Any:
        await asyncio.sleep(0)
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop(0)


class Futures(Plain):
    """The same with futures instead of coroutines: nothing to step by hand."""

    def __anext__(self) -> Any:
        future = asyncio.get_running_loop().create_future()
        if self._events:
            future.set_result(self._events.pop(0))
        else:
            future.set_exception(StopAsyncIteration())
        return Waits(future)


class Waits:
    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    def __await__(self) -> Any:
        return iter(self._future)


async def _later(stream: Any) -> Any:
    await asyncio.sleep(0)
    return stream


@pytest.mark.parametrize(
    "stream",
    [
        lambda request: yields(*EVENTS),
        lambda request: _later(yields(*EVENTS)),
        lambda request: Plain(*EVENTS),
        lambda request: _later(Plain(*EVENTS)),
        lambda request: Futures(*EVENTS),
    ],
    ids=["generator", "awaited generator", "iterator", "awaited iterator", "futures"],
)
async def test_every_kind_of_stream_is_read(stream: Any) -> None:
    outcome, recording = await read(stream)

    assert (outcome.reason, outcome.final_text, outcome.faults) == ("stop", "Hello", ())
    kinds = [type(event) for event in answer_events(recording)]
    assert kinds == [MessageStart, *[MessageUpdate] * 4, MessageEnd]


async def test_a_queue_is_a_stream_too() -> None:
    def stream(_request: ModelRequest) -> Any:
        events = response_stream()
        for event in EVENTS:
            asyncio.get_running_loop().call_soon(events.push, event)
        return events

    outcome, _ = await read(stream)

    assert outcome.final_text == "Hello"


async def test_without_a_start_growth_is_not_shown_and_the_end_brings_everything() -> None:
    outcome, recording = await read(
        lambda request: yields(TextStart(content_index=0), TextDelta(content_index=0, delta="x"), *EVENTS[-1:])
    )

    assert [type(event) for event in answer_events(recording)] == [MessageStart, MessageEnd]
    assert outcome.final_text == "Hello"


async def test_a_second_start_replaces_what_was_there_without_a_second_announcement() -> None:
    """D12: one response yields one `message_start`."""
    outcome, recording = await read(lambda request: yields(*EVENTS[:3], Start(message=BEGUN), *EVENTS[1:]))

    starts = [event for event in answer_events(recording) if isinstance(event, MessageStart)]
    assert len(starts) == 1
    assert outcome.final_text == "Hello"
    assert sum(message.role == "assistant" for message in outcome.new_messages) == 1


async def test_nothing_behind_the_end_is_read() -> None:
    seen: list[str] = []

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        for event in EVENTS:
            yield event
        seen.append("read on")
        yield EVENTS[0]

    outcome, _ = await read(stream)

    assert (outcome.final_text, seen) == ("Hello", [])


async def test_the_final_message_decides_not_the_kind_of_the_last_event() -> None:
    failed = AssistantMessage(content=(), stop_reason="error", error_message="overloaded")
    outcome, _ = await read(lambda request: yields(Done(reason="stop", message=failed)))
    assert (outcome.reason, outcome.error) == ("error", "overloaded")

    outcome, _ = await read(lambda request: yields(Failed(reason="error", error=FINAL)))
    assert (outcome.reason, outcome.final_text) == ("stop", "final")


async def test_an_answer_is_stamped_with_the_level_asked_for() -> None:
    told = AssistantMessage(content=(), stop_reason="stop", thinking_level="high")
    outcome, _ = await read(lambda request: yields(Done(reason="stop", message=told)), thinking_level="low")
    assert outcome.new_messages[-1].thinking_level == "low"  # type: ignore[union-attr]

    outcome, _ = await read(lambda request: yields(ValueError("x")), thinking_level="low")
    assert outcome.new_messages[-1].thinking_level is UNSET  # type: ignore[union-attr]


# -- ends without an end -----------------------------------------------------------------------------------------------


class WithResult(Plain):
    def __init__(self, result: Any, *events: Any) -> None:
        super().__init__(*events)
        self._result = result

    async def result(self) -> Any:
        await asyncio.sleep(0)
        if isinstance(self._result, BaseException):
            raise self._result
        return await self._result() if callable(self._result) else self._result


async def test_a_stream_that_just_ends_is_asked_for_its_result() -> None:
    outcome, recording = await read(lambda request: WithResult(FINAL, *EVENTS[:3]))

    assert outcome.final_text == "final"
    assert [type(event) for event in answer_events(recording)] == [MessageStart, *[MessageUpdate] * 2, MessageEnd]


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (lambda request: yields(*EVENTS[:3]), "ended without a final answer"),
        (lambda request: WithResult(ValueError("no result")), "no result"),
        (lambda request: WithResult(asyncio.CancelledError()), "cancelled its own result"),
        (lambda request: WithResult(None), "ended with a NoneType"),
        (lambda request: WithResult(never), "silent for 0.01 seconds"),
    ],
    ids=["none", "fails", "cancelled", "nothing", "never"],
)
async def test_a_stream_without_an_answer_is_a_failure(stream: Any, words: str) -> None:
    outcome, _ = await read(stream, stream_idle_timeout=0.01)

    assert outcome.reason == "error"
    assert words in (outcome.error or "")
    assert isinstance(outcome.faults[0].error, StreamBroken | ValueError)


# -- broken ------------------------------------------------------------------------------------------------------------


async def test_a_stream_that_raises_leaves_what_has_arrived() -> None:
    """D7: a failure answer holding the content so far."""
    outcome, recording = await read(lambda request: yields(*EVENTS[:3], ValueError("connection lost")))

    message = outcome.new_messages[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.stop_reason, message.error_message) == ("error", "connection lost")
    assert text_of(message.content) == "Hel"
    assert [type(event) for event in answer_events(recording)][-1] is MessageEnd
    assert [fault.where for fault in outcome.faults] == ["model stream"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_stream_function_that_raises_is_a_failure(is_async: bool) -> None:
    def now(_request: ModelRequest) -> Any:
        raise ValueError("refused")

    async def later(_request: ModelRequest) -> Any:
        raise ValueError("refused")

    outcome, _ = await read(later if is_async else now)

    assert (outcome.reason, outcome.error) == ("error", "refused")


@pytest.mark.parametrize(
    "stream",
    [
        lambda request: yields(asyncio.CancelledError()),
        lambda request: yields(*EVENTS[:2], asyncio.CancelledError()),
        lambda request: (_ for _ in ()).throw(asyncio.CancelledError()),
    ],
    ids=["at once", "in between", "the function"],
)
async def test_a_stream_that_cancels_itself_is_a_failure(stream: Any) -> None:
    outcome, _ = await read(stream)

    assert outcome.reason == "error"
    assert "CancelledError" in (outcome.error or "")


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (lambda request: None, "the stream function gave a NoneType"),
        (lambda request: 5, "the stream function gave a int"),
        (lambda request: _later(5), "the stream function gave a int"),
        (lambda request: yields(5), "gave a int, which is no response event"),
        (lambda request: yields(Done(reason="stop", message="text")), "ended with a str"),  # type: ignore[arg-type]
        (lambda request: yields(Done(reason="stop", message=user("x"))), "ended with a UserMessage"),  # type: ignore[arg-type]
        (
            lambda request: yields(Done(reason="stop", message=replace(FINAL, content=None))),
            "content of type NoneType",
        ),
        (lambda request: yields(Start(message=None), *EVENTS[1:3]), "ended without a final answer"),  # type: ignore[arg-type]
        (lambda request: yields(EVENTS[0], TextDelta(content_index=0, delta=None)), "without a final answer"),  # type: ignore[arg-type]
    ],
)
async def test_what_no_provider_should_say_is_a_failure(stream: Any, words: str) -> None:
    outcome, _ = await read(stream)

    assert outcome.reason == "error"
    assert words in (outcome.error or "")


async def test_an_unknown_stop_reason_breaks_the_protocol() -> None:
    odd = replace(FINAL, stop_reason="pending")
    outcome, _ = await read(lambda request: yields(Done(reason="stop", message=odd)))

    assert outcome.reason == "error"
    assert "pending" in (outcome.error or "")


async def test_an_attribute_error_of_the_stream_is_not_taken_for_a_missing_method() -> None:
    outcome, _ = await read(lambda request: yields(AttributeError("mine")))

    assert outcome.error == "mine"


# -- silence, hanging, closing -----------------------------------------------------------------------------------------


async def silent(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
    yield EVENTS[0]
    await never()


async def test_a_silent_stream_becomes_a_failure() -> None:
    """D8: no silent hang."""
    outcome, _ = await read(silent, stream_idle_timeout=0.01)

    assert (outcome.reason, outcome.error) == ("error", "the model stream was silent for 0.01 seconds")
    assert outcome.abandoned == ()


async def test_a_silent_stream_that_swallows_its_cancellation_is_let_go() -> None:
    foreign = Stubborn()

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield EVENTS[0]
        await foreign.wait()

    outcome, _ = await read(stream, stream_idle_timeout=0.01)
    foreign.released.set()

    assert outcome.error == "the model stream was silent for 0.01 seconds"
    assert outcome.abandoned == ("model stream",)


async def test_a_stream_that_speaks_now_and_then_is_not_silent() -> None:
    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        for event in EVENTS:
            await asyncio.sleep(0.01)
            yield event

    outcome, _ = await read(stream, stream_idle_timeout=0.04)

    assert outcome.final_text == "Hello"


async def test_silence_of_a_stream_function_ends_with_an_abort() -> None:
    async def stream(_request: ModelRequest) -> Any:
        await never()

    agent = Agent(stream=stream, policy=QUICK)
    prompt = asyncio.create_task(agent.prompt("go"))
    await settle()
    agent.abort("enough")

    outcome = await within(prompt)
    assert (outcome.reason, outcome.error, outcome.abort_reason) == ("aborted", "Request was aborted", "enough")


async def test_an_endless_stream_ends_with_an_abort() -> None:
    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield EVENTS[0]
        yield TextStart(content_index=0)
        while True:
            await asyncio.sleep(0)
            yield TextDelta(content_index=0, delta="and so on ")

    agent = Agent(stream=stream, policy=QUICK)
    recording = Recording()
    agent.subscribe(recording)
    prompt = asyncio.create_task(agent.prompt("go"))
    await within(recording.heard("message_update"))
    agent.abort()

    outcome = await within(prompt)
    assert outcome.reason == "aborted"
    assert outcome.final_text.startswith("and so on")
    legal(recording)


async def test_a_stream_is_closed_when_its_answer_is_there_or_its_reader_gone() -> None:
    closed: list[str] = []

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        try:
            for event in EVENTS:
                await asyncio.sleep(0)
                yield event
            await never()
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    await read(stream)
    assert closed == ["closed"]

    def fails(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, MessageUpdate):
            raise OSError("disk full")

    agent = Agent(stream=stream, policy=QUICK)
    agent.subscribe(fails, critical=True)
    outcome = await within(agent.prompt("go"))
    assert outcome.error == "disk full"
    assert closed == ["closed", "closed"]


class Closing(Plain):
    def __init__(self, close: Any) -> None:
        super().__init__(*EVENTS)
        self._close = close

    def aclose(self) -> Awaitable[None]:
        result: Awaitable[None] = self._close()
        return result


async def test_what_goes_wrong_at_the_close_does_not_touch_the_answer() -> None:
    async def fails() -> None:
        raise ValueError("cannot close")

    async def cancels() -> None:
        raise asyncio.CancelledError

    def future() -> Awaitable[None]:
        made: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        made.set_result(None)
        return made

    for close, where in ((fails, 1), (cancels, 1), (lambda: 5, 1), (future, 0), (never, 0)):
        outcome, _ = await read(lambda request, close=close: Closing(close))
        assert (outcome.reason, outcome.final_text) == ("stop", "Hello")
        assert [fault.where for fault in outcome.faults] == ["closing the model stream"] * where
        assert outcome.abandoned == ()


async def test_a_stream_that_does_not_even_close_is_named() -> None:
    foreign = Stubborn()
    outcome, _ = await read(lambda request: Closing(foreign.wait))
    foreign.released.set()

    assert (outcome.reason, outcome.abandoned) == ("stop", ("closing the model stream",))


async def test_an_exit_of_the_process_out_of_a_stream_closes_the_run_first() -> None:
    agent = Agent(stream=lambda request: yields(*EVENTS[:3], SystemExit(3)), policy=QUICK)
    recording = Recording()
    agent.subscribe(recording)

    with pytest.raises(SystemExit):
        await agent.prompt("go")

    legal(recording)
    assert not agent.is_streaming


async def test_a_cancelled_run_does_not_wait_for_a_stream_that_goes_on() -> None:
    """Whoever swallows the cancellation and sends on is closed, not read to its end."""
    sent: list[int] = []

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield EVENTS[0]
        yield TextStart(content_index=0)
        for number in range(1000):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)
            sent.append(number)
            yield TextDelta(content_index=0, delta="x")

    agent = Agent(stream=stream, policy=QUICK)
    recording = Recording()
    agent.subscribe(recording)
    prompt = asyncio.create_task(agent.prompt("go"))
    await within(recording.heard("message_update"))
    prompt.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert len(sent) < 100
    legal(recording)


async def test_an_answer_that_arrives_with_the_cancellation_is_kept() -> None:
    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        yield EVENTS[0]
        try:
            await never()
        except asyncio.CancelledError:
            yield Done(reason="stop", message=FINAL)

    agent = Agent(stream=stream, policy=QUICK)
    prompt = asyncio.create_task(agent.prompt("go"))
    await settle()
    prompt.cancel()
    await asyncio.wait([prompt], timeout=5)

    assert prompt.cancelled()
    assert agent.messages[-1].content == FINAL.content


async def test_listeners_are_waited_for_between_two_events() -> None:
    """`message_update` is a barrier like any event: a slow listener slows reading, and nothing else."""
    gate = Gate()
    asked: list[int] = []

    async def stream(_request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        for number, event in enumerate(EVENTS):
            asked.append(number)
            yield event

    async def slow(event: AgentEvent, _signal: Any) -> None:
        if isinstance(event, MessageUpdate):
            await gate.passed()

    agent = Agent(stream=stream, policy=QUICK)
    agent.subscribe(slow)
    prompt = asyncio.create_task(agent.prompt("go"))
    await within(gate.reached())
    await settle()
    assert asked == [0, 1]

    gate.open()
    await within(prompt)
    assert asked == list(range(len(EVENTS)))


async def test_in_profile_pi_a_broken_stream_gives_only_the_failure() -> None:
    agent = Agent(stream=lambda request: yields(*EVENTS[:3], ValueError("lost")), policy=PI)

    outcome = await within(agent.prompt("go"))

    assert [message.role for message in outcome.new_messages] == ["assistant"]
    assert text_of(outcome.new_messages[0].content) == ""


async def test_every_answer_is_read_by_one_task_with_one_request() -> None:
    model = ScriptedModel([says("x")])
    await read(model)

    assert len(model.requests) == 1
    assert model.open_streams == 0
