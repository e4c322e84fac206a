"""Files for output that is too long to show, and how they go again."""

from __future__ import annotations

import os
import re
import secrets
import stat
import tempfile
import time
import weakref
from contextlib import suppress

KEPT_SECONDS = 7 * 24 * 3600.0
"""A session may be opened again and its model look for a file; after a week nobody does."""


class SpillFiles:
    """They belong to a session: `remove_all` when it goes.

    Made exclusively, readable by their owner alone, named `<folder>/<prefix>-<16 hex digits>.log`. The folder is the
    system's temporary one unless given. Whoever makes the first one removes those of the same name and owner that
    nobody has written to for a week. `kept` false: they do not outlive this object, nor the process.
    """

    def __init__(self, folder: str | None = None, prefix: str = "antiphon", *, kept: bool = True) -> None:
        self._folder = folder
        self._prefix = prefix
        self._paths: list[str] = []
        self._is_tidy = False
        if not kept:
            weakref.finalize(self, _remove, self._paths)

    @property
    def paths(self) -> tuple[str, ...]:
        """The files made so far that were not removed."""
        return tuple(self._paths)

    def create(self) -> tuple[int, str]:
        """A new empty file: its descriptor, open for writing, and its path."""
        folder = self._folder or tempfile.gettempdir()
        if not self._is_tidy:
            self._is_tidy = True
            _remove_old(folder, self._prefix)
        path = os.path.join(folder, f"{self._prefix}-{secrets.token_hex(8)}.log")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o600)
        self._paths.append(path)
        return descriptor, path

    def remove_all(self) -> None:
        """Remove every file made here; those already gone are fine."""
        _remove(self._paths)


def _remove(paths: list[str]) -> None:
    while paths:
        with suppress(FileNotFoundError):
            os.unlink(paths.pop())


def _remove_old(folder: str, prefix: str) -> None:
    """What sessions of earlier weeks have left."""
    named = re.compile(re.escape(prefix) + r"-[0-9a-f]{16}\.log")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if named.fullmatch(entry.name):
                with suppress(OSError):
                    if _is_old(entry.stat(follow_symlinks=False)):
                        os.unlink(entry.path)


def _is_old(found: os.stat_result) -> bool:
    ours = not hasattr(os, "getuid") or found.st_uid == os.getuid()
    return ours and stat.S_ISREG(found.st_mode) and found.st_mtime < time.time() - KEPT_SECONDS
