"""The loop and the agent do what was recorded, scenario by scenario, under profile `pi`."""

from __future__ import annotations

import pytest
from tests.conformance.core_scenarios import run_pack
from tests.conformance.run import cases_of, default_folder

PACKS = ("agent", "basic", "declare", "failures", "hooks", "mixed", "queues", "tools")


@pytest.mark.parametrize("pack", PACKS)
def test_every_scenario_of_the_pack_gives_the_recorded_trace(pack: str) -> None:
    """The record of the reference, item by item: events, requests, hook calls, executions, state."""
    path = default_folder("core") / f"{pack}.jsonl"
    if not path.exists():
        pytest.skip(f"the recorded packs are kept outside of the repository and are not at {path.parent}")

    failures = [f"{case}: {difference}" for case, difference in run_pack(cases_of(path)) if difference is not None]

    assert failures == []
