"""Whatever goes wrong, wherever: the run ends, nothing accepted is lost, every call is answered, the next one works.

Each recorded scenario of the agent core is played once per boundary and kind of fault. A boundary is a moment at which
the run hands control to foreign code: a listener, a hook, a poll, a stream event, a tool. The kinds are those of
`antiphon.testing.faults`, and a critical listener that raises. A sample runs by default; the whole walk by name:

    python -m pytest tests/loop/test_boundaries.py -m slow -s
"""

from __future__ import annotations

import logging
import random
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.loop.fault_walk import Play, Tally, scenarios

from antiphon.core.policy import DEFAULT, STRICT, Policy
from antiphon.loop import leash, pump, running
from antiphon.testing import ALL_KINDS, Fault, faults_of

SAMPLE = 700
"""Faults in the default walk."""

EVERY = 3
"""The whole walk takes each third scenario, another third in each profile: about 500 scenarios, 130,000 faults."""

pytestmark = pytest.mark.filterwarnings("ignore")  # code that was let go of may say so when it is collected


@pytest.fixture(autouse=True)
def quick_pulls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts to cancel come quickly one after the other."""
    for module in (leash, pump, running):
        monkeypatch.setattr(module, "PULL_EVERY", 0.002)


@pytest.fixture(autouse=True)
def unlogged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said of abandoned code when it is collected would be kept, with all its frames, until the walk ends."""
    monkeypatch.setattr(logging.getLogger("asyncio"), "disabled", True)
    monkeypatch.setattr(sys, "unraisablehook", lambda _unraisable: None)


async def faults_in(scenario: Mapping[str, Any], policy: Policy) -> list[tuple[str, Fault]]:
    places = await Play(scenario, policy).places()
    return [(places[fault.at - 1], fault) for fault in faults_of(places, ALL_KINDS)]


async def struck(tally: Tally, case: str, place: str, play: Play) -> None:
    fault = play.fault
    assert fault is not None
    broken = await play.run()
    tally.scenarios.add(case)
    tally.faults[f"critical {fault.kind}" if play.critical else fault.kind] += 1
    if broken:
        tally.broken[f"{case} {place} ({fault.at}) {fault.kind}"] = broken


@pytest.fixture
def cases() -> Iterator[list[tuple[str, Mapping[str, Any]]]]:
    found = list(scenarios())
    if not found:
        pytest.skip("the recorded packs are kept outside of the repository and are not there")
    yield found


@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
async def test_a_sample_of_all_faults_at_all_boundaries(
    policy: Policy, cases: list[tuple[str, Mapping[str, Any]]]
) -> None:
    chance = random.Random(f"boundaries {policy.name}")  # noqa: S311
    tally = Tally()
    while sum(tally.faults.values()) < SAMPLE // 2:
        case, scenario = chance.choice(cases)
        faults = await faults_in(scenario, policy)
        tally.places[case] = len(faults) // len(ALL_KINDS)
        for place, fault in chance.sample(faults, min(5, len(faults))):
            await struck(tally, case, place, Play(scenario, policy, fault))

    assert tally.broken == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("policy", "first"), [(DEFAULT, 0), (STRICT, 1)], ids=["default", "strict"])
async def test_every_fault_at_every_boundary(
    policy: Policy, first: int, cases: list[tuple[str, Mapping[str, Any]]]
) -> None:
    tally = Tally()
    for case, scenario in cases[first::EVERY]:
        faults = await faults_in(scenario, policy)
        tally.places[case] = len(faults) // len(ALL_KINDS)
        for place, fault in faults:
            await struck(tally, case, place, Play(scenario, policy, fault))
            if fault.kind == "raise" and place.startswith("listener"):
                await struck(tally, case, place, Play(scenario, policy, fault, critical=True))
    print(f"\n{policy.name}: {tally}")

    assert tally.broken == {}
    assert len(tally.scenarios) >= 200
