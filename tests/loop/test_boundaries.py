"""Whatever goes wrong, wherever: the run ends, nothing accepted is lost, every call is answered, the next one works.

Each recorded scenario of the agent core is played once per boundary and kind of fault. A boundary is a moment at which
the run hands control to foreign code: a listener, a hook, a poll, a stream event, a tool. The kinds are those of
`antiphon.testing.faults`, and a critical listener that raises. A sample runs by default; the whole walk by name, or,
with its counts as a table, by `python -m tests.loop.walk_boundaries`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.loop.fault_walk import Tally, plays_in, scenarios
from tests.loop.walk_boundaries import SHARES, unlogged

from antiphon.core.policy import DEFAULT, STRICT, Policy

SAMPLE = 200
"""Faults in the default walk of a profile, five of each scenario."""

PARTS = 6
"""The whole walk in parts, so that none of them takes long."""

Case = tuple[str, Mapping[str, Any]]


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with unlogged():
        yield


@pytest.fixture
def cases() -> list[Case]:
    found = list(scenarios())
    if not found:
        pytest.skip("the recorded packs are kept outside of the repository and are not there")
    return found


@pytest.mark.filterwarnings("ignore")  # code that was let go of may say so when it is collected
@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
def test_a_sample_of_all_faults_at_all_boundaries(policy: Policy, cases: list[Case]) -> None:
    chance = random.Random(f"boundaries {policy.name}")  # noqa: S311
    tally = Tally()
    while tally.total < SAMPLE:
        case, scenario = chance.choice(cases)
        plays = list(plays_in(scenario, policy))
        tally.walk(case, scenario, policy, chance.sample(plays, min(5, len(plays))))

    assert tally.broken == {}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("policy", [DEFAULT, STRICT], ids=lambda policy: policy.name)
def test_every_fault_at_every_boundary(policy: Policy, part: int, cases: list[Case]) -> None:
    share = cases[SHARES[policy.name]]
    tally = Tally()
    for case, scenario in share[part::PARTS]:
        tally.walk(case, scenario, policy, plays_in(scenario, policy))

    assert tally.broken == {}
    assert len(share) >= 200
