"""Chapter 08: read, write, edit, bash for one folder.

Small on purpose. What a product needs besides (one writer per file, long output kept aside, fuzzy edits, a fence around
commands) is in the room `antiphon.tools`; the loop does not notice the difference.
"""

from __future__ import annotations

import asyncio
import os
import signal as signals
from contextlib import suppress
from pathlib import Path
from typing import Any

from antiphon.core.ports import AbortSignal
from antiphon.tools.define import ToolContext, tool

LONGEST_OUTPUT = 20_000
"""Characters of a command's output that a model gets to see: the last ones."""


class ToolRefused(Exception):
    """What a model asked for is not possible; the text says why and what to do."""


def inside(root: Path, path: str) -> Path:
    """The place that a path of a model means. Nothing outside of `root` can be meant.

    Raises:
        ToolRefused: the path leads out, by `..`, by a link, or because it is absolute.
    """
    place = (root / path).resolve()
    if not place.is_relative_to(root):
        raise ToolRefused(f"{path} is outside of the folder; use a path relative to it")
    return place


def coding_tools(folder: Path) -> list[Any]:
    """The four tools, bound to one folder."""
    root = folder.resolve()

    @tool
    def read(path: str, offset: int = 1, limit: int = 500) -> str:
        """Read lines of a text file, from line `offset` on, at most `limit` of them."""
        lines = _text(root, path).split("\n")
        last = offset - 1 + limit
        shown = "\n".join(lines[offset - 1 : last])
        left = len(lines) - last
        return shown if left <= 0 else f"{shown}\n[{left} more lines; go on with offset={last + 1}]"

    @tool(execution="sequential")
    def write(path: str, content: str) -> str:
        """Write a text file, with the folders that it needs. What was there is replaced."""
        place = inside(root, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, "utf-8")
        return f"{path} has {len(content)} characters now"

    @tool(execution="sequential")
    def edit(path: str, old: str, new: str) -> str:
        """Replace a piece of a file. `old` has to occur exactly once."""
        text = _text(root, path)
        found = text.count(old) if old else 0
        if found != 1:
            raise ToolRefused(f"the text to replace occurs {found} times in {path}; it has to be there exactly once")
        inside(root, path).write_text(text.replace(old, new), "utf-8")
        return f"{path} was changed"

    @tool
    async def bash(command: str, timeout: float = 60, *, ctx: ToolContext) -> str:  # noqa: ASYNC109 - the model's wish
        """Run a shell command in the folder. `timeout` is in seconds."""
        code, output = await _run(command, root, timeout, ctx.signal)
        output = output[-LONGEST_OUTPUT:]
        if code is None:
            why = "was aborted" if ctx.signal.aborted else f"took longer than {timeout:g} s"
            raise ToolRefused(f"{output}\nThe command {why}.")
        if code != 0:
            raise ToolRefused(f"{output}\nThe command ended with exit code {code}.")
        return output

    return [read, write, edit, bash]


def _text(root: Path, path: str) -> str:
    """A whole file. Its own errors name the full path, so they are told again in the model's words."""
    try:
        return inside(root, path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolRefused(f"{path} cannot be read as a text: {getattr(error, 'strerror', None) or error}") from error


async def _run(command: str, root: Path, seconds: float, signal: AbortSignal) -> tuple[int | None, str]:
    """Exit code and output; no code if the command was stopped."""
    process = await asyncio.create_subprocess_shell(
        command,
        cwd=root,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signals.SIGKILL)  # the whole group: a shell has children

    timer = asyncio.get_running_loop().call_later(seconds, stop)
    forget = signal.on_abort(stop)
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        stop()
        raise
    finally:
        timer.cancel()
        forget()
    return None if stopped else process.returncode, output.decode("utf-8", "replace")
