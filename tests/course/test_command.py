"""`antiphon course` on the command line: every mistake of a person is one clear line, exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.course.command import run
from antiphon.course.saboteurs import SABOTEURS


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fly"], "unknown command 'fly'; choose one of list, practice, verify, sabotage, answer"),
        (["practice"], "give it as: antiphon course practice 07 DIR"),
        (["practice", "07"], "give it as: antiphon course practice 07 DIR"),
        (["practice", "99", "x"], "there is no chapter 99; choose one of 04, 06, 07, 08"),
        (["practice", "07", "x", "--language", "fr"], "--language 'fr': choose one of en, zh"),
        (["practice", "07", "x", "--language"], "--language '': choose one of en, zh"),
        (["practice", "07", "x", "--force"], "unknown option --force; the only one is --language"),
        (["verify", "07", "/nowhere"], "/nowhere is no practice folder; make one with: antiphon course practice 07"),
        (["sabotage", "07", "nobody"], "chapter 07 has no saboteur 'nobody'; choose one of double-append"),
        (["list", "07"], "give it as: antiphon course list"),
    ],
)
def test_mistakes_are_told_in_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err
    assert told.err.count("\n") == 1


def test_without_words_it_says_how(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == run(["--help"]) == 0

    assert "antiphon course practice 07 DIR" in capsys.readouterr().out


@pytest.mark.requirement("S0-5")
def test_practice_makes_a_folder_and_says_what_is_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["practice", "7", str(tmp_path / "loop"), "--language=zh"]) == 0

    assert "agent_loop.py" in capsys.readouterr().out
    assert (tmp_path / "loop/README.md").read_text("utf-8").startswith("# 第 07 章")


def test_list_names_all_chapters_and_saboteurs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list"]) == 0

    told = capsys.readouterr().out
    for number, saboteurs in SABOTEURS.items():
        assert f"\n{number}  " in "\n" + told
        assert all(saboteur.name in told for saboteur in saboteurs)


def test_answer_shows_the_reference_as_a_file_of_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["answer", "07"]) == 0

    told = capsys.readouterr().out
    assert "async def run_agent_loop(options: AgentLoopOptions)" in told
    assert "from my_agent.loop_types import" in told


@pytest.mark.parametrize("door", ["antiphon.course", "antiphon course"])
def test_it_runs_through_both_doors_and_survives_a_reader_that_goes(door: str) -> None:
    command = f"{sys.executable} -m {door} list | head -n 1"

    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("04")
    assert "Traceback" not in done.stderr


def test_a_terminal_without_chinese_gets_question_marks() -> None:
    command = [sys.executable, "-m", "antiphon.course", "list", "--language", "zh"]

    done = subprocess.run(command, env={"PYTHONIOENCODING": "ascii"}, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("04  ?")


def test_without_pytest_it_names_the_extra_that_brings_it(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["pytest"] = None
from antiphon.course.command import run
run(["practice", "04", sys.argv[1]])
sys.exit(run(["verify", "04", sys.argv[1]]))
"""

    done = subprocess.run([sys.executable, "-c", program, tmp_path / "model"], capture_output=True, text=True)

    assert done.returncode == 2
    assert done.stderr == (
        "antiphon course: the tests of the course need pytest; it comes with the extra course: "
        "pip install '.[course]' in a checkout\n"
    )
