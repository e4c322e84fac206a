"""Children without the wait: a process that has loaded the program, and forks one real child for each command.

    python -m tests.modes.nursery NUMBER       NUMBER: a socket on which commands come

A command is one message: JSON of arguments, environment and folder, and with it the three descriptors of the child. The
child is a process of its own with these descriptors, that environment and default signals; only the loading of modules
has happened before. The answers are lines: `{"pid": ...}` at once, `{"pid": ..., "status": ...}` at the end.
"""

from __future__ import annotations

import array
import json
import os
import select
import signal
import socket
import sys
from importlib import import_module
from typing import Any, NoReturn

LOADED = (
    "antiphon.modes.cli",
    "antiphon.modes.conversation",
    "antiphon.modes.rpc.stdio",
    "antiphon.modes.commands.auth",
    "antiphon.modes.commands.config",
    "antiphon.modes.commands.replay",
    "antiphon.modes.commands.sessions",
    "antiphon.modes.commands.trust",
    "antiphon.providers.http",
    "antiphon.providers.exchange",
    "antiphon.providers.openai_completions.client",
    "antiphon.providers.openai_completions.emulated",
    "antiphon.loop.arguments",
    "antiphon.tools.process",
    "antiphon.tools.sandbox",
    "antiphon.tools.bash",
    "antiphon.tools.read",
    "antiphon.tools.write",
    "antiphon.tools.edit",
    "antiphon.tools.grep",
    "antiphon.tools.find",
    "antiphon.tools.ls",
    "httpx2",
    "jsonschema_rs",
)
KILL_AT_WRITE = "TEST_KILL_AT_WRITE"
"""In the environment of a child: the write to a session behind which it is killed."""
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(descriptor: int) -> None:
    """Serve until the other end goes."""
    line = socket.socket(fileno=descriptor)
    for name in LOADED:
        import_module(name)
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([line, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
            report_ends(line)
        if line in ready:
            data, ancillary, _, _ = line.recvmsg(1 << 20, socket.CMSG_SPACE(3 * 4))
            if not data:
                line.close()
                return
            begin(json.loads(data), descriptors_in(ancillary), line)


def descriptors_in(ancillary: list[Any]) -> list[int]:
    found = array.array("i")
    for _level, _kind, data in ancillary:
        found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def begin(wanted: dict[str, Any], descriptors: list[int], line: socket.socket) -> None:
    pid = os.fork()
    if pid == 0:
        be_child(wanted, descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    line.send(json.dumps({"pid": pid, "request": wanted["request"]}).encode() + b"\n")


def die_at_write(target: int) -> None:
    """From now on the n-th write to a session file is the last thing this process does."""
    seen = 0

    def watched(real: Any) -> Any:
        def write(descriptor: int, *rest: Any) -> Any:
            nonlocal seen
            done = real(descriptor, *rest)
            try:
                seen += os.readlink(f"/proc/self/fd/{descriptor}").endswith(".jsonl")
            except OSError:
                return done
            if seen == target:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return write

    os.write, os.pwrite, os.writev = watched(os.write), watched(os.pwrite), watched(os.writev)


def report_ends(line: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        line.send(json.dumps({"pid": pid, "status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def be_child(wanted: dict[str, Any], descriptors: list[int]) -> NoReturn:
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in NUMBERS:
            signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        os.chdir(wanted["cwd"])
        os.environ.clear()
        os.environ.update(wanted["env"])
        sys.argv = ["antiphon", *wanted["arguments"]]
        if target := int(os.environ.pop(KILL_AT_WRITE, "0")):
            die_at_write(target)
        code = import_module("antiphon.modes.cli").run(wanted["arguments"])
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - as the interpreter does at the top
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
