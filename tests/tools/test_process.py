"""Commands as real processes: nothing of them is left behind, whatever way they or we end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from antiphon.loop.abort import AbortController
from antiphon.tools import process_tree, sandbox_landlock
from antiphon.tools.port import Command, CommandEnd
from antiphon.tools.process import LocalProcesses
from antiphon.tools.process_records import end_left_behind, this_host
from antiphon.tools.process_tree import MARK, Identity, is_alive, read_process

ROOT = Path(__file__).resolve().parents[2]


class Screen:
    """Collects what a command prints; `shows` waits until a text has appeared."""

    def __init__(self) -> None:
        self.data = bytearray()
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, chunk: bytes) -> None:
        self.data += chunk
        self._loop.call_soon_threadsafe(self._changed.set)

    @property
    def text(self) -> str:
        return self.data.decode()

    async def shows(self, text: str) -> None:
        async with asyncio.timeout(10):
            while text not in self.text:
                self._changed.clear()
                if text not in self.text:
                    await self._changed.wait()

    def number(self, name: str) -> int:
        """The number that the command printed as `name=number`."""
        return int(self.text.split(f"{name}=")[1].split()[0])


def shell(script: str, cwd: Path, timeout: float | None = None) -> Command:
    return Command(argv=("/bin/bash", "-c", script), cwd=str(cwd), timeout=timeout)


async def eventually(holds: Callable[[], bool], what: str, seconds: float = 10) -> None:
    """Look until it holds; the deadline only ends a test that has failed already."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.005)


def gone(pid: int) -> bool:
    row = read_process(pid)
    return row is None or row.state in "ZX"


async def run(script: str, cwd: Path, processes: LocalProcesses | None = None, **more: float) -> tuple[CommandEnd, str]:
    screen = Screen()
    end = await (processes or LocalProcesses()).run(shell(script, cwd, **more), screen)
    return end, screen.text


async def test_both_outputs_come_in_the_order_of_printing(tmp_path: Path) -> None:
    """One pipe for both: no order can be lost, however fast a command changes between them."""
    script = "for i in $(seq 300); do echo out$i; echo err$i >&2; done"
    end, text = await run(script, tmp_path)
    assert end.exit_code == 0
    assert text.split() == [name for i in range(1, 301) for name in (f"out{i}", f"err{i}")]


async def test_a_command_leads_its_own_session_and_has_no_input(tmp_path: Path) -> None:
    _, text = await run("echo $$; cut -d' ' -f5,6 /proc/$$/stat; readlink /proc/$$/fd/0", tmp_path)
    pid, groups, stdin = text.splitlines()
    assert groups.split() == [pid, pid]
    assert stdin == "/dev/null"


async def test_exit_codes(tmp_path: Path) -> None:
    assert (await run("exit 7", tmp_path))[0].exit_code == 7
    assert (await run("kill -9 $$", tmp_path))[0].exit_code == 137


async def test_input_and_error_output_apart(tmp_path: Path) -> None:
    screen = Screen()
    given = b"x" * 200_000
    command = Command(
        argv=("/bin/bash", "-c", "wc -c; head -c 100000 /dev/zero >&2"), cwd=str(tmp_path), stdin=given, stderr="apart"
    )
    end = await LocalProcesses().run(command, screen)
    assert screen.text.strip() == "200000"
    assert end.stderr == b"\0" * 65536


async def test_what_cannot_start_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await LocalProcesses().run(Command(argv=("/no/such/program",), cwd=str(tmp_path)), lambda _: None)
    with pytest.raises(FileNotFoundError):
        await LocalProcesses().run(Command(argv=("/bin/true",), cwd=str(tmp_path / "gone")), lambda _: None)


ESCAPES = {
    "child": "sleep 300 & echo pid=$!; wait",
    "own group": "set -m; sleep 300 & echo pid=$!; wait",
    "own session": "setsid sleep 300 & echo pid=$!; wait",
    "orphan": "(sleep 300 & echo pid=$!); sleep 300",
    "orphan in its own session": "(setsid sh -c 'echo pid=$$; exec sleep 300' &); sleep 300",
    "orphan without our mark": "(setsid env -i /bin/sh -c 'echo pid=$$; exec sleep 300' &); sleep 300",
    "orphan without our output": "(setsid sh -c 'echo pid=$$; exec sleep 300 >/dev/null 2>&1' &); sleep 300",
    "deaf": "trap '' TERM; sh -c 'echo pid=$$; while :; do sleep 300; done'",
    "stopped": "sh -c 'echo pid=$$; kill -STOP $$'",
    "child of an orphan": "(setsid sh -c 'sh -c \"echo pid=\\$\\$; sleep 300; :\"; :' &); sleep 300",
}


