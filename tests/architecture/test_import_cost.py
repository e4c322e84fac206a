"""Importing is cheap and does nothing: modules are counted, not timed, so the figures hold on every machine."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

COUNT = """
import sys, json
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(statement: str) -> set[str]:
    """Modules that a statement loads in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", COUNT.format(statement=statement)], capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return set(json.loads(run.stdout))


def test_the_front_door_loads_nothing_else() -> None:
    ours = {name for name in loaded_by("import antiphon") if name.startswith("antiphon")}
    assert ours == {"antiphon"}


@pytest.mark.parametrize(
    ("statement", "at_most"),
    [
        ("import antiphon", 2),
        ("import antiphon.core.machine", 140),
        ("from antiphon import Agent", 230),
        ("from antiphon import Agent, tool", 260),
    ],
)
def test_number_of_modules(statement: str, at_most: int) -> None:
    loaded = loaded_by(statement)
    assert len(loaded) <= at_most, f"{len(loaded)} modules: {sorted(loaded)}"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import antiphon.core.machine", {"asyncio", "socket", "ssl", "pathlib", "logging"}),
        ("from antiphon import Agent, tool", {"httpx2", "jsonschema_rs", "pydantic", "pytest", "http.client"}),
        ("import antiphon.providers", {"httpx2", "antiphon.providers.http"}),
        ("import antiphon.modes.cli, antiphon.modes.arguments", {"httpx2", "antiphon.tools", "antiphon.session_log"}),
    ],
)
def test_what_must_not_be_loaded(statement: str, absent: set[str]) -> None:
    assert not loaded_by(statement) & absent


def test_the_version_is_told_before_asyncio_is_loaded() -> None:
    program = (
        "import sys; sys.argv = ['antiphon', '--version']\n"
        "from antiphon.__main__ import main; main()\n"
        "print('asyncio' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[1] == "False"
