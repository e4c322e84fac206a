"""The scripted model: answers in order, remembered requests, aborts, faults."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.core.messages import user
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.testing import (
    SCRIPTED_MODEL,
    Gate,
    ScriptedModel,
    breaks,
    falls_silent,
    raises,
    says,
    stops_short,
)


class Switch:
    """An abort signal that is thrown by hand."""

    reason = None

    def __init__(self) -> None:
        self._thrown = asyncio.Event()

    @property
    def aborted(self) -> bool:
        return self._thrown.is_set()

    def abort(self) -> None:
        self._thrown.set()

    async def wait(self) -> None:
        await self._thrown.wait()

    def on_abort(self, callback: object) -> object:
        raise NotImplementedError


def request(signal: Switch | None = None) -> ModelRequest:
    return ModelRequest(
        model=SCRIPTED_MODEL,
        messages=[user("hi")],
        thinking_level="off",
        signal=signal or Switch(),  # type: ignore[arg-type]
    )


async def read(model: ScriptedModel, signal: Switch | None = None) -> list[ResponseEvent]:
    return [event async for event in model(request(signal))]


@pytest.mark.requirement("S0-1")
async def test_the_kth_request_gets_the_kth_answer_and_is_remembered() -> None:
    model = ScriptedModel([says("one"), lambda asked: says(f"{len(asked.messages)} message")])

    first, second = (await read(model))[-1], (await read(model))[-1]

    assert isinstance(first, Done) and first.message == says("one").message()
    assert isinstance(second, Done) and second.message == says("1 message").message()
    assert model.asked == [(user("hi"),), (user("hi"),)]
    assert model.answers_left == 0


async def test_a_request_behind_the_script_gets_an_error_answer() -> None:
    assert isinstance((await read(ScriptedModel()))[-1], Failed)


async def test_an_abort_ends_the_answer_with_what_had_arrived() -> None:
    gate, signal = Gate(), Switch()
    model = ScriptedModel([says("half", "never").held(gate, before=3)])
    reading = asyncio.create_task(read(model, signal))
    await gate.reached()

    signal.abort()

    last = (await reading)[-1]
    assert isinstance(last, Failed) and last.reason == "aborted"
    assert last.error.content == says("half").content
    assert model.open_streams == 0


async def test_a_model_that_ignores_the_abort_goes_on() -> None:
    signal = Switch()
    signal.abort()

    events = await read(ScriptedModel([says("anyway").ignoring_abort()]), signal)

    assert isinstance(events[-1], Done)


async def test_a_broken_stream_raises_in_the_middle() -> None:
    model = ScriptedModel([breaks(says("a", "b"), OSError("line is down"), before=3)])
    seen: list[str] = []

    with pytest.raises(OSError, match="line is down"):
        async for event in model(request()):
            seen.append(event.type)

    assert seen == ["start", "text_start", "text_delta"]
    assert model.open_streams == 0


async def test_a_stream_function_can_raise_instead_of_answering() -> None:
    with pytest.raises(RuntimeError, match="no"):
        ScriptedModel([raises(RuntimeError("no"))])(request())


async def test_a_stream_can_stop_without_a_final_message() -> None:
    assert [event.type for event in await read(ScriptedModel([stops_short(says("a"))]))][-1] == "text_end"


async def test_a_silent_stream_waits_until_it_is_aborted() -> None:
    signal = Switch()
    stream = ScriptedModel([falls_silent(says("a"))])(request(signal))
    for _ in range(4):
        await anext(stream)
    last = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    assert not last.done()

    signal.abort()

    assert (await last).type == "error"


async def test_a_closed_stream_is_no_longer_open() -> None:
    model = ScriptedModel([says("a")])
    stream = model(request())
    await anext(stream)
    assert model.open_streams == 1

    await stream.aclose()  # type: ignore[attr-defined]

    assert model.open_streams == 0
