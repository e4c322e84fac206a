"""Files of this machine, through the blocking port `Files`."""

from __future__ import annotations

import errno
import hashlib
import os
import select
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

from antiphon.tools.atomic import Place, Step, no_step, replace_file
from antiphon.tools.port import Entry, FileInfo, Kind

_OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_POLL_MS = 50


def never() -> bool:
    """Nobody asks to stop."""
    return False


def always() -> bool:
    """Nobody objects."""
    return True


def kind_of(mode: int) -> Kind:
    """The kind of a file by the type bits of its mode."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISLNK(mode):
        return "link"
    return "fifo" if stat.S_ISFIFO(mode) else "other"


def info_of(found: os.stat_result) -> FileInfo:
    return FileInfo(
        kind=kind_of(found.st_mode),
        size=found.st_size,
        mode=stat.S_IMODE(found.st_mode),
        modified_ns=found.st_mtime_ns,
        identity=(found.st_dev, found.st_ino),
    )


class LocalReader:
    """An open descriptor. A pipe or device is waited for in short steps, so that `stopped` can end the wait."""

    def __init__(self, descriptor: int, stopped: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._stopped = stopped
        self.info = info_of(os.fstat(descriptor))
        if self.info.kind == "folder":
            self.close()
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._waits = self.info.kind != "file" and hasattr(select, "poll")

    def read(self, size: int, /) -> bytes:
        if self._waits and not self._wait():
            return b""
        return os.read(self._descriptor, size)

    def _wait(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN | select.POLLPRI)
        while not poll.poll(_POLL_MS):
            if self._stopped():
                return False
        return True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> LocalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LocalFiles:
    """This machine's files, as far as the process may touch them. `durable`: changes survive a power failure."""

    def __init__(self, *, durable: bool = False, step: Step = no_step) -> None:
        self._durable = durable
        self._step = step

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        return info_of(os.stat(path, follow_symlinks=follow))

    def real_path(self, path: str) -> str:
        real = os.path.realpath(path)
        if os.path.islink(real):  # realpath leaves a circle as it is
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        return real

    def read_link(self, path: str) -> str:
        return os.readlink(path)

    def scan(self, path: str) -> Iterable[Entry]:
        return entries_of(path)

    def open(self, path: str, *, stopped: Callable[[], bool] = never) -> LocalReader:
        return LocalReader(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _OPEN), stopped)

    def check_access(self, path: str, *, write: bool = False) -> None:
        os.stat(path)
        wanted = os.R_OK | (os.W_OK if write else 0)
        if not os.access(path, wanted, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def replace(self, path: str, chunks: Iterable[bytes], *, commit: Callable[[], bool] = always) -> bool:
        place = Place(self.real_path(path))
        return replace_file(place, chunks, commit=commit, durable=self._durable, step=self._step)

    def append(self, path: str, content: bytes) -> int:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _OPEN, 0o666)
        try:
            return write_all(descriptor, content)
        finally:
            os.close(descriptor)

    def make_folders(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        os.unlink(path)

    @contextmanager
    def lock(self, key: str, /) -> Generator[bool]:
        with exclusive_between_processes(key) as free:
            yield free


def entries_of(folder: str | int) -> list[Entry]:
    """The entries of a folder given by path or descriptor."""
    with os.scandir(folder) as entries:
        return [Entry(entry.name, _entry_kind(entry)) for entry in entries]


def write_all(descriptor: int, content: bytes) -> int:
    """Write everything; the size of the file afterwards."""
    view = memoryview(content)
    while len(view):
        view = view[os.write(descriptor, view) :]
    return os.fstat(descriptor).st_size


def _entry_kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):  # most are; no system call is made for any of these
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    if entry.is_symlink():
        return "link"
    try:
        return kind_of(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return "other"


@contextmanager
def exclusive_between_processes(key: str) -> Generator[bool]:
    """True inside if no other process, and nobody else here, holds the lock of this key. Never waits.

    The lock is a file in a private folder among the temporary ones, so that nothing appears beside the file itself
    and files that do not exist yet can be locked. The kernel gives it up when its holder dies. Where no such folder
    can be had the answer is true: the lock is a courtesy, the comparison before each replacement is the safeguard.
    """
    folder = _lock_folder()
    if folder is None:
        yield True
        return
    name = os.path.join(folder, hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40])
    descriptor = _take(name)
    if descriptor is None:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):
            os.unlink(name)  # while still held: whoever waits for this file sees that it is no longer the lock
        os.close(descriptor)


def _lock_folder() -> str | None:
    if not hasattr(os, "getuid"):
        return None
    folder = os.path.join(tempfile.gettempdir(), f"antiphon-locks-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return None
    try:
        found = os.lstat(folder)
    except OSError:
        return None
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return folder if ours else None


def _take(name: str) -> int | None:
    import fcntl  # not on Windows; there `_lock_folder` has said no

    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | _OPEN, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(name).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:  # its last holder removed it in between
            pass
        os.close(descriptor)
