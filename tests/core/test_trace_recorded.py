"""The whole loop under the checker: recorded scenarios are played, and every step of every run is watched.

Here the driver is looked at as well: it may answer only what was asked, and has to tell of an abort.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.conformance.core_scenarios import record_of
from tests.conformance.run import cases_of, default_folder
from tests.core.other_machine import loop_on

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.policy import PROFILES, Policy
from antiphon.core.trace import TraceChecker

PACKS = ("agent", "basic", "declare", "failures", "hooks", "mixed", "queues", "tools")
STEPS = [0]


@contextmanager
def watched() -> Iterator[list[str]]:
    """The loop runs on a machine that is watched. Gives what the checker had to say."""
    checkers: dict[int, tuple[c.State, TraceChecker]] = {}
    said: list[str] = []

    def step(state: c.State, given: c.Input) -> Any:
        begins = isinstance(given, c.Prompt)
        checker = TraceChecker(given.run.rules.policy) if begins else checkers.pop(id(state))[1]
        STEPS[0] += 1
        following, commands = machine.step(state, given)
        try:
            checker.step(given, commands, following)
        except Exception as error:
            said.append(str(error))
            raise
        checkers[id(following)] = following, checker
        return following, commands

    with loop_on(step):
        yield said


def played(pack: str, policy: Policy) -> list[str]:
    """What the checker says while the scenarios of a pack are played."""
    path = default_folder("core") / f"{pack}.jsonl"
    if not path.exists():
        pytest.skip(f"the recorded packs are kept outside of the repository and are not at {path.parent}")
    broken: list[str] = []
    for case in cases_of(path):
        with watched() as said:
            try:
                asyncio.run(record_of(case["scenario"], policy, 2.0))
            except Exception as error:  # another profile may refuse what a script of the reference does
                broken += [f"{case['id']}: {error}"] if policy.name == "pi" else []
        broken += [f"{case['id']}: {one}" for one in said]
    return broken


@pytest.mark.parametrize("pack", PACKS)
def test_recorded_scenarios_are_played_by_the_rules(pack: str) -> None:
    before = STEPS[0]

    assert played(pack, PROFILES["pi"]) == []
    assert STEPS[0] > before + 300


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_the_same_scenarios_in_other_profiles_are_played_by_the_rules(profile: str, pack: str) -> None:
    """What comes of them may differ from the record; the rules may not be broken."""
    assert played(pack, PROFILES[profile]) == []
