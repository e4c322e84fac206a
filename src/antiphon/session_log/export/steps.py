"""What a page shows of a session, in reading order: the active path, and where other ways leave it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import final

from antiphon.core.messages import AssistantMessage, ToolResultMessage, calls_of
from antiphon.session_log.entries import ContextEditEntry, Entry, MessageEntry
from antiphon.session_log.log import SessionLog
from antiphon.session_log.tree import ROOT


@final
@dataclass(slots=True)
class Step:
    """One entry on its way to the page. `results`: per call of an answer the entry with its result, if it has one.

    `anchor`: its name in links. `answered`: it is a result that is shown with its call. `edit`: what the model sees
    instead, by the last edit on the same way.
    """

    number: int
    entry: Entry
    anchor: str
    label: str | None
    results: list[Step | None] = field(default_factory=list["Step | None"])
    answered: bool = False
    edit: ContextEditEntry | None = None


@final
@dataclass(frozen=True, slots=True)
class Way:
    """Entries one behind the other. `parent`: the number of the entry that the first of them hangs on."""

    parent: int
    numbers: list[int]


@final
@dataclass(frozen=True, slots=True)
class Reading:
    """A session as it is read. `aside`: the other ways that begin, or go on to part, behind an entry of the path."""

    path: Way
    aside: dict[int, list[Way]]


def reading(log: SessionLog) -> Reading:
    """The active path, and beside it everything else that is in the session."""
    path = log.table.path(ROOT if log.leaf_id is None else log.table.by_id[log.leaf_id])
    on_path = set(path)
    aside: dict[int, list[Way]] = {}
    for number in (ROOT, *path):
        others = [child for child in log.table.children(number) if child not in on_path]
        ways = [way for other in others for way in _ways(log, number, other)]
        if ways:
            aside[number] = ways
    return Reading(Way(ROOT, path), aside)


def _ways(log: SessionLog, parent: int, first: int) -> Iterator[Way]:
    """A branch, cut into ways without forks: each goes on with the child that came last."""
    open_ways = [(parent, first)]
    while open_ways:
        parent, number = open_ways.pop()
        numbers = [number]
        while below := log.table.children(numbers[-1]):
            open_ways.extend((numbers[-1], other) for other in below[:-1])
            numbers.append(below[-1])
        yield Way(parent, numbers)


def steps_of(log: SessionLog, way: Way) -> list[Step]:
    """The entries of a way; results are put with their calls, edits with what they edit."""
    steps = [_step(log, number) for number in way.numbers]
    by_id = {step.entry.id: step for step in steps}
    asked: Step | None = None
    for step in steps:
        entry = step.entry
        if type(entry) is ContextEditEntry and entry.target_id in by_id:
            by_id[entry.target_id].edit = entry
        elif isinstance(entry, MessageEntry):
            if isinstance(entry.message, AssistantMessage):
                asked = step
                step.results = [None for _ in calls_of(entry.message)]
            elif isinstance(entry.message, ToolResultMessage) and asked is not None:
                _put_with_its_call(asked, step, entry.message.tool_call_id)
    return steps


def _step(log: SessionLog, number: int) -> Step:
    return Step(number, log.entry_at(number), anchor_of(log, number), log.label(log.table.ids[number]))


def anchor_of(log: SessionLog, number: int) -> str:
    """The name of an entry in links: its id, or, if another entry has the same, its number."""
    entry_id = log.table.ids[number]
    return f"e-{entry_id}" if log.table.by_id[entry_id] == number else f"n-{number}"


def _put_with_its_call(asked: Step, result: Step, call_id: str) -> None:
    entry = asked.entry
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, AssistantMessage)
    for position, call in enumerate(calls_of(entry.message)):
        if call.id == call_id and asked.results[position] is None:
            asked.results[position] = result
            result.answered = True
            return
