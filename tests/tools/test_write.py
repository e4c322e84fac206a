"""`write`: exactly this content, whole or not at all."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.tools.calls import error, text
from tests.tools.memory_files import NoProcesses

from antiphon.loop.abort import AbortController
from antiphon.tools.faults import OperationAborted
from antiphon.tools.local_files import LocalFiles
from antiphon.tools.read_log import ReadLog, digest
from antiphon.tools.workspace import LocalWorkspace
from antiphon.tools.write import write_tool


async def test_parallel_writes_of_one_message_end_with_the_last(tmp_path: Path) -> None:
    tool = write_tool(LocalWorkspace(tmp_path, processes=NoProcesses()))
    await asyncio.gather(*(text(tool, path="f", content=str(number)) for number in range(30)))
    assert (tmp_path / "f").read_text() == "29"


async def test_an_abort_during_a_long_write_leaves_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    aborting = AbortController()
    loop = asyncio.get_running_loop()
    answered = threading.Event()

    def step(name: str) -> None:
        if name == "write" and not answered.is_set():
            loop.call_soon_threadsafe(aborting.abort)
            answered.wait()

    tool = write_tool(LocalWorkspace(tmp_path, files=LocalFiles(step=step), processes=NoProcesses()))
    task = asyncio.create_task(
        tool.execute("c", {"path": "f", "content": "x" * 5_000_000}, aborting.signal, lambda _: None)
    )
    with pytest.raises(OperationAborted):
        await task
    answered.set()
    assert await text(tool, path="other", content="y")
    async with LocalWorkspace(tmp_path, processes=NoProcesses()).writing("f"):  # the thread has ended by now
        assert (tmp_path / "f").read_text() == "old"
        assert sorted(os.listdir(tmp_path)) == ["f", "other"]


async def test_an_abort_after_the_commit_does_not_deny_the_write(tmp_path: Path) -> None:
    aborting = AbortController()
    loop = asyncio.get_running_loop()

    def step(name: str) -> None:
        if name == "rename":
            loop.call_soon_threadsafe(aborting.abort)

    tool = write_tool(LocalWorkspace(tmp_path, files=LocalFiles(step=step), processes=NoProcesses()))
    assert await tool.execute("c", {"path": "f", "content": "new"}, aborting.signal, print) == (
        "Successfully wrote to f"
    )
    assert (tmp_path / "f").read_text() == "new"


async def test_what_was_written_is_known(tmp_path: Path) -> None:
    log = ReadLog()
    await text(write_tool(LocalWorkspace(tmp_path), log=log), path="f", content="é")
    assert log.known(str(tmp_path / "f")) == digest(["é".encode()])


async def test_failures_name_the_system_error_and_the_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    tool = write_tool(LocalWorkspace(tmp_path))
    assert await error(tool, path="file/x", content="") == f"EEXIST: file already exists, mkdir '{tmp_path}/file'"
    assert await error(tool, path="file/x/y", content="") == (f"ENOTDIR: not a directory, mkdir '{tmp_path}/file/x'")
    assert await error(tool, path=".", content="") == (f"EISDIR: illegal operation on a directory, open '{tmp_path}'")
    long = "n" * 300
    assert (await error(tool, path=long, content="")).startswith("ENAMETOOLONG: name too long, open")
