"""The version and the help are told at once; foreign code is kept out of answers."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.modes.children import SOURCE, Place, run
from tests.providers.fake_server import FakeServer

from antiphon import __version__
from antiphon.modes.options import help_text


def cpu_seconds(*words: str) -> float:
    """CPU time of a child, the least of some."""
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    found: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, env=environ, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


@pytest.mark.parametrize("question", ["--version", "--help"])
def test_a_question_costs_little_more_than_python_itself(question: str) -> None:
    """At most twice an empty Python process and 20 ms."""
    assert cpu_seconds("-m", "antiphon", question) <= 2 * cpu_seconds("-c", "pass") + 0.020


async def test_the_first_request_leaves_soon(place: Place) -> None:
    """CPU of the process until its request has arrived: a loose bound, `bench/start.py` has the figure."""
    used: list[float] = []

    class Watching(FakeServer):
        def _take(self, path: str, headers: dict[str, str], data: bytes) -> Any:
            files = Path("/proc", str(child.pid), "task").glob("*/schedstat")
            used.append(sum(int(file.read_text().split()[0]) for file in files) / 1e9)
            return super()._take(path, headers, data)

    async with Watching() as server:
        place.use(server)
        for _ in range(2):  # the first one may have to compile
            child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "antiphon", "-p", "hi"), env=place.environ, cwd=place.cwd, stdout=-3, stdin=-3
            )
            assert await child.wait() == 0
    assert min(used) < 0.4


async def test_version_and_help(place: Place) -> None:
    for words in (("--version",), ("-v",), ("--version", "--offline")):
        done = await run(place, *words)
        assert (done.code, done.text, done.err) == (0, f"antiphon {__version__}\n", "")
    for words in (("--help",), ("-h",), ("--help", "--verbose")):
        done = await run(place, *words)
        assert (done.code, done.text) == (0, help_text())


async def test_models_are_listed(place: Place) -> None:
    done = await run(place, "--list-models", "gpt-5")
    assert done.code == 0
    head, *rows = done.text.rstrip("\n").split("\n")
    assert head.split() == ["provider", "model", "context", "max-out", "thinking", "images"]
    assert all("gpt-5" in row for row in rows)
    missing = await run(place, "--list-models", "nonsense-xyz")
    assert (missing.code, missing.out) == (1, b"")


def test_asking_makes_no_folder(tmp_path: str) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": str(SOURCE),
        "HOME": str(tmp_path),
        "ANTIPHON_AGENT_DIR": f"{tmp_path}/agent",
    }
    for words in (["--list-models"], ["config", "explain"], ["auth", "check"], ["session", "list"], ["trust"]):
        subprocess.run([sys.executable, "-m", "antiphon", *words], env=environ, capture_output=True, check=False)
    assert os.listdir(tmp_path) == []
