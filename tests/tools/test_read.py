"""`read`: what the recorded data get wrong, and what they cannot show."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest
from tests.tools.calls import error, outcome_of, text
from tests.tools.memory_files import NoProcesses

from antiphon.core.content import text_of
from antiphon.loop.abort import AbortController
from antiphon.tools.faults import OperationAborted
from antiphon.tools.output import Limits
from antiphon.tools.read import read_tool
from antiphon.tools.read_log import ReadLog, digest
from antiphon.tools.workspace import LocalWorkspace


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    (tmp_path / "five.txt").write_text("one\ntwo\nthree\nfour\nfive\n")
    return LocalWorkspace(tmp_path, processes=NoProcesses())


async def test_a_limit_that_ends_at_the_last_line_is_the_whole_rest(workspace: LocalWorkspace) -> None:
    """The reference promises one more line, which is empty."""
    whole = "one\ntwo\nthree\nfour\nfive\n"
    assert await text(read_tool(workspace), path="five.txt", limit=5) == whole
    assert await text(read_tool(workspace), path="five.txt", limit=6) == whole
    assert await text(read_tool(workspace), path="five.txt", offset=4, limit=2) == "four\nfive\n"


@pytest.mark.parametrize("limit", [-1, 1.5, -0.5])
async def test_limits_that_mean_nothing_are_refused(workspace: LocalWorkspace, limit: float) -> None:
    said = await error(read_tool(workspace), path="five.txt", limit=limit)
    assert said == f"limit must be a whole number of lines, at least 0, not {limit:g}."


async def test_a_path_in_the_advice_is_quoted_for_the_shell(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "it's long").write_text("x" * 60_000)
    said = await text(read_tool(workspace), path="it's long")
    assert """sed -n '1p' 'it'"'"'s long' | head -c 51200]""" in said


async def test_programs_get_the_text_too_and_details_hold_no_copy(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("line\n" * 3000)
    result = (await outcome_of(read_tool(workspace), {"path": "long"})).result
    assert result.structured_content == text_of(result.content)
    assert result.details["truncation"]["totalLines"] == 3000
    assert "content" not in result.details["truncation"]


async def test_limits_are_the_hosts(workspace: LocalWorkspace) -> None:
    said = await text(read_tool(workspace, limits=Limits(2, 100)), path="five.txt")
    assert said == "one\ntwo\n\n[Showing lines 1-2 of 6. Use offset=3 to continue.]"


async def test_what_was_read_is_remembered_even_if_only_a_part_was_shown(
    workspace: LocalWorkspace, tmp_path: Path
) -> None:
    log = ReadLog()
    await text(read_tool(workspace, log=log), path="five.txt", offset=2, limit=1)
    assert log.known(str(tmp_path / "five.txt")) == digest([(tmp_path / "five.txt").read_bytes()])


async def test_a_file_that_grows_is_read_up_to_its_size_at_opening(workspace: LocalWorkspace, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("line\n" * 200_000)

    class Growing(type(workspace.files)):  # type: ignore[misc]
        def open(self, path: str, **kwargs: object) -> object:
            reader = super().open(path, **kwargs)
            with open(path, "a") as more:
                more.write("late\n" * 200_000)
            return reader

    growing = LocalWorkspace(tmp_path, files=Growing(), processes=NoProcesses())
    assert "of 200001." in await text(read_tool(growing), path="log")


async def test_files_of_unknown_size_are_read_to_their_end(workspace: LocalWorkspace) -> None:
    if os.path.exists("/proc/self/status"):
        assert "Name:" in await text(read_tool(workspace), path="/proc/self/status")


async def test_a_pipe_is_read_to_its_end(workspace: LocalWorkspace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    writer = threading.Thread(target=lambda: (tmp_path / "p").write_text("through"))
    writer.start()
    assert await text(read_tool(workspace), path="p") == "through"
    writer.join()


async def test_reading_a_silent_pipe_can_be_aborted(workspace: LocalWorkspace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p")
    aborting = AbortController()
    tool = read_tool(workspace)
    task = asyncio.create_task(tool.execute("c", {"path": "p"}, aborting.signal, lambda _: None))
    for _ in range(20):
        await asyncio.to_thread(int)
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task


async def test_a_device_without_end_can_be_aborted(workspace: LocalWorkspace) -> None:
    aborting = AbortController()
    tool = read_tool(workspace)
    task = asyncio.create_task(tool.execute("c", {"path": "/dev/zero"}, aborting.signal, lambda _: None))
    for _ in range(5):
        await asyncio.to_thread(int)
    before = asyncio.get_running_loop().time()
    aborting.abort()
    with pytest.raises(OperationAborted):
        await task
    assert asyncio.get_running_loop().time() - before < 0.1


async def test_bytes_that_are_no_text_and_line_separators_of_other_kinds(
    workspace: LocalWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "odd").write_bytes("a\u2028b\x85c\x0bd\n".encode() + b"\xff\n")
    said = await text(read_tool(workspace), path="odd", limit=1)
    assert said == "a\u2028b\x85c\x0bd\n\n[2 more lines in file. Use offset=2 to continue.]"
    assert (await text(read_tool(workspace), path="odd")).endswith("\ufffd\n")


async def test_a_name_that_is_no_utf8_can_be_read_when_given_escaped(workspace: LocalWorkspace, tmp_path: Path) -> None:
    """A program may pass such a name on; the loop never crashes on it."""
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb") as file:
        file.write(b"found")
    assert await text(read_tool(workspace), path="\udcff.txt") == "found"
    assert "lone surrogates" in await error(read_tool(workspace), path="\ud800.txt")
