"""Reading one response: events of a model stream go through the machine one by one, until the final message is there.

This is the hot road of the whole runtime: a delta costs one step by hand of the stream, one step of the machine and one
call of the audience. A task switch happens only where the stream or a listener really waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

from antiphon.core.machine import RULES
from antiphon.core.messages import AssistantMessage
from antiphon.core.response_events import Done, Failed
from antiphon.core.states import Answered, CallModel, Input
from antiphon.core.usage import Usage
from antiphon.errors import StreamBroken
from antiphon.loop.boundary import Boundary
from antiphon.loop.leash import Cut, ForeignCancelled, LetGo, foreign_cancelled, started


class ListenerEnds(Exception):
    """A listener's failure ends the run while a response is read; `__cause__` is what it raised."""


async def read_response(b: Boundary, command: CallModel) -> Input:
    """Ask the model and read its answer. Gives the answer, or a fault."""
    events: Any = None
    answer: AssistantMessage | None = None
    failed: BaseException | None = None
    b.leash.stream_is_open = True
    try:
        events = b.run.stream(command.request)
        if not hasattr(events, "__aiter__"):
            events = await b.leash.hold(_opening(events))
        answer = await _read(b, events)
        if answer is None:
            answer = await _result_of(b, events)
        answer = _final(answer)
    except GeneratorExit:  # the run itself is closed, without an event loop to wait in
        raise
    except BaseException as error:  # noqa: BLE001 - the border to a provider
        failed = error
        if isinstance(error, LetGo) or isinstance(error.__cause__, LetGo):
            b.abandoned.append("model stream")
            events = None  # whoever holds it still runs: it cannot be closed
    await _close(b, events)
    b.leash.stream_is_open = False
    if b.leash.cancelled():
        b.leash.judge()
    return Answered(cast("AssistantMessage", answer)) if failed is None else _failure(b, failed)


def _failure(b: Boundary, error: BaseException) -> Input:
    """What it means that a response could not be read to its end."""
    if isinstance(error, ListenerEnds):
        return b.fault(cast("BaseException", error.__cause__))
    if not isinstance(error, Cut):
        return b.escaped("model stream", error)
    if b.signal.aborted:
        return b.fault(Cut("Request was aborted"))
    return b.failed("model stream", StreamBroken("the model stream cancelled the task that reads it"))


async def _opening(given: Any) -> Any:
    """The stream, of a stream function that has to be awaited for it.

    Raises:
        StreamBroken: it gave something that is none.
    """
    events = await given if hasattr(given, "__await__") else given
    if not hasattr(events, "__aiter__"):
        raise StreamBroken(f"the stream function gave a {type(events).__name__}, not an asynchronous iterator")
    return events


def _final(message: Any) -> AssistantMessage:
    """What a stream gave as its final message.

    Raises:
        StreamBroken: it is none.
    """
    if not isinstance(message, AssistantMessage):
        raise StreamBroken(f"the model stream ended with a {type(message).__name__}, not with an AssistantMessage")
    content: Any = message.content
    if not isinstance(content, tuple | list):
        raise StreamBroken(f"the model stream ended with content of type {type(content).__name__}")
    if not isinstance(message.usage, Usage):
        raise StreamBroken(f"the model stream ended with usage of type {type(message.usage).__name__}")
    return message


async def _read(b: Boundary, events: Any) -> AssistantMessage | None:
    """The final message, or none if the stream just ended."""
    following = events.__aiter__().__anext__
    position, tell = b.run, b.audience.tell
    while True:
        pending = following()
        waiting: Awaitable[Any] | None = None
        event: Any = None
        try:  # stepped by hand: an event that is there already costs no wait
            waits_for = pending.send(None)
        except StopIteration as got:
            event = got.value
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError as own:
            raise foreign_cancelled(own) from own
        except AttributeError:
            if hasattr(pending, "send"):
                raise
            waiting = b.leash.hold(pending, b.config.stream_idle_timeout)
        else:
            waiting = b.leash.go_on(pending, waits_for, b.config.stream_idle_timeout)
        if waiting is not None:
            try:
                event = await waiting
            except StopAsyncIteration:
                return None
            except Cut as cut:
                raise _silent(b, cut) from cut
            if b.leash.cancelled() and type(event) is not Done and type(event) is not Failed:
                raise Cut("cancelled while the answer was read")
        rule = RULES[type(position.state)].get(type(event))
        if rule is None:
            return _last(event)
        position.state, commands = rule(position.state, event)
        command: Any
        for command in commands:
            try:
                waiting = tell(command)
                if waiting is None:
                    continue
                fault = await b.told(waiting, command)
            except BaseException as error:  # noqa: BLE001 - the border to listeners
                fault = b.listener_failed(error, command)
            if fault is not None:
                raise ListenerEnds from fault
            if b.leash.cancelled():
                raise Cut("cancelled while the answer was read")


def _last(event: Any) -> AssistantMessage:
    """The final message, of the event that brings it.

    Raises:
        StreamBroken: it brings none, and the machine has no rule for it.
    """
    if type(event) is Done:
        return event.message
    if type(event) is Failed:
        return event.error
    raise StreamBroken(f"the model stream gave a {type(event).__name__}, which is no response event")


def _silent(b: Boundary, cut: Cut) -> Exception:
    """What it means that waiting for the stream was cut: an abort, or else it was silent for too long."""
    if b.signal.aborted or b.leash.cancelled():
        return cut
    if b.config.stream_idle_timeout is None:  # pulled for a cancellation of its own, which it took back too late
        return StreamBroken("the model stream cancelled the task that reads it")
    return StreamBroken(f"the model stream was silent for {b.config.stream_idle_timeout:g} seconds")


async def _result_of(b: Boundary, events: Any) -> AssistantMessage:
    """The final message of a stream that ended without saying it."""
    result = getattr(events, "result", None)
    if result is None:
        raise StreamBroken("the model stream ended without a final answer")
    try:
        return cast("AssistantMessage", await b.leash.hold(result(), b.config.stream_idle_timeout))
    except ForeignCancelled as own:
        raise StreamBroken("the model stream cancelled its own result") from own
    except Cut as cut:
        raise _silent(b, cut) from cut


async def _close(b: Boundary, events: Any) -> None:
    """Let the stream release what it holds. The answer is there; a failure here only concerns the provider.

    It has the grace of an abort for that: a stream that does not let go must not keep the run.
    """
    close = getattr(events, "aclose", None)
    if close is None:
        return
    try:
        closing = started(close())
        try:
            waits_for = closing.send(None)
        except StopIteration:
            return
        await b.leash.go_on(closing, waits_for, b.policy.abort_grace)
    except Cut as cut:
        b.let_go("closing the model stream", cut)
    except asyncio.CancelledError as own:
        b.note("closing the model stream", foreign_cancelled(own))
    except Exception as error:  # noqa: BLE001 - the border to a provider
        b.note("closing the model stream", error)
