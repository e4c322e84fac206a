"""The lines of a session in one append-only file with one owner.

`FileLines` keeps four promises. A line is in the file before anybody is told so. A failed append leaves the file as it
was; if even that fails, nothing more is written until it has been cut back. Nobody else owns the file meanwhile, and
what others do to it all the same (grow, cut, remove, replace it) is noticed at the next append. A session in which
nobody has said anything has no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from antiphon.session_log.disk import Disk, FileState, locked, quietly, replaced, write_all
from antiphon.session_log.lines import BLOCK_BYTES, SPEAKERS, Durability, is_due
from antiphon.session_log.refusals import (
    SessionChanged,
    SessionExists,
    SessionReadOnly,
    SessionUnreadable,
    SessionWriteFailed,
)


@final
class FileLines:
    """One file, kept open. Made by `pending` (no file yet) or `opened`.

    `_size` is how far the file is ours: what was read at opening, what we appended, and what we took note of since.
    """

    def __init__(self, disk: Disk, path: Path, durability: Durability) -> None:
        self._disk = disk
        self.path = path
        self._durability: Durability = durability
        self._fd: int | None = None
        self._size = 0
        self._waiting: bytearray | None = None
        self._writable = True
        self._torn = False
        self._leftover: int | None = None
        self._needs_newline = False
        self._folder_synced = False

    @classmethod
    def pending(cls, disk: Disk, path: Path, data: bytes, durability: Durability) -> FileLines:
        """A file that will be made when somebody says something. `data`: its first lines, each with a newline."""
        lines = cls(disk, path, durability)
        lines._waiting = bytearray(data)
        return lines

    @classmethod
    def opened(cls, disk: Disk, path: Path, durability: Durability, *, write: bool) -> FileLines:
        """An existing file. For writing it is locked first.

        Raises:
            SessionInUse: another owner is alive.
            SessionUnreadable: it cannot be opened.
        """
        lines = cls(disk, path, durability)
        lines._writable = write
        try:
            lines._fd = locked(disk, path) if write else disk.open(path, write=False)
            lines._size = disk.state(lines._fd).size
        except OSError as error:
            lines.close()
            advice = "; it may still be opened read-only" if write else ""
            raise SessionUnreadable(f"{path} cannot be opened: {error}{advice}") from error
        return lines

    @property
    def size(self) -> int:
        """Bytes of the file as far as we know them; what is still waiting counts."""
        return self._size if self._waiting is None else len(self._waiting)

    @property
    def damaged(self) -> bool:
        """Did a failed write leave something in the file that could not be taken away yet?"""
        return self._torn or self._leftover is not None

    @property
    def writable(self) -> bool:
        return self._writable

    @property
    def saved(self) -> bool:
        """Is there a file?"""
        return self._waiting is None

    def state(self) -> FileState | None:
        """What the system says about the file now; nothing if there is none or it is closed."""
        return None if self._fd is None else self._looked_at(self._fd)

    def _looked_at(self, fd: int) -> FileState:
        try:
            return self._disk.state(fd)
        except OSError as error:
            raise SessionUnreadable(f"{self.path} cannot be looked at: {error}") from error

    # -- reading

    def blocks(self) -> Iterator[bytes]:
        at = 0
        while at < self.size:
            yield self.read(at, min(BLOCK_BYTES, self.size - at))
            at += BLOCK_BYTES

    def read(self, address: int, length: int) -> bytes:
        if self._waiting is not None:
            return bytes(self._waiting[address : address + length])
        try:
            data = self._disk.read(self._open_fd(), address, length)
        except OSError as error:
            raise SessionUnreadable(f"{self.path} cannot be read: {error}") from error
        if len(data) < length:
            raise SessionChanged(f"{self.path} was cut by somebody else while it was open; open it again")
        return data

    # -- appending

    def append(self, line: bytes, speaker: str) -> int:
        self._refuse_if_not_writable()
        if self._waiting is not None:
            return self._append_waiting(self._waiting, line, talk=speaker in SPEAKERS)
        self._notice_changes()
        start = b"\n" if self._needs_newline else b""
        address = self._size + len(start)
        self._store(start + line + b"\n", sync=is_due(self._durability, speaker))
        self._needs_newline = False
        return address

    def _append_waiting(self, waiting: bytearray, line: bytes, *, talk: bool) -> int:
        address = len(waiting)
        if talk:
            self._begin(bytes(waiting) + line + b"\n")
        else:
            waiting += line + b"\n"
        return address

    def begin(self) -> None:
        """Make the file now, whether or not anybody said something.

        Raises:
            SessionExists: there is one.
            SessionWriteFailed: it cannot be made.
        """
        if self._waiting is not None:
            self._begin(bytes(self._waiting))

    def begin_and_close(self) -> None:
        """Make the file and give it free."""
        self.begin()
        self.close()

    def _begin(self, data: bytes) -> None:
        self._fd = self._made(data)
        self._size, self._waiting = len(data), None
        self._folder_synced = self._durability != "fast"

    def _made(self, data: bytes) -> int:
        """Make the file. On failure there is none; if even that fails, the next attempt takes over what is there."""
        disk = self._disk
        fd = self._leftover_or_new()
        try:
            disk.truncate(fd, 0)
            disk.lock(fd)
            write_all(disk, fd, data)
            if self._durability != "fast":
                disk.sync(fd)
                disk.sync_folder(self.path.parent)
        except OSError as error:
            self._leftover = fd
            quietly(self._remove_leftover)
            raise SessionWriteFailed(f"{self.path} cannot be written: {error}") from error
        self._leftover = None
        return fd

    def _leftover_or_new(self) -> int:
        if self._leftover is not None:
            return self._leftover
        try:
            self._disk.make_folder(self.path.parent)
            return self._disk.create(self.path)
        except FileExistsError as error:
            raise SessionExists(f"{self.path} exists already; give the session another name") from error
        except OSError as error:
            raise SessionWriteFailed(f"{self.path} cannot be made: {error}") from error

    def _remove_leftover(self) -> None:
        self._disk.remove(self.path)
        fd, self._leftover = self._leftover, None
        if fd is not None:
            self._disk.close(fd)

    def _store(self, data: bytes, *, sync: bool) -> None:
        """Append bytes, all or none."""
        fd = self._open_fd()
        try:
            write_all(self._disk, fd, data)
            if sync:
                self._disk.sync(fd)
        except OSError as error:
            self._torn = True
            quietly(self._cut_back)
            state = "; its end is damaged, nothing more is written until it can be cut back" if self._torn else ""
            raise SessionWriteFailed(f"{self.path} cannot be written: {error}{state}") from error
        self._size += len(data)

    def _cut_back(self) -> None:
        """Take away what a failed write may have left."""
        try:
            self._disk.truncate(self._open_fd(), self._size)
        except OSError as error:
            raise SessionWriteFailed(f"{self.path} has a damaged end that cannot be cut back: {error}") from error
        self._torn = False

    def end_last_line(self) -> None:
        """Put a newline behind a last line that has none; if that fails, before the next line."""
        self._needs_newline = True
        with suppress(SessionWriteFailed):
            self._store(b"\n", sync=False)
            self._needs_newline = False

    # -- others

    def news(self) -> tuple[int, bytes] | None:
        if self._fd is None or not self._writable or self._torn:
            return None
        grown = self._looked_at(self._fd).size
        if grown <= self._size:
            return None
        address = self._size
        data = self.read(address, grown - address)
        self._size = grown
        self._needs_newline = not data.endswith(b"\n")
        return address, data

    def _notice_changes(self) -> None:
        """Compare the file with what we know of it."""
        if self._torn:
            self._cut_back()
        mine = self._looked_at(self._open_fd())
        try:
            named = self._disk.state_of(self.path)
        except OSError as error:
            raise SessionUnreadable(f"{self.path} cannot be looked at: {error}") from error
        if mine.size < self._size:
            raise SessionChanged(
                f"{self.path} was cut from {self._size} to {mine.size} bytes by somebody else; open it again"
            )
        if named is None:
            self.replace_with(self.blocks(), fresh=True)
        elif not named.same_file(mine):
            raise SessionChanged(f"{self.path} was replaced by another file; fork this session to keep it")

    def replace_with(self, blocks: Iterable[bytes], *, keep: Path | None = None, fresh: bool = False) -> None:
        """Put other bytes in place of the file's, all at once: written beside it, synced, renamed.

        `keep`: a second name under which the old bytes stay. `fresh`: the name is free and must still be.

        Raises:
            SessionWriteFailed: the old file is untouched.
        """
        try:
            fd, size = replaced(self._disk, self.path, blocks, keep, fresh=fresh)
        except FileExistsError as error:
            raise SessionChanged(f"{self.path} was replaced by another file; fork this session to keep it") from error
        except OSError as error:
            raise SessionWriteFailed(f"{self.path} cannot be written anew: {error}") from error
        old, self._fd, self._size = self._fd, fd, size
        self._folder_synced = False
        if old is not None:
            quietly(lambda: self._disk.close(old))

    # -- life

    def flush(self) -> None:
        if self._fd is None or not self._writable:
            return
        try:
            self._disk.sync(self._fd)
            if not self._folder_synced:
                self._disk.sync_folder(self.path.parent)
                self._folder_synced = True
        except OSError as error:
            raise SessionWriteFailed(f"{self.path} cannot be made safe from a power loss: {error}") from error

    def close(self) -> None:
        """Give up the file and its lock. What waits for somebody to speak is forgotten.

        What a failed write left is taken away now at the latest, if the disk allows it by now.
        """
        if self._torn and self._fd is not None:
            quietly(self._cut_back)
        if self._leftover is not None:
            quietly(self._remove_leftover)
        fd, self._fd, self._writable = self._fd, None, False
        if fd is not None:
            quietly(lambda: self._disk.close(fd))

    def __del__(self) -> None:
        self.close()

    def _refuse_if_not_writable(self) -> None:
        if not self._writable:
            raise SessionReadOnly(f"{self.path} is not open for writing")

    def _open_fd(self) -> int:
        if self._fd is None:
            raise SessionReadOnly(f"{self.path} was closed")
        return self._fd
