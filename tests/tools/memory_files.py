"""Files in memory: a second `Files`, so that the built-in tools can be seen to need no disk."""

from __future__ import annotations

import errno
import io
import os
import posixpath
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from antiphon.core.ports import AbortSignal
from antiphon.tools.port import Command, CommandEnd, Entry, FileInfo


class MemoryReader:
    def __init__(self, info: FileInfo, content: bytes) -> None:
        self.info = info
        self._stream = io.BytesIO(content)

    def read(self, size: int, /) -> bytes:
        return self._stream.read(size)

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> MemoryReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class MemoryFiles:
    """Paths and contents; no links. Folders are what has something below it, or was made."""

    def __init__(self, content: dict[str, bytes] | None = None) -> None:
        self.content = dict(content or {})
        self.folders = {"/"} | {parent for path in self.content for parent in _parents(path)}
        self._versions: dict[str, int] = {}
        self._locked: set[str] = set()
        self._guard = threading.Lock()

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        if path in self.content:
            version = self._versions.get(path, 0)
            return FileInfo("file", len(self.content[path]), 0o644, version, (1, hash(path)))
        if path in self.folders:
            return FileInfo("folder", 0, 0o755, 0, (1, hash(path)))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def real_path(self, path: str) -> str:
        return path

    def read_link(self, path: str) -> str:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)

    def scan(self, path: str) -> Iterable[Entry]:
        self.stat(path)
        names = dict.fromkeys(self.content, "file") | {p: "folder" for p in self.folders if p != "/"}
        return [Entry(posixpath.basename(p), kind) for p, kind in names.items() if posixpath.dirname(p) == path]  # type: ignore[arg-type]

    def open(self, path: str, *, stopped: Callable[[], bool] = lambda: False) -> MemoryReader:
        info = self.stat(path)
        if info.kind == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return MemoryReader(info, self.content[path])

    def check_access(self, path: str, *, write: bool = False) -> None:
        self.stat(path)

    def replace(self, path: str, chunks: Iterable[bytes], *, commit: Callable[[], bool] = lambda: True) -> bool:
        new = b"".join(chunks)
        if path in self.folders:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not commit():
            return False
        self.content[path] = new
        self._versions[path] = self._versions.get(path, 0) + 1
        return True

    def append(self, path: str, content: bytes) -> int:
        self.content[path] = self.content.get(path, b"") + content
        return len(self.content[path])

    def make_folders(self, path: str) -> None:
        if path in self.content:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self.folders |= {path, *_parents(path)}

    def remove(self, path: str) -> None:
        del self.content[path]

    @contextmanager
    def lock(self, key: str, /) -> Generator[bool]:
        with self._guard:
            free = key not in self._locked
            self._locked.add(key)
        try:
            yield free
        finally:
            if free:
                self._locked.discard(key)


def _parents(path: str) -> list[str]:
    found = []
    while path not in ("", "/"):
        path = posixpath.dirname(path)
        found.append(path)
    return found


class NoProcesses:
    """A host without commands."""

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command.argv[0])
