"""The machine does what the plain story does: in random worlds, same events, same questions, same reason to end."""

from __future__ import annotations

import pytest
from tests.core.random_world import RandomWorld, play_machine, play_story

from antiphon.core.policy import PROFILES


def first_difference(profile: str, seed: int) -> str | None:
    """Where the two ways to play one world part; None if they do not."""
    told, done = RandomWorld(seed, profile), RandomWorld(seed, profile)
    reasons = play_story(told), play_machine(done)
    for place, (story, machine) in enumerate(zip(told.log, done.log, strict=False)):
        if story != machine:
            return f"seed {seed}, entry {place}: the story has {story!r}, the machine {machine!r}"
    if len(told.log) != len(done.log) or reasons[0] != reasons[1]:
        return f"seed {seed}: {len(told.log)} entries and {reasons[0]}, the machine {len(done.log)} and {reasons[1]}"
    return None


@pytest.mark.requirement("S1-2", "S1-3", "S3-4", "S3-40")
@pytest.mark.parametrize("profile", PROFILES)
def test_machine_and_story_agree_in_3400_random_worlds(profile: str) -> None:
    """Three profiles make 10,200 worlds: queues, hooks, limits, aborts and failures at random."""
    differences = [found for seed in range(3_400) if (found := first_difference(profile, seed)) is not None]

    assert differences[:1] == []


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_machine_and_story_agree_in_100000_random_worlds(profile: str) -> None:
    differences = [found for seed in range(100_000) if (found := first_difference(profile, seed)) is not None]

    assert differences[:1] == []


def test_the_random_worlds_are_rich() -> None:
    """Every kind of end and of question occurs: a world in which nothing happens proves nothing."""
    reasons: set[str] = set()
    asked: set[str] = set()
    for profile in PROFILES:
        for seed in range(300):
            world = RandomWorld(seed, profile)
            reasons.add(play_story(world))
            asked |= {entry[0] for entry in world.log if type(entry) is tuple}

    assert reasons == {
        "stop",
        "length",
        "error",
        "aborted",
        "deadline",
        "terminated",
        "ended_by_host",
        "max_turns",
        "max_tool_calls",
    }
    assert asked == {
        "poll",
        "prepare request",
        "compose",
        "hear",
        "check",
        "begin",
        "news",
        "decide",
        "look",
        "prepare next",
        "delivered",
        "given back",
    }
