"""Every known way out of the allowed folders, tried."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.tools.calls import error, text
from tests.tools.memory_files import NoProcesses

from antiphon.errors import ConfigurationError
from antiphon.tools import path_policy
from antiphon.tools.edit import edit_tool
from antiphon.tools.faults import PathRefused
from antiphon.tools.ls import ls_tool
from antiphon.tools.path_policy import ConfinedFiles, PathPolicy
from antiphon.tools.read import read_tool
from antiphon.tools.workspace import LocalWorkspace
from antiphon.tools.write import write_tool

SECRET = "the secret"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    (folder / "d").mkdir(parents=True)
    (folder / "a.txt").write_text("plain")
    (folder / "d" / "b.txt").write_text("deeper")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "s.txt").write_text(SECRET)
    (tmp_path / "inside2").mkdir()
    (tmp_path / "inside2" / "s.txt").write_text(SECRET)
    return folder


@pytest.fixture
def files(inside: Path) -> Iterator[ConfinedFiles]:
    confined = ConfinedFiles(PathPolicy(writable=(str(inside),)))
    yield confined
    confined.close()


def content(files: ConfinedFiles, path: str) -> bytes:
    with files.open(path) as reader:
        return reader.read(1000)


def test_inside_everything_works(files: ConfinedFiles, inside: Path) -> None:
    at = str(inside)
    assert content(files, f"{at}/d/b.txt") == b"deeper"
    assert files.replace(f"{at}/d/new.txt", [b"x"])
    assert files.append(f"{at}/d/new.txt", b"y") == 2
    files.make_folders(f"{at}/p/q/r")
    files.make_folders(f"{at}/p/q/r")
    assert files.replace(f"{at}/p/q/r/f", [b"z"])
    assert sorted(entry.name for entry in files.scan(at)) == ["a.txt", "d", "p"]
    assert files.stat(at).kind == "folder"
    files.check_access(f"{at}/a.txt", write=True)
    files.remove(f"{at}/d/new.txt")
    assert not (inside / "d" / "new.txt").exists()
    (inside / "link").symlink_to("d/b.txt")
    assert content(files, f"{at}/link") == b"deeper"
    assert files.read_link(f"{at}/link") == "d/b.txt"
    assert files.stat(f"{at}/link", follow=False).kind == "link"
    assert files.replace(f"{at}/link", [b"through"])
    assert (inside / "d" / "b.txt").read_text() == "through"


# Each makes a way out and gives the path to try, relative to the folder.
def dots(_inside: Path) -> str:
    return "../outside/s.txt"


def dots_behind_a_folder(_inside: Path) -> str:
    return "d/../../outside/s.txt"


def absolute(inside: Path) -> str:
    return str(inside.parent / "outside" / "s.txt")


def a_neighbour_with_the_same_beginning(inside: Path) -> str:
    return str(inside) + "2/s.txt"


def link_to_file(inside: Path) -> str:
    (inside / "l").symlink_to("../outside/s.txt")
    return "l"


def absolute_link_to_folder(inside: Path) -> str:
    (inside / "l").symlink_to(inside.parent / "outside")
    return "l/s.txt"


def chain_of_links(inside: Path) -> str:
    (inside / "l1").symlink_to("l2")
    (inside / "l2").symlink_to("d/l3")
    (inside / "d" / "l3").symlink_to("../../outside/s.txt")
    return "l1"


def dots_behind_a_link(inside: Path) -> str:
    (inside / "l").symlink_to(inside.parent / "outside")
    return "l/../outside/s.txt"


def hard_link(inside: Path) -> str:
    os.link(inside.parent / "outside" / "s.txt", inside / "h")
    return "h"


def process_root(inside: Path) -> str:
    return f"/proc/self/root{inside.parent}/outside/s.txt"


def process_folder(_inside: Path) -> str:
    return "/proc/self/cwd/pyproject.toml"


def link_to_process_root(inside: Path) -> str:
    (inside / "l").symlink_to("/proc/self/root")
    return f"l{inside.parent}/outside/s.txt"


def environment_of_the_process(inside: Path) -> str:
    (inside / "l").symlink_to("/proc/self/environ")
    return "l"


def open_descriptor(_inside: Path) -> str:
    return "/dev/fd/0"


def device(_inside: Path) -> str:
    return "/dev/zero"


ESCAPES: list[Callable[[Path], str]] = [
    dots, dots_behind_a_folder, absolute, a_neighbour_with_the_same_beginning, link_to_file, absolute_link_to_folder,
    chain_of_links, dots_behind_a_link, hard_link, process_root, process_folder, link_to_process_root,
    environment_of_the_process, open_descriptor, device,
]  # fmt: skip


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.__name__)
def test_ways_out_are_refused(files: ConfinedFiles, inside: Path, escape: Callable[[Path], str]) -> None:
    path = os.path.join(inside, escape(inside))

    with pytest.raises(PathRefused):
        files.open(path)
    with pytest.raises(PathRefused):
        files.check_access(path, write=True)
    with pytest.raises(PathRefused):
        files.append(path, b"!")
    if escape is not hard_link:  # a replacement has a new inode, so the other name keeps its content
        with pytest.raises(PathRefused):
            files.replace(path, [b"!"])
    else:
        files.replace(path, [b"!"])
    assert (inside.parent / "outside" / "s.txt").read_text() == SECRET
    assert (inside.parent / "inside2" / "s.txt").read_text() == SECRET


def test_nothing_is_made_or_removed_outside(files: ConfinedFiles, inside: Path) -> None:
    (inside / "l").symlink_to("../outside")
    for path in (f"{inside}/../new", f"{inside}/l/new"):
        with pytest.raises(PathRefused):
            files.make_folders(path)
        with pytest.raises(PathRefused):
            files.replace(path, [b"x"])
    with pytest.raises(PathRefused):
        files.remove(f"{inside}/l/s.txt")
    with pytest.raises(PathRefused):
        list(files.scan(f"{inside}/l"))
    with pytest.raises(PathRefused):
        files.stat(f"{inside}/l/s.txt")
    with pytest.raises(PathRefused):
        files.real_path(f"{inside}/l")
    assert sorted(os.listdir(inside.parent)) == ["inside", "inside2", "outside"]
    files.remove(f"{inside}/l")
    assert (inside.parent / "outside" / "s.txt").exists()


def _swap_after_the_check(monkeypatch: pytest.MonkeyPatch, swap: Callable[[], None]) -> None:
    check = path_policy._real
    done: list[int] = []

    def resolve_then_swap(path: str) -> str:
        real = check(path)
        if not done:
            done.append(1)
            swap()
        return real

    monkeypatch.setattr(path_policy, "_real", resolve_then_swap)


def test_a_folder_that_becomes_a_link_between_check_and_use(
    files: ConfinedFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (inside / "d" / "s.txt").write_text("mine")

    def swap() -> None:
        os.rename(inside / "d", inside / "was")
        (inside / "d").symlink_to("../outside")

    _swap_after_the_check(monkeypatch, swap)
    with pytest.raises(PathRefused):
        files.open(f"{inside}/d/s.txt")


def test_a_file_that_becomes_a_link_between_check_and_use(
    files: ConfinedFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        (inside / "a.txt").unlink()
        (inside / "a.txt").symlink_to("../outside/s.txt")

    _swap_after_the_check(monkeypatch, swap)
    with pytest.raises(PathRefused):
        files.open(f"{inside}/a.txt")


def test_a_new_file_whose_folder_becomes_a_link(
    files: ConfinedFiles, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swap() -> None:
        os.rename(inside / "d", inside / "was")
        (inside / "d").symlink_to("../outside")

    _swap_after_the_check(monkeypatch, swap)
    with pytest.raises(PathRefused):
        files.replace(f"{inside}/d/new.txt", [b"x"])
    assert os.listdir(inside.parent / "outside") == ["s.txt"]


def test_a_link_put_in_place_of_the_file_during_a_replacement_is_replaced_itself(
    files: ConfinedFiles, inside: Path
) -> None:
    def commit() -> bool:
        (inside / "a.txt").unlink()
        (inside / "a.txt").symlink_to("../outside/s.txt")
        return True

    files.replace(f"{inside}/a.txt", [b"x"], commit=commit)
    assert (inside.parent / "outside" / "s.txt").read_text() == SECRET
    assert (inside / "a.txt").read_bytes() == b"x"


def test_somebody_who_swaps_all_the_time_never_wins(files: ConfinedFiles, inside: Path) -> None:
    (inside / "d" / "s.txt").write_text("mine")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(inside / "d", inside / "was")
            os.symlink("../outside", inside / "d")
            os.unlink(inside / "d")
            os.rename(inside / "was", inside / "d")

    thread = threading.Thread(target=swap)
    thread.start()
    read: set[bytes] = set()
    try:
        for _ in range(400):
            try:
                read.add(content(files, f"{inside}/d/s.txt"))
                files.replace(f"{inside}/d/s.txt", [b"mine"])
            except OSError:
                continue
    finally:
        stop.set()
        thread.join()
    assert read <= {b"mine"}
    assert (inside.parent / "outside" / "s.txt").read_text() == SECRET
    assert os.listdir(inside.parent / "outside") == ["s.txt"]


def test_special_files_inside_are_refused_without_opening_them(files: ConfinedFiles, inside: Path) -> None:
    os.mkfifo(inside / "pipe")
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(inside)  # the path of a socket must be short
    try:
        server.bind("socket")
    finally:
        os.chdir(here)
        server.close()
    for name in ("pipe", "socket"):
        for use in (files.open, lambda path: files.replace(path, [b"x"]), lambda path: files.append(path, b"x")):
            with pytest.raises(PathRefused, match="pipe, a device or a socket"):
                use(f"{inside}/{name}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make devices")
def test_a_device_inside_is_refused(files: ConfinedFiles, inside: Path) -> None:
    try:
        os.mknod(inside / "zero", 0o666 | 0o020000, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("this machine lets nobody make devices")
    with pytest.raises(PathRefused, match="device"):
        files.open(f"{inside}/zero")


def test_even_a_root_over_everything_does_not_open_virtual_systems() -> None:
    files = ConfinedFiles(PathPolicy(writable=("/",)))
    try:
        for path in ("/proc/self/environ", "/proc/version", "/sys/kernel"):
            if os.path.exists(path):
                with pytest.raises(PathRefused):
                    files.open(path) if os.path.isfile(path) else list(files.scan(path))
    finally:
        files.close()


def test_names_and_paths_beyond_the_limits(files: ConfinedFiles, inside: Path) -> None:
    with pytest.raises(OSError) as caught:
        files.open(f"{inside}/{'n' * 300}")
    assert caught.value.errno == errno.ENAMETOOLONG
    with pytest.raises(OSError):
        files.open(f"{inside}/" + "d/" * 3000 + "x")
    with pytest.raises(OSError):
        files.open(f"{inside}/a\0b")
    assert files.replace(f"{inside}/{'n' * 255}", [b"x"])


def test_a_circle_of_links(files: ConfinedFiles, inside: Path) -> None:
    (inside / "x").symlink_to("y")
    (inside / "y").symlink_to("x")
    with pytest.raises(OSError):
        files.open(f"{inside}/x")


def test_readable_folders_can_be_read_only(inside: Path) -> None:
    outside = inside.parent / "outside"
    files = ConfinedFiles(PathPolicy(writable=(str(inside),), readable=(str(outside),)))
    try:
        assert content(files, f"{outside}/s.txt") == SECRET.encode()
        with pytest.raises(PathRefused, match="changed"):
            files.replace(f"{outside}/s.txt", [b"x"])
    finally:
        files.close()


def test_hidden_and_protected_names(inside: Path) -> None:
    for name in (".git/hooks", "d/.SSH"):
        (inside / name).mkdir(parents=True)
        (inside / name / "f").write_text("x")
    policy = PathPolicy(writable=(str(inside),), hidden=frozenset({".ssh"}), protected=frozenset({".git"}))
    files = ConfinedFiles(policy)
    try:
        with pytest.raises(PathRefused, match="hidden"):
            files.open(f"{inside}/d/.SSH/f")
        assert [entry.name for entry in files.scan(f"{inside}/d")] == ["b.txt"]
        assert content(files, f"{inside}/.git/hooks/f") == b"x"
        with pytest.raises(PathRefused, match="may not be changed"):
            files.replace(f"{inside}/.git/hooks/f", [b"y"])
        (inside / "innocent").symlink_to(".git/hooks/f")
        with pytest.raises(PathRefused, match="may not be changed"):
            files.replace(f"{inside}/innocent", [b"y"])
    finally:
        files.close()


def test_hard_links_may_be_allowed(inside: Path) -> None:
    os.link(inside / "a.txt", inside / "h")
    files = ConfinedFiles(PathPolicy(writable=(str(inside),), hard_links=True))
    with pytest.raises(PathRefused, match="second name"):
        files.append(f"{inside}/h", b"more")
    assert content(files, f"{inside}/h") == b"plain"
    files.close()


def test_a_root_may_be_given_through_a_link(inside: Path) -> None:
    (inside.parent / "alias").symlink_to("inside")
    files = ConfinedFiles(PathPolicy(writable=(str(inside.parent / "alias"),)))
    assert content(files, f"{inside.parent}/alias/a.txt") == b"plain"
    assert content(files, f"{inside}/a.txt") == b"plain"
    files.close()


def test_a_root_that_is_no_folder_is_refused_in_words(inside: Path) -> None:
    with pytest.raises(ConfigurationError, match="a.txt"):
        ConfinedFiles(PathPolicy(writable=(str(inside), str(inside / "a.txt"))))


async def test_the_tools_say_why(files: ConfinedFiles, inside: Path) -> None:
    workspace = LocalWorkspace(inside, files=files, processes=NoProcesses())
    assert await text(read_tool(workspace), path="a.txt") == "plain"
    assert await text(write_tool(workspace), path="e/f.txt", content="x") == "Successfully wrote to e/f.txt"
    assert await text(ls_tool(workspace)) == "a.txt\nd/\ne/"

    said = await error(read_tool(workspace), path="../outside/s.txt")
    assert said.startswith("EACCES: not allowed, open '") and "outside the folders" in said
    assert "outside the folders" in await error(write_tool(workspace), path="../x/y", content="x")
    edits = [{"oldText": "a", "newText": "b"}]
    assert await error(edit_tool(workspace), path="../outside/s.txt", edits=edits) == (
        "Could not edit file: ../outside/s.txt. Error code: EACCES "
        "(it is outside the folders in which files may be changed)."
    )
    assert SECRET not in said


async def test_nothing_is_confined_unless_the_host_asks(inside: Path) -> None:
    workspace = LocalWorkspace(inside, processes=NoProcesses())
    assert await text(read_tool(workspace), path="../outside/s.txt") == SECRET
