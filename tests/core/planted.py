"""Planted faults: small lies told to the machine, and nets that have to catch every one of them.

A fault is data: the text of one place in one file of the core, and what stands there instead. The file is read, changed
and executed in memory; nothing on disk is touched. A net is a way of looking at a machine; it catches a fault if it
raises, or finds a difference, with the broken machine and does not with the real one.

`python -m tests.core.planted` prints the table of the verification page.
"""

from __future__ import annotations

import importlib.util
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import structs
from tests.core.bounded_world import Bounds, World, walk
from tests.core.machine_rows import ROWS
from tests.core.planted_faults import PLANTED, Planted
from tests.core.play import Play, Step
from tests.core.random_world import RandomWorld, play_machine, play_story
from tests.core.test_policy import check_decisions, check_fields

from antiphon.core import batch, limits, machine, policy
from antiphon.core import states as c
from antiphon.core.policy import PROFILES, Policy

ROOT = Path(__file__).resolve().parents[2]
FILES: dict[str, ModuleType] = {"policy": policy, "limits": limits, "batch": batch, "machine": machine}
"""The files that faults are planted in; each may import those before it."""


@dataclass(frozen=True)
class Core:
    """A machine and its decision tables, real or broken."""

    step: Step
    profiles: dict[str, Policy]
    table: Callable[[Policy], dict[tuple[str, bool], Any]]
    after: Callable[..., Any]


REAL = Core(machine.step, PROFILES, policy.decision_table, policy.after_response)


def planted(fault: Planted) -> Core:
    """The core with this fault in it."""
    made: dict[str, ModuleType] = {}
    with _stand_ins(made):
        for name, real in FILES.items():
            source = Path(str(real.__file__)).read_text("utf-8")
            if name == fault.file:
                found = source.count(fault.old)
                assert found == 1, f"{fault.name}: its text stands {found} times"
                source = source.replace(fault.old, fault.new)
            made[name] = _executed(real, source)
    broken: Any = made["machine"], made["policy"]
    return Core(broken[0].step, broken[1].PROFILES, broken[1].decision_table, broken[1].after_response)


def _executed(real: ModuleType, source: str) -> ModuleType:
    spec = importlib.util.spec_from_loader(real.__name__, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[real.__name__] = module
    exec(compile(source, f"planted {real.__name__}", "exec"), module.__dict__)
    return module


@contextmanager
def _stand_ins(made: dict[str, ModuleType]) -> Iterator[None]:
    """While the files are executed, they see each other and not the real ones."""
    package = sys.modules["antiphon.core"]
    before = {real.__name__: real for real in FILES.values()}
    try:
        yield
    finally:
        sys.modules.update(before)
        for name, real in FILES.items():
            setattr(package, name, real)
        del made


# -- the nets ----------------------------------------------------------------------------------------------------------

Net = Callable[[Core], None]


def rows(core: Core) -> None:
    """One run for each row of the machine's table."""
    play = partial(Play, core.step, table=core.table)
    for _, run in ROWS.values():
        run(play)


def table(core: Core) -> None:
    """The decision table of the specification."""
    check_decisions(core.profiles, core.table, core.after)
    check_fields(core.profiles["pi"], core.profiles["default"], core.profiles["strict"])


WALKS = (
    Bounds(requests=2, batch=2, queued=1, hooks=False),
    Bounds(requests=1, batch=2, queued=1, prepared=1, cleared=1),
    Bounds(requests=1, batch=2, queued=0, ordered=True),
    Bounds(requests=2, batch=2, queued=1, aborts=0, faults=0, changes=1, max_turns=1, max_tool_calls=1),
    Bounds(requests=2, batch=1, queued=0, aborts=0, faults=0, length_retries=0),
)


def every_moment(core: Core) -> None:
    """Small worlds are walked and the checker watches."""
    for bounds in WALKS:
        for name, real in PROFILES.items():
            world = World(real, bounds, core.step, table=core.table, broken=core.profiles[name])
            walk(world, most_steps=60_000)


def story(core: Core, worlds: int = 250) -> None:
    """Random worlds are told and played."""
    for profile in PROFILES:
        for seed in range(worlds):
            told, done = RandomWorld(seed, profile), RandomWorld(seed, profile)
            reason = play_story(told)
            assert play_machine(done, core.step, table=core.table, profile=core.profiles[profile]) == reason
            assert told.log == done.log, f"{profile}, seed {seed}"


MOST_STEPS = 20_000


def recorded(core: Core, packs: tuple[str, ...] = ("basic", "tools", "queues", "hooks"), every: int = 4) -> None:
    """Recorded scenarios of the reference are played by the whole loop. None are looked at if they are not there."""
    from tests.conformance.core_scenarios import run_pack
    from tests.conformance.run import cases_of, default_folder
    from tests.core.other_machine import loop_on

    taken, pi = 0, _of_this_house(core.profiles["pi"])

    def bounded(state: c.State, given: c.Input) -> Any:
        nonlocal taken
        taken += 1
        assert taken < MOST_STEPS, "the run does not end"
        return core.step(state, given)

    with loop_on(bounded, core.table):
        for pack in packs:
            path = default_folder("core") / f"{pack}.jsonl"
            if not path.exists():
                return
            for case in list(cases_of(path))[::every]:
                taken = 0
                with _at_most(2.0):
                    for name, difference in run_pack([case], pi, seconds=1.0):
                        assert difference is None, f"{name}: {difference}"


def _of_this_house(other: Any) -> Policy:
    """The same answers in the class that the real agent knows: a broken core has a class of its own."""
    limits = policy.RunLimits(**structs.asdict(other.limits))
    return Policy(**{**structs.asdict(other), "limits": limits})


class TooLong(BaseException):
    """A scenario does not end, not even when it is cancelled: the loop waits for something that will never come."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Leave the block after so many seconds, whatever waits inside of it."""

    def leave(_signal: int, _frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)  # and again: closing the event loop waits as well
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


NETS: dict[str, Net] = {
    "rows": rows,
    "decision table": table,
    "story": story,
    "every moment": every_moment,
    "recorded": recorded,
}


def catches(net: Net, core: Core) -> bool:
    try:
        net(core)
    except (Exception, TooLong):
        return True
    return False


def catch_of(fault: Planted) -> list[str]:
    """The nets that catch this fault."""
    core = planted(fault)
    return [name for name, net in NETS.items() if catches(net, core)]


def first_catch(fault: Planted) -> str | None:
    """The first net that catches this fault; the cheap ones are tried first."""
    core = planted(fault)
    return next((name for name, net in NETS.items() if catches(net, core)), None)


def report() -> Iterator[str]:
    """Lines of a table: fault and nets."""
    yield "| planted fault | " + " | ".join(NETS) + " |"
    yield "| --- |" + " :-: |" * len(NETS)
    caught = dict.fromkeys(NETS, 0)
    for fault in PLANTED:
        by = catch_of(fault)
        for name in by:
            caught[name] += 1
        yield f"| {fault.name} | " + " | ".join("x" if name in by else " " for name in NETS) + " |"
    yield f"| **caught of {len(PLANTED)}** | " + " | ".join(f"**{count}**" for count in caught.values()) + " |"


__all__ = ["NETS", "REAL", "Core", "catch_of", "catches", "first_catch", "planted", "report"]

if __name__ == "__main__":
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it would tell of every task that a fault leaves behind
    for line in report():
        print(line, flush=True)
