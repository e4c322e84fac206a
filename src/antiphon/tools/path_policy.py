"""Confining tools to folders: one engine that decides on the opened object, never on the text of a path.

A path is resolved once to see where it leads; that is only a hint. Then the folders are opened one below the other from
an allowed root, each by its name in the one before and never through a link, and the last name is used inside the last
open folder. Whoever puts a link in place in between makes the step fail instead of leading it astray.

| way out | what stops it |
|---|---|
| `..`, absolute paths, `~`, file URLs | they resolve to a place outside every root |
| a link, a chain or circle of links | resolved first, so its target must be inside |
| a link made between check and use | no step follows a link |
| a hard link to a file outside | refused for reading and extending; replacing leaves the other name alone |
| `/proc/self/root`, `/proc/PID/fd`, `/dev/fd` | they resolve outside; files of such systems are refused by device |
| pipes, devices, sockets | looked at before opening, refused; looked at again when open |
| names or paths beyond the system's limits | the system's error |
| special names (`hidden`, `protected`) | compared part by part, without regard to case |

Nothing is confined unless a host makes a workspace with `ConfinedFiles`. Commands open files themselves, so the kernel
must hold them: `sandbox.py` puts both behind one word.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress

from msgspec import Struct, field

from antiphon.errors import ConfigurationError
from antiphon.tools.atomic import Place, Step, no_step, replace_file
from antiphon.tools.faults import PathRefused
from antiphon.tools.local_files import (
    LocalReader,
    always,
    entries_of,
    exclusive_between_processes,
    info_of,
    never,
    write_all,
)
from antiphon.tools.port import Entry, FileInfo

_CLOSE = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _CLOSE
_CHANGED_TRIES = 3
_VIRTUAL_SYSTEMS = ("/proc", "/sys", "/dev")


class PathPolicy(Struct, frozen=True):
    """Which folders tools may use. `writable` ones may be read as well; `readable` ones may only be read.

    `hidden`: names that are neither read nor written, wherever they stand in a path. `protected`: names that may be
    read only. `hard_links`: also read files that have a second name, which may be outside; they are never extended.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...] = ()
    hidden: frozenset[str] = field(default_factory=frozenset[str])
    protected: frozenset[str] = field(default_factory=frozenset[str])
    hard_links: bool = False


class _Root(Struct, frozen=True):
    real: str
    folder: int
    writable: bool


