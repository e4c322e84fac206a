"""The path of a learner: nothing works at the start, each step is seen, the answer passes, no saboteur goes unnoticed.

Every test here runs pytest in a child process, as `antiphon course verify` does; so there are few.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from antiphon.course.command import run
from antiphon.course.kit.chapters import CHAPTERS
from antiphon.course.kit.folder import make_folder
from antiphon.course.kit.running import TestRun, run_tests
from antiphon.course.kit.verdict import Verdict, judge
from antiphon.course.saboteurs import ALL, SABOTEURS

every_chapter = pytest.mark.parametrize("number", CHAPTERS)
LANGUAGE: dict[str, Any] = {"04": "en", "06": "en", "07": "zh", "08": "zh"}


def judged(tmp_path: Path, number: str, *, solved: bool, lesson: str = "", sabotage: str = ALL) -> Verdict:
    chapter = CHAPTERS[number]
    make_folder(chapter, tmp_path / "folder", LANGUAGE[number], solved=solved)
    return judge(chapter, run_tests(tmp_path / "folder", sabotage=sabotage, lesson=lesson))


def states(verdict: Verdict) -> list[str]:
    return [step.state for step in verdict.steps]


@pytest.mark.requirement("S0-7")
@every_chapter
def test_the_skeleton_fails_every_step(tmp_path: Path, number: str) -> None:
    """Every single test meets a `NotImplementedError`: no step is given away, and nothing fails for another reason."""
    verdict = judged(tmp_path, number, solved=False)

    assert set(states(verdict)) == {"open"}
    assert all(len(step.failed) == step.tests > 0 for step in verdict.steps)
    assert {saboteur.fate for saboteur in verdict.saboteurs} == {"waiting"}
    assert not verdict.finished


@pytest.mark.requirement("S0-22", "S0-57", "S0-58", "S0-59", "S0-60", "S0-66", "S0-67")
@every_chapter
def test_the_answer_passes_and_every_saboteur_is_caught(tmp_path: Path, number: str) -> None:
    """Each saboteur is caught by the test that is meant for it."""
    verdict = judged(tmp_path, number, solved=True)

    assert [(step.step.group, step.failed) for step in verdict.steps if step.failed] == []
    assert {s.saboteur.name: s.fate for s in verdict.saboteurs} == {s.name: "caught" for s in SABOTEURS[number]}
    assert verdict.finished


@pytest.mark.requirement("S0-59", "X12")
def test_the_loop_over_the_core_passes_the_same_tests(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "07", solved=False, lesson="antiphon.course.core_loop")

    assert set(states(verdict)) == {"right"}
    assert {saboteur.fate for saboteur in verdict.saboteurs} == {"caught"}


def test_a_loop_with_two_steps_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`verify` names the steps that are right, the next one to do, and the saboteurs that wait."""
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en")
    source = Path(__file__).with_name("partial_loop.py.txt")
    shutil.copyfile(source, tmp_path / "folder/my_agent/agent_loop.py")
    easier = tmp_path / "folder/tests/test_step_5_cancel_and_limit.py"
    easier.write_text(easier.read_text() + "\n# changed\n")

    code = run(["verify", "07", str(tmp_path / "folder")])

    told = capsys.readouterr().out
    assert code == 1
    assert told.startswith("warning: these tests are not the ones that were put here: tests/test_step_5_cancel")
    lines = {words[2]: words[3] for words in map(str.split, told.split("\n")) if words[:1] == ["step"]}
    assert lines["plain_stop"] == lines["single_tool"] == "right"
    assert lines["non_executing_end"] == "open"
    assert lines["parallel_tools"] == lines["cancel_and_limit"] == "wrong"
    assert "next: non_executing_end" in told
    assert "saboteurs caught" in told
    assert "wait: the test that has to catch them does not pass yet" in told


def test_sabotage_shows_the_test_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["sabotage", "07", "length-executes"])

    told = capsys.readouterr().out
    assert code == 0
    assert "test_non_executing_end_length_with_calls: assert 2 == 0" in told
    assert told.endswith("caught by the test that is meant for it\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", [saboteur.name for saboteur in SABOTEURS["07"]])
def test_no_saboteur_breaks_only_a_test_of_an_earlier_step(tmp_path: Path, name: str) -> None:
    """Behind each saboteur the whole suite is run: the test meant for it is among those that fail."""
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en", solved=True)
    runs = run_tests(tmp_path / "folder", sabotage=name)
    saboteur = next(s for s in SABOTEURS["07"] if s.name == name)

    assert saboteur.caught_by in failing(runs)


def failing(runs: list[TestRun]) -> set[str]:
    return {run.test for run in runs if run.ending != "passed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import antiphon_nowhere\n", "ModuleNotFoundError"),
        ("async def run_agent_loop(options):\n    while True:\n        pass\n", "does not come to an end"),
    ],
)
def test_a_broken_file_is_told_in_one_line(
    tmp_path: Path, text: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en")
    (tmp_path / "folder/my_agent/agent_loop.py").write_text(text)
    conftest = tmp_path / "folder/tests/conftest.py"
    conftest.write_text(conftest.read_text().replace("DEADLINE_SECONDS = 10.0", "DEADLINE_SECONDS = 0.3"))

    assert run(["verify", "07", str(tmp_path / "folder")]) == 1

    assert says in capsys.readouterr().out
