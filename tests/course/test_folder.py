"""Practice folders: where they may be made, what is in them, and that both languages hold the same program."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.course.kit.chapters import CHAPTERS, LANGUAGES, chapter
from antiphon.course.kit.folder import files_of, make_folder, open_folder
from antiphon.course.saboteurs import SABOTEURS
from antiphon.errors import ConfigurationError

LOOP = CHAPTERS["07"]
every_chapter = pytest.mark.parametrize("number", CHAPTERS)


@pytest.mark.requirement("S0-4")
@every_chapter
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_lesson_changes_exactly_one_file(number: str, language: Any) -> None:
    lesson = CHAPTERS[number]
    open_, solved = files_of(lesson, language), files_of(lesson, language, solved=True)

    assert [path for path in solved if solved[path] != open_.get(path)] == [f"my_agent/{lesson.module}.py"]
    assert open_.keys() == solved.keys()


@pytest.mark.requirement("S0-6", "S0-67")
def test_a_folder_holds_the_solved_earlier_lessons_its_own_tests_and_a_skeleton() -> None:
    """Model, executor, loop, tools: what one lesson asks for is given in the next."""
    earlier: dict[str, str] = {}
    for number, lesson in CHAPTERS.items():
        files = files_of(lesson, "en")
        assert earlier.items() <= files.items(), number
        assert "NotImplementedError" in files[f"my_agent/{lesson.module}.py"]
        assert {f"tests/{step.test_file}" for step in lesson.steps} <= files.keys()
        earlier[f"my_agent/{lesson.module}.py"] = files_of(lesson, "en", solved=True)[f"my_agent/{lesson.module}.py"]
    assert list(earlier) == [f"my_agent/{n}.py" for n in ("scripted_model", "executor", "agent_loop", "coding_tools")]


@pytest.mark.requirement("S0-7")
def test_the_skeleton_declares_the_public_surface_and_leaves_five_steps_open(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "loop", "en")
    program = "from my_agent import agent_loop; print(*(n for n in agent_loop.__all__ if hasattr(agent_loop, n)))"

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "loop", capture_output=True, text=True)

    assert {"LoopEvent", "AgentRunResult", "AgentLoopOptions", "run_agent_loop", "skipped_call"} <= {
        *done.stdout.split()
    }
    skeleton = (tmp_path / "loop/my_agent/agent_loop.py").read_text()
    assert {f"# Step {n}." in skeleton for n in range(1, 6)} == {True}
    assert skeleton.count("raise NotImplementedError(") == 5


def test_the_answer_has_the_public_surface_of_the_skeleton() -> None:
    """A program that uses the file of a learner works with the answer in its place."""
    surfaces = [_surface(files_of(LOOP, "en", solved=solved)["my_agent/agent_loop.py"]) for solved in (False, True)]

    assert surfaces[0] == surfaces[1] != []


def _surface(text: str) -> list[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


@pytest.mark.requirement("S0-46", "S0-58")
@every_chapter
def test_injected_tests_never_sleep_and_those_of_the_loop_touch_no_file(number: str) -> None:
    """Order comes from gates. `tmp_path` of the tests of tools is where a file belongs."""
    tests = {path: text for path, text in files_of(CHAPTERS[number], "en").items() if path.startswith("tests/test_")}
    tests |= {path: text for path, text in files_of(CHAPTERS[number], "en").items() if path.endswith(("stage.py",))}
    called = {name for text in tests.values() for name in _called(text)}

    assert re.findall(r"\bsleep\((?!0\))", "".join(tests.values())) == []  # `sleep(0)` lets others run, no more
    if number == "07":
        assert called & {"open", "write_text", "write_bytes", "read_text", "mkdir", "touch", "run", "Popen"} <= {"run"}
        assert "tmp_path" not in "".join(tests.values())


def _called(text: str) -> set[str]:
    functions = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {f.attr if isinstance(f, ast.Attribute) else getattr(f, "id", "") for f in functions}


def test_a_folder_is_made_where_nothing_is(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "new" / "loop", "en")
    (tmp_path / "empty").mkdir()
    make_folder(LOOP, tmp_path / "empty", "en")

    assert open_folder(tmp_path / "new" / "loop", LOOP).language == "en"
    assert open_folder(tmp_path / "empty", LOOP).chapter is LOOP


@pytest.mark.requirement("S0-8")
@pytest.mark.parametrize("there", ["file", "full"])
def test_a_folder_is_not_made_over_something(tmp_path: Path, there: str) -> None:
    target = tmp_path / "loop"
    if there == "file":
        target.write_text("mine")
    else:
        target.mkdir()
        (target / ".hidden").write_text("mine")

    with pytest.raises(ConfigurationError, match="exists and is not an empty folder; choose another name"):
        make_folder(LOOP, target, "en")

    kept = target if there == "file" else target / ".hidden"
    assert kept.read_text() == "mine"


def test_nothing_leaves_the_folder(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "loop", "en")

    assert [path.name for path in tmp_path.iterdir()] == ["loop"]
    assert all(".." not in path and not path.startswith("/") for path in files_of(LOOP, "en"))


def test_a_folder_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="cannot be made"):
        make_folder(LOOP, tmp_path / "file" / "loop", "en")


@pytest.mark.requirement("S0-8")
def test_changed_and_missing_tests_are_noticed(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "loop", "en")
    folder = open_folder(tmp_path / "loop", LOOP)
    assert folder.changed_tests() == []

    easier = tmp_path / "loop/tests/test_step_1_plain_stop.py"
    easier.write_text(easier.read_text().replace("assert", "assert True or"))
    (tmp_path / "loop/tests/stage.py").unlink()

    assert folder.changed_tests() == ["tests/stage.py", "tests/test_step_1_plain_stop.py"]


@pytest.mark.parametrize("digests", [b"", b"\xff\xfe", b"nothing  tests/stage.py\n", None])
def test_digests_that_are_gone_or_cut_are_noticed(tmp_path: Path, digests: bytes | None) -> None:
    make_folder(LOOP, tmp_path / "loop", "en")
    file = tmp_path / "loop/tests.sha256"
    if digests is None:
        file.unlink()
    else:
        file.write_bytes(digests)

    assert open_folder(tmp_path / "loop", LOOP).changed_tests() == ["tests.sha256"]


def test_the_digest_file_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "loop", "zh")

    done = subprocess.run(["sha256sum", "-c", "tests.sha256"], cwd=tmp_path / "loop", capture_output=True, text=True)

    assert done.returncode == 0, done.stdout


def test_a_folder_of_another_chapter_is_not_taken(tmp_path: Path) -> None:
    make_folder(LOOP, tmp_path / "loop", "en")

    with pytest.raises(ConfigurationError, match="is a folder of chapter 07, not of 06"):
        open_folder(tmp_path / "loop", CHAPTERS["06"])
    with pytest.raises(ConfigurationError, match="is no practice folder"):
        open_folder(tmp_path, LOOP)


def test_chapters_have_one_or_two_digits() -> None:
    assert chapter("7") is chapter("07") is LOOP
    with pytest.raises(ConfigurationError, match="there is no chapter 05; choose one of 04, 06, 07, 08"):
        chapter("05")


@every_chapter
def test_both_languages_hold_the_same_program(number: str) -> None:
    """Only what people read differs: docstrings, comments, words of messages."""
    for solved in (False, True):
        english, chinese = (files_of(CHAPTERS[number], language, solved=solved) for language in LANGUAGES)
        assert set(english) == set(chinese)
        for path in english:
            if path.endswith(".py"):
                assert program(english[path]) == program(chinese[path]), path


def program(text: str) -> str:
    """The syntax tree without docstrings and without the words of exceptions."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body: Any = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and body:
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                body.pop(0)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc.args = []
    return ast.dump(tree)


