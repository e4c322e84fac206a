"""The file system, as the log sees it: a port with few verbs, so that tests can make any of them fail.

Every verb may raise OSError. Descriptors are integers; `LocalDisk` is the real thing. Below it: what is done with the
verbs again and again, each all or nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol, final

from msgspec import Struct

from antiphon.errors import SessionError
from antiphon.session_log.refusals import SessionInUse


@final
class FileState(Struct, frozen=True, gc=False):
    """What tells one file from another, and whether it changed. `links` 0: it has no name any more."""

    size: int
    device: int
    inode: int
    links: int
    mtime_ns: int

    def same_file(self, other: FileState) -> bool:
        return self.inode == other.inode and self.device == other.device


class Disk(Protocol):
    """What a session file needs from outside."""

    def create(self, path: Path) -> int:
        """A new file, open for reading and appending; FileExistsError if there is one."""
        ...

    def open(self, path: Path, *, write: bool) -> int: ...
    def close(self, fd: int) -> None: ...
    def read(self, fd: int, at: int, count: int) -> bytes: ...

    def write(self, fd: int, data: bytes) -> int:
        """Append; may take less than all of it, and says how much."""
        ...

    def truncate(self, fd: int, size: int) -> None: ...

    def sync(self, fd: int) -> None:
        """What was written survives a power loss from now on."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Names in the folder survive a power loss from now on."""
        ...

    def lock(self, fd: int) -> bool:
        """Become the only owner; false if another one lives. A dead owner's lock is gone with it."""
        ...

    def state(self, fd: int) -> FileState: ...

    def state_of(self, path: Path) -> FileState | None:
        """The state of what has this name now; nothing if nothing has."""
        ...

    def rename(self, old: Path, new: Path) -> None: ...

    def link(self, old: Path, new: Path) -> None:
        """A second name; FileExistsError if it is taken."""
        ...

    def remove(self, path: Path) -> None: ...
    def make_folder(self, folder: Path) -> None: ...


def _state(found: os.stat_result) -> FileState:
    return FileState(found.st_size, found.st_dev, found.st_ino, found.st_nlink, found.st_mtime_ns)


@final
class LocalDisk:
    """The file system of this machine. Session files are for their owner only."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)

    def open(self, path: Path, *, write: bool) -> int:
        fd = os.open(path, os.O_NONBLOCK | (os.O_RDWR | os.O_APPEND if write else os.O_RDONLY))
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd
        os.close(fd)  # a pipe would be waited for, a device has no end
        raise OSError(errno.EINVAL, "it is no regular file", str(path))

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, at: int, count: int) -> bytes:
        return os.pread(fd, count, at)

    def write(self, fd: int, data: bytes) -> int:
        return os.write(fd, data)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def state(self, fd: int) -> FileState:
        return _state(os.fstat(fd))

    def state_of(self, path: Path) -> FileState | None:
        try:
            return _state(os.stat(path))
        except FileNotFoundError:
            return None

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        os.link(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def make_folder(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # it is a file: not to be mistaken for a session that is there already
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def replaced(disk: Disk, path: Path, blocks: Iterable[bytes], keep: Path | None, *, fresh: bool) -> tuple[int, int]:
    """A locked descriptor and the size of a new file under an old name: written beside it, synced, renamed.

    `keep`: a second name under which the old bytes stay. `fresh`: the name is free and must still be.

    Raises:
        OSError: the old file is untouched.
    """
    disk.make_folder(path.parent)
    beside = path.with_name(f".{path.name}.new")
    if disk.state_of(beside) is not None:
        disk.remove(beside)
    fd = disk.create(beside)
    try:
        size = sum(write_all(disk, fd, block) for block in blocks)
        disk.sync(fd)
        disk.lock(fd)
        if keep is not None:
            disk.link(path, keep)
        if fresh:
            disk.link(beside, path)
        else:
            disk.rename(beside, path)
    except BaseException:
        quietly(lambda: disk.close(fd))
        quietly(lambda: disk.remove(beside))
        raise
    if fresh:
        quietly(lambda: disk.remove(beside))
    quietly(lambda: disk.sync_folder(path.parent))
    return fd, size


def locked(disk: Disk, path: Path, *, create: bool = False) -> int:
    """A locked descriptor of what has this name now: the name may change hands while we wait for the lock.

    `create`: make the file if there is none.

    Raises:
        SessionInUse: another owner is alive.
        OSError: it cannot be opened.
    """
    while True:
        fd = _opened(disk, path, create=create)
        try:
            owner, named = disk.lock(fd), disk.state_of(path)
            if owner and named is not None and named.same_file(disk.state(fd)):
                return fd
        except BaseException:
            quietly(partial(disk.close, fd))
            raise
        disk.close(fd)
        if not owner:
            raise SessionInUse(path)


def _opened(disk: Disk, path: Path, *, create: bool) -> int:
    if create:
        with suppress(FileExistsError):
            return disk.create(path)
    return disk.open(path, write=True)


def write_all(disk: Disk, fd: int, data: bytes) -> int:
    """Append all of it, however often that takes; how much it was."""
    written = disk.write(fd, data)
    while written < len(data):
        more = disk.write(fd, data[written:])
        if more == 0:
            raise OSError(errno.EIO, "the system takes no more bytes")
        written += more
    return written


def quietly(act: Callable[[], None]) -> None:
    """Clean up after a failure; the failure itself is what gets reported."""
    with suppress(OSError, SessionError):
        act()
