"""Session packs: `run(folder)` gives, for every case, its id and the first difference (None if there is none).

Cases that record a flaw of the reference are left out: what we do instead has tests of its own in `tests/session_log`
and `tests/session`. Packs of the session object come from `sessions_packs_session`.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.conformance import (
    sessions_load,
    sessions_ops,
    sessions_packs_session,
    sessions_small,
    sessions_summaries,
)

Json = Any
Runner = Callable[[Json, Path], "str | None"]

PACKS: dict[str, Runner] = {
    "load": sessions_load.run_case,
    "ops": sessions_ops.run_case,
    "compaction": sessions_summaries.run_compaction,
    "branch-summary": sessions_summaries.run_branch,
    "convert": sessions_small.run_convert,
    "estimate": sessions_small.run_estimate,
    "serialize": sessions_small.run_serialize,
    "errors": sessions_small.run_errors,
    **sessions_packs_session.PACKS,
}


def run(folder: Path) -> Iterator[tuple[str, str | None]]:
    """Every case of the known packs in a folder: `pack/id` and its first difference."""
    for pack, runner in PACKS.items():
        path = folder / f"{pack}.json"
        if path.is_file():
            yield from run_pack(path, runner)


def run_pack(path: Path, runner: Runner) -> Iterator[tuple[str, str | None]]:
    """Every case of one file."""
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        if "flaw" in case:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found = runner(case, Path(scratch))
            except Exception:  # noqa: BLE001 - a case that raises has failed, the others go on
                found = traceback.format_exc(limit=-3)
        yield f"{path.stem}/{case['id']}", found
