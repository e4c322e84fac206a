"""Replacing a file so that everyone, at every moment, sees the old content or the new one and never a mixture.

The new content is written beside the file under a name of its own, given the mode and owner of the old one, and renamed
over it. A process that is killed on the way leaves the old file and at most one `.antiphon-….tmp` beside it. A power
failure may undo the rename unless `durable` asks for fsync, which costs milliseconds.

Hard links are the price: the other names keep the old content, which is also what package stores that share files by
hard links need.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress

from msgspec import Struct

TEMPORARY = ".antiphon-{}.tmp"
WRITE_BYTES = 1024 * 1024

Step = Callable[[str], None]


def no_step(_name: str) -> None:
    """Nobody watches the steps."""


class Place(Struct, frozen=True):
    """A name in a folder. Without an open folder `name` is a whole path."""

    name: str
    folder: int | None = None

    def beside(self, name: str) -> Place:
        if self.folder is not None:
            return Place(name, self.folder)
        return Place(os.path.join(os.path.dirname(self.name), name))


def replace_file(
    place: Place,
    chunks: Iterable[bytes],
    *,
    commit: Callable[[], bool],
    durable: bool = False,
    step: Step = no_step,
    only_regular: bool = False,
) -> bool:
    """Give the file at `place` (no link) this content; false if `commit` said no and nothing changed.

    A pipe or device is written to, not replaced, unless `only_regular` refuses that.
    `step` is told the name of each system call before it is made; tests fail or kill the process there.

    Raises:
        OSError: the old content is still there. `commit` may raise anything, with the same effect.
    """
    step("stat")
    old = _look(place)
    if old is not None and not stat.S_ISREG(old.st_mode):
        if only_regular and not stat.S_ISDIR(old.st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), place.name)
        return _write_through(place, old, chunks, commit, step)
    if old is not None:
        step("access")
        _check_writable(place)
    beside = place.beside(TEMPORARY.format(secrets.token_hex(8)))
    step("create")
    descriptor = _create(beside, new=old is None)
    try:
        try:
            _fill(descriptor, chunks, step)
            if old is not None:
                _dress(descriptor, old, place, step)
            if durable:
                step("fsync")
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        step("commit")
        if not commit():
            _discard(beside)
            return False
        step("rename")
        os.replace(beside.name, place.name, src_dir_fd=beside.folder, dst_dir_fd=place.folder)
    except BaseException:
        _discard(beside)
        raise
    if durable:
        step("fsync folder")
        _sync_folder(place)
    step("done")
    return True


def _look(place: Place) -> os.stat_result | None:
    try:
        return os.lstat(place.name) if place.folder is None else os.lstat(place.name, dir_fd=place.folder)
    except FileNotFoundError:
        return None


def _check_writable(place: Place) -> None:
    """A rename would succeed on a write-protected file; whoever protected it did not mean that."""
    effective = os.access in os.supports_effective_ids
    if not os.access(place.name, os.W_OK, dir_fd=place.folder, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place.name)


_BINARY = getattr(os, "O_BINARY", 0)
_SAFE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | _BINARY


def _create(place: Place, *, new: bool) -> int:
    """Only a new file takes its mode from the process; one that replaces another stays private until dressed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFE
    return os.open(place.name, flags, 0o666 if new else 0o600, dir_fd=place.folder)


def _fill(descriptor: int, chunks: Iterable[bytes], step: Step) -> None:
    for chunk in chunks:
        view = memoryview(chunk)
        while len(view):
            step("write")
            view = view[os.write(descriptor, view[:WRITE_BYTES]) :]


def _dress(descriptor: int, old: os.stat_result, place: Place, step: Step) -> None:
    """Owner and group as far as this process may set them, then mode (setting an owner clears bits), then the rest."""
    if not hasattr(os, "fchmod"):
        return
    made = os.fstat(descriptor)
    for uid, gid in ((old.st_uid, -1), (-1, old.st_gid)):
        if (uid, gid) in ((made.st_uid, -1), (-1, made.st_gid)):
            continue
        step("chown")
        try:
            os.fchown(descriptor, uid, gid)
        except PermissionError:  # somebody else's file in a shared folder: the writer becomes its owner
            continue
    _copy_attributes(descriptor, place)
    step("chmod")
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _copy_attributes(descriptor: int, place: Place) -> None:
    """Extended attributes, access lists among them, where system and rights allow."""
    if not hasattr(os, "listxattr"):
        return
    try:
        old = os.open(place.name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE, dir_fd=place.folder)
    except OSError:
        return
    try:
        for name in os.listxattr(old):
            with suppress(OSError):
                os.setxattr(descriptor, name, os.getxattr(old, name))
    except OSError:
        return
    finally:
        os.close(old)


def _discard(place: Place) -> None:
    try:
        os.unlink(place.name, dir_fd=place.folder)
    except OSError:  # gone already, or out of reach: either way the target is untouched
        return


def _sync_folder(place: Place) -> None:
    if os.name == "nt":  # folders cannot be opened there
        return
    path = "." if place.folder is not None else os.path.dirname(place.name) or "."
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0), dir_fd=place.folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_through(
    place: Place, old: os.stat_result, chunks: Iterable[bytes], commit: Callable[[], bool], step: Step
) -> bool:
    """A pipe or a device has no content to keep: it is written to, never replaced."""
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.name)
    if stat.S_ISLNK(old.st_mode) or stat.S_ISSOCK(old.st_mode):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), place.name)
    flags = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | _SAFE  # a pipe without reader fails at once
    descriptor = os.open(place.name, flags, dir_fd=place.folder)
    try:
        if hasattr(os, "set_blocking"):
            os.set_blocking(descriptor, True)
        if not commit():
            return False
        _fill(descriptor, chunks, step)
    finally:
        os.close(descriptor)
    return True
