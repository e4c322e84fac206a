"""Which processes belong to a command, and how to end all of them.

A command is started in a session of its own, so its group and session are known. Three ways lead out of a group: a
process may make its own group or session, it may lose its parent (its grandparent is then somebody else), and it may do
both. So four traces are followed, and what any of them leads to counts as family:

* descent: the parent of its parent … is in the family;
* group and session: those of a member;
* the mark: an environment variable with a random id, which every descendant inherits unless it cleans its environment;
* the pipe: it can still write to the command's output.

A process that has lost its parent, left the session, cleaned its environment and closed its output is out of reach; a
sandbox with its own process namespace holds even that one.

A number alone never identifies a process, since numbers are used again: the time of its start belongs to it.
Without `/proc` (not Linux) only the group itself is known.

The guard runs this file as a script without installed packages: it imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

MARK = "ANTIPHON_COMMAND"
"""The environment variable that carries the ids of the commands a process runs under, joined by `:`."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, not its successor of the same number. `started`: clock ticks since the machine started."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Process:
    """A row of the process table."""

    pid: int
    started: int
    parent: int
    group: int
    session: int
    state: str
    name: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.started)


def read_process(pid: int) -> Process | None:
    """The row of a process, or None if there is none (or no `/proc`)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except OSError:
        return None
    fields = line[line.rindex(b")") + 2 :].split()  # the name before may hold anything, also `)`
    return Process(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        state=fields[0].decode(),
        name=line[line.index(b"(") + 1 : line.rindex(b")")].decode("utf-8", "replace"),
    )


def process_table() -> dict[int, Process]:
    """Every living process by number; dead ones that nobody has collected yet are left out."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    rows = (read_process(int(name)) for name in names if name.isdecimal())
    return {row.pid: row for row in rows if row is not None and row.state not in "ZX"}


@dataclass(frozen=True, slots=True)
class Traces:
    """What is known of a command's processes. `since`: none of them started before (ticks)."""

    mark: str
    since: int
    session: int | None = None
    pipe: int | None = None  # inode of the command's output


def family(traces: Traces, known: Collection[Identity] = ()) -> set[Identity]:
    """Living processes that belong to a command. `known`: members found earlier; those still alive stay members."""
    table = {pid: row for pid, row in process_table().items() if row.started >= traces.since}
    for pid in _protected():
        table.pop(pid, None)
    own_session = os.getsid(0)
    members = {
        row.pid
        for row in table.values()
        if row.identity in known
        or (traces.session is not None and traces.session in (row.session, row.group))
        or (row.session != own_session and _is_marked(row.pid, traces.mark))
        or (row.session != own_session and traces.pipe is not None and _can_write_to(row.pid, traces.pipe))
    }
    _close_over(members, table)
    return {table[pid].identity for pid in members}


def _close_over(members: set[int], table: dict[int, Process]) -> None:
    """Add descendants, and everything in sessions that members opened, until nothing is added."""
    while True:
        sessions = {table[pid].session for pid in members if table[pid].session == pid}
        more = {
            row.pid
            for row in table.values()
            if row.pid not in members and (row.parent in members or row.session in sessions)
        }
        if not more:
            return
        members |= more


def _protected() -> set[int]:
    """This process and its ancestors: never to be ended by a wrong trace."""
    pids = {0, 1}
    pid = os.getpid()
    while pid not in pids:
        pids.add(pid)
        row = read_process(pid)
        pid = row.parent if row else 1
    return pids


def _is_marked(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read()
    except OSError:
        return False
    start = f"{MARK}=".encode()
    return any(mark.encode() in item for item in variables.split(b"\0") if item.startswith(start))


def _can_write_to(pid: int, inode: int) -> bool:
    target = f"pipe:[{inode}]"
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if os.readlink(path) == target and os.lstat(path).st_mode & 0o200:
                return True
    except OSError:
        return False
    return False


def send(members: Iterable[Identity], number: signal.Signals) -> None:
    """Signal exactly these processes; those that are gone, or may not be signalled, are passed over."""
    for member in members:
        with contextlib.suppress(OSError):
            _send_one(member, number)


def _send_one(member: Identity, number: signal.Signals) -> None:
    if not hasattr(os, "pidfd_open"):
        if is_alive(member):
            os.kill(member.pid, number)
        return
    handle = os.pidfd_open(member.pid)
    try:
        # The handle keeps the number from meaning another process between the look and the signal.
        if is_alive(member):
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def is_alive(member: Identity) -> bool:
    """Whether exactly this process still runs (one that only waits to be collected does not)."""
    row = read_process(member.pid)
    return row is not None and row.identity == member and row.state not in "ZX"


def end_family(
    find: Callable[[Collection[Identity]], set[Identity]],
    *,
    grace_seconds: float,
    meanwhile: Callable[[float], None] = time.sleep,
    patience_seconds: float = 0.5,
) -> set[Identity]:
    """Ask all members to end, wait, then kill. Returns those that still live (unkillable, or not ours to kill).

    `find` gives the living members, given those known so far. `meanwhile(seconds)` spends a short time usefully, as by
    reading what the members still print: one that is stuck in writing could not end in peace otherwise.
    """
    known = find(())
    # Elders first: a shell whose child ends before the shell has its own signal would go on with its next command.
    elders_first = sorted(filter(_may_be_asked, known), key=lambda member: (member.started, member.pid))
    send(elders_first, signal.SIGTERM)
    send(elders_first, signal.SIGCONT)  # a stopped process sees no signal but KILL before it goes on
    deadline = time.monotonic() + grace_seconds
    while any(is_alive(member) for member in known) and time.monotonic() < deadline:
        meanwhile(_LOOK_SECONDS)
    return _kill_all(find, known, patience_seconds, meanwhile)


_LOOK_SECONDS = 0.002
_KEEPERS = frozenset({"bwrap"})


def _may_be_asked(member: Identity) -> bool:
    """A sandbox's keeper ends when those inside have ended; if it were asked first, it would kill them unasked."""
    row = read_process(member.pid)
    return row is None or row.name not in _KEEPERS


def _kill_all(
    find: Callable[[Collection[Identity]], set[Identity]],
    known: set[Identity],
    patience_seconds: float,
    meanwhile: Callable[[float], None],
) -> set[Identity]:
    """Freeze, look again, and kill when the look finds nothing new: so nothing multiplies faster than it is killed."""
    deadline = time.monotonic() + patience_seconds
    frozen: set[Identity] = set()
    while alive := find(known):
        known |= alive
        if alive <= frozen:
            send(alive, signal.SIGKILL)
            meanwhile(_LOOK_SECONDS)
            if time.monotonic() > deadline:
                return {member for member in alive if is_alive(member)}
        else:
            send(alive - frozen, signal.SIGSTOP)
            frozen |= alive
    return set()


def watch(handle: int, traces: Traces) -> None:
    """Wait for the process that holds the other end of a pipe. If it dies without a byte, end its commands for it."""
    if not os.read(handle, 1):
        end_family(lambda known: family(traces, known), grace_seconds=0.2)


if __name__ == "__main__":  # see process_guard.py
    watch(int(sys.argv[1]), Traces(mark=sys.argv[2], since=int(sys.argv[3])))
