"""Commands behind a fence: what they may write, reach and leave behind. Real fences, real files."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tools.test_process import Screen, eventually, gone, shell

from antiphon.errors import ConfigurationError
from antiphon.loop.abort import AbortController
from antiphon.tools import sandbox_landlock
from antiphon.tools.port import CommandEnd
from antiphon.tools.process import LocalProcesses
from antiphon.tools.sandbox import bubblewrap_works, confined, find_bubblewrap

BUBBLEWRAP = find_bubblewrap()
needs_bubblewrap = pytest.mark.skipif(
    BUBBLEWRAP is None or not bubblewrap_works(BUBBLEWRAP), reason="needs bubblewrap, and leave to make namespaces"
)
needs_landlock = pytest.mark.skipif(sandbox_landlock.abi() < 1, reason="needs a kernel with Landlock")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder `work`, a folder `temp` for temporary files, and one beside them, `outside`."""
    root = Path(tempfile.mkdtemp(prefix="antiphon-fence-", dir="/var/tmp"))
    for name in ("work", "temp", "outside"):
        (root / name).mkdir()
    (root / "outside" / "seen").write_text("visible")
    monkeypatch.setattr(tempfile, "tempdir", str(root / "temp"))
    yield root
    shutil.rmtree(root)


async def run(word: str, place: Path, script: str, *, bubblewrap: str | None = None) -> tuple[CommandEnd, str]:
    screen = Screen()
    processes = confined(LocalProcesses(), word, str(place / "work"), bubblewrap=bubblewrap)
    end = await processes.run(shell(f"exec 2>&1; {script}", place / "work"), screen)
    return end, screen.text


def tried(place: Path) -> str:
    """Writes in all three folders, one after the other, and says which worked."""
    names = {"work": place / "work" / "f", "temp": place / "temp" / "f", "outside": place / "outside" / "f"}
    return "; ".join(f"(echo x > {path}) 2>/dev/null && echo {name}" for name, path in names.items())


NO_BUBBLEWRAP = "/no/such/bwrap"


async def test_off_is_no_fence(place: Path) -> None:
    processes = LocalProcesses()
    assert confined(processes, "off", str(place)) is processes


@needs_bubblewrap
@pytest.mark.parametrize(
    ("word", "writes"), [("workspace", ["work", "temp"]), ("offline", ["work", "temp"]), ("readonly", [])]
)
async def test_where_a_fenced_command_writes(word: str, writes: list[str], place: Path) -> None:
    script = tried(place)
    _, text = await run(word, place, f"{script}; cat {place}/outside/seen")
    written = [name for name in ("work", "temp", "outside") if (place / name / "f").exists()]
    assert written == writes
    assert text.endswith("visible"), "reading stays possible"


