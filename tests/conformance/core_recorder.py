"""The record of one scenario, and what happens because of it: gates open and triggers fire.

Recording an item, opening gates and firing triggers happen in one go: `note` is a plain function, so nothing else can
run in between. Operations of a trigger that are awaitable (`prompt` while a run is active) must be refused without
waiting; they are driven by hand and closed if they wait all the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from tests.conformance.core_values import JsonDict

Operation = Mapping[str, Any]


class Trigger:
    """Operations that are due when a mark is met for the n-th time."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.at = {key: value for key, value in given["at"].items() if key != "n"}
        self.operations: list[Operation] = given["do"]
        self.left = given["at"].get("n", 1)

    def is_met(self, mark: Mapping[str, Any]) -> bool:
        """Count a mark that fits; true for the n-th one."""
        if not all(_fits(mark, key, value) for key, value in self.at.items()):
            return False
        self.left -= 1
        return self.left == 0


def _fits(mark: Mapping[str, Any], key: str, wanted: Any) -> bool:
    return key in mark and (mark[key] == wanted or (key == "exec" and wanted == "*"))


class Recorder:
    """Trace, gates and triggers of one scenario."""

    def __init__(self, triggers: list[Mapping[str, Any]]) -> None:
        self.trace: list[JsonDict] = []
        self.events: list[JsonDict] = []
        self.idle: list[JsonDict] = []
        self.perform: Callable[[Operation], Coroutine[Any, Any, None]] | None = None
        self.on_end: Callable[[str], None] = lambda _id: None
        self._triggers = [Trigger(given) for given in triggers]
        self._counts: Counter[tuple[str, str]] = Counter()
        self._gates: dict[tuple[str, str], list[tuple[int, asyncio.Event]]] = {}

    def note(self, item: JsonDict, mark: Mapping[str, Any], *, into: list[JsonDict] | None = None) -> None:
        """Put an item into the trace, open the gates it opens, then fire the triggers it meets."""
        (self.trace if into is None else into).append(item)
        self._open_gates(mark)
        for trigger in [trigger for trigger in self._triggers if trigger.is_met(mark)]:
            for operation in trigger.operations:
                self._perform_now(operation)

    def note_quietly(self, item: JsonDict) -> None:
        """Put an item into the trace that no gate or trigger can wait for."""
        self.trace.append(item)

    async def wait_for(self, gate: Mapping[str, Any]) -> None:
        """Wait until `{"exec" | "end" | "update": id, "n"?}` has been recorded."""
        key = next((kind, gate[kind]) for kind in ("exec", "end", "update") if kind in gate)
        wanted = gate.get("n", 1)
        if self._counts[key] < wanted:
            opened = asyncio.Event()
            self._gates.setdefault(key, []).append((wanted, opened))
            await opened.wait()

    def _open_gates(self, mark: Mapping[str, Any]) -> None:
        key = gate_key(mark)
        if key is None:
            return
        self._counts[key] += 1
        for wanted, opened in self._gates.get(key, ()):
            if wanted <= self._counts[key]:
                opened.set()
        if key[0] == "end":
            self.on_end(key[1])

    def _perform_now(self, operation: Operation) -> None:
        if self.perform is None:
            raise AssertionError("no operations in this scenario")
        running = self.perform(operation)
        try:
            running.send(None)
        except StopIteration:
            return
        running.close()
        raise AssertionError(f"operation {operation['do']} of a trigger waited instead of being refused")


def gate_key(mark: Mapping[str, Any]) -> tuple[str, str] | None:
    """Which gate a mark opens: a call's execution, end or update."""
    if "exec" in mark:
        return "exec", mark["exec"]
    if mark.get("event") == "tool_execution_end":
        return "end", mark["call"]
    if mark.get("event") == "tool_execution_update":
        return "update", mark["call"]
    return None