@every_chapter
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_mark_of_a_template_is_left(number: str, language: Any) -> None:
    for path, text in files_of(CHAPTERS[number], language).items():
        assert "#:" not in text, path
        assert "{{" not in text, path
        assert "antiphon.course." not in text or path == "tests/conftest.py", path


@every_chapter
def test_chinese_folders_are_in_chinese(number: str) -> None:
    files = files_of(CHAPTERS[number], "zh")
    for path in ("README.md", f"my_agent/{CHAPTERS[number].module}.py", "tests/conftest.py"):
        assert sum("\u4e00" <= sign <= "\u9fff" for sign in files[path]) > 50, path


@every_chapter
def test_every_saboteur_names_a_test_that_exists(number: str) -> None:
    files = files_of(CHAPTERS[number], "en")
    tests = "\n".join(text for path, text in files.items() if path.startswith("tests/"))
    names = [saboteur.name for saboteur in SABOTEURS[number]]
    assert len(set(names)) == len(names)
    for saboteur in SABOTEURS[number]:
        assert f"def {saboteur.caught_by}(" in tests, saboteur.name


@pytest.mark.requirement("S0-26", "S0-34", "S0-43", "S0-49", "S0-56")
@every_chapter
def test_every_step_can_be_chosen_by_name(number: str) -> None:
    """`-k GROUP` finds the tests of that group and no others."""
    groups = [step.group for step in CHAPTERS[number].steps]
    files = files_of(CHAPTERS[number], "en")
    for step in CHAPTERS[number].steps:
        found = [line for line in files[f"tests/{step.test_file}"].split("\n") if "def test_" in line]
        assert found
        assert all(f"def test_{step.group}_" in line for line in found)
        assert [group for group in groups if group in step.test_file] == [step.group]
        assert f"-k {step.group}" in files["README.md"]
