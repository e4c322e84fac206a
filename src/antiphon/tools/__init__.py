"""Tools: what a model may do to files and processes, and how a function becomes something a model may call.

This room imports `core` and `errors` only. Start with `define.py` (`@tool`), then `port.py` (what a tool may touch) and
`workspace.py` (this machine); `read.py`, `write.py`, `edit.py`, `bash.py`, `grep.py`, `find.py`, `ls.py` are the
built-in tools, one file each. Nothing is confined or asked for unless the host wants it: `path_policy.py` confines
files, `permissions.py` asks before calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable as Callable

    from antiphon.core.model import Model as Model
    from antiphon.core.ports import Tool as Tool
    from antiphon.tools.accumulate import Output as Output
    from antiphon.tools.bash import bash_tool as bash_tool
    from antiphon.tools.define import FunctionTool as FunctionTool
    from antiphon.tools.define import ToolContext as ToolContext
    from antiphon.tools.define import tool as tool
    from antiphon.tools.edit import edit_tool as edit_tool
    from antiphon.tools.faults import OperationAborted as OperationAborted
    from antiphon.tools.faults import PathRefused as PathRefused
    from antiphon.tools.faults import ToolFault as ToolFault
    from antiphon.tools.find import find_tool as find_tool
    from antiphon.tools.grep import grep_tool as grep_tool
    from antiphon.tools.ls import ls_tool as ls_tool
    from antiphon.tools.output import Limits as Limits
    from antiphon.tools.path_policy import ConfinedFiles as ConfinedFiles
    from antiphon.tools.path_policy import PathPolicy as PathPolicy
    from antiphon.tools.permissions import allow_all as allow_all
    from antiphon.tools.permissions import ask_first as ask_first
    from antiphon.tools.permissions import read_only as read_only
    from antiphon.tools.port import Workspace as Workspace
    from antiphon.tools.read import read_tool as read_tool
    from antiphon.tools.read_log import ReadLog as ReadLog
    from antiphon.tools.spill_files import SpillFiles as SpillFiles
    from antiphon.tools.workspace import HostWorkspace as HostWorkspace
    from antiphon.tools.workspace import LocalWorkspace as LocalWorkspace
    from antiphon.tools.write import write_tool as write_tool

_HOME = {
    "ConfinedFiles": "path_policy",
    "FunctionTool": "define",
    "HostWorkspace": "workspace",
    "Limits": "output",
    "LocalWorkspace": "workspace",
    "OperationAborted": "faults",
    "Output": "accumulate",
    "PathPolicy": "path_policy",
    "PathRefused": "faults",
    "ReadLog": "read_log",
    "SpillFiles": "spill_files",
    "ToolContext": "define",
    "ToolFault": "faults",
    "Workspace": "port",
    "allow_all": "permissions",
    "ask_first": "permissions",
    "bash_tool": "bash",
    "edit_tool": "edit",
    "find_tool": "find",
    "grep_tool": "grep",
    "ls_tool": "ls",
    "read_only": "permissions",
    "read_tool": "read",
    "tool": "define",
    "write_tool": "write",
}

__all__ = [
    "ConfinedFiles",
    "FunctionTool",
    "HostWorkspace",
    "Limits",
    "LocalWorkspace",
    "OperationAborted",
    "Output",
    "PathPolicy",
    "PathRefused",
    "ReadLog",
    "SpillFiles",
    "ToolContext",
    "ToolFault",
    "Workspace",
    "allow_all",
    "ask_first",
    "bash_tool",
    "coding_tools",
    "edit_tool",
    "find_tool",
    "grep_tool",
    "ls_tool",
    "read_only",
    "read_only_tools",
    "read_tool",
    "tool",
    "write_tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def coding_tools(
    workspace: Workspace, *, log: ReadLog | None = None, model: Callable[[], Model | None] | None = None
) -> list[Tool]:
    """The default set: read, bash, edit, write, with one memory of what has been read."""
    from antiphon.tools.bash import bash_tool
    from antiphon.tools.edit import edit_tool
    from antiphon.tools.read import read_tool
    from antiphon.tools.read_log import ReadLog
    from antiphon.tools.write import write_tool

    log = log if log is not None else ReadLog()
    return [
        read_tool(workspace, log=log, model=model),
        bash_tool(workspace),
        edit_tool(workspace, log=log),
        write_tool(workspace, log=log),
    ]


def read_only_tools(workspace: Workspace, *, model: Callable[[], Model | None] | None = None) -> list[Tool]:
    """The set that changes nothing: read, grep, find, ls."""
    from antiphon.tools.find import find_tool
    from antiphon.tools.grep import grep_tool
    from antiphon.tools.ls import ls_tool
    from antiphon.tools.read import read_tool

    return [read_tool(workspace, model=model), grep_tool(workspace), find_tool(workspace), ls_tool(workspace)]
