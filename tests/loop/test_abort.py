"""Saying once that work is no longer wanted, and everybody hears it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.loop.rig import within

from antiphon.loop.abort import AbortController, DerivedSignal, never_aborted
from antiphon.testing import settle


def test_the_first_reason_stays() -> None:
    controller = AbortController()
    assert (controller.signal.aborted, controller.signal.reason) == (False, None)

    controller.abort("first")
    controller.abort("second")

    assert (controller.signal.aborted, controller.signal.reason) == (True, "first")


def test_callbacks_are_called_once_in_order_and_can_be_taken_back() -> None:
    controller, heard = AbortController(), list[str]()
    controller.signal.on_abort(lambda: heard.append("a"))
    remove = controller.signal.on_abort(lambda: heard.append("b"))
    controller.signal.on_abort(lambda: heard.append("c"))
    remove()
    remove()

    controller.abort()
    controller.abort()
    controller.signal.on_abort(lambda: heard.append("late"))()

    assert heard == ["a", "c", "late"]


def test_a_callback_may_take_another_one_back_while_they_are_called() -> None:
    controller, heard = AbortController(), list[str]()
    later: list[Any] = []
    controller.signal.on_abort(lambda: later[0]())
    later.append(controller.signal.on_abort(lambda: heard.append("second")))
    controller.signal.on_abort(lambda: heard.append("third"))

    controller.abort()

    assert heard[-1] == "third"


def test_a_callback_that_fails_keeps_nobody_from_hearing() -> None:
    """`abort()` is called by hosts, in signal handlers and finally blocks: it must not raise what a tool did wrong."""
    controller, heard = AbortController(), list[str]()
    controller.signal.on_abort(lambda: 1 // 0)
    controller.signal.on_abort(lambda: heard.append("b"))

    controller.abort()

    assert heard == ["b"]


async def test_a_failing_callback_is_told_to_the_event_loop() -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["exception"]))
    controller = AbortController()
    controller.signal.on_abort(lambda: 1 // 0)

    controller.abort()

    assert [type(error) for error in told] == [ZeroDivisionError]


async def test_waiting_ends_with_the_abort_and_at_once_behind_it() -> None:
    controller = AbortController()
    waiting = [asyncio.ensure_future(controller.signal.wait()) for _ in range(2)]
    await settle()
    assert not any(task.done() for task in waiting)
    waiting[0].cancel()
    await settle()

    controller.abort()

    await within(waiting[1])
    await within(controller.signal.wait())
    assert waiting[0].cancelled()


async def test_a_derived_signal_follows_its_parent_and_never_the_other_way_round() -> None:
    parent = AbortController()
    one, other = DerivedSignal(parent.signal), DerivedSignal(parent.signal)
    heard: list[str] = []
    one.on_abort(lambda: heard.append(f"one {one.reason}"))
    other.on_abort(lambda: heard.append(f"other {other.reason}"))

    one.abort("alone")
    assert (one.aborted, one.reason) == (True, "alone")
    assert (other.aborted, other.reason, parent.signal.aborted) == (False, None, False)

    parent.abort("all")
    assert heard == ["one alone", "other all"]
    assert (one.reason, other.reason) == ("alone", "all")


async def test_a_derived_signal_that_nobody_hears_still_knows() -> None:
    parent = AbortController()
    derived = DerivedSignal(parent.signal)
    parent.abort("gone")

    heard: list[str] = []
    derived.on_abort(lambda: heard.append("at once"))

    assert (derived.aborted, derived.reason, heard) == (True, "gone", ["at once"])
    await within(derived.wait())


def test_a_released_signal_holds_nothing_of_its_parent() -> None:
    parent = AbortController()
    derived, heard = DerivedSignal(parent.signal), list[str]()
    derived.release()
    derived.on_abort(lambda: heard.append("heard"))
    derived.release()

    parent.abort()

    assert heard == []
    assert derived.aborted


@pytest.mark.parametrize("ask", ["aborted", "reason"])
def test_a_signal_that_is_never_aborted_keeps_no_callbacks(ask: str) -> None:
    signal = never_aborted()
    signal.on_abort(lambda: None)()

    assert not getattr(signal, ask)
