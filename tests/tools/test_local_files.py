"""This machine's files through the port."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from tests.tools.children import command, environment

from antiphon.tools.local_files import LocalFiles, exclusive_between_processes
from antiphon.tools.port import Entry


@pytest.fixture
def files() -> LocalFiles:
    return LocalFiles()


def test_what_kinds_there_are(tmp_path: Path, files: LocalFiles) -> None:
    (tmp_path / "file").write_text("abc")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.mkfifo(tmp_path / "pipe")

    assert sorted(files.scan(str(tmp_path)), key=lambda entry: entry.name) == [
        Entry("file", "file"), Entry("folder", "folder"), Entry("link", "link"), Entry("pipe", "fifo"),
    ]  # fmt: skip
    assert files.stat(str(tmp_path / "link")).kind == "folder"
    assert files.stat(str(tmp_path / "link"), follow=False).kind == "link"
    assert files.stat(str(tmp_path / "file")).size == 3
    assert files.stat("/dev/null").kind == "other"
    assert files.read_link(str(tmp_path / "link")) == "folder"
    assert files.real_path(str(tmp_path / "link" / "new")) == str(tmp_path / "folder" / "new")


def test_an_open_file_knows_what_was_opened(tmp_path: Path, files: LocalFiles) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"hello")
    with files.open(str(path)) as reader:
        path.unlink()
        path.write_bytes(b"other")
        assert reader.info.size == 5
        assert [reader.read(2), reader.read(100), reader.read(1)] == [b"he", b"llo", b""]
    reader.close()


def test_a_folder_cannot_be_read(tmp_path: Path, files: LocalFiles) -> None:
    with pytest.raises(IsADirectoryError):
        files.open(str(tmp_path))


def test_a_pipe_is_read_to_its_end(tmp_path: Path, files: LocalFiles) -> None:
    path = str(tmp_path / "p")
    os.mkfifo(path)

    def write() -> None:
        with open(path, "wb") as pipe:
            pipe.write(b"through the pipe")

    with files.open(path) as reader:
        writer = threading.Thread(target=write)
        writer.start()
        data = b""
        while chunk := reader.read(4):
            data += chunk
        writer.join()
    assert data == b"through the pipe"


def test_waiting_for_a_silent_pipe_can_be_stopped(tmp_path: Path, files: LocalFiles) -> None:
    os.mkfifo(tmp_path / "p")
    stop = threading.Event()
    with files.open(str(tmp_path / "p"), stopped=stop.is_set) as reader:
        read: list[bytes] = []
        thread = threading.Thread(target=lambda: read.append(reader.read(10)))
        thread.start()
        stop.set()
        thread.join(2)
    assert read == [b""]


def test_appending_makes_and_extends(tmp_path: Path, files: LocalFiles) -> None:
    path = str(tmp_path / "log")
    assert [files.append(path, b"one\n"), files.append(path, b"two\n")] == [4, 8]
    files.remove(path)
    assert not os.path.exists(path)


def test_folders_are_made_once(tmp_path: Path, files: LocalFiles) -> None:
    files.make_folders(str(tmp_path / "a" / "b"))
    files.make_folders(str(tmp_path / "a" / "b"))
    (tmp_path / "f").write_text("")
    with pytest.raises(FileExistsError):
        files.make_folders(str(tmp_path / "f"))


HOLD = """
import sys
from antiphon.tools.local_files import exclusive_between_processes
with exclusive_between_processes(sys.argv[1]) as free:
    print(free, flush=True)
    sys.stdin.read()
"""


def test_a_lock_keeps_other_processes_out_until_its_holder_dies(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    holder = subprocess.Popen(
        command(HOLD, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "True\n"
    with exclusive_between_processes(path) as free:
        assert free is False
    with exclusive_between_processes(path + "2") as free:
        assert free is True

    holder.kill()
    holder.communicate()
    with exclusive_between_processes(path) as free:
        assert free is True
        with exclusive_between_processes(path) as again:
            assert again is False


def test_locks_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with exclusive_between_processes("/some/file") as free:
        assert free
        (folder,) = tmp_path.iterdir()
        assert len(list(folder.iterdir())) == 1
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []


def test_a_lock_folder_that_others_could_use_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"antiphon-locks-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    with exclusive_between_processes("/some/file") as free:
        assert free is True
        assert list(folder.iterdir()) == []
