"""A scripted world for tests: real agent, scripted model, gates opened by hand, a clock that stands, chosen faults.

Start reading at `world`; what a model says is written with `script`, what happens is read from `recording`. `faults` is
for walks through every moment of a run. Fixtures for pytest are in `antiphon.testing.check`, the only module here that
needs pytest; it is not imported by this one.

May import core, loop, and nothing else; a `World` looks up the agent when it is made.
"""

from antiphon.testing.cassette import Cassette
from antiphon.testing.clock import VirtualClock, settle
from antiphon.testing.faults import (
    ALL_KINDS,
    Fault,
    FaultKind,
    Faults,
    FaultyTool,
    InjectedFault,
    faults_of,
    places_of,
)
from antiphon.testing.gate import Gate
from antiphon.testing.model import ScriptedModel
from antiphon.testing.recording import Recording, brief, who
from antiphon.testing.replay import ReplayReport, assert_replays, replay
from antiphon.testing.script import (
    SCRIPTED_MODEL,
    Answer,
    breaks,
    call,
    calls,
    cut_off,
    fails,
    falls_silent,
    raises,
    says,
    stops_short,
    thinks,
)
from antiphon.testing.tools import CallScript, Executed, ScriptedTool
from antiphon.testing.world import World

__all__ = [
    "ALL_KINDS",
    "SCRIPTED_MODEL",
    "Answer",
    "CallScript",
    "Cassette",
    "Executed",
    "Fault",
    "FaultKind",
    "Faults",
    "FaultyTool",
    "Gate",
    "InjectedFault",
    "Recording",
    "ReplayReport",
    "ScriptedModel",
    "ScriptedTool",
    "VirtualClock",
    "World",
    "assert_replays",
    "breaks",
    "brief",
    "call",
    "calls",
    "cut_off",
    "fails",
    "falls_silent",
    "faults_of",
    "places_of",
    "raises",
    "replay",
    "says",
    "settle",
    "stops_short",
    "thinks",
    "who",
]
