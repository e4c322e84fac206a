"""The first prompt of a one-shot run: standard input, then files, then the first message.

A newline stands between parts, unless the left one already ends with one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from antiphon.errors import ConfigurationError

READ_BYTES = 1 << 20


def read_stdin() -> str:
    """Everything on standard input, trimmed; broken bytes become U+FFFD."""
    blocks: list[bytes] = []
    while block := os.read(0, READ_BYTES):
        blocks.append(block)
    return b"".join(blocks).decode("utf-8", "replace").strip()


def file_part(name: str, cwd: str) -> str:
    """A file as a part of a prompt; an empty file is no part.

    Raises:
        ConfigurationError: it cannot be read.
    """
    path = Path(cwd, Path(name).expanduser())
    try:
        text = path.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff")
    except OSError as error:
        raise ConfigurationError(f"cannot read @{name}: {error.strerror or error}") from error
    return f'<file name="{path}">\n{text}\n</file>\n' if text else ""


def prompts_of(messages: Sequence[str], files: Sequence[str], piped: str, cwd: str) -> list[str]:
    """The prompts in order: the first one with everything in front of it, each further message on its own.

    Raises:
        ConfigurationError: a file cannot be read.
    """
    parts = [piped, *(file_part(name, cwd) for name in files), *messages[:1]]
    first = join(parts)
    rest = [message for message in messages[1:] if message.strip()]
    return ([first] if first.strip() else []) + rest


def join(parts: Sequence[str]) -> str:
    """Non-empty parts, each on a line of its own."""
    out = ""
    for part in parts:
        if part:
            out += ("" if not out or out.endswith("\n") else "\n") + part
    return out
