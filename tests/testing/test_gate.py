"""Gates: who comes waits, who opens lets pass."""

from __future__ import annotations

import asyncio

from antiphon.testing import Gate


async def test_everybody_waits_until_the_gate_is_opened() -> None:
    gate = Gate()
    waiting = [asyncio.create_task(gate.passed()) for _ in range(3)]
    await gate.reached(3)
    assert not any(task.done() for task in waiting)

    gate.open()

    await asyncio.gather(*waiting)
    assert gate.is_open


async def test_an_open_gate_does_not_hold_anybody_up() -> None:
    gate = Gate(is_open=True)

    await gate.passed()

    assert gate.arrivals == 1


async def test_reached_returns_when_enough_have_come() -> None:
    gate = Gate(is_open=True)
    waiting = asyncio.create_task(gate.reached(2))
    await gate.passed()
    await asyncio.sleep(0)
    assert not waiting.done()

    await gate.passed()

    await waiting


async def test_who_is_cancelled_at_a_gate_leaves_it() -> None:
    gate = Gate()
    waiting = asyncio.create_task(gate.passed())
    await gate.reached()

    waiting.cancel()

    assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)
    gate.open()
    await gate.passed()
