"""The small functions of the core answer as recorded."""

from __future__ import annotations

import json

import pytest
from tests.conformance.core_tables import PACKS, run_pack
from tests.conformance.run import default_folder


@pytest.mark.parametrize("pack", sorted(PACKS))
def test_every_line_of_the_table_pack(pack: str) -> None:
    path = default_folder("core") / f"{pack}.jsonl"
    if not path.parent.is_dir():
        pytest.skip("the recorded data are not beside this checkout; set ANTIPHON_CONFORMANCE to their folder")
    if not path.is_file():
        pytest.fail(f"{path} is missing among the recorded data", pytrace=False)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]

    failed = {line: found for line, found in run_pack(pack, lines) if found is not None}

    assert not failed
