#!/usr/bin/env python3
"""One word for each habit. Needs nothing but Python 3.11: it makes its own environment in `.venv`.

python3 dev.py demo      set up, then let the agent run a command and tell what came out (no key needed)
python3 dev.py test      set up, then run all tests; what follows goes to pytest
python3 dev.py check     format, lint, types, architecture: all under two minutes
python3 dev.py coverage  tests of the core; fails unless every line and branch of it is run
python3 dev.py slow      the longer walks and soaks, by name
python3 dev.py bench     the benchmarks; see bench/README.md
python3 dev.py docs      write the generated pages, then build the site into site/
python3 dev.py lock      compile requirements/dev.lock anew
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / "python"
LOCK = ROOT / "requirements" / "dev.lock"
MODEL_LOCK = ROOT / "requirements" / "model.lock"
STAMP = VENV / "locked"


def main(words: list[str]) -> int:
    habits = {
        "demo": demo,
        "test": test,
        "check": check,
        "coverage": coverage,
        "slow": slow,
        "bench": bench,
        "docs": docs,
        "lock": lock,
    }
    habit = habits.get(words[0]) if words else None
    if habit is None:
        print(__doc__)
        return 2
    set_up()
    return habit(words[1:])


def set_up() -> None:
    """The environment of the lock files; nothing is done if it is there already."""
    wanted = hashlib.sha256(LOCK.read_bytes() + MODEL_LOCK.read_bytes() + (ROOT / "pyproject.toml").read_bytes())
    if STAMP.exists() and STAMP.read_text() == wanted.hexdigest():
        return
    if sys.version_info < (3, 11):
        raise SystemExit(f"antiphon needs Python 3.11 or newer; this is {sys.version.split()[0]}")
    print("setting up .venv (once, about a minute) ...", file=sys.stderr, flush=True)
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", str(VENV))
    pip = (str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "-r", str(LOCK))
    run(*pip, "--no-deps", "-r", str(MODEL_LOCK))
    run(*pip, "--no-deps", "-e", str(ROOT))
    STAMP.write_text(wanted.hexdigest())


def demo(words: list[str]) -> int:
    # one line of output is what the tiny model tells best: docs/decisions/0007-emulated-tools.md
    prompt = words or ['Run the command "head -n 1 README.md" with the bash tool. What is the name of this project?']
    return call(str(BIN / "antiphon"), *prompt)


def test(words: list[str]) -> int:
    return call(str(PYTHON), "-m", "pytest", *words)


def slow(words: list[str]) -> int:
    return call(str(PYTHON), "-m", "pytest", "-m", "slow", *words)


def coverage(words: list[str]) -> int:
    """Without the walks through every moment: they take long under a tracer, and reach nothing that others do not."""
    data = ("--data-file", str(ROOT / "build" / "coverage"))
    tests = ("tests/core", *BESIDE, *(f"--ignore=tests/core/{name}" for name in EXHAUSTIVE))
    (ROOT / "build").mkdir(exist_ok=True)
    measure = (str(PYTHON), "-m", "coverage")
    failed = call(*measure, "run", *data, "--source=src/antiphon/core", "-m", "pytest", *tests, *words)
    return failed or call(*measure, "report", *data, "--show-missing", "--skip-covered", "--fail-under=100")


BESIDE = ("tests/session/test_choices.py", "tests/providers/test_failures.py")
"""Tests of other rooms that run parts of the core."""

EXHAUSTIVE = ("test_machine_exhaustive.py", "test_planted_faults.py")


def check(_words: list[str]) -> int:
    steps = (
        (str(BIN / "ruff"), "check", "."),
        (str(BIN / "ruff"), "format", "--check", "."),
        (str(PYTHON), "-m", "mypy"),
        (str(BIN / "pyright"),),
        (str(PYTHON), "-m", "pytest", "tests/architecture", "-q"),
    )
    return max(call(*step) for step in steps)


def bench(words: list[str]) -> int:
    return call(str(PYTHON), str(ROOT / "bench" / "run.py"), *words)


def docs(words: list[str]) -> int:
    return call(str(PYTHON), str(ROOT / "docs" / "generate.py"), *words)


def lock(_words: list[str]) -> int:
    run(str(PYTHON), "-m", "pip", "install", "--quiet", "uv")
    compiled = ("--no-emit-index-url", "--no-header", "--no-annotate", "--universal", "--python-version", "3.11")
    source = ROOT / "requirements" / "dev.in"
    return call(
        str(BIN / "uv"), "pip", "compile", *compiled, str(source), "-o", str(LOCK), "--no-emit-package", "antiphon"
    )


def call(*command: str) -> int:
    return subprocess.call(command, cwd=ROOT)


def run(*command: str) -> None:
    if call(*command):
        raise SystemExit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
