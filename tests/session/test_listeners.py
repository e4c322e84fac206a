"""Telling: in order, everybody, each on their own; whoever is slow is waited for or has a queue."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.core.events import AgentStart, TurnStart
from antiphon.core.session_events import ExtensionError, SessionEvent, SessionInfoChanged
from antiphon.session import listeners as module
from antiphon.session.listeners import Listeners
from antiphon.testing import Gate, settle


def named(name: str) -> SessionInfoChanged:
    return SessionInfoChanged(name=name)


def names(events: list[SessionEvent]) -> list[str]:
    return [str(getattr(event, "name", event.type)) for event in events]


def test_plain_listeners_are_told_before_emit_returns() -> None:
    """No event loop is needed for that."""
    listeners = Listeners()
    heard: list[SessionEvent] = []
    listeners.subscribe(heard.append)
    listeners.subscribe(heard.append)
    listeners.emit(AgentStart())
    assert heard == [AgentStart(), AgentStart()]


def test_what_a_listener_emits_comes_behind_what_is_being_told() -> None:
    listeners = Listeners()
    heard: list[str] = []

    def first(event: SessionEvent) -> None:
        if event.type == "agent_start":
            listeners.emit(TurnStart())

    listeners.subscribe(first)
    listeners.subscribe(lambda event: heard.append(event.type))
    listeners.emit(AgentStart())
    assert heard == ["agent_start", "turn_start"]


async def test_a_slow_listener_is_a_barrier_and_the_order_stays() -> None:
    listeners = Listeners()
    gate, slow, quick = Gate(), list[SessionEvent](), list[SessionEvent]()

    async def listen(event: SessionEvent) -> None:
        await gate.passed()
        slow.append(event)

    listeners.subscribe(listen)
    listeners.subscribe(quick.append)
    listeners.emit(named("1"))
    listeners.emit(named("2"))
    assert listeners.is_busy
    assert (slow, quick) == ([], [])
    gate.open()
    await listeners.told()
    assert names(slow) == names(quick) == ["1", "2"]
    assert not listeners.is_busy


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_failing_listener_is_reported_and_the_others_are_told(is_async: bool) -> None:
    listeners = Listeners()
    heard: list[SessionEvent] = []

    def fail(event: SessionEvent) -> None:
        if type(event) is not ExtensionError:
            raise ValueError("no")

    async def fail_later(event: SessionEvent) -> None:
        await asyncio.sleep(0)
        fail(event)

    listeners.subscribe(fail_later if is_async else fail)
    listeners.subscribe(heard.append)
    listeners.emit(named("1"))
    await listeners.told()
    assert [event.type for event in heard] == ["session_info_changed", "extension_error"]


async def test_a_listener_that_fails_over_every_report_does_not_go_round_for_ever() -> None:
    listeners = Listeners()
    heard: list[SessionEvent] = []

    def fail(_event: SessionEvent) -> None:
        raise ValueError("no")

    listeners.subscribe(fail)
    listeners.subscribe(heard.append)
    listeners.emit(AgentStart())
    assert [event.type for event in heard] == ["agent_start", "extension_error"]


async def test_a_listener_without_a_barrier_is_not_waited_for() -> None:
    listeners = Listeners()
    gate, heard = Gate(), list[SessionEvent]()

    async def listen(event: SessionEvent) -> None:
        await gate.passed()
        heard.append(event)

    listeners.subscribe(listen, barrier=False, capacity=2)
    listeners.emit(named("1"))
    await settle()
    listeners.emit(named("2"))
    listeners.emit(named("3"))
    assert not listeners.is_busy
    listeners.emit(named("4"))  # its queue is full: now it is waited for
    assert listeners.is_busy
    gate.open()
    await listeners.told()
    await settle()
    assert names(heard) == ["1", "2", "3", "4"]


async def test_whoever_has_left_is_told_nothing_more() -> None:
    listeners = Listeners()
    heard: list[SessionEvent] = []
    leave = listeners.subscribe(heard.append)
    listeners.subscribe(heard.append)
    leave()
    listeners.emit(AgentStart())
    assert len(heard) == 1
    listeners.clear()
    listeners.emit(AgentStart())
    assert len(heard) == 1


async def test_a_listener_is_cut_when_its_barrier_is_cancelled() -> None:
    listeners = Listeners()
    heard: list[SessionEvent] = []

    async def hangs(event: SessionEvent) -> None:
        if type(event) is AgentStart:
            await Gate().passed()

    listeners.subscribe(hangs)
    listeners.subscribe(heard.append)
    listeners.emit(AgentStart())
    waiting = asyncio.ensure_future(listeners.told())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await listeners.told()
    assert [event.type for event in heard] == ["agent_start", "extension_error"]


async def test_a_listener_that_does_not_let_itself_be_cut_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.01)
    listeners = Listeners()
    gate, heard = Gate(), list[SessionEvent]()

    async def stubborn(_event: SessionEvent) -> None:
        while not gate.is_open:
            try:
                await gate.passed()
            except asyncio.CancelledError:
                continue

    listeners.subscribe(stubborn)
    listeners.subscribe(heard.append)
    listeners.emit(AgentStart())
    waiting = asyncio.ensure_future(listeners.told())
    await settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await listeners.told()
    listeners.emit(TurnStart())
    assert [event.type for event in heard] == ["agent_start", "extension_error", "turn_start"]
    gate.open()
    await settle()
