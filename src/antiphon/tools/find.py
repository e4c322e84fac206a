"""The `find` tool: names and paths that fit a pattern, below a folder, in a fixed order.

Source: tools specification, 8; pinned by conformance/tools/find.json. A pattern without a slash is about names at any
depth, one with a slash about paths from the searched folder on, one that begins with a slash about absolute paths.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.wire import JsonObject
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.faults import ToolFault, fault_text
from antiphon.tools.glob import BadGlob, compile_glob
from antiphon.tools.ls import shown_name
from antiphon.tools.output import DEFAULT_LIMITS, NO_LINE_LIMIT, Limits, format_size, notice, truncate_head
from antiphon.tools.port import Files, Workspace
from antiphon.tools.walk import WalkRules, kind_at, walk
from antiphon.tools.workspace import stopper

DEFAULT_LIMIT = 1_000

DESCRIPTION = (
    "Find files and folders by a pattern such as '*.py', 'src/**/*.ts' or 'README*'. A pattern with a / is matched "
    "from the searched folder on, others against names at any depth; one in lower case ignores case. Entries hidden by "
    ".gitignore are left out; folders end with a /. At most {limit} results or {size}."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "pattern": {"type": "string", "description": "Glob pattern: * ? [abc] {a,b} and ** for any folders"},
        "path": {"type": "string", "description": "Folder to search; by default the working folder"},
        "limit": {"type": "number", "description": f"How many results to show (default {DEFAULT_LIMIT})"},
    },
    "required": ["pattern"],
}


def find_tool(workspace: Workspace, *, limits: Limits = DEFAULT_LIMITS) -> FunctionTool[..., Any]:
    """The tool `find`."""
    description = DESCRIPTION.format(limit=DEFAULT_LIMIT, size=format_size(limits.max_bytes))

    @tool(name="find", label="find", description=description, parameters=SCHEMA, replay="safe", workspace=workspace)
    async def find(pattern: str, path: str = ".", limit: float | None = None, *, ctx: ToolContext) -> ToolResult:
        most = DEFAULT_LIMIT if limit is None else max(1, int(limit))
        folder = await workspace.locate(path, ctx.signal)
        fits = path_test(pattern, folder)
        rules = WalkRules(git_everywhere=True, home=workspace.home)
        matches = await workspace.call(
            find_paths, ctx.signal, workspace.files, folder, fits, rules, most, stopper(ctx.signal)
        )
        return _result(matches, most, limits)

    return find


def path_test(pattern: str, folder: str) -> Callable[[str], bool]:
    """Whether a path relative to `folder` fits. A pattern without capitals ignores case.

    Raises:
        ToolFault: the pattern is broken.
    """
    pattern = pattern.removeprefix("./")
    if not pattern:
        return lambda _path: True
    try:
        fits = compile_glob(pattern, ignore_case=not any(char.isupper() for char in pattern)).fullmatch
    except BadGlob as error:
        raise ToolFault(str(error)) from error
    if "/" not in pattern:
        return lambda path: fits(os.fsencode(path[path.rfind("/") + 1 :])) is not None
    start = folder.rstrip("/") + "/" if pattern.startswith("/") else ""
    return lambda path: fits(os.fsencode(start + path)) is not None


class Matches(Struct, frozen=True):
    """The first fitting paths, folders with a `/` at the end; `more`: there are others."""

    paths: tuple[str, ...]
    more: bool


def find_paths(
    files: Files,
    folder: str,
    fits: Callable[[str], bool],
    rules: WalkRules,
    most: int,
    stopped: Callable[[], bool],
) -> Matches:
    """The first `most` fitting entries below a folder.

    Raises:
        ToolFault: no such folder, not a folder, or not readable.
    """
    if kind_at(files, folder) != "folder":
        raise ToolFault(f"Not a directory: {folder}")
    paths: list[str] = []
    try:
        for found in walk(files, folder, rules, stopped):
            if not fits(found.path):
                continue
            if len(paths) == most:
                return Matches(tuple(paths), more=True)
            paths.append(found.path + "/" if found.kind == "folder" else found.path)
    except OSError as error:
        raise ToolFault(f"Cannot read directory: {fault_text(error, 'scandir', folder)}") from error
    return Matches(tuple(paths), more=False)


def _result(matches: Matches, most: int, limits: Limits) -> ToolResult:
    if not matches.paths:
        return ToolResult(content=(Text(text="No files found matching pattern"),))
    cut = truncate_head("\n".join(map(shown_name, matches.paths)), Limits(NO_LINE_LIMIT, limits.max_bytes))
    notes: list[str] = []
    details: JsonObject = {}
    if matches.more:
        notes.append(f"{most} results limit reached. Use limit={most * 2} for more, or refine pattern")
        details["resultLimitReached"] = most
    if cut.truncated:
        notes.append(f"{format_size(limits.max_bytes)} limit reached")
        details["truncation"] = cut.details()
    return ToolResult(content=(Text(text=cut.content + notice(*notes)),), details=details or UNSET)
