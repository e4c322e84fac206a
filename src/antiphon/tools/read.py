"""`read`: a range of the lines of a text file, or a picture.

Source: tools specification, 2; pinned by conformance/tools/read.json.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from antiphon.core.calls import ToolResult
from antiphon.core.content import Image, Text
from antiphon.core.model import Model
from antiphon.core.wire import JsonObject
from antiphon.tools.define import FunctionTool, ToolContext, tool
from antiphon.tools.faults import OperationAborted, ToolFault, refuse
from antiphon.tools.image_resize import ImageLimits, limits_of_model
from antiphon.tools.image_view import MOST_BYTES, ImageView, omitted, view_image
from antiphon.tools.images import SNIFF_BYTES, image_type
from antiphon.tools.line_window import LineWindow, Selection
from antiphon.tools.output import DEFAULT_LIMITS, Limits, format_size, notice
from antiphon.tools.port import ByteReader, Files, Workspace
from antiphon.tools.read_log import ContentDigest, ReadLog
from antiphon.tools.workspace import READ_BYTES, stopper

DESCRIPTION = (
    "Read a file. Text is shown from line `offset` on, at most {lines} lines or {size}; longer files end with a note "
    "that says how to go on. Pictures (JPEG, PNG, GIF, WebP, BMP) are shown as pictures."
)

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file: relative to the working folder, or absolute"},
        "offset": {"type": "number", "description": "First line to show, counted from 1"},
        "limit": {"type": "number", "description": "How many lines to show"},
    },
    "required": ["path"],
}


def read_tool(
    workspace: Workspace,
    *,
    log: ReadLog | None = None,
    limits: Limits = DEFAULT_LIMITS,
    image_limits: ImageLimits | None = None,
    resize_images: bool = True,
    model: Callable[[], Model | None] | None = None,
) -> FunctionTool[..., Any]:
    """The tool `read`. What is read whole is noted in `log`, so that `edit` can tell when it has changed since.

    `model`: the one that will see the result, asked at each call; it decides whether a picture is marked as useless
    and, unless `image_limits` does, how large it may be.
    """

    @tool(
        name="read",
        label="read",
        description=DESCRIPTION.format(lines=limits.max_lines, size=format_size(limits.max_bytes)),
        parameters=SCHEMA,
        replay="safe",
        strict=True,
        workspace=workspace,
    )
    async def read(
        path: str, offset: float | None = None, limit: float | None = None, *, ctx: ToolContext
    ) -> ToolResult:
        first, count = _range(offset, limit)
        found = await workspace.locate(path, ctx.signal, spellings=True)
        stopped = stopper(ctx.signal)

        window = LineWindow(first, count, limits)
        content = await workspace.call(_look, ctx.signal, workspace.files, found, window, log, stopped)
        if isinstance(content, Selection):
            return _text_result(content, path)
        seer = model() if model is not None else None
        bounds = image_limits or (limits_of_model(seer.input_limits) if seer is not None else ImageLimits())
        if isinstance(content, ImageView):
            return _image_result(content, seer)
        view = await workspace.call(view_image, ctx.signal, content, bounds, resize=resize_images, stopped=stopped)
        return _image_result(view, seer)

    return read


def _look(
    files: Files, path: str, window: LineWindow, log: ReadLog | None, stopped: Callable[[], bool]
) -> Selection | ImageView | bytes:
    """The wanted lines of a text, or the bytes of a picture (or why they are not there)."""
    try:
        with files.open(path, stopped=stopped) as reader:
            head = reader.read(READ_BYTES)
            kind = image_type(head[:SNIFF_BYTES])
            if kind is not None:
                return _picture(reader, head, kind, stopped)
            state = ContentDigest()
            for chunk in _chunks(reader, head, stopped):
                window.feed(chunk)
                if log is not None:
                    state.update(chunk)
        if log is not None:
            log.note(files.real_path(path), state.digest())
        return window.selection()
    except IsADirectoryError as error:
        refuse(error, "read")
    except OSError as error:
        refuse(error, "open", path)


def _range(offset: float | None, limit: float | None) -> tuple[int, int | None]:
    """First line and number of lines. An offset below 1 means 1, a fraction of a line is dropped.

    Raises:
        ToolFault: a limit that is negative or no whole number.
    """
    if limit is not None and (limit < 0 or limit != int(limit)):
        raise ToolFault(f"limit must be a whole number of lines, at least 0, not {limit:g}.")
    return max(int(offset or 1), 1), None if limit is None else int(limit)


def _chunks(reader: ByteReader, head: bytes, stopped: Callable[[], bool]) -> Iterator[bytes]:
    """The content from its already read beginning on; of a regular file no more than it had when it was opened."""
    left = reader.info.size if reader.info.kind == "file" and reader.info.size else None
    chunk = head
    while chunk:
        if stopped():
            raise OperationAborted
        if left is not None:
            chunk = chunk[:left]
            left -= len(chunk)
        yield chunk
        chunk = reader.read(READ_BYTES) if left is None else reader.read(min(READ_BYTES, left)) if left else b""


def _picture(reader: ByteReader, head: bytes, kind: str, stopped: Callable[[], bool]) -> ImageView | bytes:
    """The whole file, unless it is too large for that."""
    parts: list[bytes] = []
    size = 0
    for chunk in _chunks(reader, head, stopped):
        parts.append(chunk)
        size += len(chunk)
        if size > MOST_BYTES:
            return omitted(kind, f"[Image omitted: the file is larger than {format_size(MOST_BYTES)}.]")
    return b"".join(parts)


def _text_result(selection: Selection, path: str) -> ToolResult:
    cut = selection.truncation
    first, total = selection.first, selection.file_lines
    if first > total:
        raise ToolFault(f"Offset {first} is beyond end of file ({total} lines total)")
    size = format_size(cut.limits.max_bytes)
    if cut.first_line_exceeds:
        line = format_size(selection.first_line_bytes)
        command = f"sed -n '{first}p' {shlex.quote(path)} | head -c {cut.limits.max_bytes}"
        text = f"[Line {first} is {line}, exceeds {size} limit. Use bash: {command}]"
    elif cut.truncated:
        last = first + cut.output_lines - 1
        reason = f" ({size} limit)" if cut.cut_by == "bytes" else ""
        where = f"Showing lines {first}-{last} of {total}{reason}"
        text = cut.content + notice(f"{where}. Use offset={last + 1} to continue.")
    elif selection.lines_behind:
        more = f"{selection.lines_behind} more lines in file"
        text = cut.content + notice(f"{more}. Use offset={total - selection.lines_behind + 1} to continue.")
    else:
        text = cut.content
    return ToolResult(
        content=(Text(text=text),),
        details={"truncation": cut.details()} if cut.truncated else UNSET,
        structured_content=text,
    )


def _image_result(view: ImageView, model: Model | None) -> ToolResult:
    note = Text(text=view.note)
    blind = model is not None and "image" not in model.input
    details = {"imageUnsupportedByModel": model.id} if blind and model is not None else UNSET
    if view.data is None:
        return ToolResult(content=(note,), details=details, structured_content=view.note)
    data = base64.b64encode(view.data).decode()
    return ToolResult(
        content=(note, Image(data=data, mime_type=view.mime_type)),
        details=details,
        structured_content={"type": "image", "data": data, "mimeType": view.mime_type, "note": view.note},
    )
