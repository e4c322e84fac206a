"""The whole walk of `test_boundaries.py` with its counts: `python -m tests.loop.walk_boundaries` prints the tables of
the verification page. One scenario after the other, on one core, in about a quarter of an hour.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.loop.fault_walk import Tally, plays_in, scenarios

from antiphon.core.policy import PROFILES
from antiphon.testing import ALL_KINDS

SHARES = {"default": slice(0, None, 2), "strict": slice(1, None, 2)}
"""Which of the recorded scenarios are walked in which profile: every one in one of them."""

KINDS = ("raise", "raise, critical", *ALL_KINDS[1:])


@contextmanager
def unlogged() -> Iterator[None]:
    """Code that was let go of may say so when it is collected. That would be kept, with all its frames."""
    logger, hook = logging.getLogger("asyncio"), sys.unraisablehook
    before, logger.disabled, sys.unraisablehook = logger.disabled, True, lambda _unraisable: None
    try:
        yield
    finally:
        logger.disabled, sys.unraisablehook = before, hook


def lines(tallies: Sequence[tuple[str, Tally]]) -> Iterator[str]:
    """Counts by profile, then by kind of place and of fault."""
    yield "| profile | scenarios | faults | did not hold |"
    yield "| --- | ---: | ---: | ---: |"
    for profile, tally in tallies:
        yield f"| {profile} | {len(tally.scenarios)} | {tally.total:,} | {len(tally.broken)} |"
    places = sorted({place for _, tally in tallies for place, _ in tally.faults})
    yield ""
    yield f"| place | {' | '.join(KINDS)} |"
    yield f"| --- |{' ---: |' * len(KINDS)}"
    for place in places:
        yield _row(place, [sum(tally.faults[place, kind] for _, tally in tallies) for kind in KINDS])
    yield _row(
        "**all**",
        [sum(tally.faults[place, kind] for _, tally in tallies for place in places) for kind in KINDS],
    )


def _row(name: str, counts: Sequence[int]) -> str:
    return f"| {name} | " + " | ".join(f"{count:,}" if count else "" for count in counts) + " |"


def main() -> int:
    cases, tallies = list(scenarios()), []
    for profile, share in SHARES.items():
        begun, tally = time.perf_counter(), Tally()
        for case, scenario in cases[share]:
            tally.walk(case, scenario, PROFILES[profile], plays_in(scenario, PROFILES[profile]))
        print(f"{profile}: {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
        tallies.append((profile, tally))
        for name, broken in tally.broken.items():
            print(name, *broken, sep="\n    ", file=sys.stderr, flush=True)
    print(*lines(tallies), sep="\n")
    return 1 if any(tally.broken for _, tally in tallies) else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with unlogged():
        sys.exit(main())
