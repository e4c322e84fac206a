"""Whatever happens on the way, a file holds its old content or the new one, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.tools.children import command, environment

from antiphon.tools.atomic import Place, replace_file
from antiphon.tools.local_files import LocalFiles, always

WALK = r"""
import errno, json, os, signal, sys
from antiphon.tools.edit import edit_file
from antiphon.tools.edit_match import Edit
from antiphon.tools.local_files import LocalFiles, always

folder, operation, trouble = sys.argv[1:]
path = os.path.join(folder, "f.txt")
OLD, NEW = b"old text\n" * 300_000, b"new text\n" + b"old text\n" * 299_999 + b""
OLD = b"first line\n" + OLD
NEW = b"FIRST line\n" + OLD[len(b"first line\n"):]

def work(step):
    files = LocalFiles(durable=True, step=step)
    if operation == "write":
        files.replace(path, [NEW[:1_000_000], NEW[1_000_000:]])
    else:
        edit_file(files, path, "f.txt", [Edit("first line", "FIRST line")], None, always, nearest=False)

seen = []
for wanted in range(1, 100):
    with open(path, "wb") as file:
        file.write(OLD)
    os.chmod(path, 0o640)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        count = 0
        def step(name):
            global count
            count += 1
            if count == wanted:
                os.write(write_end, name.encode())
                if trouble == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, "No space left on device")
        try:
            work(step)
        except Exception:
            os._exit(1)
        os._exit(0)
    os.close(write_end)
    name = os.read(read_end, 100).decode()
    os.close(read_end)
    os.waitpid(child, 0)
    content = open(path, "rb").read()
    left = [n for n in os.listdir(folder) if n != "f.txt"]
    state = "old" if content == OLD else "new" if content == NEW else "mixed"
    seen.append([name, state, oct(os.stat(path).st_mode & 0o777), left])
    for n in left:
        os.unlink(os.path.join(folder, n))
    if not name:
        break
print(json.dumps(seen))
"""


@pytest.mark.parametrize("operation", ["write", "edit"])
@pytest.mark.parametrize("trouble", ["kill", "fail"])
def test_killed_or_failing_at_every_step_leaves_old_or_new(tmp_path: Path, operation: str, trouble: str) -> None:
    """The reference leaves a destroyed file when it is killed during a long write."""
    child = command(WALK, str(tmp_path), operation, trouble)
    ran = subprocess.run(child, capture_output=True, text=True, check=True, env=environment())
    seen = json.loads(ran.stdout)

    names = [name for name, *_ in seen]
    assert {"stat", "create", "write", "chmod", "fsync", "commit", "rename", "fsync folder", "done"} <= set(names)
    for name, state, mode, left in seen:
        assert state == ("new" if name in ("fsync folder", "done", "") else "old")
        assert mode == "0o640"
        assert len(left) <= 1 and all(n.startswith(".antiphon-") and n.endswith(".tmp") for n in left)
        if trouble == "fail":
            assert left == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="system calls are traced by the interface of Linux")
@pytest.mark.parametrize("operation", ["write", "edit"])
def test_killed_at_every_system_call_a_file_holds_the_old_or_the_new_content(tmp_path: Path, operation: str) -> None:
    """Of the whole tool: threads, locks, temporary file, forced writes. Before each call and behind it."""
    child = [sys.executable, str(Path(__file__).with_name("system_calls.py")), str(tmp_path), operation]
    ran = subprocess.run(child, capture_output=True, text=True, check=False, env=environment(), timeout=250)
    if "ptrace" in ran.stderr:
        pytest.skip("this system lets nobody trace system calls")
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    held = Counter(seen["held"])
    print(f"{operation}: killed {seen['stops']} times: {dict(held)}, {seen['left']} temporary files were left")

    assert held.keys() == {"old", "new"}
    assert seen["stops"] > 100
    assert seen["held"][0] == "old"
    assert seen["held"][-1] == "new"


def test_mode_and_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("old")
    path.chmod(0o4751)
    try:
        os.setxattr(path, "user.note", b"kept")
        attributes = True
    except OSError:
        attributes = False
    LocalFiles().replace(str(path), [b"new"])

    assert stat.S_IMODE(path.stat().st_mode) == 0o4751
    if attributes:
        assert os.getxattr(path, "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    os.chown(path, 1234, 4321)
    path.chmod(0o2755)
    LocalFiles().replace(str(path), [b"new"])

    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o2755)


def test_a_new_file_has_the_mode_that_the_process_gives(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        LocalFiles().replace(str(tmp_path / "a"), [b"x"])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_links_stay_and_their_target_changes(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    LocalFiles().replace(str(tmp_path / "two"), [b"new"])

    assert (tmp_path / "real").read_text() == "new"
    assert os.readlink(tmp_path / "two") == str(tmp_path / "one")
    assert sorted(os.listdir(tmp_path)) == ["one", "real", "two"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    LocalFiles().replace(str(tmp_path / "link"), [b"new"])

    assert (tmp_path / "target").read_text() == "new"
    assert (tmp_path / "link").is_symlink()


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError) as caught:
        LocalFiles().replace(str(tmp_path / "a"), [b"x"])
    assert caught.value.errno == errno.ELOOP


def test_another_hard_link_keeps_the_old_content(tmp_path: Path) -> None:
    """The price of never showing a half-written file; also what shared package stores need."""
    (tmp_path / "a").write_text("old")
    os.link(tmp_path / "a", tmp_path / "b")
    LocalFiles().replace(str(tmp_path / "a"), [b"new"])

    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "b").read_text() == "old"


def test_giving_up_before_the_commit_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    before = path.stat()

    assert replace_file(Place(str(path)), [b"new"], commit=lambda: False) is False
    assert path.read_text() == "old"
    assert path.stat().st_ino == before.st_ino
    assert os.listdir(tmp_path) == ["a"]


def test_a_commit_that_raises_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")

    def commit() -> bool:
        raise LookupError("changed meanwhile")

    with pytest.raises(LookupError):
        replace_file(Place(str(tmp_path / "a")), [b"new"], commit=commit)
    assert (tmp_path / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        replace_file(Place(str(tmp_path)), [b"x"], commit=always)


def test_a_device_is_written_to(tmp_path: Path) -> None:
    assert LocalFiles().replace("/dev/null", [b"x"]) is True
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_nobody_reads_is_an_error_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    with pytest.raises(OSError) as caught:
        LocalFiles().replace(str(tmp_path / "p"), [b"x"])
    assert caught.value.errno == errno.ENXIO


def test_a_name_as_long_as_names_may_be(tmp_path: Path) -> None:
    """The file beside has a short name of its own."""
    path = tmp_path / ("n" * 255)
    LocalFiles().replace(str(path), [b"1"])
    LocalFiles().replace(str(path), [b"2"])
    assert path.read_bytes() == b"2"

    with pytest.raises(OSError) as caught:
        LocalFiles().replace(str(tmp_path / ("n" * 256)), [b"1"])
    assert caught.value.errno == errno.ENAMETOOLONG
    assert len(os.listdir(tmp_path)) == 1
