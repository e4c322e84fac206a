"""`write`: a file with exactly this content, made or replaced.

Source: tools specification, 3; pinned by conformance/tools/write.json.
"""

from __future__ import annotations

from typing import Any

from antiphon.core.wire import JsonObject
from antiphon.tools import paths
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.faults import refuse
from antiphon.tools.port import Commit, Workspace
from antiphon.tools.read_log import ReadLog, digest

DESCRIPTION = (
    "Write a file: make it, with its folders, or replace the whole of its content. To change parts of a file use edit."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file: relative to the working folder, or absolute"},
        "content": {"type": "string", "description": "The whole new content"},
    },
    "required": ["path", "content"],
}


def write_tool(workspace: Workspace, *, log: ReadLog | None = None) -> FunctionTool[..., Any]:
    """The tool `write`. The old content or the new one is there at any time; what was written is noted in `log`."""

    @tool(name="write", label="write", description=DESCRIPTION, parameters=SCHEMA, strict=True, workspace=workspace)
    async def write(path: str, content: str, *, ctx: ToolContext) -> str:
        data = paths.to_utf8(content)
        async with workspace.writing(path, ctx.signal) as turn:

            def work(commit: Commit) -> None:
                _make_parent(workspace, turn.path)
                try:
                    changed = workspace.files.replace(turn.path, (data,), commit=commit)
                except OSError as error:
                    refuse(error, "open", turn.path)
                if changed and log is not None:
                    log.note(turn.path, digest((data,)))

            await turn.change(work)
        return f"Successfully wrote to {path}"

    return write


def _make_parent(workspace: Workspace, path: str) -> None:
    parent = paths.folder_of(path)
    try:
        workspace.files.make_folders(parent)
    except OSError as error:
        refuse(error, "mkdir", parent)
