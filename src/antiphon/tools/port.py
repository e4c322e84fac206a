"""What a tool may touch, as Protocols: files, processes, and both together as a workspace.

`Files` is blocking on purpose: a search over 20,000 files is one visit to a thread, not 20,000, and a remote host is
easier to write that way. `Workspace.call` brings blocking work into a thread and back. Everything a tool does to the
outside world passes through these three Protocols, so replacing them moves every built-in tool to another host.

Paths here are absolute texts in the host's own syntax; what a model wrote becomes one by `Workspace.locate`. Failures
are `OSError`s with an `errno`, exactly as the host gives them; `tools/faults.py` words them for the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, final

from msgspec import Struct

from antiphon.core.ports import AbortSignal

if TYPE_CHECKING:
    from antiphon.tools.spill_files import SpillFiles

P = ParamSpec("P")
T = TypeVar("T")

Kind: TypeAlias = Literal["file", "folder", "link", "fifo", "other"]


@final
class FileInfo(Struct, frozen=True):
    """What is known of a file without reading it. `identity` names the object itself (device and number)."""

    kind: Kind
    size: int
    mode: int
    modified_ns: int
    identity: tuple[int, int]


@final
class Entry(Struct, frozen=True):
    """A name in a folder. `kind` is that of the entry itself: a link is a `link`, whatever it points to."""

    name: str
    kind: Kind


class ByteReader(Protocol):
    """An open file. `read` gives at most `size` bytes and `b""` at the end; `info` is that of the opened object."""

    @property
    def info(self) -> FileInfo: ...

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...

    def __enter__(self) -> ByteReader: ...

    def __exit__(self, *_: object) -> None: ...


class Commit(Protocol):
    """Asked once, right before a change becomes visible, in the thread that makes it.

    False: the caller gave up, leave everything as it was. It may also raise, with the same effect.
    """

    def __call__(self) -> bool: ...


class Files(Protocol):
    """Blocking file operations; every method may be called from any thread, several at once."""

    def stat(self, path: str, *, follow: bool = True) -> FileInfo: ...

    def real_path(self, path: str) -> str:
        """The path with every link resolved as far as it exists; the rest stays. Fails on a circle of links only."""
        ...

    def read_link(self, path: str) -> str: ...

    def scan(self, path: str) -> Iterable[Entry]:
        """The entries of one folder, in no particular order."""
        ...

    def open(self, path: str, *, stopped: Callable[[], bool] = ...) -> ByteReader:
        """Open for reading, through links. `stopped` ends a wait for a pipe or device that stays silent."""
        ...

    def check_access(self, path: str, *, write: bool = False) -> None:
        """Raises the `OSError` that opening the existing file for reading (and writing) would raise."""
        ...

    def replace(self, path: str, chunks: Iterable[bytes], *, commit: Commit = ...) -> bool:
        """Give the file this content, whole or not at all; through a link its target. Mode and owner stay.

        Parent folders must exist. False: `commit` said no and nothing changed. A failure leaves the old content.
        """
        ...

    def append(self, path: str, content: bytes) -> int:
        """Extend the file, creating it if missing; the new size."""
        ...

    def make_folders(self, path: str) -> None:
        """Make the folder and its missing parents; one that exists is fine, a file in the way is `FileExistsError`."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file or a link, never a folder."""
        ...

    def lock(self, key: str, /) -> AbstractContextManager[bool]:
        """Try to become the only writer of a file among all processes; true inside if it worked. Never waits.

        `key` stands for the file: its real path, in the one form that all its spellings share.
        """
        ...


@final
class Command(Struct, frozen=True, kw_only=True):
    """A program to run. `env` None: the environment of this process, unchanged.

    `stderr`: mixed into the output in order of arrival, collected apart (at most 64 KiB), or dropped.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str] | None = None
    stdin: bytes = b""
    stderr: Literal["merge", "apart", "drop"] = "merge"
    timeout: float | None = None


@final
class CommandEnd(Struct, frozen=True, kw_only=True):
    """How a command ended. `exit_code` None: it did not exit by itself; killed by signal s: 128 + s.

    `seconds` is the time of the whole command, `exited_after` that until the program itself was gone, None if it
    never was; they differ when background processes kept the output open.
    """

    ended_by: Literal["exit", "timeout", "abort"]
    exit_code: int | None
    seconds: float
    exited_after: float | None = None
    stderr: bytes = b""


class Processes(Protocol):
    """Where commands run."""

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        """Run to its end; time-out and abort stop the command with all its children, and are no exceptions.

        `on_output` is called from a worker thread, chunk by chunk, in order, never twice at once, and never after
        this returned.

        Raises:
            OSError: the program or its folder does not exist or may not be used.
        """
        ...


class Writing(Protocol):
    """The right to change one file. `path` is where it really is, links resolved."""

    @property
    def path(self) -> str: ...

    async def call(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread while no other process writes the file.

        On abort this raises `OperationAborted` at once; the right itself is kept until the thread has finished.
        """
        ...

    async def change(self, work: Callable[[Commit], T], /) -> T:
        """The same for work that changes the file: it asks the `Commit` right before the change becomes visible.

        On abort this raises `OperationAborted` at once if nothing has changed and nothing will; if the change is
        being made at that moment, it is waited for and reported as what it is.
        """
        ...


class Workspace(Protocol):
    """The part of the world that a set of tools may touch. One per conversation; may be shared by all its tools."""

    @property
    def cwd(self) -> str:
        """Where relative paths begin, absolute."""
        ...

    @property
    def home(self) -> str | None:
        """What `~` stands for; None: nothing."""
        ...

    @property
    def files(self) -> Files: ...

    @property
    def processes(self) -> Processes: ...

    @property
    def spills(self) -> SpillFiles:
        """Where output goes that is too long to show; removable with the session."""
        ...

    async def call(self, work: Callable[P, T], signal: AbortSignal | None, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread. On abort this raises `OperationAborted` at once; the thread ends by itself.

        Work that changes something asks a `Commit` right before, so that "aborted" is never said of a finished change.
        """
        ...

    async def locate(self, path: str, signal: AbortSignal | None = None, *, spellings: bool = False) -> str:
        """The absolute path that a model's text means, by the rules of `tools/paths.py`; it need not exist.

        `spellings`: also try other Unicode spellings of the name when the plain one does not exist.
        """
        ...

    def writing(self, path: str, signal: AbortSignal | None = None) -> AbstractAsyncContextManager[Writing]:
        """Be the only writer of the file that a model's text means, in the order in which writers asked.

        To keep that order a tool enters this before it awaits anything else.
        """
        ...

    async def read_text(self, path: str, signal: AbortSignal | None = None) -> str:
        """The whole file as UTF-8, broken bytes as U+FFFD. `path` as a model writes it, like in all that follows."""
        ...

    async def write_text(self, path: str, text: str, signal: AbortSignal | None = None) -> None:
        """Replace or create the file, whole or not at all, with parent folders."""
        ...

    async def append_text(self, path: str, text: str, signal: AbortSignal | None = None) -> int:
        """Extend or create the file; its new size in bytes."""
        ...

    async def run(
        self, command: Command, on_output: Callable[[bytes], None], signal: AbortSignal | None = None
    ) -> CommandEnd:
        """`processes.run`, by the workspace's own rules (a sandbox, for example)."""
        ...
