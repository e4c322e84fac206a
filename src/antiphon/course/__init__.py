"""The course: how an agent loop is built, chapter by chapter, with tests that catch what usually goes wrong.

Floor 6: may import everything. Start reading at `loop_types.py` (what a loop is given and tells), then
`reference_loop.py` (the answer of chapter 07 in one file) and `core_loop.py` (the same over the core of this project).
`command.py` is `antiphon course`; `kit/` makes practice folders out of `chapters/` and judges them; `saboteurs/` breaks
things on purpose.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.course.core_loop import run_agent_loop as run_agent_loop
    from antiphon.course.decisions import DECISIONS as DECISIONS
    from antiphon.course.decisions import Decision as Decision
    from antiphon.course.executor import Executor as Executor
    from antiphon.course.executor import ToolSet as ToolSet
    from antiphon.course.loop_types import AgentContext as AgentContext
    from antiphon.course.loop_types import AgentLoopOptions as AgentLoopOptions
    from antiphon.course.loop_types import AgentRunResult as AgentRunResult
    from antiphon.course.loop_types import AssistantEvent as AssistantEvent
    from antiphon.course.loop_types import LoopEvent as LoopEvent
    from antiphon.course.loop_types import ModelEvent as ModelEvent
    from antiphon.course.loop_types import ToolEnd as ToolEnd
    from antiphon.course.loop_types import ToolProgress as ToolProgress
    from antiphon.course.loop_types import ToolStart as ToolStart
    from antiphon.course.loop_types import TurnEnd as TurnEnd
    from antiphon.course.ports import ModelRequest as ModelRequest
    from antiphon.course.reference_loop import skipped_call as skipped_call
    from antiphon.course.scripted_model import ScriptedModel as ScriptedModel
    from antiphon.course.scripted_model import ScriptExhausted as ScriptExhausted

_HOME = {
    "DECISIONS": "decisions",
    "AgentContext": "loop_types",
    "AgentLoopOptions": "loop_types",
    "AgentRunResult": "loop_types",
    "AssistantEvent": "loop_types",
    "Decision": "decisions",
    "Executor": "executor",
    "LoopEvent": "loop_types",
    "ModelEvent": "loop_types",
    "ModelRequest": "ports",
    "ScriptExhausted": "scripted_model",
    "ScriptedModel": "scripted_model",
    "ToolEnd": "loop_types",
    "ToolProgress": "loop_types",
    "ToolSet": "executor",
    "ToolStart": "loop_types",
    "TurnEnd": "loop_types",
    "run_agent_loop": "core_loop",
    "skipped_call": "reference_loop",
}

__all__ = [
    "DECISIONS",
    "AgentContext",
    "AgentLoopOptions",
    "AgentRunResult",
    "AssistantEvent",
    "Decision",
    "Executor",
    "LoopEvent",
    "ModelEvent",
    "ModelRequest",
    "ScriptExhausted",
    "ScriptedModel",
    "ToolEnd",
    "ToolProgress",
    "ToolSet",
    "ToolStart",
    "TurnEnd",
    "run_agent_loop",
    "skipped_call",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
