"""Every demo says exactly what it is expected to say, is short, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples.stage import EXAMPLES, example

EXPECTED = Path(__file__).with_name("expected")
DEMOS = sorted(path.stem for path in EXAMPLES.glob("demo_*.py"))


def test_there_are_seven() -> None:
    assert [f"demo_0{number}" for number in range(1, 8)] == DEMOS


@pytest.mark.requirement("S1-25", "S3-101")
@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_says_what_is_expected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(example(name).main())

    assert capsys.readouterr().out == (EXPECTED / f"{name}.txt").read_text("utf-8")


@pytest.mark.requirement("S1-25")
def test_the_first_demo_is_one_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo_01.py"], cwd=tmp_path, env={}, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (EXPECTED / "demo_01.txt").read_text("utf-8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text("utf-8").split("\n")) <= (60 if path.stem == "demo_01" else 85)


def test_every_example_is_named_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.name not in readme] == []
