"""A queue of events with a final result: `async for` over it, then `await stream.result()`.

The producer never waits. All iterators share the queue, so each event goes to one of them. Whatever happens to the
producer, the stream ends, and nobody who waits is left waiting:

    completing event    delivered like the others, settles the result, ends the stream
    end(result)         settles the result, ends the stream behind what is queued
    end()               ends the stream; `result()` raises `StreamEnded`
    fail(error)         ends the stream; `result()` and, behind what is queued, each iterator raise the error
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar, cast, final

from msgspec import UNSET, UnsetType

from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.errors import StreamEnded

E = TypeVar("E")
R = TypeVar("R")

_END: Any = object()
"""Handed to a waiting iterator instead of an event."""


@final
class EventStream(Generic[E, R]):
    """Events of type `E` that come to a result of type `R`.

    `complete` says whether an event is the last one, `result_of` what it settles. What is pushed after the end is
    dropped, and the first result wins. `waits_for_result`: after an `end()` without result, `result()` waits for an
    `end(result)` that may never come (as the reference does) instead of raising.
    """

    __slots__ = (
        "__weakref__",
        "_complete",
        "_ended",
        "_error",
        "_failed",
        "_queue",
        "_readers",
        "_result",
        "_result_of",
        "_results",
        "_settled",
        "_waits_for_result",
        "producer",
    )

    def __init__(
        self, complete: Callable[[E], bool], result_of: Callable[[E], R], *, waits_for_result: bool = False
    ) -> None:
        self._complete = complete
        self._result_of = result_of
        self._waits_for_result = waits_for_result
        self._queue: deque[E] = deque()
        self._readers: deque[asyncio.Future[E]] = deque()
        """Iterators that wait for an event, in the order in which they came."""
        self._results: list[asyncio.Future[None]] = []
        """Those who wait for the result."""
        self._ended = False
        self._failed = False
        self._settled = False
        self._result: R | UnsetType = UNSET
        self._error: BaseException | None = None
        self.producer: object = None
        """Kept alive as long as the stream: the task that feeds it."""

    @property
    def ended(self) -> bool:
        """Nothing will be queued any more."""
        return self._ended

    # -- producer ----------------------------------------------------------------------------------------------------

    def push(self, event: E) -> None:
        """Queue an event, or hand it to the iterator that has waited longest. O(1), never waits."""
        if self._ended:
            return
        is_last = self._complete(event)
        result = self._result_of(event) if is_last else None
        self._offer(event)
        if is_last:
            self._settle(cast("R", result))
            self._end()

    def end(self, result: R | UnsetType = UNSET) -> None:
        """No more events. Without a result, and if none was settled before, `result()` raises `StreamEnded`."""
        if result is not UNSET:
            self._settle(result)
        elif not self._waits_for_result:
            self._refuse(StreamEnded("the event stream was ended without a result"))
        self._end()

    def fail(self, error: BaseException) -> None:
        """The producer failed: the error reaches whoever reads or asks. After the end nothing happens."""
        if not self._ended:
            self._failed = True
            self._refuse(error)
            self._end()

    def _settle(self, result: R) -> None:
        if not self._settled:
            self._settled, self._result = True, result
            self._wake_results()

    def _refuse(self, error: BaseException) -> None:
        if not self._settled:
            self._settled, self._error = True, error
            self._wake_results()

    def _wake_results(self) -> None:
        waiting, self._results = self._results, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _end(self) -> None:
        self._ended = True
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(_END)

    def _offer(self, event: E) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(event)
                return
        self._queue.append(event)

    # -- consumer ----------------------------------------------------------------------------------------------------

    def __aiter__(self) -> EventReader[E]:
        """A further iterator on the same queue. Leaving it early leaves the stream usable for others."""
        return EventReader(cast("EventStream[E, Any]", self))

    async def result(self) -> R:
        """The result, as soon as it is settled.

        Raises:
            StreamEnded: the stream was ended without one.
            BaseException: what the producer raised.
        """
        while not self._settled:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._results.append(future)
            await future
        if self._error is not None:
            raise self._error
        return cast("R", self._result)


@final
class EventReader(Generic[E]):
    """One iterator of a stream. It stays at its end once it came there or was closed."""

    __slots__ = ("_closed", "_stream", "_waiting")

    def __init__(self, stream: EventStream[E, Any]) -> None:
        self._stream = stream
        self._closed = False
        self._waiting: asyncio.Future[E] | None = None

    def __aiter__(self) -> AsyncIterator[E]:
        return self

    async def __anext__(self) -> E:
        stream = self._stream
        if self._closed:
            raise StopAsyncIteration
        if stream._queue:
            return stream._queue.popleft()
        event = _END if stream._ended else await self._wait()
        if event is not _END:
            return cast("E", event)
        was_closed, self._closed = self._closed, True
        if stream._failed and not was_closed:
            raise cast("BaseException", stream._error)
        raise StopAsyncIteration

    async def _wait(self) -> E:
        stream = self._stream
        self._waiting = future = asyncio.get_running_loop().create_future()
        stream._readers.append(future)
        try:
            event: E = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._put_back(future.result())
            raise
        finally:
            self._waiting = None
        return event

    def _put_back(self, event: E) -> None:
        """The event came and nobody takes it any more: the next one in the line gets it, in its place."""
        stream = self._stream
        if event is _END:
            return
        if stream._readers:  # then nothing is queued
            stream._offer(event)
        else:
            stream._queue.appendleft(event)

    async def aclose(self) -> None:
        """Stop here; a pending step ends. Events that were not taken stay for other iterators."""
        self._closed = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(_END)


def response_stream() -> EventStream[ResponseEvent, AssistantMessage]:
    """The stream of one model response: complete with `Done` or `Failed`, its result is their message."""
    return EventStream(_is_last, _message_of)


def _is_last(event: ResponseEvent) -> bool:
    return type(event) is Done or type(event) is Failed


def _message_of(event: ResponseEvent) -> AssistantMessage:
    return event.message if type(event) is Done else cast("Failed", event).error
