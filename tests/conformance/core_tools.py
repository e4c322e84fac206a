"""The tools of a scenario: each call does what the scenario says for its id."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.conformance.core_recorder import Recorder
from tests.conformance.core_values import JsonDict, ScriptedError, plain, tool_result

from antiphon.core.calls import ToolResult
from antiphon.core.ports import AbortSignal, OnUpdate

NO_PARAMETERS: JsonDict = {"type": "object"}


class ScriptedTool:
    """A tool that runs the behaviour scripted for the call."""

    def __init__(self, given: Mapping[str, Any], behaviours: Behaviours) -> None:
        self.name: str = given["name"]
        self.ref: str = given.get("ref", self.name)
        self.description: str = given.get("description", f"does {self.name}")
        self.parameters: JsonDict = given.get("parameters", NO_PARAMETERS)
        self._behaviours = behaviours
        if "mode" in given:
            self.execution_mode = given["mode"]
        if "prepare" in given:
            self.prepare_arguments = prepare_of(given["prepare"])

    async def execute(self, call_id: str, args: JsonDict, signal: AbortSignal, on_update: OnUpdate) -> ToolResult:
        """Record the execution, then walk through the steps of the behaviour."""
        return await self._behaviours.run(self.name, call_id, args, signal, on_update)


class Behaviours:
    """What executing each call does; the k-th execution of an id takes its k-th entry."""

    def __init__(self, given: Mapping[str, Any], recorder: Recorder) -> None:
        self._given = given
        self._recorder = recorder
        self._executions: Counter[str] = Counter()
        self._late: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        recorder.on_end = self.send_late_updates

    async def run(
        self, tool: str, call_id: str, args: JsonDict, signal: AbortSignal, on_update: OnUpdate
    ) -> ToolResult:
        behaviour = self._behaviour(call_id)
        self._remember_late_updates(call_id, behaviour, on_update)
        item: JsonDict = {"exec": call_id, "tool": tool, "args": plain(args)}
        if signal.aborted:
            item["aborted"] = True
        self._recorder.note(item, {"exec": call_id})
        for step in behaviour.get("steps", ()):
            if (result := await self._do(step, args, signal, on_update)) is not None:
                return result
        return default_result(call_id)

    async def _do(
        self, step: Mapping[str, Any], args: JsonDict, signal: AbortSignal, on_update: OnUpdate
    ) -> ToolResult | None:
        """Take one step; the result if the step returns one."""
        if "update" in step:
            on_update(tool_result(step["update"]))
        elif "wait" in step:
            await (signal.wait() if "abort" in step["wait"] else self._recorder.wait_for(step["wait"]))
        elif "editArgs" in step:
            args.update(copy.deepcopy(step["editArgs"]))
        elif "throw" in step:
            raise ScriptedError(step["throw"])
        elif "return" in step:
            return tool_result(step["return"])
        return None

    def send_late_updates(self, call_id: str) -> None:
        """Send the updates that a tool sends after it has returned."""
        for send in self._late.pop(call_id, ()):
            send()

    def _behaviour(self, call_id: str) -> JsonDict:
        self._executions[call_id] += 1
        given = self._given.get(call_id, {})
        if not isinstance(given, list):
            return given
        number = self._executions[call_id]
        return (given[number - 1] or {}) if number <= len(given) else {}

    def _remember_late_updates(self, call_id: str, behaviour: JsonDict, on_update: OnUpdate) -> None:
        for update in behaviour.get("late", ()):
            self._late[call_id].append(lambda update=update: on_update(tool_result(update)))


class Catalogue:
    """The tools of a scenario by name or by `ref`."""

    def __init__(self, given: Iterable[Mapping[str, Any]], behaviours: Behaviours) -> None:
        self.all = [ScriptedTool(item, behaviours) for item in given]

    def named(self, names: Iterable[str] | None) -> list[ScriptedTool] | None:
        """The tools with these refs or names; None for None (no tools given)."""
        return None if names is None else [self._find(name) for name in names]

    def _find(self, name: str) -> ScriptedTool:
        for tool in self.all:
            if tool.ref == name:
                return tool
        return next(tool for tool in self.all if tool.name == name)


def default_result(call_id: str) -> ToolResult:
    return tool_result({"content": [{"type": "text", "text": f"ok {call_id}"}]})


def prepare_of(given: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The step of a tool that rewrites raw arguments before they are checked."""

    def prepare(raw: Any) -> Any:
        if "throw" in given:
            raise ScriptedError(given["throw"])
        if given.get("same"):
            return raw
        if "wrap" in given:
            return {given["wrap"]: raw}
        if "replace" in given:
            return copy.deepcopy(given["replace"])
        return _rewritten(raw, given)

    return prepare


def _rewritten(raw: JsonDict, given: Mapping[str, Any]) -> JsonDict:
    out = dict(raw)
    for old, new in given.get("rename", {}).items():
        if old in out:
            out[new] = out.pop(old)
    out.update(copy.deepcopy(given.get("set", {})))
    for key in given.get("drop", ()):
        out.pop(key, None)
    return out
