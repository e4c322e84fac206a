"""A whole agent in a scripted world: the real `Agent`, a model with a script, tools with a script, everything recorded.

    world = World([calls("A", "B"), says("changed course")])
    world.steer_while_running("A", "do this instead")

    messages = await world.prompt("go")

    assert [who(m) for m in messages] == ["user", "assistant", "result A", "result B", "user", "assistant"]
    assert world.requests[1][-1] == user("do this instead")

Tools that the script calls and nobody gave exist by themselves; the id of a scripted call is its tool's name. Time
stands still unless `world.clock` is advanced. (The grace after an abort is real time: give a small one, as in
`policy=structs.replace(DEFAULT, abort_grace=0.01)`, where a test needs somebody to be cut off.)
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast, final

from antiphon.core.content import Image, Text
from antiphon.core.events import AgentEvent, ToolExecutionStart
from antiphon.core.messages import HostMessage, Message, user
from antiphon.core.ports import AbortSignal, Clock, ModelStream, Tool
from antiphon.loop.outcome import RunOutcome
from antiphon.testing.agent_port import AgentFactory, AgentLike, Prompt
from antiphon.testing.clock import VirtualClock
from antiphon.testing.faults import Faults
from antiphon.testing.gate import Gate
from antiphon.testing.model import ScriptedModel, ScriptItem
from antiphon.testing.recording import Recording
from antiphon.testing.script import SCRIPTED_MODEL, names_called
from antiphon.testing.tools import CallResult, CallScript, ScriptedTool

# Hooks that a faulty world installs, and the answer of each that changes nothing.
_IDLE_HOOKS: dict[str, Callable[..., Any] | None] = {
    "convert_to_llm": lambda messages: [item for item in messages if not isinstance(item, HostMessage)],
    "transform_context": lambda messages, _signal: messages,
    "get_api_key": None,
    "prepare_request": None,
    "prepare_next_turn": None,
    "finish_turn": None,
    "before_tool_call": None,
    "after_tool_call": None,
}


@final
class World:
    """One agent and everything around it.

    `results` says what a call gives back, by call id: text, blocks, a `ToolResult`, an exception to raise, or a
    function of the arguments. With `faults`, every hook, listener, stream event and tool step is a boundary at which
    its plan may strike. Other options go to the agent.

    `agent_factory` makes the agent and is called with keyword options only. The default is `antiphon.agent.Agent`; it
    is looked up when a world is made, because agent and testing live on the same floor and do not import each other.
    """

    def __init__(
        self,
        script: Sequence[ScriptItem] = (),
        *,
        tools: Sequence[Tool] = (),
        results: Mapping[str, CallResult] | None = None,
        agent_factory: AgentFactory | None = None,
        clock: Clock | None = None,
        faults: Faults | None = None,
        **options: Any,
    ) -> None:
        self.model = ScriptedModel(script)
        self.calls = CallScript(results)
        self.recording = Recording()
        self.clock: Clock = VirtualClock() if clock is None else clock
        self.outcomes: list[RunOutcome] = []
        """The outcome of every run that returned, in order."""
        self._given_tools = {tool.name for tool in tools}
        self._faults = faults
        made = [ScriptedTool(name, self.calls) for name in names_called(script) if name not in self._given_tools]
        factory = default_agent_factory() if agent_factory is None else agent_factory
        settings = {"model": SCRIPTED_MODEL, **options, "clock": self.clock}
        self.agent: AgentLike = factory(**self._outside([*tools, *made], settings))
        self._listen()

    @property
    def requests(self) -> list[tuple[Message, ...]]:
        """The messages of each request, as the model got them."""
        return self.model.asked

    @property
    def messages(self) -> Sequence[Message]:
        """The agent's transcript."""
        return self.agent.messages

    @property
    def outcome(self) -> RunOutcome:
        """The outcome of the last run that returned.

        Raises:
            IndexError: no run has returned so far.
        """
        return self.outcomes[-1]

    async def prompt(self, prompt: Prompt, images: Sequence[Image] = ()) -> tuple[Message, ...]:
        """Run a prompt to its end; the new messages. A text is sent as `user(text)`, so it can be compared."""
        if isinstance(prompt, str):
            prompt = user([Text(text=prompt), *images]) if images else user(prompt)
        return await self._finished(self.agent.prompt(prompt))

    async def continue_(self) -> tuple[Message, ...]:
        """Continue without a new message; the new messages."""
        return await self._finished(self.agent.continue_())

    def start(self, prompt: Prompt) -> asyncio.Task[tuple[Message, ...]]:
        """Begin a prompt in a task of its own, to act while it runs."""
        return asyncio.create_task(self.prompt(prompt))

    def steer_while_running(self, call_id: str, message: str | Message) -> None:
        """Queue a steering message as soon as this call executes."""
        self.while_running(call_id, lambda: self.agent.steer(as_message(message)))

    def follow_up_while_running(self, call_id: str, message: str | Message) -> None:
        """Queue a follow-up message as soon as this call executes."""
        self.while_running(call_id, lambda: self.agent.follow_up(as_message(message)))

    def abort_while_running(self, call_id: str, reason: str | None = None) -> None:
        """Abort the run as soon as this call executes."""
        self.while_running(call_id, lambda: self.agent.abort(reason))

    def while_running(self, call_id: str, action: Callable[[], object]) -> None:
        """Do something as soon as this call executes; for tools given to the world, as soon as the call is started."""
        self.calls.while_running(call_id, action)

    def hold(self, call_id: str, *, stubborn: bool = False) -> Gate:
        """Make a scripted call wait for the returned gate. `stubborn`: it does not look at its abort signal."""
        return self.calls.hold(call_id, stubborn=stubborn)

    async def running(self, call_id: str) -> None:
        """Returns when a scripted call has begun to execute."""
        await self.calls.running(call_id)

    def _outside(self, tools: list[Tool], options: dict[str, Any]) -> dict[str, Any]:
        """Stream, tools and hooks of the agent; with faults, each behind its boundary."""
        faults = self._faults
        if faults is None:
            return {**options, "stream": cast("ModelStream", self.model), "tools": tools}
        hooks = {name: faults.hook(name, options.get(name) or idle) for name, idle in _IDLE_HOOKS.items()}
        return {
            **options,
            **hooks,
            "stream": faults.stream(self.model),
            "tools": [faults.tool(tool) for tool in tools],
        }

    def _listen(self) -> None:
        self.agent.subscribe(self.recording)
        self.agent.subscribe(self._act_at_starts)
        if self._faults is not None:
            self._faults.abort = self.agent.abort
            self.agent.subscribe(self._faults.listener())

    async def _act_at_starts(self, event: AgentEvent, _signal: AbortSignal) -> None:
        if isinstance(event, ToolExecutionStart) and event.tool_name in self._given_tools:
            await self.calls.perform_actions(event.tool_call_id)

    async def _finished(self, running: Awaitable[RunOutcome]) -> tuple[Message, ...]:
        if self._faults is not None:
            self._faults.victim = asyncio.current_task()
        outcome = await running
        self.outcomes.append(outcome)
        return outcome.new_messages


def default_agent_factory() -> AgentFactory:
    """The `Agent` class of this project, looked up by name (see `World`)."""
    return cast("AgentFactory", importlib.import_module("antiphon.agent").Agent)


def as_message(message: str | Message) -> Message:
    """A text as a user message; a message as it is."""
    return user(message) if isinstance(message, str) else message
