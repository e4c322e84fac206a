"""Tools of a scripted world: each call does what its script says, and is remembered."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from antiphon.core.ports import AbortSignal, ExecutionMode, OnUpdate, ReplayPolicy, ToolReturn
from antiphon.core.wire import JsonObject
from antiphon.testing.gate import Gate
from antiphon.testing.model import passed_or_aborted

Action: TypeAlias = Callable[[], object]
CallResult: TypeAlias = ToolReturn | BaseException | Callable[[JsonObject], ToolReturn | Awaitable[ToolReturn]]


@final
@dataclass(frozen=True, slots=True)
class Executed:
    """One execution of a call: its id, the tool, and the arguments as the tool received them."""

    call_id: str
    tool: str
    args: JsonObject


@final
class CallScript:
    """What calls do, by call id. A call without a script returns the text `ok ID`.

    Order within one execution: remembered, actions performed, updates sent, gate passed, result given. A call that
    waits at a gate goes on when its signal is aborted; `stubborn` ones do not look at the signal.
    """

    def __init__(self, results: Mapping[str, CallResult] | None = None) -> None:
        self.results: dict[str, CallResult] = dict(results or {})
        self.updates: dict[str, Sequence[str]] = {}
        self.executed: list[Executed] = []
        self.stubborn: set[str] = set()
        self._gates: dict[str, Gate] = {}
        self._actions: defaultdict[str, list[Action]] = defaultdict(list)
        self._begun: defaultdict[str, Gate] = defaultdict(Gate)

    def hold(self, call_id: str, *, stubborn: bool = False) -> Gate:
        """Make a call wait for the returned gate. `stubborn`: it keeps waiting when the run is aborted."""
        if stubborn:
            self.stubborn.add(call_id)
        return self._gates.setdefault(call_id, Gate())

    def while_running(self, call_id: str, action: Action) -> None:
        """Do something as soon as the call executes, before it does anything else. An awaitable is awaited."""
        self._actions[call_id].append(action)

    async def running(self, call_id: str) -> None:
        """Returns when the call has begun to execute."""
        await self._begun[call_id].passed()

    async def perform_actions(self, call_id: str) -> None:
        """Do what is to be done while this call runs."""
        for action in self._actions[call_id]:
            done = action()
            if inspect.isawaitable(done):
                await done

    @property
    def executed_ids(self) -> list[str]:
        """Ids of the calls that were executed, in order."""
        return [item.call_id for item in self.executed]

    async def run(
        self, tool: str, call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate
    ) -> ToolReturn:
        """Execute one call as its script says.

        Raises:
            BaseException: what the script says the call raises.
        """
        self.executed.append(Executed(call_id, tool, args))
        self._begun[call_id].open()
        await self.perform_actions(call_id)
        for update in self.updates.get(call_id, ()):
            on_update(update)
        if call_id in self._gates:
            await passed_or_aborted(self._gates[call_id], None if call_id in self.stubborn else signal)
        return await _given(self.results.get(call_id, f"ok {call_id}"), args)


async def _given(result: CallResult, args: JsonObject) -> ToolReturn:
    if isinstance(result, BaseException):
        raise result
    if not callable(result):
        return result
    made = result(args)
    return await made if inspect.isawaitable(made) else made


@final
class ScriptedTool:
    """A tool of a scripted world: any object is accepted as arguments unless `parameters` say otherwise."""

    def __init__(
        self,
        name: str,
        script: CallScript,
        *,
        description: str = "",
        parameters: JsonObject | None = None,
        execution_mode: ExecutionMode | None = None,
        replay: ReplayPolicy = "never",
    ) -> None:
        self.name = name
        self.description = description or f"Scripted tool {name}"
        self.parameters: JsonObject = parameters or {"type": "object"}
        self.execution_mode = execution_mode
        self.replay: ReplayPolicy = replay
        self._script = script

    async def execute(self, call_id: str, args: JsonObject, signal: AbortSignal, on_update: OnUpdate) -> ToolReturn:
        """Do what the script says for this call."""
        return await self._script.run(self.name, call_id, args, signal, on_update)
