"""An event stream ends for everybody who waits, whatever happens to its producer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import Done, Failed, Start
from antiphon.errors import StreamEnded
from antiphon.loop.event_stream import EventStream, response_stream


def numbers(**options: Any) -> EventStream[int, str]:
    """Complete with a negative number."""
    return EventStream(lambda n: n < 0, lambda n: f"result {n}", **options)


async def soon(*work: Coroutine[Any, Any, Any]) -> list[asyncio.Future[Any]]:
    """Tasks that have come as far as they can."""
    tasks = [asyncio.ensure_future(each) for each in work]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


@pytest.mark.requirement("S3-96", "S3-97", "S3-98")
async def test_events_before_and_behind_the_reader_then_the_result() -> None:
    stream = numbers()
    stream.push(1)

    async def read() -> list[int]:
        return [n async for n in stream]

    (reader,) = await soon(read())
    stream.push(2)
    stream.push(-3)
    stream.push(4)

    assert await reader == [1, 2, -3]
    assert await stream.result() == "result -3"
    assert stream.ended


async def test_completion_wakes_all_readers_and_all_who_wait_for_the_result() -> None:
    stream = numbers()
    waiting = await soon(*(anext(stream.__aiter__()) for _ in range(3)), stream.result(), stream.result())

    stream.push(-1)

    got = await asyncio.gather(*waiting, return_exceptions=True)
    assert got[0] == -1
    assert [type(each) for each in got[1:3]] == [StopAsyncIteration, StopAsyncIteration]
    assert got[3:] == ["result -1", "result -1"]


async def test_an_end_without_result_is_told() -> None:
    stream = numbers()
    (waiting,) = await soon(stream.result())

    stream.push(1)
    stream.end()
    stream.end("too late")

    assert [n async for n in stream] == [1]
    with pytest.raises(StreamEnded):
        await waiting
    with pytest.raises(StreamEnded):
        await stream.result()


async def test_it_may_wait_for_a_late_result_as_the_reference_does() -> None:
    stream = numbers(waits_for_result=True)
    (waiting,) = await soon(stream.result())

    stream.end()
    assert not (await soon(asyncio.sleep(0)))[0].cancelled()
    assert not waiting.done()
    stream.end("late")

    assert await waiting == "late"


async def test_a_producer_that_fails_reaches_every_reader_behind_the_queued_events() -> None:
    stream = numbers()
    (result,) = await soon(stream.result())
    stream.push(1)
    stream.push(2)
    stream.fail(OSError("line cut"))
    stream.fail(OSError("ignored"))
    stream.push(3)

    first, second = stream.__aiter__(), stream.__aiter__()
    assert [await anext(first), await anext(second)] == [1, 2]
    for reader in (first, second):
        with pytest.raises(OSError, match="line cut"):
            await anext(reader)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
    with pytest.raises(OSError, match="line cut"):
        await result


async def test_a_failure_wakes_waiting_readers() -> None:
    stream = numbers()
    waiting = await soon(anext(stream.__aiter__()), anext(stream.__aiter__()))

    stream.fail(OSError("line cut"))

    assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == [OSError, OSError]


async def test_a_failure_behind_the_result_changes_nothing() -> None:
    stream = numbers()
    stream.push(-1)
    stream.fail(OSError("late"))

    assert [n async for n in stream] == [-1]
    assert await stream.result() == "result -1"


async def test_leaving_early_leaves_the_rest_to_others() -> None:
    stream = numbers()
    for n in (1, 2, 3):
        stream.push(n)

    reader = stream.__aiter__()
    assert await anext(reader) == 1
    await reader.aclose()
    stream.end("done")

    assert [n async for n in reader] == []
    assert [n async for n in stream] == [2, 3]


async def test_closing_ends_a_step_that_waits() -> None:
    stream = numbers()
    reader = stream.__aiter__()
    (waiting,) = await soon(anext(reader))

    await reader.aclose()
    stream.push(1)

    with pytest.raises(StopAsyncIteration):
        await waiting
    assert await anext(stream.__aiter__()) == 1


async def test_an_event_handed_to_a_cancelled_reader_is_not_lost() -> None:
    stream = numbers()
    (first,) = await soon(anext(stream.__aiter__()))
    stream.push(1)
    stream.push(2)
    first.cancel()
    await asyncio.wait([first])

    assert [await anext(stream.__aiter__()), await anext(stream.__aiter__())] == [1, 2]


async def test_it_goes_to_the_next_one_who_waits() -> None:
    stream = numbers()
    first, second = await soon(anext(stream.__aiter__()), anext(stream.__aiter__()))
    stream.push(1)
    first.cancel()

    assert await second == 1
    assert first.cancelled()


async def test_a_reader_cancelled_before_or_at_the_end_takes_nothing_along() -> None:
    stream = numbers()
    first, second = await soon(anext(stream.__aiter__()), anext(stream.__aiter__()))
    first.cancel()
    await asyncio.wait([first])
    stream.push(1)
    assert await second == 1

    waiting, asking = await soon(anext(stream.__aiter__()), stream.result())
    asking.cancel()
    await asyncio.wait([asking])
    stream.end("done")
    waiting.cancel()
    await asyncio.wait([waiting])

    assert [n async for n in stream] == []
    assert await stream.result() == "done"


@pytest.mark.requirement("S3-95")
async def test_the_stream_of_a_response() -> None:
    message = AssistantMessage(content=(), stop_reason="stop")
    good, bad = response_stream(), response_stream()

    good.push(Start(message=message))
    good.push(Done(reason="stop", message=message))
    bad.push(Failed(reason="error", error=message))

    assert [type(event).__name__ async for event in good] == ["Start", "Done"]
    assert await good.result() is message
    assert await bad.result() is message