@needs_bubblewrap
async def test_without_network(place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
        assert "reached" in (await run("workspace", place, script))[1]
        assert "reached" not in (await run("offline", place, script))[1]
        assert "reached" not in (await run("readonly", place, script))[1]


@needs_bubblewrap
async def test_nothing_outlives_a_command_in_bubblewrap(place: Path) -> None:
    """Not even what no trace leads to: own session, parent gone, clean environment, closed output."""
    mark = f"300.{os.getpid()}"
    script = f"(setsid env -i sleep {mark} >/dev/null 2>&1 &) ; echo started"
    end, text = await run("workspace", place, script)
    assert (end.exit_code, text) == (0, "started\n")
    await eventually(lambda: not runs(f"sleep\0{mark}\0"), "the namespace is empty")


def runs(command: str) -> bool:
    """Whether a process with this command line lives."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/cmdline").read_text() == command:
                return True
        except OSError:
            continue
    return False


@needs_bubblewrap
async def test_exit_codes_and_abort_pass_the_fence(place: Path) -> None:
    assert (await run("workspace", place, "exit 7"))[0].exit_code == 7
    screen, stop = Screen(), AbortController()
    processes = confined(LocalProcesses(abort_grace=5), "workspace", str(place / "work"))
    script = "trap 'echo tidy > tidied; exit' TERM; echo ready; while :; do sleep 0.01; done"
    running = asyncio.create_task(processes.run(shell(script, place / "work"), screen, stop.signal))
    await screen.shows("ready")
    stop.abort()
    assert (await running).ended_by == "abort"
    assert (place / "work" / "tidied").exists(), "the program inside was asked before the fence fell"


@needs_landlock
async def test_landlock_keeps_writes_inside(place: Path) -> None:
    end, text = await run("workspace", place, f"{tried(place)}; echo $?; exit 5", bubblewrap=NO_BUBBLEWRAP)
    written = [name for name in ("work", "temp", "outside") if (place / name / "f").exists()]
    assert written == ["work", "temp"]
    assert end.exit_code == 5
    assert "work\ntemp\n" in text


@needs_landlock
async def test_landlock_forbids_every_way_of_writing(place: Path) -> None:
    outside = place / "outside"
    script = f"cd {outside}; mkdir d; ln -s x l; rm -f seen; mv seen gone; : > seen; truncate -s 0 seen; chmod 600 seen"
    await run("workspace", place, script, bubblewrap=NO_BUBBLEWRAP)
    assert sorted(os.listdir(outside)) == ["seen"]
    assert (outside / "seen").read_text() == "visible"


@needs_landlock
async def test_a_program_that_does_not_exist_behind_landlock(place: Path) -> None:
    screen = Screen()
    processes = confined(LocalProcesses(), "workspace", str(place / "work"), bubblewrap=NO_BUBBLEWRAP)
    command = shell("x", place / "work")
    end = await processes.run(type(command)(argv=("/no/such/program",), cwd=command.cwd), screen)
    assert end.exit_code == 127
    assert "/no/such/program: No such file" in screen.text


OUT = {
    "dots": "echo x > ../outside/seen",
    "absolute path": "echo x > {out}/new",
    "dots without end": "echo x > $(printf '../outside/%.0s' $(seq 300))new",
    "link to a file": "ln -s {out}/seen l; echo x > l",
    "link to a folder": "ln -s ../outside l; echo x > l/new; rm -f l/seen",
    "hard link": "ln {out}/seen h && echo x > h",
    "moving out": "echo x > f; mv f {out}/new",
    "moving in": "mv {out}/seen .",
    "truncation": "truncate -s 0 {out}/seen",
    "root of the process": "echo x > /proc/self/root{out}/new",
    "root of the first process": "echo x > /proc/1/root{out}/new",
    "working folder of the process": "cd {out}; echo x > /proc/self/cwd/new",
    "descriptor of a folder": "exec 3< {out}; echo x > /dev/fd/3/new; echo x > /proc/self/fd/3/new",
    "descriptor opened again": "exec 3< {out}/seen; echo x > /proc/self/fd/3",
    "pipe": "mkfifo {out}/new",
    "device": "mknod {out}/new c 1 3",
    "mounting again": "mount -o remount,rw /; echo x > {out}/new",
    "mounting elsewhere": "mkdir m; mount --bind {out} m; echo x > m/new",
    "namespace of its own": "unshare -rm sh -c 'mount -o remount,rw,bind /; echo x > {out}/new'",
    "another root": "unshare -r chroot / sh -c 'echo x > {out}/new'",
    "session of its own": "(setsid sh -c 'echo x > {out}/new' &); sleep 0.05",
}


FENCES = [
    pytest.param(None, marks=needs_bubblewrap, id="bubblewrap"),
    pytest.param(NO_BUBBLEWRAP, marks=needs_landlock, id="landlock"),
]


@pytest.mark.parametrize("way", OUT)
@pytest.mark.parametrize("bubblewrap", FENCES)
async def test_no_way_leads_out(way: str, bubblewrap: str | None, place: Path) -> None:
    """Each is tried by a real shell behind a real fence, as the user who runs the tests, superuser or not."""
    outside = place / "outside"
    await run("workspace", place, OUT[way].replace("{out}", str(outside)), bubblewrap=bubblewrap)
    assert os.listdir(outside) == ["seen"]
    assert (outside / "seen").read_text() == "visible"


@pytest.mark.parametrize("bubblewrap", FENCES)
async def test_the_settings_of_the_kernel_cannot_be_changed(bubblewrap: str | None, place: Path) -> None:
    script = 'old=$(cat /proc/sys/kernel/hostname); echo "$old" > /proc/sys/kernel/hostname && echo through'
    assert "through" not in (await run("workspace", place, script, bubblewrap=bubblewrap))[1]


@needs_bubblewrap
async def test_a_superuser_keeps_its_rights_over_files_in_the_fence(place: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    (place / "work" / "theirs").write_text("old")
    (place / "work" / "theirs").chmod(0o600)
    os.chown(place / "work" / "theirs", 1234, 1234)
    assert (await run("workspace", place, "echo new > theirs; chown 4321 theirs"))[0].exit_code == 0
    assert (place / "work" / "theirs").read_text() == "new\n"
    assert (place / "work" / "theirs").stat().st_uid == 4321


async def test_what_cannot_be_done_is_said(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="unknown sandbox 'cage'; use one of: off, workspace"):
        confined(LocalProcesses(), "cage", str(place))
    with pytest.raises(ConfigurationError, match="needs bubblewrap"):
        confined(LocalProcesses(), "offline", str(place), bubblewrap=NO_BUBBLEWRAP)


@needs_bubblewrap
async def test_a_missing_folder_is_told_as_without_a_fence(place: Path) -> None:
    processes = confined(LocalProcesses(), "workspace", str(place / "work"))
    with pytest.raises(FileNotFoundError):
        await processes.run(shell("true", place / "gone"), lambda _: None)


@needs_bubblewrap
async def test_a_time_limit_behind_the_fence(place: Path) -> None:
    screen = Screen()
    processes = confined(LocalProcesses(), "workspace", str(place / "work"))
    end = await processes.run(shell("echo pid=$$; sleep 300", place / "work", timeout=0.3), screen)
    assert end.ended_by == "timeout"
    assert gone(screen.number("pid")) or screen.number("pid") < 20, "a number of the inner namespace"
