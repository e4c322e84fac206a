"""Session files, operations and everything that follows from them behave as recorded."""

from __future__ import annotations

import pytest
from tests.conformance.run import default_folder
from tests.conformance.sessions_packs import PACKS, run_pack


@pytest.mark.parametrize("pack", sorted(PACKS))
def test_every_case_of_the_session_pack(pack: str) -> None:
    path = default_folder("sessions") / f"{pack}.json"
    if not path.parent.is_dir():
        pytest.skip("the recorded data are not beside this checkout; set ANTIPHON_CONFORMANCE to their folder")
    if not path.is_file():
        pytest.fail(f"{path} is missing among the recorded data", pytrace=False)

    failed = {case: found for case, found in run_pack(path, PACKS[pack]) if found is not None}

    assert not failed
