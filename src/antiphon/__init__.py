"""antiphon: the runtime for LLM agents in which every call is answered.

The names below are promised; everything else may change. Importing this module does nothing else: each name is loaded
when it is first used.

    from antiphon import Agent, tool

    @tool
    async def add(a: int, b: int) -> str:
        "Add two numbers."
        return str(a + b)

    from antiphon.providers.catalog import resolve
    from antiphon.providers.registry import stream_for

    model = resolve("openai/gpt-5")
    agent = Agent(model=model, stream=stream_for(model), tools=[add])
    outcome = await agent.prompt("What is 17 + 25?")
"""

from __future__ import annotations

TYPE_CHECKING = False  # spelled out, so that the version can be told without loading `typing`
if TYPE_CHECKING:
    from typing import Any

    from antiphon.agent.agent import Agent as Agent
    from antiphon.agent.view import AgentState as AgentState
    from antiphon.core.calls import ToolResult as ToolResult
    from antiphon.core.content import Image as Image
    from antiphon.core.content import Text as Text
    from antiphon.core.content import Thinking as Thinking
    from antiphon.core.content import ToolCall as ToolCall
    from antiphon.core.events import AgentEvent as AgentEvent
    from antiphon.core.hooks import AfterOverride as AfterOverride
    from antiphon.core.hooks import BeforeDecision as BeforeDecision
    from antiphon.core.hooks import Context as Context
    from antiphon.core.hooks import NextTurn as NextTurn
    from antiphon.core.hooks import RequestUpdate as RequestUpdate
    from antiphon.core.messages import AssistantMessage as AssistantMessage
    from antiphon.core.messages import HostMessage as HostMessage
    from antiphon.core.messages import Message as Message
    from antiphon.core.messages import SystemMessage as SystemMessage
    from antiphon.core.messages import ToolResultMessage as ToolResultMessage
    from antiphon.core.messages import UserMessage as UserMessage
    from antiphon.core.model import Model as Model
    from antiphon.core.partial_json import read_arguments as read_arguments
    from antiphon.core.policy import DEFAULT as DEFAULT
    from antiphon.core.policy import PI as PI
    from antiphon.core.policy import STRICT as STRICT
    from antiphon.core.policy import Policy as Policy
    from antiphon.core.policy import RunLimits as RunLimits
    from antiphon.core.ports import ModelRequest as ModelRequest
    from antiphon.core.response_events import Done as Done
    from antiphon.core.response_events import Failed as Failed
    from antiphon.core.response_events import Start as Start
    from antiphon.core.response_events import TextDelta as TextDelta
    from antiphon.core.response_events import TextEnd as TextEnd
    from antiphon.core.response_events import TextStart as TextStart
    from antiphon.core.response_events import ThinkingDelta as ThinkingDelta
    from antiphon.core.response_events import ThinkingEnd as ThinkingEnd
    from antiphon.core.response_events import ThinkingStart as ThinkingStart
    from antiphon.core.response_events import ToolCallDelta as ToolCallDelta
    from antiphon.core.response_events import ToolCallEnd as ToolCallEnd
    from antiphon.core.response_events import ToolCallStart as ToolCallStart
    from antiphon.core.usage import Usage as Usage
    from antiphon.loop.abort import AbortController as AbortController
    from antiphon.loop.config import LoopConfig as LoopConfig
    from antiphon.loop.entry import agent_loop as agent_loop
    from antiphon.loop.entry import agent_loop_continue as agent_loop_continue
    from antiphon.loop.entry import run_agent_loop as run_agent_loop
    from antiphon.loop.entry import run_agent_loop_continue as run_agent_loop_continue
    from antiphon.loop.event_stream import EventStream as EventStream
    from antiphon.loop.outcome import RunOutcome as RunOutcome
    from antiphon.loop.tool_call import run_tool_call as run_tool_call
    from antiphon.tools.define import tool as tool

__version__ = "0.1.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "antiphon.agent.agent": ("Agent",),
    "antiphon.agent.view": ("AgentState",),
    "antiphon.core.calls": ("ToolResult",),
    "antiphon.core.content": ("Image", "Text", "Thinking", "ToolCall"),
    "antiphon.core.events": ("AgentEvent",),
    "antiphon.core.hooks": ("AfterOverride", "BeforeDecision", "Context", "NextTurn", "RequestUpdate"),
    "antiphon.core.messages": (
        "AssistantMessage",
        "HostMessage",
        "Message",
        "SystemMessage",
        "ToolResultMessage",
        "UserMessage",
    ),
    "antiphon.core.model": ("Model",),
    "antiphon.core.partial_json": ("read_arguments",),
    "antiphon.core.policy": ("DEFAULT", "PI", "STRICT", "Policy", "RunLimits"),
    "antiphon.core.ports": ("ModelRequest",),
    "antiphon.core.response_events": (
        "Done",
        "Failed",
        "Start",
        "TextDelta",
        "TextEnd",
        "TextStart",
        "ThinkingDelta",
        "ThinkingEnd",
        "ThinkingStart",
        "ToolCallDelta",
        "ToolCallEnd",
        "ToolCallStart",
    ),
    "antiphon.core.usage": ("Usage",),
    "antiphon.loop.abort": ("AbortController",),
    "antiphon.loop.config": ("LoopConfig",),
    "antiphon.loop.entry": ("agent_loop", "agent_loop_continue", "run_agent_loop", "run_agent_loop_continue"),
    "antiphon.loop.event_stream": ("EventStream",),
    "antiphon.loop.outcome": ("RunOutcome",),
    "antiphon.loop.tool_call": ("run_tool_call",),
    "antiphon.tools.define": ("tool",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = sorted([*_ROOM_OF, "__version__"])  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(room), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
