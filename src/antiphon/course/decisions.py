"""The decision table of the loop as data: stop reason x calls. Write such a table before you write a loop.

Tests enumerate it; the two loops of this course are compared on every row. `deferred` is a stop reason of some
providers and means the same as `stop`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.course.loop_types import EndReason, SkipReason

Calls: TypeAlias = Literal["none", "execute", "skip"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a final answer leads to: what happens to its calls, and how the run ends (None: the model is asked again).

    `skip` is the reason that the results of skipped calls carry. `why` is the sentence to remember.
    """

    calls: Calls
    ends: EndReason | None
    skip: SkipReason | None = None
    why: str = ""


DECISIONS: dict[tuple[str, bool], Decision] = {
    # (why the model stopped, are there calls?)
    ("stop", False): Decision("none", "stop", why="the model has said what it had to say"),
    ("stop", True): Decision("skip", "error", "unexpected-stop", "a contradiction: it stopped and wants tools"),
    ("deferred", False): Decision("none", "stop", why="as stop"),
    ("deferred", True): Decision("skip", "error", "unexpected-stop", "as stop"),
    ("toolUse", False): Decision("none", "error", why="it waits for results that nobody can give"),
    ("toolUse", True): Decision("execute", None, why="the only row that executes and the only one that goes on"),
    ("length", False): Decision("none", "length", why="the answer was cut off; there is no call to pair"),
    ("length", True): Decision("skip", "length", "length", "arguments may be cut off, even if they parse"),
    ("error", False): Decision("none", "error", why="the provider failed"),
    ("error", True): Decision("skip", "error", "error", "the provider failed while it was asking for tools"),
    ("aborted", False): Decision("none", "aborted", why="the answer was stopped"),
    ("aborted", True): Decision("skip", "aborted", "aborted", "the answer was stopped while it was asking for tools"),
}
