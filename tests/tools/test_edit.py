"""`edit` as a model meets it; its texts are pinned by recorded data."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calls import error, outcome_of, text
from tests.tools.memory_files import MemoryFiles, NoProcesses

from antiphon.loop.abort import AbortController
from antiphon.tools.edit import edit_tool, prepare_edit_arguments
from antiphon.tools.faults import OperationAborted
from antiphon.tools.local_files import LocalFiles
from antiphon.tools.read import read_tool
from antiphon.tools.read_log import ReadLog
from antiphon.tools.workspace import HostWorkspace, LocalWorkspace
from antiphon.tools.write import write_tool


@pytest.fixture
def workspace(tmp_path: Path) -> LocalWorkspace:
    (tmp_path / "f").write_text("one\ntwo\nthree\n")
    return LocalWorkspace(tmp_path, processes=NoProcesses())


def change(old: str, new: str) -> dict[str, Any]:
    return {"path": "f", "edits": [{"oldText": old, "newText": new}]}


async def test_a_folder_is_refused_like_everything_else_that_cannot_be_edited(workspace: LocalWorkspace) -> None:
    arguments = {"path": ".", "edits": [{"oldText": "a", "newText": "b"}]}
    assert await error(edit_tool(workspace), **arguments) == "Could not edit file: .. Error code: EISDIR."


async def test_a_file_that_changed_since_it_was_read_is_not_edited(workspace: LocalWorkspace, tmp_path: Path) -> None:
    log = ReadLog()
    read, edit = read_tool(workspace, log=log), edit_tool(workspace, log=log)
    await text(read, path="f")
    (tmp_path / "f").write_text("one\ntwo\nthree\nfour\n")

    said = await error(edit, **change("two", "2"))
    assert said.startswith("f has changed since it was last read here")
    assert (tmp_path / "f").read_text() == "one\ntwo\nthree\nfour\n"

    await text(read, path="f", offset=1, limit=1)
    assert await text(edit, **change("two", "2"))


async def test_its_own_edits_and_writes_are_no_such_change(workspace: LocalWorkspace, tmp_path: Path) -> None:
    log = ReadLog()
    read, edit, write = (make(workspace, log=log) for make in (read_tool, edit_tool, write_tool))
    await text(read, path="f")
    await text(edit, **change("two", "2"))
    await text(edit, **change("three", "3"))
    await text(write, path="f", content="new\n")
    await text(edit, **change("new", "newer"))
    os.utime(tmp_path / "f", (1, 1))  # the time is nothing, the content counts
    await text(edit, **change("newer", "newest"))


async def test_a_host_may_say_that_changes_do_not_matter(workspace: LocalWorkspace, tmp_path: Path) -> None:
    log = ReadLog()
    await text(read_tool(workspace, log=log), path="f")
    (tmp_path / "f").write_text("one\ntwo\nthree\nfour\n")
    assert await text(edit_tool(workspace, log=log, unchanged_since_read=False), **change("two", "2"))


async def test_a_file_that_was_never_read_may_be_edited(workspace: LocalWorkspace) -> None:
    assert await text(edit_tool(workspace, log=ReadLog()), **change("two", "2"))


async def test_a_change_by_somebody_else_during_the_edit_is_kept(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")

    def step(name: str) -> None:
        if name == "fsync":
            (tmp_path / "f").write_text("theirs\n")

    tool = edit_tool(LocalWorkspace(tmp_path, files=LocalFiles(durable=True, step=step)))
    assert await error(tool, **change("two", "2")) == (
        "f was changed by somebody else during the edit, which was not made."
    )
    assert (tmp_path / "f").read_text() == "theirs\n"
    assert os.listdir(tmp_path) == ["f"]


async def test_parallel_edits_of_one_message_are_all_made(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"n{number}.\n" for number in range(30)))
    tool = edit_tool(workspace)
    await asyncio.gather(*(text(tool, **change(f"n{number}.", f"m{number}!")) for number in range(30)))
    assert (tmp_path / "f").read_text() == "".join(f"m{number}!\n" for number in range(30))


async def test_an_abort_during_an_edit_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\n")
    aborting = AbortController()
    loop = asyncio.get_running_loop()
    answered = threading.Event()

    def step(name: str) -> None:
        if name == "write":
            loop.call_soon_threadsafe(aborting.abort)
            answered.wait()

    tool = edit_tool(LocalWorkspace(tmp_path, files=LocalFiles(step=step)))
    with pytest.raises(OperationAborted):
        await tool.execute("c", change("two", "2"), aborting.signal, print)
    answered.set()
    async with LocalWorkspace(tmp_path).writing("f"):
        assert (tmp_path / "f").read_text() == "one\ntwo\n"


async def test_a_text_that_is_not_there_is_explained(workspace: LocalWorkspace, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("def a():\n\treturn compute(1)\n\ndef b():\n\treturn compute(2)\n")
    said = await error(edit_tool(workspace), **change("    return compute(2)\n", "x"))

    assert said == (
        "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines.\n\n"
        "Looked for (1 line):\n       |     return compute(2)\n\n"
        "Nearest, line 5 (differs in blanks or tabs only):\n     5 | →\treturn compute(2)\n\n"
        "Nearest, line 2:\n     2 | →\treturn compute(1)"
    )


async def test_nothing_similar_is_said_as_well(workspace: LocalWorkspace) -> None:
    said = await error(edit_tool(workspace), **change("class Entirely(Different):", "x"))
    assert said.endswith("Nothing in the file is similar. Read the file again before editing it.")


@pytest.mark.parametrize(
    ("raw", "prepared"),
    [
        ({"path": "f", "edits": '[{"oldText":"a","newText":"b"}]'}, [{"oldText": "a", "newText": "b"}]),
        ({"path": "f", "edits": '{"oldText":"a","newText":"b"}'}, [{"oldText": "a", "newText": "b"}]),
        ({"path": "f", "edits": {"oldText": "a", "newText": "b"}}, [{"oldText": "a", "newText": "b"}]),
        ({"path": "f", "oldText": "a", "newText": "b"}, [{"oldText": "a", "newText": "b"}]),
        (
            {"path": "f", "oldText": "c", "newText": "d", "edits": [{"oldText": "a", "newText": "b"}]},
            [{"oldText": "a", "newText": "b"}, {"oldText": "c", "newText": "d"}],
        ),
        ({"path": "f", "edits": "no json"}, "no json"),
        ({"path": "f", "edits": "7"}, "7"),
        ({"path": "f", "edits": None}, None),
    ],
)
def test_argument_forms_of_models(raw: dict[str, Any], prepared: Any) -> None:
    before = repr(raw)
    assert prepare_edit_arguments(raw)["edits"] == prepared
    assert repr(raw) == before


async def test_a_lone_surrogate_cannot_touch_undecodable_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\xffb")
    tool = edit_tool(LocalWorkspace(tmp_path))
    assert "Could not find" in await error(tool, **change("\udcff", "x"))
    assert await text(tool, **change("a", "\udcff"))
    assert (tmp_path / "f").read_bytes() == b"\xef\xbf\xbd\xffb"


async def test_details_show_undecodable_bytes_as_replacement_characters(tmp_path: Path) -> None:
    files = MemoryFiles({"/w/f": b"\xff\nchange\n"})
    result = (await outcome_of(edit_tool(HostWorkspace("/w", files, NoProcesses())), change("change", "x"))).result
    assert result.details["diff"] == " 1 \ufffd\n-2 change\n+2 x"
    assert files.content["/w/f"] == b"\xff\nx\n"


async def test_pipes_and_devices_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    tool = edit_tool(LocalWorkspace(tmp_path))
    assert await error(tool, **change("a", "b")) == "Could not edit file: f. It is a pipe or a device."
