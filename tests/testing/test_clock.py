"""A clock that moves only when told to, and wakes sleepers in order."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.core.ports import Clock
from antiphon.testing import VirtualClock, settle


async def test_nobody_wakes_until_time_is_moved() -> None:
    clock: Clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(0.001))

    await settle()

    assert not sleeper.done()
    sleeper.cancel()


async def test_sleepers_wake_by_due_time_and_equal_ones_in_order_of_falling_asleep() -> None:
    clock = VirtualClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleep(*plan)) for plan in (("late", 3), ("first", 1), ("second", 1), ("never", 9))]
    await clock.advance(5)

    assert woken == [("first", 1), ("second", 1), ("late", 3)]
    assert clock.monotonic() == 5
    assert clock.sleeping == 1
    tasks[-1].cancel()


async def test_who_sleeps_again_on_the_way_wakes_at_the_right_moment() -> None:
    """A poll loop of one second sees every second although time is moved once."""
    clock = VirtualClock()
    seen: list[float] = []

    async def poll() -> None:
        while True:
            await clock.sleep(1)
            seen.append(clock.monotonic())

    task = asyncio.create_task(poll())
    await clock.advance(3.5)

    assert seen == [1, 2, 3]
    task.cancel()


async def test_both_hands_of_the_clock_move_together() -> None:
    clock = VirtualClock(start_ms=1000)

    await clock.advance(1.5)

    assert (clock.now_ms(), clock.monotonic()) == (2500, 1.5)


async def test_advance_to_next_jumps_to_the_next_sleeper() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(120))

    assert await clock.advance_to_next() == 120
    await sleeper

    with pytest.raises(LookupError):
        await clock.advance_to_next()


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(1))
    await settle()
    sleeper.cancel()
    await settle()

    assert clock.sleeping == 0
    await clock.advance(2)


async def test_sleeping_for_nothing_gives_way_once() -> None:
    await VirtualClock().sleep(0)
