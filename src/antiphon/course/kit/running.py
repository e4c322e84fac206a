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
        raise ConfigurationError("the tests of the course need pytest: pip install pytest")
    with tempfile.TemporaryDirectory(prefix="antiphon-course-") as beside:
        record = Path(beside, "tests.xml")
        done = _pytest(folder.resolve(), record, sabotage, lesson)
        if not record.exists():
            raise ConfigurationError(f"the tests in {folder} could not be run:\n{_tail(done)}")
        found = ElementTree.parse(record).getroot()  # noqa: S314 - written by our own child a moment ago
    runs = [_test_run(case) for case in found.iter("testcase")]
    if not any(run.test for run in runs):
        raise ConfigurationError(f"the tests in {folder} could not be run:\n{_tail(done)}")
    return runs


def _pytest(folder: Path, record: Path, sabotage: str, lesson: str) -> str:
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
        done = subprocess.run(  # noqa: S603 - our own interpreter, no shell
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
    return done.stdout + done.stderr


def _tail(text: str) -> str:
    return "\n".join(text.strip().split("\n")[-15:])


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
    return lines[0].removeprefix("AssertionError: ").removeprefix("conftest.Stuck: ")
