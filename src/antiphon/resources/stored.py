"""Files that people and programs both write: read without surprises, replaced as a whole, one writer at a time.

A crash leaves the old file or the new one, never half of one (source: resources specification, R4). The lock is on a
file beside it, because the file itself is replaced.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.wire import JsonObject, decode

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700
MOST_BYTES = 16 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class JsonFile(Struct, frozen=True):
    """A file that should hold a JSON object. `fault`: why it does not count; `exists` false: there is none."""

    path: Path
    values: JsonObject
    fault: str | None = None
    exists: bool = True


def read_json(path: Path) -> JsonFile:
    """The object in a file. Nothing is raised: a file that cannot be used is empty and says why."""
    try:
        data = read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return JsonFile(path, {}, exists=False)
    except OSError as error:
        return JsonFile(path, {}, f"{path} cannot be read and is ignored: {error.strerror or error}")
    try:
        value: Any = decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        return JsonFile(path, {}, f"{path} is not JSON and is ignored: {error}")
    if not isinstance(value, dict):
        return JsonFile(path, {}, f"{path} is ignored: it must hold a JSON object")
    return JsonFile(path, value)


def read_bytes(path: Path) -> bytes:
    """The whole file, without a byte order mark.

    Raises:
        OSError: it cannot be read, is no file, or is larger than any such file can sensibly be.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES // 1024 // 1024} MiB")
    return data.removeprefix(_BOM)


@contextmanager
def sole_writer(path: Path) -> Generator[None]:
    """Inside, nobody else who asks this way changes the file. Makes the folder if it is missing.

    Raises:
        OSError: the folder cannot be made or written.
    """
    make_private_folder(path.parent)
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def make_private_folder(folder: Path) -> None:
    """Make the folder for its owner only; folders above it as usual."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=PRIVATE_FOLDER)


def replace_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put a new content in place at once. `mode` None: as the old file had it, else private.

    Raises:
        OSError: it cannot be written; the old file is as it was.
    """
    target = path.resolve()  # a link stays a link
    wanted = _mode_of(target) if mode is None else mode
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), wanted)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(target.parent)


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return PRIVATE


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def pretty(value: JsonObject) -> bytes:
    """A JSON object as people edit it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
