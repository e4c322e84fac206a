"""`ls`: a fixed order on every machine, one line for one entry."""

from __future__ import annotations

import os
from pathlib import Path

from tests.tools.calls import error, text
from tests.tools.memory_files import NoProcesses

from antiphon.tools.ls import ls_tool
from antiphon.tools.workspace import LocalWorkspace


async def test_a_name_with_a_line_break_is_one_line(tmp_path: Path) -> None:
    """In the reference it looks like two entries."""
    (tmp_path / "a\nb'c\\").write_text("")
    (tmp_path / "c").write_text("")
    assert await text(ls_tool(LocalWorkspace(tmp_path))) == "$'a\\nb\\'c\\\\'\nc"


async def test_the_order_is_the_same_everywhere(tmp_path: Path) -> None:
    for name in ("z", "Z", "a", "B", "é", "_", "10", "9"):
        (tmp_path / name).write_text("")
    assert await text(ls_tool(LocalWorkspace(tmp_path))) == "10\n9\n_\na\nB\nZ\nz\né"


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff", "wb"):
        pass
    assert await text(ls_tool(LocalWorkspace(tmp_path))) == "\ufffd"


async def test_both_limits_in_one_notice(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{'n' * 200}{number:03d}").write_text("")
    said = await text(ls_tool(LocalWorkspace(tmp_path, processes=NoProcesses())), limit=500)
    assert said.endswith("\n\n[500 entries limit reached. Use limit=1000 for more. 50.0KB limit reached]")


async def test_entries_that_cannot_be_examined_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("nowhere")
    (tmp_path / "b").write_text("")
    (tmp_path / "c").write_text("")
    assert await text(ls_tool(LocalWorkspace(tmp_path)), limit=2) == "b\nc"
    assert await error(ls_tool(LocalWorkspace(tmp_path)), path="b") == f"Not a directory: {tmp_path}/b"
