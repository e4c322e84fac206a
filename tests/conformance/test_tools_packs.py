"""The built-in tools behave as recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.run import default_folder
from tests.conformance.tools_packs import passed_over, run_case, tool_makers

PACKS = ("truncate", "accumulate", "read", "write", "edit", "ls", "bash", "grep", "find")


def cases(pack: str) -> list[dict[str, Any]]:
    path = default_folder("tools") / f"{pack}.json"
    if not path.parent.is_dir():
        pytest.skip("the recorded data are not beside this checkout; set ANTIPHON_CONFORMANCE to their folder")
    if not path.is_file():
        pytest.fail(f"{path} is missing among the recorded data", pytrace=False)
    return [case for case in json.loads(path.read_text("utf-8"))["cases"] if not passed_over(case)]


@pytest.mark.parametrize("pack", [name for name in PACKS if name in ("truncate", "accumulate", *tool_makers())])
def test_every_case_of_the_tool_pack(pack: str) -> None:
    failed = {case["id"]: found for case in cases(pack) if (found := run_case(pack, case)) is not None}

    assert not failed
