"""Children that are killed at a chosen system call, by the kernel's tracing interface. Linux only; run as a script.

`python system_calls.py FOLDER write|edit` kills a fresh child at each stop in turn: before its first system call,
behind it, before the second … of all its threads together, from the moment on in which the tool is called. Prints what
the file held each time, as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count

OLD = b"first line\n" + b"old text\n" * 30_000
NEW = b"FIRST line\n" + OLD[len(b"first line\n") :]

_TRACE_ME, _SYSCALL, _SET_OPTIONS = 0, 24, 0x4200
_MARK_SYSCALLS, _FOLLOW_THREADS, _KILL_ON_EXIT = 1, 8, 1 << 20
_ALL_THREADS = 0x40000000  # __WALL
_libc = ctypes.CDLL(None, use_errno=True)


def _trace(request: int, process: int = 0, data: int = 0) -> None:
    words = (ctypes.c_long(request), ctypes.c_long(process), ctypes.c_long(0), ctypes.c_long(data))
    if _libc.ptrace(*words) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


def killed_at(stop: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child that dies at its n-th stop, before a system call or behind one; false: it ended first."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    os.waitpid(child, 0)  # it has stopped itself
    _trace(_SET_OPTIONS, child, _MARK_SYSCALLS | _FOLLOW_THREADS | _KILL_ON_EXIT)
    _trace(_SYSCALL, child)
    seen = 0
    while True:
        thread, status = os.waitpid(-1, _ALL_THREADS)
        if not os.WIFSTOPPED(status):
            if thread != child:
                continue
            if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
                raise RuntimeError("the tool failed in the child")
            return os.WIFSIGNALED(status)
        received = os.WSTOPSIG(status)
        if received == signal.SIGTRAP | 0x80:
            seen += 1
            if seen == stop:
                os.kill(child, signal.SIGKILL)
                continue
        passed_on = 0 if received & 0x7F in (signal.SIGTRAP, signal.SIGSTOP) else received
        with contextlib.suppress(OSError):  # killed meanwhile
            _trace(_SYSCALL, thread, passed_on)


def be_traced() -> None:
    """From here on every system call is a stop."""
    _trace(_TRACE_ME)
    os.kill(os.getpid(), signal.SIGSTOP)


def call_tool(folder: str, operation: str) -> None:
    """The tool itself, threads, locks and forced writes included."""
    from antiphon.loop.abort import never_aborted
    from antiphon.tools import LocalWorkspace, edit_tool, write_tool

    workspace = LocalWorkspace(folder, durable=True)
    tool = edit_tool(workspace) if operation == "edit" else write_tool(workspace)
    edits = [{"oldText": "first line", "newText": "FIRST line"}]
    arguments = {"path": "f.txt", **({"edits": edits} if operation == "edit" else {"content": NEW.decode()})}

    async def call() -> None:
        be_traced()
        await tool.execute("c", arguments, never_aborted(), lambda _: None)

    asyncio.run(call())


def main(folder: str, operation: str) -> None:
    path = os.path.join(folder, "f.txt")
    asyncio.run(asyncio.sleep(0))  # loads what the children share
    import antiphon.loop.abort  # noqa: F401
    import antiphon.tools.edit
    import antiphon.tools.write  # noqa: F401

    held: list[str] = []
    left = 0
    for stop in count(1):
        with open(path, "wb") as file:
            file.write(OLD)
        os.chmod(path, 0o640)
        was_killed = killed_at(stop, lambda: call_tool(folder, operation))
        with open(path, "rb") as file:
            content = file.read()
        assert os.stat(path).st_mode & 0o777 == 0o640
        others = [name for name in os.listdir(folder) if name != "f.txt"]
        assert all(name.startswith(".antiphon-") and name.endswith(".tmp") for name in others), others
        left += len(others)
        for name in others:
            os.unlink(os.path.join(folder, name))
        held.append("old" if content == OLD else "new" if content == NEW else "mixed")
        if not was_killed:
            break
    print(json.dumps({"stops": len(held) - 1, "held": held, "left": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
