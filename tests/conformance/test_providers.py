"""The recorded provider packs. The fast part: streams cut in two ways; `run.py providers` cuts them in five."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.providers_packs import run
from tests.conformance.run import default_folder

FOLDER = default_folder("providers")


@pytest.mark.skipif(not Path(FOLDER).is_dir(), reason="the recorded packs are not beside this checkout")
def test_every_entry_holds() -> None:
    verdicts = list(run(FOLDER, all_cuts=False))

    assert [f"{name}: {found}" for name, found in verdicts if found is not None] == []
    assert len(verdicts) > 1000
