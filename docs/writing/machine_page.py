"""The page of the machine: its states, its table, and which state leads where, found by walking it."""

from __future__ import annotations

from functools import cache
from typing import Any

from docs.writing.markdown import code, fence, sentence, table
from tests.core.bounded_world import Bounds, World, walk

from antiphon.core import batch
from antiphon.core import machine as m
from antiphon.core.policy import DEFAULT

BOUNDS = (
    Bounds(requests=2, batch=2, queued=1, prepared=1, cleared=1),
    Bounds(requests=2, batch=2, queued=1, ordered=True),
    Bounds(requests=1, batch=1, queued=0, max_turns=1),
)
"""Small worlds in which every row of the table is used; the page of transitions comes from walking them."""


def machine() -> str:
    """States, rows and transitions."""
    steps = _transitions()
    states = list(dict.fromkeys(state for state, _, _ in m.ROWS))
    rows = [
        (code(s.__name__), code(i.__name__), code(_function(f).__name__), sentence(_function(f).__doc__))
        for s, i, f in m.ROWS
    ]
    parts = [
        "# The machine of a run\n",
        "A run is a value. `step(state, input)` gives the next state and what to do now; nothing in it waits. The"
        " source is [`core/machine.py`](../../src/antiphon/core/machine.py), the nouns are in"
        " [`core/states.py`](../../src/antiphon/core/states.py).\n",
        "## States\n",
        table(
            ("state", "the moment, and what it waits for"), [(code(s.__name__), sentence(s.__doc__)) for s in states]
        ),
        "## The table\n",
        "From top to bottom it is the story of a run. `Growth` stands for the nine events of a growing answer:"
        " `Responding` takes them, `Requesting` drops them. `Interrupt` (an abort) is legal in every state of a run and"
        " is noted.\n",
        table(("state", "input", "function", "what follows"), rows),
        "## Which state leads where\n",
        "Not drawn by hand: a small world was walked through every order of events (profile `default`), and this is"
        " what the machine did. `Fault` and `Interrupt` are left out.\n",
        fence(_drawn(steps)),
        "As a diagram, for readers that draw it:\n",
        fence(_mermaid(steps), "mermaid"),
        "How much was walked, and what was checked on the way: [how the loop is verified](../verification.md).\n",
    ]
    return "\n".join(parts)


def _function(rule: Any) -> Any:
    """The function that a row stands for: two of them only pass on to the batch of calls."""
    return getattr(batch, f"call{rule.__name__}", rule)


@cache
def _transitions() -> dict[str, dict[str, list[str]]]:
    """State → input → next states, as seen on the walk."""
    seen: set[tuple[str, str, str]] = set()

    def watched(state: Any, given: Any) -> Any:
        following, commands = m.step(state, given)
        name = "Growth" if type(given) in m.GROWTH else type(given).__name__
        seen.add((type(state).__name__, name, type(following).__name__))
        return following, commands

    for bounds in BOUNDS:
        walk(World(DEFAULT, bounds, step=watched))
    order = [state.__name__ for state in dict.fromkeys(state for state, _, _ in m.ROWS)]
    inputs = [given.__name__ for given in dict.fromkeys(given for _, given, _ in m.ROWS)]
    inputs.insert(inputs.index("Answered"), "Growth")
    out: dict[str, dict[str, list[str]]] = {}
    for state in order:
        for given in inputs:
            following = sorted((f for s, i, f in seen if (s, i) == (state, given)), key=order.index)
            if following and given not in ("Fault", "Interrupt"):
                out.setdefault(state, {})[given] = following
    return out


def _drawn(steps: dict[str, dict[str, list[str]]]) -> str:
    wide = max(map(len, steps))
    widest = max(len(given) for inputs in steps.values() for given in inputs)
    lines: list[str] = []
    for state, inputs in steps.items():
        for at, (given, following) in enumerate(inputs.items()):
            shown = [("itself" if name == state else name) for name in following]
            lines.append(f"{state if at == 0 else '':<{wide}}  ── {given:<{widest}} ──▶  {' | '.join(shown)}")
    return "\n".join(lines)


def _mermaid(steps: dict[str, dict[str, list[str]]]) -> str:
    edges: dict[tuple[str, str], list[str]] = {}
    for state, inputs in steps.items():
        for given, following in inputs.items():
            for name in following:
                edges.setdefault((state, name), []).append(given)
    lines = [f"    {a} --> {b}: {', '.join(names)}" for (a, b), names in edges.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> Idle", *lines, "    Ended --> [*]"])
