"""Session files, operations and everything that follows from them behave as recorded."""

from __future__ import annotations

import pytest
from tests.conformance.run import default_folder
from tests.conformance.sessions_packs import PACKS, run_pack


@pytest.mark.parametrize("pack", sorted(PACKS))
def test_every_case_of_the_session_pack(pack: str) -> None:
    path = default_folder("sessions") / f"{pack}.json"
    if not path.is_file():
        pytest.fail(
            f"no recorded data at {path}; set ANTIPHON_CONFORMANCE to the folder that holds sessions/", pytrace=False
        )

    failed = {case: found for case, found in run_pack(path, PACKS[pack]) if found is not None}

    assert not failed
