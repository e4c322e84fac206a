"""What must be known to end the commands of a process that died without a word (`kill -9`, power of the machine aside).

One small file per process: the mark that its commands carry, and who it was. The next process that is given the same
folder reads the files of dead processes and ends what still carries their marks. A mark is 64 random bits that were
handed to those commands alone, and each process found is signalled by its number together with the time of its start.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

import msgspec

from antiphon.tools.process_tree import Identity, Traces, end_family, family, read_process

_PREFIX = "commands-"


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A process that runs commands. Numbers of processes mean something only on one machine, since one start of it,
    inside one process namespace."""

    mark: str
    pid: int
    started: int
    machine: str
    boot: str
    namespace: str


class Record:
    """The record of this process in a folder."""

    def __init__(self, folder: str, mark: str) -> None:
        self._folder = Path(folder)
        self._path = self._folder / f"{_PREFIX}{mark}.json"
        self._mark = mark

    def write(self) -> None:
        """Make the record, whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = self._path.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(this_host(self._mark)))
        os.replace(beside, self._path)

    def remove(self) -> None:
        """Nothing is left to end."""
        self._path.unlink(missing_ok=True)


def this_host(mark: str) -> Host:
    """This process as its record describes it."""
    own = read_process(os.getpid())
    return Host(
        mark=mark,
        pid=os.getpid(),
        started=own.started if own else 0,
        machine=socket.gethostname(),
        boot=_read("/proc/sys/kernel/random/boot_id"),
        namespace=_link("/proc/self/ns/pid"),
    )


def end_left_behind(folder: str, *, grace_seconds: float = 0.2) -> int:
    """End the commands of dead processes that left a record in `folder`; how many processes were ended.

    Records of living processes, of other machines and of other process namespaces are left alone.
    """
    ended = 0
    for path in sorted(Path(folder).glob(f"{_PREFIX}*.json")):
        host = _host(path)
        if host is None or not _is_ours_to_judge(host):
            continue
        ended += _end_commands(host, grace_seconds)
        path.unlink(missing_ok=True)
    return ended


def _host(path: Path) -> Host | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Host)
    return None


def _is_ours_to_judge(host: Host) -> bool:
    here = this_host(host.mark)
    if host.machine != here.machine or (host.namespace != here.namespace and host.boot == here.boot):
        return False
    row = read_process(host.pid)
    return host.boot != here.boot or row is None or row.started != host.started or row.state in "ZX"


def _end_commands(host: Host, grace_seconds: float) -> int:
    if host.boot != _read("/proc/sys/kernel/random/boot_id"):
        return 0  # the machine was started again: nothing can be left
    found: set[Identity] = set()
    traces = Traces(mark=host.mark + ".", since=host.started)

    def find(known: object) -> set[Identity]:
        members = family(traces, found)
        found.update(members)
        return members

    left = end_family(find, grace_seconds=grace_seconds)
    return len(found) - len(left)


def _read(path: str) -> str:
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip()
    return ""


def _link(path: str) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""
