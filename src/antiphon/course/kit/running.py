"""Running the tests of a folder in a child process, and reading what came of each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias
from xml.etree import ElementTree

import antiphon
from antiphon.errors import ConfigurationError

LONGEST_RUN_SECONDS = 300
NO_TESTS = 5
"""How pytest ends when it finds no test."""

Ending: TypeAlias = Literal["passed", "failed", "open"]
"""`open`: the test met a `NotImplementedError` of the skeleton."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """One test, behind one saboteur or none, and how it ended. `said` is one line."""

    __test__ = False

    file: str
    test: str
    saboteur: str
    ending: Ending
    said: str = ""


def run_tests(folder: Path, *, sabotage: str = "", lesson: str = "") -> list[TestRun]:
    """Run all tests of the folder. `lesson` names a module to test instead of the folder's own.

    Raises:
        ConfigurationError: pytest is not installed, or the tests could not be run at all.
    """
    if find_spec("pytest") is None:
        raise ConfigurationError(
            "the tests of the course need pytest; it comes with the extra course: pip install '.[course]' in a checkout"
        )
    with tempfile.TemporaryDirectory(prefix="antiphon-course-") as beside:
        record = Path(beside, "tests.xml")
        done = _pytest(folder.resolve(), record, sabotage, lesson)
        if done.returncode not in (0, 1) or not record.exists():
            raise ConfigurationError(f"the tests in {folder} broke off: {_reason(done)}")
        found = ElementTree.parse(record).getroot()  # noqa: S314 - written by our own child a moment ago
    return [_test_run(case) for case in found.iter("testcase") if case.find("skipped") is None]


def _pytest(folder: Path, record: Path, sabotage: str, lesson: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(antiphon.__file__).parents[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTHONPATH": os.pathsep.join(filter(None, (source, environment.get("PYTHONPATH")))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "ANTIPHON_SABOTAGE": sabotage,
    }
    if lesson:
        environment["ANTIPHON_LESSON"] = lesson
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", f"--junitxml={record}", f"--rootdir={folder}"]
    try:
        return subprocess.run(  # noqa: S603 - our own interpreter, no shell
            [*command, "-c", str(folder / "pytest.ini")],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=LONGEST_RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigurationError(f"the tests did not come to an end within {LONGEST_RUN_SECONDS} s") from error


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Why there is no verdict, in one line: what our own conftest or pytest says, or who ended the process."""
    lines = [line.strip() for line in (done.stderr + "\n" + done.stdout).split("\n")]
    for mark in ("course: ", "ERROR: ", "ImportError", "!", "INTERNALERROR>"):
        found = [line for line in lines if line.startswith(mark)]
        if found:
            return found[-1].removeprefix("course: ").removeprefix("ERROR: ").strip("! ")
    if done.returncode == NO_TESTS:
        return "there are no tests any more; make another folder"
    return f"the process of the tests was ended (code {done.returncode}); does your file call os._exit?"


def _test_run(case: ElementTree.Element) -> TestRun:
    name, _, marks = case.get("name", "").partition("[")
    saboteur = re.search(r"saboteur:([a-z-]*)", marks)
    file = case.get("classname", "").rpartition(".")[2] + ".py"
    problem = next((child for child in case if child.tag in ("failure", "error")), None)
    if problem is None:
        return TestRun(file, name, saboteur[1] if saboteur else "", "passed")
    said = _said(problem)
    ending: Ending = "open" if said.startswith("NotImplementedError") else "failed"
    return TestRun(file, name, saboteur[1] if saboteur else "", ending, said)


def _said(problem: ElementTree.Element) -> str:
    """What a failed test says, in one line; of a file that cannot be loaded, where and why."""
    message = (problem.get("message") or "failed").strip()
    message = message.removeprefix('failed on setup with "').removesuffix('"')
    lines = [line.strip() for line in message.split("\n") if line.strip()]
    if lines[0].startswith('File "'):
        return f"{lines[-1]} ({lines[0]})"
    return lines[0].removeprefix("AssertionError: ").removeprefix("conftest.Stuck: ").removeprefix("conftest.Left: ")
