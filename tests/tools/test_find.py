"""The find tool beyond what the recorded data pins: order, odd names, git's boundaries, faults."""

from __future__ import annotations

import os
from pathlib import Path

from tests.tools.calls import error, outcome_of, text
from tests.tools.memory_files import MemoryFiles

from antiphon.core.content import text_of
from antiphon.core.ports import Tool
from antiphon.loop.abort import AbortController
from antiphon.tools.find import find_tool
from antiphon.tools.process import LocalProcesses
from antiphon.tools.workspace import HostWorkspace, LocalWorkspace


def find_in(folder: Path) -> Tool:
    return find_tool(LocalWorkspace(folder, home=str(folder / "nobody")))


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


async def test_the_order_is_fixed(tmp_path: Path) -> None:
    touch(tmp_path, "b", "a/z", "a/b", "B", "é", "a.c")
    assert await text(find_in(tmp_path), pattern="*") == "B\na/\na/b\na/z\na.c\nb\né"


async def test_a_limit_keeps_the_first(tmp_path: Path) -> None:
    touch(tmp_path, *(f"f{i:03d}" for i in range(50)))
    outcome = await outcome_of(find_in(tmp_path), {"pattern": "*", "limit": 2.9})
    notice = "[2 results limit reached. Use limit=4 for more, or refine pattern]"
    assert text_of(outcome.result.content) == f"f000\nf001\n\n{notice}"
    assert outcome.result.details == {"resultLimitReached": 2}


async def test_names_keep_their_line_breaks_and_blanks(tmp_path: Path) -> None:
    touch(tmp_path, "a\nb", " c ")
    with open(os.fsencode(tmp_path) + b"/d\xff", "w"):
        pass
    assert await text(find_in(tmp_path), pattern="*") == " c \n$'a\\nb'\nd\ufffd"


async def test_case_counts_only_if_the_pattern_has_capitals(tmp_path: Path) -> None:
    touch(tmp_path, "README.md", "readme.txt")
    assert await text(find_in(tmp_path), pattern="readme*") == "README.md\nreadme.txt"
    assert await text(find_in(tmp_path), pattern="README*") == "README.md"


async def test_capitals_of_the_folder_do_not_make_a_pattern_count_case(tmp_path: Path) -> None:
    touch(tmp_path / "Big", "src/A.TS")
    assert await text(find_in(tmp_path / "Big"), pattern="src/*.ts") == "src/A.TS"


async def test_gitignore_counts_outside_repositories_but_not_across_their_borders(tmp_path: Path) -> None:
    touch(tmp_path, "x", "sub/.git/HEAD", "sub/x", "plain/x")
    (tmp_path / ".gitignore").write_text("x\n")
    assert await text(find_in(tmp_path), pattern="x") == "sub/x"


async def test_an_empty_pattern_fits_everything(tmp_path: Path) -> None:
    touch(tmp_path, "a/b")
    assert await text(find_in(tmp_path), pattern="") == "a/\na/b"


async def test_faults_say_what_is_wrong(tmp_path: Path) -> None:
    touch(tmp_path, "a")
    tool = find_in(tmp_path)
    assert await error(tool, pattern="*", path="nope") == f"Path not found: {tmp_path}/nope"
    assert await error(tool, pattern="*", path="a") == f"Not a directory: {tmp_path}/a"
    assert "unclosed character class" in await error(tool, pattern="[")


async def test_an_abort(tmp_path: Path) -> None:
    stop = AbortController()
    stop.abort()
    outcome = await outcome_of(find_in(tmp_path), {"pattern": "*"}, stop.signal)
    assert text_of(outcome.result.content) == "Operation aborted"


async def test_another_host_is_searched_through_its_files() -> None:
    workspace = HostWorkspace("/w", MemoryFiles({"/w/d/a.py": b"", "/w/b.txt": b""}), LocalProcesses())
    assert await text(find_tool(workspace), pattern="*.py") == "d/a.py"
