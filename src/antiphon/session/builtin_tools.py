"""The built-in tools of one conversation, with the words that the prompt has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast, final

from antiphon.core.model import Model
from antiphon.core.ports import Tool
from antiphon.core.wire import JsonObject
from antiphon.tools.port import Workspace

TOOL_NAMES = ("read", "bash", "edit", "write", "grep", "find", "ls")

SNIPPETS: dict[str, str] = {
    "read": "Read files",
    "bash": "Run shell commands",
    "edit": "Change parts of a file",
    "write": "Create a file, or replace all of it",
    "grep": "Search in files",
    "find": "Find files by name",
    "ls": "List a folder",
}
GUIDELINES: dict[str, tuple[str, ...]] = {
    "read": ("Read a file before you edit it.",),
    "edit": ("Use edit for changes, write only for new files or when all of a file changes.",),
    "bash": ("Give bash commands that end by themselves.",),
}


@final
class PromptedTool:
    """A tool with its words for the prompt; everything else is the tool's own."""

    def __init__(self, tool: Tool, snippet: str, guidelines: tuple[str, ...] = ()) -> None:
        self._tool = tool
        self.name = tool.name
        self.prompt_snippet = snippet
        self.prompt_guidelines = guidelines

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def parameters(self) -> JsonObject:
        return self._tool.parameters

    @property
    def execute(self) -> Callable[..., Any]:
        return self._tool.execute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def builtin_tools(
    workspace: Workspace,
    *,
    model: Callable[[], Model | None],
    environment: Callable[[], Mapping[str, str | None]],
    shell_path: str | None = None,
    command_prefix: str | None = None,
) -> list[Tool]:
    """All built-in tools for one workspace, with one memory of what has been read."""
    from antiphon.tools import ReadLog, bash_tool, edit_tool, find_tool, grep_tool, ls_tool, read_tool, write_tool
    from antiphon.tools.bash import BashOptions

    log = ReadLog()
    options = BashOptions(environment=environment, shell_path=shell_path, command_prefix=command_prefix)
    made: list[Tool] = [
        read_tool(workspace, log=log, model=model),
        bash_tool(workspace, options),
        edit_tool(workspace, log=log),
        write_tool(workspace, log=log),
        grep_tool(workspace),
        find_tool(workspace),
        ls_tool(workspace),
    ]
    return [cast("Tool", PromptedTool(tool, SNIPPETS[tool.name], GUIDELINES.get(tool.name, ()))) for tool in made]
