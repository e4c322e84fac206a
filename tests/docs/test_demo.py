"""The first command of the README: what somebody sees who has nothing but Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.docs.markdown_pages import ROOT


@pytest.mark.slow
@pytest.mark.model
def test_the_demo_runs_a_command_and_says_what_came_out(tmp_path: Path) -> None:
    """The tiny model answers rightly if a command gives one line; keys of the environment would ask somebody else."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_TOKEN"))}

    done = subprocess.run(
        [sys.executable, "dev.py", "demo"],
        cwd=ROOT,
        env=environment | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert "antiphon" in done.stdout
    assert len(done.stdout) < 200
