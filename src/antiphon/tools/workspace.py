"""The part of the world that a set of tools may touch: a folder to start from, files, processes, spilled output."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import ParamSpec, TypeVar

from antiphon.core.ports import AbortSignal
from antiphon.tools import paths
from antiphon.tools.blocking import in_thread
from antiphon.tools.faults import ToolFault
from antiphon.tools.local_files import LocalFiles, never
from antiphon.tools.mutation_queue import FileTurn, MutationQueue
from antiphon.tools.port import Command, CommandEnd, Commit, Files, Processes
from antiphon.tools.spill_files import SpillFiles

P = ParamSpec("P")
T = TypeVar("T")

READ_BYTES = 256 * 1024


def stopper(signal: AbortSignal | None) -> Callable[[], bool]:
    """What a thread asks to learn that its work is no longer wanted."""
    return (lambda: signal.aborted) if signal is not None else never


_local_writers = MutationQueue(
    partial(paths.file_key, flavour=paths.flavour_of(sys.platform))
)  # one for the process: two conversations may edit the same files


class HostWorkspace:
    """A `Workspace` of any host, given its files and processes. Nothing is confined to `cwd` unless `files` does it.

    `cwd` is absolute in the host's own path syntax (`flavour`). `writers`: share one among workspaces of one host.
    """

    def __init__(
        self,
        cwd: str,
        files: Files,
        processes: Processes,
        *,
        home: str | None = None,
        spills: SpillFiles | None = None,
        writers: MutationQueue | None = None,
        flavour: paths.Flavour = "posix",
    ) -> None:
        self.cwd = cwd
        self.home = home
        self.files = files
        self.processes = processes
        self.spills = spills if spills is not None else SpillFiles()
        self._writers = writers if writers is not None else MutationQueue(partial(paths.file_key, flavour=flavour))
        self._flavour: paths.Flavour = flavour

    async def call(self, work: Callable[P, T], signal: AbortSignal | None, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(work, signal, *args, **kwargs)

    async def locate(self, path: str, signal: AbortSignal | None = None, *, spellings: bool = False) -> str:
        return await in_thread(self.find, signal, path, spellings=spellings)

    def find(self, path: str, *, spellings: bool = False) -> str:
        """The same as `locate`, for code that is already in a thread."""
        try:
            meant = paths.readings(path, self.cwd, self.home, self._flavour)
        except paths.BadPath as error:
            raise ToolFault(str(error)) from error
        if self._flavour == "windows" and (trouble := paths.windows_trouble(meant[len(meant) - 1])):
            raise ToolFault(f"This path cannot be used: {trouble}.")
        if len(meant) > 1 and self._exists(meant[0]):
            return meant[0]
        last = meant[len(meant) - 1]
        if spellings and not self._exists(last):
            return next((other for other in paths.spellings(last) if self._exists(other)), last)
        return last

    def _exists(self, path: str) -> bool:
        try:
            self.files.stat(path)
        except (OSError, ValueError):
            return False
        return True

    def writing(self, path: str, signal: AbortSignal | None = None) -> AbstractAsyncContextManager[FileTurn]:
        def where() -> str:
            found = self.find(path)
            try:
                return self.files.real_path(found)
            except OSError:  # a circle of links, for example: the work itself will say so
                return found

        return self._writers.writing(self.files, lambda: in_thread(where, signal), signal)

    async def read_text(self, path: str, signal: AbortSignal | None = None) -> str:
        def read() -> str:
            with self.files.open(self.find(path), stopped=stopper(signal)) as reader:
                return b"".join(iter(lambda: reader.read(READ_BYTES), b"")).decode("utf-8", "replace")

        return await in_thread(read, signal)

    async def write_text(self, path: str, text: str, signal: AbortSignal | None = None) -> None:
        content = paths.to_utf8(text)
        async with self.writing(path, signal) as turn:

            def write(commit: Commit) -> None:
                self.files.make_folders(paths.folder_of(turn.path))
                self.files.replace(turn.path, (content,), commit=commit)

            await turn.change(write)

    async def append_text(self, path: str, text: str, signal: AbortSignal | None = None) -> int:
        content = paths.to_utf8(text)
        async with self.writing(path, signal) as turn:
            return await turn.call(self.files.append, turn.path, content)

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        return await self.processes.run(command, on_output, signal)


class LocalWorkspace(HostWorkspace):
    """This machine, from the folder `cwd` on (absolute, or relative to the working folder of the process).

    `home`: what `~` means; by default what the system says. `durable`: changed files are forced to the disk.
    """

    def __init__(
        self,
        cwd: str | os.PathLike[str],
        *,
        home: str | None = None,
        files: Files | None = None,
        processes: Processes | None = None,
        spills: SpillFiles | None = None,
        durable: bool = False,
    ) -> None:
        super().__init__(
            os.path.abspath(cwd),
            files if files is not None else LocalFiles(durable=durable),
            processes if processes is not None else _local_processes(),
            home=home if home is not None else _home(),
            spills=spills,
            writers=_local_writers,
            flavour=paths.flavour_of(sys.platform),
        )


def _home() -> str | None:
    home = os.path.expanduser("~")
    return None if home == "~" else home


def _local_processes() -> Processes:
    from antiphon.tools.process import LocalProcesses  # loaded when a workspace is made, not by reading paths

    return LocalProcesses()
