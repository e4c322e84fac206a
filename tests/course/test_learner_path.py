"""The path of a learner: nothing works at the start, each step is seen, the answer passes, no saboteur goes unnoticed.

Every test here runs pytest in a child process, as `antiphon course verify` does; so there are few.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.course.command import run
from antiphon.course.kit.chapters import CHAPTERS
from antiphon.course.kit.folder import files_of, make_folder
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


@pytest.mark.requirement("S0-22", "S0-57", "S0-59", "S0-60", "S0-66")
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
    assert lines["non_executing_end"] == lines["cancel_and_limit"] == "open"
    assert lines["parallel_tools"] == "wrong"
    assert "next: non_executing_end" in told
    assert "saboteurs caught" in told
    assert "waiting until more is written: " in told
    assert "missed:" not in told  # one of those that wait needs step 5 to do its harm


@pytest.mark.requirement("S0-57")
def test_sabotage_shows_the_test_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["sabotage", "07", "length-executes"])

    told = capsys.readouterr().out
    assert code == 0
    assert "test_non_executing_end_length_with_calls: assert 2 == 0" in told
    assert told.endswith("caught by the test that is meant for it\n")


def test_sabotage_of_an_open_file_says_that_nothing_can_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en")

    assert run(["sabotage", "07", "length-executes", str(tmp_path / "folder")]) == 1

    told = capsys.readouterr().out.split("\n")
    assert told[1:3] == [
        "  46 tests fail without it, too",
        "nothing can be said yet: test_non_executing_end_length_with_calls has to pass before it can catch anything",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [saboteur.name for saboteur in SABOTEURS["07"]])
def test_no_saboteur_breaks_only_a_test_of_an_earlier_step(tmp_path: Path, name: str) -> None:
    """Behind each saboteur the whole suite is run: the test meant for it is among those that fail."""
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en", solved=True)
    runs = run_tests(tmp_path / "folder", sabotage=name)
    saboteur = next(s for s in SABOTEURS["07"] if s.name == name)

    assert saboteur.caught_by in failing(runs)


@pytest.mark.slow
def test_the_saboteur_of_doubled_ids_breaks_nothing_else(tmp_path: Path) -> None:
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en", solved=True)

    noticed = failing(run_tests(tmp_path / "folder", sabotage="runs-duplicates"))

    assert noticed == {"test_duplicate_id_is_never_executed_twice", "test_duplicate_id_has_a_result_at_every_position"}


def failing(runs: list[TestRun]) -> set[str]:
    return {run.test for run in runs if run.saboteur and run.ending != "passed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import antiphon_nowhere\n", "ModuleNotFoundError"),
        ("async def run_agent_loop(options):\n    while True:\n        pass\n", "does not come to an end"),
        ("import sys\nsys.exit(3)\n", "the file ends the program while it is loaded: SystemExit(3)"),
        (
            "import sys\nasync def run_agent_loop(options):\n    sys.exit(3)\n",
            "the code ends the whole program: sys.exit(3)",
        ),
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


SWALLOWS = """
async def run_agent_loop(options):
    while True:
        try:
            while True:
                try:
                    while True:
                        pass
                except BaseException:
                    pass
        except BaseException:
            pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import os\nos._exit(7)\n", "the process of the tests was ended (code 7); does your file call os._exit?"),
        ("async def run_agent_loop(options):\n    raise KeyboardInterrupt\n", "KeyboardInterrupt"),
        (SWALLOWS, "a test does not come to an end and swallows what should end it; is there an except BaseException?"),
    ],
    ids=["exit", "interrupt", "swallows"],
)
def test_tests_that_break_off_are_no_verdict(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en")
    (tmp_path / "folder/my_agent/agent_loop.py").write_text(text)
    conftest = tmp_path / "folder/tests/conftest.py"
    hurried = conftest.read_text().replace("DEADLINE_SECONDS = 10.0", "DEADLINE_SECONDS = 0.3")
    conftest.write_text(hurried)
    seal(tmp_path / "folder", "tests/conftest.py", hurried)

    assert run(["verify", "07", str(tmp_path / "folder")]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"antiphon course: the tests in {tmp_path / 'folder'} broke off: {says}\n"


def seal(folder: Path, path: str, text: str) -> None:
    """Write the digest of this text, as if it had been put there at the start."""
    lines = (folder / "tests.sha256").read_text().split("\n")
    digest = sha256(text.encode()).hexdigest()
    (folder / "tests.sha256").write_text(
        "\n".join(f"{digest}  {path}" if line.endswith(f"  {path}") else line for line in lines)
    )


@pytest.mark.slow
def test_broken_tests_are_named_when_they_break_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_folder(CHAPTERS["07"], tmp_path / "folder", "en", solved=True)
    (tmp_path / "folder/tests/stage.py").write_text("improt asyncio\n")

    assert run(["verify", "07", str(tmp_path / "folder")]) == 2

    assert capsys.readouterr().err.endswith("changed here: tests/stage.py; make another folder\n")


@pytest.mark.slow
def test_a_folder_in_chinese_with_blanks_and_windows_line_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "我的 循环 ü"
    make_folder(CHAPTERS["07"], folder, "zh", solved=True)
    solution = folder / "my_agent/agent_loop.py"
    solution.write_bytes(b"\xef\xbb\xbf" + solution.read_bytes().replace(b"\n", b"\r\n"))

    assert run(["verify", "07", str(folder)]) == 0

    assert capsys.readouterr().out.endswith("第 07 章已完成\n")


WATCH = """
import os, sys

def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        note(event, args)
        raise OSError(f"no network here: {event}")
    if event == "open" and not isinstance(args[0], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        place = os.path.abspath(os.fsdecode(args[0]))
        if not place.startswith((os.environ["TMPDIR"], os.environ["PRACTICE"], "/dev/")):
            note(event, args)

def note(event, args):
    with os.fdopen(os.open(os.environ["NOTES"], os.O_CREAT | os.O_WRONLY | os.O_APPEND), "a") as notes:
        notes.write(f"{event} {args}\\n")

if os.environ.get("NOTES"):
    notes_file = os.environ["NOTES"]
    sys.addaudithook(lambda event, args: None if event == "open" and args[0] == notes_file else watch(event, args))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", ["07", "08"])
def test_nothing_leaves_the_folder_and_nothing_asks_the_network(tmp_path: Path, number: str) -> None:
    """Made, judged and broken by real commands, each process watched from its first line."""
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/sitecustomize.py").write_text(WATCH)
    for name in ("home", "tmp", "elsewhere"):
        (tmp_path / name).mkdir()
    folder, notes = tmp_path / "practice", tmp_path / "notes"
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join((str(tmp_path / "watch"), str(Path(antiphon.__file__).parents[1]))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "PRACTICE": str(folder),
        "NOTES": str(notes),
    }

    def course(*words: str) -> int:
        command = [sys.executable, "-m", "antiphon.course", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path / "elsewhere", capture_output=True).returncode

    subprocess.run([sys.executable, "-c", "open('seen', 'w')"], env=environment, cwd=tmp_path / "home", check=True)
    assert "seen" in notes.read_text()  # the watch is awake
    notes.unlink()
    (tmp_path / "home/seen").unlink()

    assert course("practice", number, str(folder)) == 0
    solution = f"my_agent/{CHAPTERS[number].module}.py"
    (folder / solution).write_text(files_of(CHAPTERS[number], "en", solved=True)[solution])
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert course("verify", number, str(folder)) == 0
    assert course("sabotage", number, SABOTEURS[number][0].name, str(folder)) == 0

    assert not notes.exists(), notes.read_text()
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert [*(tmp_path / "home").iterdir(), *(tmp_path / "elsewhere").iterdir()] == []
    assert [path.name for path in (tmp_path / "tmp").iterdir() if not path.name.startswith("pytest-of-")] == []
