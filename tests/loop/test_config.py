"""Settings of a run, and the clock of this machine."""

from __future__ import annotations

import time

from antiphon.core.policy import DEFAULT
from antiphon.loop.config import SYSTEM_CLOCK, LoopConfig
from antiphon.testing import SCRIPTED_MODEL


def test_everything_but_the_model_has_a_default() -> None:
    config = LoopConfig(model=SCRIPTED_MODEL)

    assert (config.policy, config.limits, config.thinking_level) == (DEFAULT, None, "off")
    assert (config.tool_execution, config.close_timeout, config.options) == ("parallel", 5.0, {})
    assert LoopConfig(model=SCRIPTED_MODEL).options is not config.options


async def test_the_clock_of_this_machine() -> None:
    before = time.time()
    assert abs(SYSTEM_CLOCK.now_ms() - before * 1000) < 60_000
    begun = SYSTEM_CLOCK.monotonic()

    await SYSTEM_CLOCK.sleep(0.002)

    assert SYSTEM_CLOCK.monotonic() - begun >= 0.001