class ConfinedFiles:
    """This machine's files as far as a policy goes; satisfies `port.Files`. Holds its roots open until `close`.

    Raises:
        ConfigurationError: a root is no folder, or the system cannot open files relative to folders.
    """

    def __init__(self, policy: PathPolicy, *, durable: bool = False, step: Step = no_step) -> None:
        if os.open not in os.supports_dir_fd or not _NOFOLLOW:
            raise ConfigurationError("confining files needs descriptors of folders, which this system does not have")
        self._policy = policy
        self._one_name = not policy.hard_links
        self._durable = durable
        self._step = step
        self._hidden = frozenset(name.casefold() for name in policy.hidden)
        self._protected = frozenset(name.casefold() for name in policy.protected)
        self._virtual = _virtual_devices()
        self._roots: list[_Root] = []
        for writable, paths in ((True, policy.writable), (False, policy.readable)):
            for path in paths:
                self._roots.append(self._open_root(path, writable))
        self._roots.sort(key=lambda root: (-len(root.real), not root.writable))

    def close(self) -> None:
        """Give the roots back; nothing may be used afterwards."""
        while self._roots:
            os.close(self._roots.pop().folder)

    def _open_root(self, path: str, writable: bool) -> _Root:
        real = os.path.realpath(path)
        try:
            return _Root(real, os.open(real, _FOLDER), writable)
        except OSError as error:
            self.close()
            raise ConfigurationError(f"{path} cannot be a folder for tools: {error.strerror}") from error

    # -- where a path leads ---------------------------------------------------------------------------------------

    def real_path(self, path: str) -> str:
        real = _real(path)
        self._root_of(real, path, write=False)
        return real

    @contextmanager
    def _place(self, path: str, *, write: bool = False, follow: bool = True) -> Generator[Place]:
        """The last name of a path inside its folder, which is open and certainly below a root."""
        for attempt in range(_CHANGED_TRIES):
            real = _real(path) if follow else os.path.join(_real(os.path.dirname(path)), os.path.basename(path))
            root, below = self._root_of(real, path, write=write)
            try:
                folder = _descend(root.folder, below[:-1])
            except _LinkInTheWay as way:
                if attempt == _CHANGED_TRIES - 1:
                    raise PathRefused(path, "a link was put in its way") from way
                continue
            try:
                yield Place(below[-1] if below else ".", folder)
            finally:
                os.close(folder)
            return

    def _root_of(self, real: str, path: str, *, write: bool) -> tuple[_Root, list[str]]:
        """The root that a resolved path lies below, and the names from there on."""
        for root in self._roots:
            if write and not root.writable:
                continue
            if real == root.real or real.startswith(root.real.rstrip("/") + "/"):
                below = [name for name in real[len(root.real) :].split("/") if name]
                self._check_names(below, path, write=write)
                return root, below
        kind = "changed" if write else "used"
        raise PathRefused(path, f"it is outside the folders in which files may be {kind}")

    def _check_names(self, names: list[str], path: str, *, write: bool) -> None:
        for name in names:
            folded = name.casefold()
            if folded in self._hidden:
                raise PathRefused(path, f"{name} is hidden from tools")
            if write and folded in self._protected:
                raise PathRefused(path, f"{name} may not be changed by tools")

    def _admit(self, found: os.stat_result, path: str, *, one_name: bool) -> None:
        """Refuse what is no plain file or folder, and, if it must have `one_name`, files that may have one outside."""
        if found.st_dev in self._virtual:
            raise PathRefused(path, "it belongs to a virtual file system")
        if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
            raise PathRefused(path, "it is a pipe, a device or a socket")
        if one_name and stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            raise PathRefused(path, "it has a second name (hard link), which may be outside")

    def _admit_target(self, place: Place, path: str, *, one_name: bool) -> None:
        """The same for a file that may not exist yet: then its folder is what counts."""
        try:
            self._admit(_look(place, path), path, one_name=one_name)
        except FileNotFoundError:
            self._admit(os.stat(".", dir_fd=place.folder), path, one_name=False)

    # -- the port -------------------------------------------------------------------------------------------------

    def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        with self._place(path, follow=follow) as place:
            return info_of(_look(place, path))

    def read_link(self, path: str) -> str:
        with self._place(path, follow=False) as place:
            return os.readlink(place.name, dir_fd=place.folder)

    def scan(self, path: str) -> Iterable[Entry]:
        with self._place(path) as place:
            self._admit(_look(place, path), path, one_name=self._one_name)
            folder = _open(place, os.O_RDONLY | os.O_DIRECTORY, path)
            try:
                return [one for one in entries_of(folder) if one.name.casefold() not in self._hidden]
            finally:
                os.close(folder)

    def open(self, path: str, *, stopped: Callable[[], bool] = never) -> LocalReader:
        with self._place(path) as place:
            # Before opening: to open a device can have effects.
            self._admit(_look(place, path), path, one_name=self._one_name)
            descriptor = _open(place, os.O_RDONLY | os.O_NONBLOCK, path)
            try:
                self._admit(os.fstat(descriptor), path, one_name=self._one_name)
            except BaseException:
                os.close(descriptor)
                raise
        return LocalReader(descriptor, stopped)

    def check_access(self, path: str, *, write: bool = False) -> None:
        with self._place(path, write=write) as place:
            self._admit(_look(place, path), path, one_name=self._one_name)
            wanted = os.R_OK | (os.W_OK if write else 0)
            if not os.access(place.name, wanted, dir_fd=place.folder, effective_ids=True):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def replace(self, path: str, chunks: Iterable[bytes], *, commit: Callable[[], bool] = always) -> bool:
        with self._place(path, write=True) as place:
            self._admit_target(place, path, one_name=False)
            return replace_file(place, chunks, commit=commit, durable=self._durable, step=self._step, only_regular=True)

    def append(self, path: str, content: bytes) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK
        with self._place(path, write=True) as place:
            self._admit_target(place, path, one_name=True)
            descriptor = _open(place, flags, path)
            try:
                self._admit(os.fstat(descriptor), path, one_name=True)
                return write_all(descriptor, content)
            finally:
                os.close(descriptor)

    def make_folders(self, path: str) -> None:
        real = _real(path)
        root, below = self._root_of(real, path, write=True)
        folder = os.dup(root.folder)
        try:
            for index, name in enumerate(below):
                try:
                    deeper = _descend(folder, [name])
                except FileNotFoundError:
                    with suppress(FileExistsError):  # somebody else was faster
                        os.mkdir(name, dir_fd=folder)
                    deeper = _descend(folder, [name])
                except _LinkInTheWay as way:
                    found = os.lstat(name, dir_fd=folder)
                    if stat.S_ISREG(found.st_mode) and index == len(below) - 1:
                        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from way
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from way
                os.close(folder)
                folder = deeper
        finally:
            os.close(folder)

    def remove(self, path: str) -> None:
        with self._place(path, write=True, follow=False) as place:
            os.unlink(place.name, dir_fd=place.folder)

    @contextmanager
    def lock(self, key: str, /) -> Generator[bool]:
        with exclusive_between_processes(key) as free:
            yield free


class _LinkInTheWay(OSError):
    """A folder on the way is no folder any more, but a link or a file."""


def _real(path: str) -> str:
    if "\0" in path:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
    return os.path.realpath(path)


def _descend(folder: int, names: list[str]) -> int:
    """A new descriptor of the folder that these names lead to, one below the other, never through a link."""
    current = os.dup(folder)
    for name in names:
        try:
            deeper = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=current)
        except OSError as error:
            os.close(current)
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise _LinkInTheWay(error.errno, os.strerror(error.errno), name) from error
            raise
        os.close(current)
        current = deeper
    return current


def _look(place: Place, path: str) -> os.stat_result:
    try:
        return os.lstat(place.name, dir_fd=place.folder)
    except OSError as error:
        error.filename = path
        raise


def _open(place: Place, flags: int, path: str) -> int:
    try:
        return os.open(place.name, flags | _NOFOLLOW | _CLOSE, 0o666, dir_fd=place.folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(path, "a link was put in its place") from error
        error.filename = path
        raise


def _virtual_devices() -> frozenset[int]:
    """Device numbers of the file systems whose files are doors to processes and hardware."""
    found: set[int] = set()
    root = os.stat("/").st_dev
    for path in _VIRTUAL_SYSTEMS:
        try:
            device = os.stat(path).st_dev
        except OSError:
            continue
        if device != root:  # not mounted: an ordinary folder of that name
            found.add(device)
    return frozenset(found)
