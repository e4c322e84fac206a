"""Every moment of a small world is visited, an abort and a failure tried in each, and the checker watches every step.

The bounded worlds are in `bounded_world.WORLDS`; `python -m tests.core.walk` prints how many moments they have.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.core.bounded_world import GREAT, WORLDS, Found, World, walk

from antiphon.core import machine
from antiphon.core import states as c
from antiphon.core.policy import PROFILES

SEEN: dict[tuple[str, str], Found] = {}


def seen(world: str, profile: str) -> Found:
    """Walk once; several tests look at what was found."""
    key = (world, profile)
    if key not in SEEN:
        SEEN[key] = walk(World(PROFILES[profile], WORLDS[world]))
    return SEEN[key]


@pytest.mark.requirement("S0-9", "S0-10", "S3-45")
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("world", WORLDS)
def test_no_moment_of_the_world_breaks_a_rule(world: str, profile: str) -> None:
    """The walk raises at the first illegal step, at a question that nobody is asked, and at a run without an end."""
    found = seen(world, profile)

    assert found.states > 500
    assert found.ends > 5


@pytest.mark.parametrize("profile", PROFILES)
def test_every_row_of_the_table_was_walked(profile: str) -> None:
    """A row that no walk reaches would be unproved, or dead."""
    walked = set[tuple[str, str]]().union(*(seen(world, profile).pairs for world in WORLDS))

    rows = {(state.__name__, given.__name__) for state, given, _ in machine.ROWS if state is not c.Idle}

    assert rows - walked == set()


@pytest.mark.parametrize("profile", PROFILES)
def test_an_abort_is_legal_in_every_state_of_a_run(profile: str) -> None:
    walked = set[tuple[str, str]]().union(*(seen(world, profile).pairs for world in WORLDS))

    aborted_in = {state for state, given in walked if given == "Interrupt"}

    assert aborted_in == {state.__name__ for state in machine.INTERRUPTIBLE} - {"Ended"}


@pytest.mark.requirement("S3-78", "X15")
@pytest.mark.parametrize("profile", PROFILES)
def test_every_reason_to_end_is_reached(profile: str) -> None:
    """Except for limits of tokens, cost, time and repetition, which the world does not count."""
    reasons = set[str]().union(*(seen(world, profile).reasons for world in WORLDS))

    assert reasons == {
        "stop",
        "length",
        "error",
        "aborted",
        "terminated",
        "ended_by_host",
        "max_turns",
        "max_tool_calls",
    }


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("world", GREAT)
def test_no_moment_of_a_great_world_breaks_a_rule(world: str, profile: str) -> None:
    found = walk(World(PROFILES[profile], GREAT[world]), most_steps=50_000_000)

    assert found.states > 10_000


def test_the_same_world_is_counted_the_same_again() -> None:
    """The walk depends on no order of sets and on no clock: its figures can be written down."""
    bounds = replace(WORLDS["one by one"], requests=1, queued=1)

    assert walk(World(PROFILES["default"], bounds)) == walk(World(PROFILES["default"], bounds))
