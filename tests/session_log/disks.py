"""File systems that fail: one that refuses chosen operations, and one that forgets what was not synced."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from antiphon.session_log.disk import Disk, FileState, LocalDisk

FAILING = ("create", "open", "write", "sync", "sync_folder", "truncate", "rename", "link", "remove", "state", "read")


class FaultyDisk:
    """The real file system, whose operation number `at` (of all that are counted) fails, or all from there on.

    `short`: a failing write takes half of its bytes first.
    """

    def __init__(
        self, at: int, code: int = errno.ENOSPC, *, forever: bool = False, short: bool = False, only: Any = FAILING
    ) -> None:
        self.real: Disk = LocalDisk()
        self.at, self.code, self.forever, self.short, self.only = at, code, forever, short, only
        self.count = 0
        self.failed: list[str] = []

    def heal(self) -> None:
        self.at = -1
        self.forever = False

    def __getattr__(self, name: str) -> Callable[..., Any]:
        act = getattr(self.real, name)
        return self._counted(name, act) if name in self.only else act

    def _counted(self, name: str, act: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*args: Any, **named: Any) -> Any:
            self.count += 1
            fails = self.at >= 0 and (self.count == self.at or (self.forever and self.count > self.at))
            if not fails:
                return act(*args, **named)
            self.failed.append(name)
            if name == "write" and self.short and len(args[1]) > 1:
                return act(args[0], args[1][: len(args[1]) // 2]) if self._halved() else self._refuse(name)
            return self._refuse(name)

        return tried

    def _halved(self) -> bool:
        """A short write once; the next attempt to write the rest fails."""
        self.short = False
        if not self.forever:
            self.at = self.count + 1
        return True

    def _refuse(self, name: str) -> Any:
        raise OSError(self.code, f"{name} fails as told")


class _File:
    def __init__(self) -> None:
        self.data = bytearray()
        self.synced = b""


class ForgetfulDisk:
    """A file system in memory. `power_loss` gives the one that is found after the power came back.

    What was synced is there. Of what was not, some prefix of the appended bytes may be there, with zeros for bytes that
    did not arrive: at its end, or, when later bytes were written before earlier ones, in its middle. Names that were
    not synced may be there or not.
    """

    def __init__(self, files: dict[Path, _File] | None = None) -> None:
        self.names = dict(files or {})
        self.synced_names = dict(self.names)
        self._open: dict[int, _File] = {}
        self._locked: dict[int, _File] = {}
        self._next = 3

    def power_loss(self, dice: random.Random) -> ForgetfulDisk:
        survived: dict[Path, _File] = {}
        for path in {*self.names, *self.synced_names}:
            before, now = self.synced_names.get(path), self.names.get(path)
            kept = before if before is now or dice.random() < 0.5 else now
            if kept is None:
                continue
            file = _File()
            file.data = bytearray(_after_loss(kept, dice))
            file.synced = bytes(file.data)
            survived[path] = file
        return ForgetfulDisk(survived)

    def _opened(self, file: _File) -> int:
        self._next += 1
        self._open[self._next] = file
        return self._next

    def create(self, path: Path) -> int:
        if path in self.names:
            raise FileExistsError(path)
        self.names[path] = _File()
        return self._opened(self.names[path])

    def open(self, path: Path, *, write: bool) -> int:
        if path not in self.names:
            raise FileNotFoundError(path)
        return self._opened(self.names[path])

    def close(self, fd: int) -> None:
        self._open.pop(fd)
        self._locked.pop(fd, None)

    def read(self, fd: int, at: int, count: int) -> bytes:
        return bytes(self._open[fd].data[at : at + count])

    def write(self, fd: int, data: bytes) -> int:
        self._open[fd].data += data
        return len(data)

    def truncate(self, fd: int, size: int) -> None:
        del self._open[fd].data[size:]

    def sync(self, fd: int) -> None:
        self._open[fd].synced = bytes(self._open[fd].data)

    def sync_folder(self, folder: Path) -> None:
        self.synced_names = dict(self.names)

    def lock(self, fd: int) -> bool:
        if any(file is self._open[fd] for other, file in self._locked.items() if other != fd):
            return False
        self._locked[fd] = self._open[fd]
        return True

    def state(self, fd: int) -> FileState:
        return self._state(self._open[fd])

    def state_of(self, path: Path) -> FileState | None:
        return self._state(self.names[path]) if path in self.names else None

    def _state(self, file: _File) -> FileState:
        return FileState(len(file.data), 1, id(file), sum(1 for other in self.names.values() if other is file), 0)

    def rename(self, old: Path, new: Path) -> None:
        self.names[new] = self.names.pop(old)

    def link(self, old: Path, new: Path) -> None:
        if new in self.names:
            raise FileExistsError(new)
        self.names[new] = self.names[old]

    def remove(self, path: Path) -> None:
        del self.names[path]

    def make_folder(self, folder: Path) -> None:
        return


def _after_loss(file: _File, dice: random.Random) -> bytes:
    synced, data = file.synced, bytes(file.data)
    if not data.startswith(synced):  # it was cut back since: either state may be found
        return synced if dice.random() < 0.5 else data
    kept = dice.randint(len(synced), len(data))
    start, end = sorted((dice.randint(len(synced), kept), dice.randint(len(synced), kept)))
    match dice.randrange(3):
        case 0:
            return data[:kept]
        case 1:
            return data[:start] + bytes(kept - start)
        case _:
            return data[:start] + bytes(end - start) + data[end:kept]
