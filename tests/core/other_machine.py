"""The loop on another machine: one that is watched, or one that lies.

The driver looks its rules up in the table of the machine; here every line of that table is one `step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from antiphon.core import states
from antiphon.core.response_events import Done, Failed
from antiphon.loop import driver, reading

Step: TypeAlias = Callable[[states.State, states.Input], tuple[states.State, list[Any]]]


class _EveryRow:
    """A table of rules with the same entry everywhere."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __getitem__(self, _kind: type) -> _EveryRow:
        return self

    def get(self, kind: type) -> _EveryRow | None:
        """The last event of an answer is for the reader, not for the machine."""
        return None if kind in (Done, Failed) else self

    def __call__(self, state: states.State, given: states.Input) -> Any:
        return self.step(state, given)


@contextmanager
def loop_on(step: Step, table: Any = states.decision_table) -> Iterator[None]:
    """Whatever runs in this block runs on `step`, with the decisions of `table`."""
    rules = _EveryRow(step)
    places: tuple[tuple[Any, str, Any], ...] = (
        (driver, "step", step),
        (driver, "RULES", rules),
        (reading, "RULES", rules),
        (states, "decision_table", table),
    )
    before = [(place, name, getattr(place, name)) for place, name, _ in places]
    try:
        for place, name, value in places:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)
