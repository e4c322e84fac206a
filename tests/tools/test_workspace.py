"""One object for what tools may touch; another host is another `Files` and another `Processes`, nothing else."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calls import error, text
from tests.tools.memory_files import MemoryFiles, NoProcesses

from antiphon.loop.abort import AbortController
from antiphon.tools.edit import edit_tool
from antiphon.tools.faults import OperationAborted, ToolFault
from antiphon.tools.ls import ls_tool
from antiphon.tools.port import Files, Processes, Workspace
from antiphon.tools.read import read_tool
from antiphon.tools.workspace import HostWorkspace, LocalWorkspace
from antiphon.tools.write import write_tool


def memory(content: dict[str, bytes] | None = None) -> HostWorkspace:
    files: Files = MemoryFiles(content)
    processes: Processes = NoProcesses()
    return HostWorkspace("/w", files, processes, home="/home/me")


async def test_the_tools_work_on_files_in_memory() -> None:
    workspace: Workspace = memory({"/w/a.txt": b"one\ntwo\n", "/home/me/h.txt": b"home"})
    files = workspace.files
    assert isinstance(files, MemoryFiles)

    assert await text(read_tool(workspace), path="a.txt") == "one\ntwo\n"
    assert await text(read_tool(workspace), path="~/h.txt") == "home"
    assert await text(write_tool(workspace), path="d/new.txt", content="x") == "Successfully wrote to d/new.txt"
    edits = [{"oldText": "two", "newText": "2"}]
    assert await text(edit_tool(workspace), path="@a.txt", edits=edits) == "Successfully replaced 1 block(s) in @a.txt."
    assert await text(ls_tool(workspace)) == "a.txt\nd/"
    assert files.content == {"/w/a.txt": b"one\n2\n", "/home/me/h.txt": b"home", "/w/d/new.txt": b"x"}
    assert "ENOENT" in await error(read_tool(workspace), path="nope")


async def test_a_windows_host_has_windows_paths() -> None:
    files = MemoryFiles()
    files.content["C:\\w\\a.txt"] = b"drive"
    workspace = HostWorkspace("C:\\w", files, NoProcesses(), flavour="windows")
    assert await workspace.read_text("a.txt") == "drive"
    assert await workspace.locate("D:/x/../y") == "D:\\y"


async def test_texts_for_tools_of_users(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    await workspace.write_text("d/a.txt", "one\n")
    assert await workspace.append_text("d/a.txt", "two\n") == 8
    assert await workspace.read_text("d/a.txt") == "one\ntwo\n"
    assert os.listdir(tmp_path / "d") == ["a.txt"]


async def test_a_file_with_a_special_name_can_be_reached(tmp_path: Path) -> None:
    """The reference turns the name into another one and finds nothing."""
    (tmp_path / "a\u00a0b").write_text("special")
    (tmp_path / "@c").write_text("at")
    workspace = LocalWorkspace(tmp_path)
    assert await text(read_tool(workspace), path="a\u00a0b") == "special"
    assert await text(read_tool(workspace), path="@c") == "at"
    assert await text(write_tool(workspace), path="a\u00a0b", content="x")
    assert (tmp_path / "a\u00a0b").read_text() == "x"


async def test_home_and_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somewhere")
    workspace = LocalWorkspace("d")
    assert (workspace.cwd, workspace.home) == (str(tmp_path / "d"), "/somewhere")
    assert await workspace.locate("~/x") == "/somewhere/x"
    assert LocalWorkspace(tmp_path, home="/h").home == "/h"


async def test_a_bad_path_is_told_to_the_model(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    with pytest.raises(ToolFault, match="NUL"):
        await workspace.locate("a\0b")
    for tool, more in ((read_tool, {}), (write_tool, {"content": ""}), (ls_tool, {})):
        arguments: dict[str, Any] = {"path": "a\0b", **more}
        assert "NUL" in await error(tool(workspace), **arguments)


class StuckFiles(MemoryFiles):
    """A dead network drive: every visit hangs."""

    def __init__(self) -> None:
        super().__init__({"/w/f": b"x"})
        self.entered = threading.Event()
        self.release = threading.Event()

    def stat(self, path: str, *, follow: bool = True) -> Any:
        self.entered.set()
        self.release.wait()
        return super().stat(path, follow=follow)

    def real_path(self, path: str) -> str:
        self.entered.set()
        self.release.wait()
        return path


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (read_tool, {"path": "f"}),
        (ls_tool, {"path": "."}),
        (write_tool, {"path": "f", "content": "y"}),
        (edit_tool, {"path": "f", "edits": [{"oldText": "x", "newText": "y"}]}),
    ],
)
async def test_every_tool_hears_an_abort_at_once(make: Any, arguments: dict[str, Any]) -> None:
    files = StuckFiles()
    tool = make(HostWorkspace("/w", files, NoProcesses()))
    aborting = AbortController()
    task = asyncio.create_task(tool.execute("c1", arguments, aborting.signal, lambda _: None))
    await asyncio.to_thread(files.entered.wait)
    before = asyncio.get_running_loop().time()
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task
    assert asyncio.get_running_loop().time() - before < 0.1
    files.release.set()
    assert files.content == {"/w/f": b"x"}


async def test_writing_on_a_windows_host_makes_windows_folders() -> None:
    files = MemoryFiles()
    workspace = HostWorkspace("C:\\w", files, NoProcesses(), flavour="windows")
    await text(write_tool(workspace), path="d/e.txt", content="x")
    assert files.content == {"C:\\w\\d\\e.txt": b"x"}
    assert "C:\\w\\d" in files.folders


async def test_names_that_mean_something_else_on_windows_are_refused_there() -> None:
    workspace = HostWorkspace("C:\\w", MemoryFiles(), NoProcesses(), flavour="windows")
    assert "device" in await error(write_tool(workspace), path="logs\\NUL.txt", content="x")
    assert "cannot" in await error(write_tool(workspace), path="a.txt:hidden", content="x")


async def test_writers_of_one_file_meet_whatever_case_they_write() -> None:
    workspace = HostWorkspace("/w", MemoryFiles({"/w/f": b""}), NoProcesses(), flavour="macos")
    async with workspace.writing("F"):
        second = asyncio.create_task(workspace.write_text("f", "x"))
        for _ in range(20):
            await asyncio.to_thread(int)
        assert not second.done()
    await second
