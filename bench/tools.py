#!/usr/bin/env python3
"""The tools beside what people would use by hand, in one run: grep and find on 20,000 files, the end of a 1 GB file,
50 edits in 10 MB, 1,000 small commands.

    python bench/tools.py                  # everything
    python bench/tools.py search read      # parts of it: search, read, edit, bash

The tree has 20,000 files of text and as many objects of git, which grep searches like any hidden file: so it stands
beside `rg --hidden`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from antiphon.loop.abort import never_aborted
from antiphon.tools import LocalWorkspace, bash_tool, edit_tool, find_tool, grep_tool, read_tool
from antiphon.tools.read_log import ReadLog

FILES = 20_000
ROUNDS = 5


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("| what | ours | beside |")
        print("|---|---:|---:|")
        for part in sys.argv[1:] or PARTS:
            asyncio.run(PARTS[part](Path(folder)))


def make_tree(tree: Path) -> None:
    for number in range(FILES):
        place = tree / f"d{number % 200:03d}" / f"module_{number:05d}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        needle = "needle_here()\n" if number % 400 == 0 else ""
        place.write_text(f"def f{number}():\n    return {number}\n{needle}" * 10)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)


async def search(folder: Path) -> None:
    tree = folder / "tree"
    make_tree(tree)
    workspace = LocalWorkspace(str(tree))
    rg = shutil.which("rg", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    await compare(
        f"grep, {FILES:,} files",
        grep_tool(workspace, ripgrep="never"),
        {"pattern": "needle_here", "limit": 1000},
        tree,
        {
            "rg --hidden": [rg, "--hidden", "-n", "needle_here", "."] if rg else None,
            "rg": [rg, "-n", "needle_here", "."] if rg else None,
            "git grep": ["git", "grep", "-n", "needle_here"],
        },
    )
    if rg:
        await compare(
            f"grep with rg, {FILES:,} files", grep_tool(workspace), {"pattern": "needle_here", "limit": 1000}, tree, {}
        )
    await compare(
        f"find, {FILES:,} files",
        find_tool(workspace),
        {"pattern": "*_19*.py", "limit": 5000},
        tree,
        {
            "rg --files --hidden": [rg, "--files", "--hidden", "-g", "*_19*.py", "."] if rg else None,
            "git ls-files": ["git", "ls-files", "*_19*.py"],
        },
    )


async def compare(
    what: str, tool: Any, args: dict[str, Any], cwd: Path, others: dict[str, list[str | None] | None]
) -> None:
    ours = [await timed(tool, args) for _ in range(ROUNDS)]
    beside = []
    for name, command in others.items():
        if command is not None:
            times = [timed_command([str(word) for word in command], cwd) for _ in range(ROUNDS)]
            beside.append(f"{name} {ms(times)}")
    print(f"| {what} | {ms(ours)} | {', '.join(beside) or '–'} |")


async def timed(tool: Any, args: dict[str, Any]) -> float:
    started = time.perf_counter()
    result = await tool.execute("c", dict(args), never_aborted(), lambda _: None)
    assert getattr(result, "is_error", False) is not True, result
    return time.perf_counter() - started


def timed_command(command: list[str], cwd: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - started


def ms(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:.4g} ms"


async def end_of_a_large_file(folder: Path) -> None:
    large = folder / "large.txt"
    line = ("x" * 99 + "\n").encode()
    with large.open("wb") as file:
        for _ in range(1000):
            file.write(line * 10_000)
    lines = 10_000_000
    read = read_tool(LocalWorkspace(str(folder)), log=ReadLog())
    ours = [await timed(read, {"path": "large.txt", "offset": lines - 99, "limit": 100}) for _ in range(3)]
    sed = [timed_command(["sed", "-n", f"{lines - 99},{lines}p", "large.txt"], folder) for _ in range(3)]
    print(f"| read, last 100 lines of 1 GB by line number | {ms(ours)} | sed {ms(sed)} |")
    large.unlink()


async def many_edits(folder: Path) -> None:
    text = "".join(f"line number {n} of the file, with some more words\n" for n in range(200_000))
    edits = [
        {"oldText": f"line number {n} of", "newText": f"LINE NUMBER {n} of"} for n in range(100_000, 200_000, 2_000)
    ]
    edit = edit_tool(LocalWorkspace(str(folder)))
    times: list[float] = []
    for _ in range(3):
        (folder / "ten.txt").write_text(text)
        times.append(await timed(edit, {"path": "ten.txt", "edits": edits}))
    plain = [rewrite(folder / "ten.txt", text, edits) for _ in range(3)]
    print(f"| edit, 50 edits in {len(text) / 1e6:.0f} MB | {ms(times)} | str.replace and write {ms(plain)} |")


def rewrite(path: Path, text: str, edits: list[dict[str, str]]) -> float:
    started = time.perf_counter()
    for edit in edits:
        text = text.replace(edit["oldText"], edit["newText"], 1)
    path.write_text(text)
    return time.perf_counter() - started


async def small_commands(folder: Path) -> None:
    bash = bash_tool(LocalWorkspace(str(folder)))
    await timed(bash, {"command": "true"})
    ours = await repeated(1000, lambda: timed(bash, {"command": "true"}))
    bare = [timed_command(["/bin/bash", "-c", "true"], folder) for _ in range(1000)]
    print(f"| bash, one of 1,000 small commands | {ms(ours)} | bare subprocess {ms(bare)} |")


async def repeated(count: int, once: Callable[[], Any]) -> list[float]:
    return [await once() for _ in range(count)]


PARTS = {"search": search, "read": end_of_a_large_file, "edit": many_edits, "bash": small_commands}

if __name__ == "__main__":
    main()