@pytest.mark.parametrize("way", ESCAPES)
async def test_abort_ends_every_process_of_a_command(way: str, tmp_path: Path) -> None:
    screen, stop = Screen(), AbortController()
    running = asyncio.create_task(LocalProcesses().run(shell(ESCAPES[way], tmp_path), screen, stop.signal))
    await screen.shows("pid=")
    await screen.shows("\n")
    stop.abort()
    end = await running
    assert end.ended_by == "abort"
    assert gone(screen.number("pid"))


async def test_a_command_is_asked_before_it_is_killed(tmp_path: Path) -> None:
    """A program that removes its lock files at TERM gets the chance to."""
    screen, stop = Screen(), AbortController()
    script = "trap 'echo tidy > tidied; exit' TERM; echo ready; while :; do sleep 0.01; done"
    running = asyncio.create_task(LocalProcesses(abort_grace=5).run(shell(script, tmp_path), screen, stop.signal))
    await screen.shows("ready")
    begun = time.monotonic()
    stop.abort()
    await running
    assert (tmp_path / "tidied").read_text() == "tidy\n"
    assert time.monotonic() - begun < 4, "the grace is a limit, not a wait"


async def test_no_next_command_begins_while_the_shell_is_being_ended(tmp_path: Path) -> None:
    script = "echo ready; sleep 300; touch never"
    for _ in range(5):
        screen, stop = Screen(), AbortController()
        running = asyncio.create_task(LocalProcesses().run(shell(script, tmp_path), screen, stop.signal))
        await screen.shows("ready")
        stop.abort()
        await running
        assert not (tmp_path / "never").exists()


async def test_abort_takes_less_than_a_tenth_of_a_second(tmp_path: Path) -> None:
    """Even of a command that does not listen. The best of three, since the machine may be busy."""
    taken: list[float] = []
    for _ in range(3):
        screen, stop = Screen(), AbortController()
        running = asyncio.create_task(
            LocalProcesses().run(shell("trap '' TERM; echo ready; sleep 300", tmp_path), screen, stop.signal)
        )
        await screen.shows("ready")
        begun = time.monotonic()
        stop.abort()
        await running
        taken.append(time.monotonic() - begun)
    assert min(taken) < 0.1


async def test_a_time_limit(tmp_path: Path) -> None:
    end, text = await run("echo begun; sleep 300", tmp_path, timeout=0.2)
    assert (end.ended_by, end.exit_code, text) == ("timeout", None, "begun\n")
    assert end.exited_after is None


async def test_an_abort_that_comes_first_starts_nothing(tmp_path: Path) -> None:
    stop = AbortController()
    stop.abort()
    end = await LocalProcesses().run(shell("touch made", tmp_path), lambda _: None, stop.signal)
    assert end.ended_by == "abort"
    assert not (tmp_path / "made").exists()


async def test_a_cancelled_caller_leaves_no_command(tmp_path: Path) -> None:
    screen = Screen()
    running = asyncio.create_task(LocalProcesses().run(shell("echo pid=$$; sleep 300", tmp_path), screen))
    await screen.shows("\n")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gone(screen.number("pid"))


async def test_a_receiver_that_fails_ends_the_command(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def receive(chunk: bytes) -> None:
        seen.append(chunk)
        raise ValueError("no more room")

    with pytest.raises(ValueError, match="no more room"):
        await LocalProcesses().run(shell("echo $$; exec sleep 300", tmp_path), receive)
    assert gone(int(seen[0]))


async def test_a_quiet_background_process_does_not_hold_the_call_and_may_print_later(tmp_path: Path) -> None:
    """A server started with & must not die of its first log line after the call has ended."""
    script = "(while [ ! -e go ]; do sleep 0.01; done; echo log line; echo ok > survived) & echo started"
    end, text = await run(script, tmp_path)
    assert (end.ended_by, end.exit_code, text) == ("exit", 0, "started\n")
    (tmp_path / "go").touch()
    await eventually((tmp_path / "survived").exists, "the background process has printed and lives")


async def test_a_background_process_that_keeps_printing_holds_the_call(tmp_path: Path) -> None:
    end, text = await run("(while :; do echo more; sleep 0.02; done) & echo first", tmp_path, timeout=0.4)
    assert end.ended_by == "timeout"
    assert end.exit_code == 0
    assert end.exited_after is not None
    assert end.exited_after < 0.4
    assert text.startswith("first\nmore\nmore\n")


async def test_close_ends_what_finished_commands_left_running(tmp_path: Path) -> None:
    processes = LocalProcesses()
    _, text = await run("setsid sleep 300 >/dev/null 2>&1 & echo pid=$!", tmp_path, processes)
    pid = int(text.split("=")[1])
    assert not gone(pid)
    processes.close()
    assert gone(pid)


async def test_leftovers_are_kept_if_the_host_says_so(tmp_path: Path) -> None:
    processes = LocalProcesses(leftovers="keep")
    _, text = await run("setsid sleep 300 >/dev/null 2>&1 & echo pid=$!", tmp_path, processes)
    pid = int(text.split("=")[1])
    processes.close()
    assert not gone(pid)
    os.kill(pid, signal.SIGKILL)


async def test_close_leaves_other_processes_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["/bin/sleep", "300"], start_new_session=True) as bystander:
        processes = LocalProcesses()
        await run("true", tmp_path, processes)
        processes.close()
        assert bystander.poll() is None
        bystander.kill()


