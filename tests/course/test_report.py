"""What `verify` says of a part that nobody has to do."""

from __future__ import annotations

import pytest

from antiphon.course.kit.chapters import CHAPTERS, Language
from antiphon.course.kit.report import verdict_lines
from antiphon.course.kit.running import Ending, TestRun
from antiphon.course.kit.verdict import judge
from antiphon.course.saboteurs import SABOTEURS

LOOP = CHAPTERS["07"]
OPTIONAL = next(step for step in LOOP.steps if step.number is None)


def file_of(test: str) -> str:
    return next(step.test_file for step in LOOP.steps if test.startswith(f"test_{step.group}_"))


def runs(failing: str) -> list[TestRun]:
    """Everything passes and every saboteur is caught, but for one group of tests."""
    tests = {saboteur.caught_by for saboteur in SABOTEURS["07"]}
    plain: dict[str, Ending] = {test: "failed" if f"_{failing}_" in test else "passed" for test in tests}
    return [TestRun(file_of(test), test, "", ending, "assert 2 <= 1") for test, ending in plain.items()] + [
        TestRun(file_of(s.caught_by), s.caught_by, s.name, "failed", "noticed") for s in SABOTEURS["07"]
    ]


@pytest.mark.parametrize(
    ("language", "state", "waits"),
    [
        ("en", "not done (optional)", "waiting for the optional part, if you like to do it: 1"),
        ("zh", "没有做（选做）", "1 个在等待选做部分，想做再做"),
    ],
)
def test_an_optional_part_that_is_not_done_is_not_called_wrong(language: Language, state: str, waits: str) -> None:
    lines = list(verdict_lines(LOOP, judge(LOOP, runs(OPTIONAL.group)), [], language))

    (line,) = [line for line in lines if f" {OPTIONAL.group} " in line]
    assert state in line
    assert waits in lines
    assert lines[-1] in ("chapter 07 is finished", "第 07 章已完成")


def test_a_step_that_is_wrong_is_called_so() -> None:
    lines = list(verdict_lines(LOOP, judge(LOOP, runs("single_tool")), [], "en"))

    assert [line.split()[3] for line in lines if " single_tool " in line] == ["wrong"]
    assert "waiting until more is written: 4" in lines
    assert lines[-1].startswith("next: single_tool")
