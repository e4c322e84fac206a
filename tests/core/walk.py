"""How much is walked: `python -m tests.core.walk [great]` prints the table of the verification page."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from tests.core.bounded_world import GREAT, WORLDS, World, walk

from antiphon.core.policy import PROFILES


def rows(great: bool) -> Iterator[str]:
    """Lines of a table: world, profile, moments, steps, paths, seconds."""
    yield "| world | profile | moments | steps | paths | seconds |"
    yield "| --- | --- | ---: | ---: | ---: | ---: |"
    for name, bounds in (GREAT if great else WORLDS).items():
        for profile, policy in PROFILES.items():
            begun = time.perf_counter()
            found = walk(World(policy, bounds), most_steps=50_000_000)
            seconds = time.perf_counter() - begun
            paths = f"{found.paths:.1e}" if found.paths > 10**6 else f"{found.paths:,}"
            yield f"| {name} | {profile} | {found.states:,} | {found.steps:,} | {paths} | {seconds:.1f} |"


if __name__ == "__main__":
    for line in rows("great" in sys.argv[1:]):
        print(line, flush=True)