async def test_nothing_stays_open(tmp_path: Path) -> None:
    """Handles and threads after many commands are those from before."""
    processes = LocalProcesses()
    await run("true", tmp_path, processes)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        await run("echo x", tmp_path, processes)
    await eventually(lambda: len(os.listdir("/proc/self/fd")) <= before, "all handles are closed")


async def test_many_commands_at_once(tmp_path: Path) -> None:
    processes = LocalProcesses()
    ends = await asyncio.gather(*(run(f"echo {i}; exit {i}", tmp_path, processes) for i in range(40)))
    assert [(end.exit_code, int(text)) for end, text in ends] == [(i, i) for i in range(40)]


HOST = """
import asyncio, os, sys, signal
sys.path.insert(0, {source!r})
from antiphon.tools.process import LocalProcesses, close_all
from antiphon.tools.port import Command
processes = LocalProcesses(state_folder={state!r}, guard={guard})
def show(chunk):
    sys.stdout.write(chunk.decode()); sys.stdout.flush()
def sh(script):
    return Command(argv=("/bin/bash", "-c", script), cwd={state!r})
async def main():
    await processes.run(sh("setsid sleep 300 >/dev/null 2>&1 & echo left=$!"), show)
    script = "echo shell=$$; sh -c 'echo child=$$; sleep 300; :' &"
    script += "setsid sh -c 'echo other=$$; echo ready; sleep 300; :'"
    running = asyncio.create_task(processes.run(sh(script), show))
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    {ending}
asyncio.run(main())
"""

ENDINGS = {
    "returns": "return",
    "raises": "raise SystemError('fault')",
    "exits": "sys.exit(3)",
    "is interrupted": "os.kill(os.getpid(), signal.SIGINT); await running",
    "ends in a thread's exit": "running.cancel(); raise KeyboardInterrupt",
    "closes itself": "close_all(); os._exit(1)",
}


def start_host(state: Path, ending: str, *, guard: bool = False) -> tuple[subprocess.Popen[str], dict[str, int]]:
    """A process with one running command and one left over; and the numbers of theirs."""
    script = HOST.format(source=str(ROOT / "src"), state=str(state), ending=ending, guard=guard)
    host = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert host.stdout is not None
    pids: dict[str, int] = {}
    while "ready" not in pids:
        line = host.stdout.readline().strip()
        assert line, "the host ended too early"
        name, _, number = line.partition("=")
        pids[name] = int(number or 0)
    del pids["ready"]
    return host, pids


@pytest.mark.parametrize("way", ENDINGS)
async def test_no_process_outlives_a_host_that(way: str, tmp_path: Path) -> None:
    host, pids = start_host(tmp_path, ENDINGS[way])
    assert not any(gone(pid) for pid in pids.values())
    with host:
        host.communicate("go\n")
    assert {name: gone(pid) for name, pid in pids.items()} == dict.fromkeys(pids, True)
    assert list(tmp_path.iterdir()) == [], "the record is gone too"


async def test_after_a_kill_the_next_start_ends_what_was_left(tmp_path: Path) -> None:
    host, pids = start_host(tmp_path, "return")
    with host:
        assert end_left_behind(str(tmp_path)) == 0, "a living host is left alone"
        host.kill()
        host.wait()
        assert not any(gone(pid) for pid in pids.values())
        assert end_left_behind(str(tmp_path)) >= len(pids)
        assert {name: gone(pid) for name, pid in pids.items()} == dict.fromkeys(pids, True)
        assert list(tmp_path.iterdir()) == []


