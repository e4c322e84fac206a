"""`ls`: the names in one folder.

Source: tools specification, 9; pinned by conformance/tools/ls.json. The order is fixed: by case-folded name, then by
name, so that no machine's language settings show in a transcript.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from antiphon.core.calls import ToolResult
from antiphon.core.content import Text
from antiphon.core.wire import JsonObject
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.faults import OperationAborted, ToolFault, fault_text
from antiphon.tools.output import DEFAULT_LIMITS, NO_LINE_LIMIT, Limits, format_size, notice, truncate_head
from antiphon.tools.paths import below
from antiphon.tools.port import Entry, Files, Workspace
from antiphon.tools.workspace import stopper

DEFAULT_LIMIT = 500

DESCRIPTION = (
    "List a folder: its entries in order of their names, hidden ones included, folders with a / at the end. "
    "At most {limit} entries or {size}."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The folder; by default the working folder"},
        "limit": {"type": "number", "description": f"How many entries to show; {DEFAULT_LIMIT} by default"},
    },
}


def ls_tool(workspace: Workspace, *, limits: Limits = DEFAULT_LIMITS) -> FunctionTool[..., Any]:
    """The tool `ls`."""
    description = DESCRIPTION.format(limit=DEFAULT_LIMIT, size=format_size(limits.max_bytes))

    @tool(name="ls", label="ls", description=description, parameters=SCHEMA, replay="safe", workspace=workspace)
    async def ls(path: str = ".", limit: float | None = None, *, ctx: ToolContext) -> ToolResult:
        most = DEFAULT_LIMIT if limit is None else max(1, int(limit))
        folder = await workspace.locate(path, ctx.signal)
        listing = await workspace.call(list_folder, ctx.signal, workspace.files, folder, most, stopper(ctx.signal))
        return _result(listing, most, limits)

    return ls


class Listing(Struct, frozen=True):
    """The first names of a folder; `more`: there are others."""

    names: tuple[str, ...]
    more: bool


def list_folder(files: Files, folder: str, most: int, stopped: Callable[[], bool]) -> Listing:
    """The first `most` entries in order. Those that cannot be examined, such as links to nothing, do not count.

    Raises:
        ToolFault: no such folder, not a folder, or not readable.
    """
    try:
        if files.stat(folder).kind != "folder":
            raise ToolFault(f"Not a directory: {folder}")
    except OSError as error:
        raise ToolFault(f"Path not found: {folder}") from error
    try:
        entries = sorted(files.scan(folder), key=lambda entry: (entry.name.casefold(), entry.name))
    except OSError as error:
        raise ToolFault(f"Cannot read directory: {fault_text(error, 'scandir', folder)}") from error
    names: list[str] = []
    for entry in entries:
        if stopped():
            raise OperationAborted
        mark = _mark(files, folder, entry)
        if mark is None:
            continue
        if len(names) == most:
            return Listing(tuple(names), more=True)
        names.append(shown_name(entry.name) + mark)
    return Listing(tuple(names), more=False)


def _mark(files: Files, folder: str, entry: Entry) -> str | None:
    """`/` behind folders and links to folders; None: the entry cannot be examined."""
    if entry.kind != "link":
        return "/" if entry.kind == "folder" else ""
    try:
        return "/" if files.stat(below(folder, entry.name)).kind == "folder" else ""
    except OSError:
        return None


def shown_name(name: str) -> str:
    """A name on one line: a line break in it is written as a shell would quote it, undecodable bytes as U+FFFD."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if "\n" not in text and "\r" not in text:
        return text
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def _result(listing: Listing, most: int, limits: Limits) -> ToolResult:
    if not listing.names:
        return ToolResult(content=(Text(text="(empty directory)"),))
    cut = truncate_head("\n".join(listing.names), Limits(NO_LINE_LIMIT, limits.max_bytes))
    notes: list[str] = []
    details: JsonObject = {}
    if listing.more:
        notes.append(f"{most} entries limit reached. Use limit={most * 2} for more")
        details["entryLimitReached"] = most
    if cut.truncated:
        notes.append(f"{format_size(limits.max_bytes)} limit reached")
        details["truncation"] = cut.details()
    text = cut.content + notice(*notes)
    return ToolResult(content=(Text(text=text),), details=details or UNSET)
