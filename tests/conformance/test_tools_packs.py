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
    if not path.is_file():
        pytest.fail(
            f"no recorded data at {path}; set ANTIPHON_CONFORMANCE to the folder that holds tools/", pytrace=False
        )
    return [case for case in json.loads(path.read_text("utf-8"))["cases"] if not passed_over(case)]


@pytest.mark.parametrize("pack", [name for name in PACKS if name in ("truncate", "accumulate", *tool_makers())])
def test_every_case_of_the_tool_pack(pack: str) -> None:
    failed = {case["id"]: found for case in cases(pack) if (found := run_case(pack, case)) is not None}

    assert not failed