async def test_with_a_guard_not_even_a_kill_leaves_anything(tmp_path: Path) -> None:
    host, pids = start_host(tmp_path, "return", guard=True)
    with host:
        host.kill()
        host.wait()
    await eventually(lambda: all(map(gone, pids.values())), "the guard has ended everything")


@pytest.mark.parametrize("script", [process_tree, sandbox_landlock])
def test_scripts_of_their_own_need_no_installed_package(script: ModuleType) -> None:
    """A guard that cannot be loaded would be missed only by those whom it should have ended."""
    load = "import runpy, sys; runpy.run_path(sys.argv[1])"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", load, str(script.__file__)], stderr=-1, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


async def test_a_guard_leaves_with_a_host_that_tidied_up_itself(tmp_path: Path) -> None:
    processes = LocalProcesses(guard=True)
    await run("true", tmp_path, processes)
    guard = processes._guard
    assert guard is not None
    processes.close()
    assert gone(guard._process.pid)


async def test_a_record_is_judged_by_the_start_of_the_process_not_its_number_alone(tmp_path: Path) -> None:
    """A dead host's number may belong to somebody else by now."""
    mark = "0123456789abcdef"
    host = json.loads(this_record(mark))
    record = tmp_path / f"commands-{mark}.json"
    environment = {**os.environ, MARK: f"{mark}.1."}
    with subprocess.Popen(["/bin/sleep", "300"], env=environment, start_new_session=True) as child:
        record.write_text(json.dumps(host))
        assert end_left_behind(str(tmp_path)) == 0
        assert record.exists()
        record.write_text(json.dumps({**host, "started": host["started"] - 1}))
        assert end_left_behind(str(tmp_path)) == 1
        assert not record.exists()
        assert child.wait() == -signal.SIGTERM


async def test_records_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    host = json.loads(this_record("0123456789abcdef"))
    record = tmp_path / "commands-0123456789abcdef.json"
    for change in ({"machine": "elsewhere"}, {"namespace": "pid:[1]"}):
        record.write_text(json.dumps({**host, "pid": 2**22, **change}))
        assert end_left_behind(str(tmp_path)) == 0
        assert record.exists()
    record.write_text("{torn")
    assert end_left_behind(str(tmp_path)) == 0


def this_record(mark: str) -> bytes:
    import msgspec

    return msgspec.json.encode(this_host(mark))


def test_a_number_used_again_is_another_process() -> None:
    own = read_process(os.getpid())
    assert own is not None
    assert is_alive(own.identity)
    assert not is_alive(Identity(own.pid, own.started - 1))


@pytest.mark.slow
async def test_a_bomb_of_processes_is_ended(tmp_path: Path) -> None:
    """Freezing before killing: what multiplies does not outrun its end."""
    screen, stop = Screen(), AbortController()
    sleep = f"sleep 300.{os.getpid()}"  # nobody else's on this machine
    script = "trap '' TERM; f() { if [ $1 -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & wait; else "
    script += f"{sleep}; fi; }}"
    script += "; echo ready; f 8"
    processes = LocalProcesses()
    running = asyncio.create_task(processes.run(shell(script, tmp_path), screen, stop.signal))
    await screen.shows("ready")
    stop.abort()
    await running
    processes.close()
    _, text = await run(f"ps -eo args | grep -c '[s]{sleep[1:]}' || true", tmp_path)
    assert text.strip() == "0"


async def test_commands_may_run_again_after_close(tmp_path: Path) -> None:
    processes = LocalProcesses(state_folder=str(tmp_path / "state"))
    for _ in range(2):
        _, text = await run("sleep 300 >/dev/null 2>&1 & echo pid=$!", tmp_path, processes)
        assert len(list((tmp_path / "state").iterdir())) == 1
        processes.close()
        assert gone(int(text.split("=")[1]))
        assert list((tmp_path / "state").iterdir()) == []


async def test_a_system_without_process_handles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older kernel tells of no end by a handle: then it is looked for, and all else stays the same."""
    monkeypatch.delattr(os, "pidfd_open")
    end, text = await run("echo x; exit 3", tmp_path)
    assert (end.ended_by, end.exit_code, text) == ("exit", 3, "x\n")
    screen, stop = Screen(), AbortController()
    script = "setsid sleep 300 & echo pid=$!; wait"
    running = asyncio.create_task(LocalProcesses().run(shell(script, tmp_path), screen, stop.signal))
    await screen.shows("\n")
    stop.abort()
    assert (await running).ended_by == "abort"
    assert gone(screen.number("pid"))
