"""Every demo says exactly what it is expected to say, is short, and leaves nothing behind."""

from __future__ import annotations

import asyncio
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


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path: Path) -> None:
    assert len(path.read_text("utf-8").split("\n")) <= (60 if path.stem == "demo_01" else 85)


def test_every_example_is_named_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text("utf-8")
    assert [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.name not in readme] == []
