"""How failures are told to a model: the system's own code and words, the operation, and the path."""

from __future__ import annotations

import errno
import os
from typing import NoReturn

from antiphon.errors import WorkspaceError

ABORTED_TEXT = "Operation aborted"


class OperationAborted(WorkspaceError):
    """The call was aborted and nothing was changed."""

    def __init__(self) -> None:
        super().__init__(ABORTED_TEXT)


class ToolFault(WorkspaceError):
    """A tool could not do what it was asked; the text is for the model and says why and what to do."""


class PathRefused(PermissionError):
    """A rule of the host, not the system, keeps tools away from a path; `reason` says which."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EACCES, reason, path)
        self.reason = reason


_WORDS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EISDIR: "illegal operation on a directory",
    errno.ENOTDIR: "not a directory",
    errno.EEXIST: "file already exists",
    errno.ELOOP: "too many symbolic links encountered",
    errno.ENAMETOOLONG: "name too long",
    errno.ENOTEMPTY: "directory not empty",
    errno.EMFILE: "too many open files",
    errno.ENOSPC: "no space left on device",
    errno.EROFS: "read-only file system",
    errno.EBUSY: "resource busy or locked",
    errno.EXDEV: "cross-device link not permitted",
    errno.EINVAL: "invalid argument",
}


def fault_code(error: OSError) -> str:
    """The symbolic name of a system error, such as `ENOENT`."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def fault_text(error: OSError, operation: str, path: str | None = None) -> str:
    """`CODE: words, operation 'path'`, the form in which models know system errors."""
    if error.errno is None:
        return str(error)
    if isinstance(error, PathRefused):
        return f"EACCES: not allowed, {operation} '{path or error.filename}': {error.reason}"
    words = _WORDS.get(error.errno) or os.strerror(error.errno).lower()
    where = f" '{path}'" if path is not None else ""
    return f"{fault_code(error)}: {words}, {operation}{where}"


def refuse(error: OSError, operation: str, path: str | None = None) -> NoReturn:
    """Raise the system error as text for a model."""
    raise ToolFault(fault_text(error, operation, path)) from error
