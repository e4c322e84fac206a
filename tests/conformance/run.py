#!/usr/bin/env python3
"""Run recorded conformance packs against this checkout.

    python tests/conformance/run.py core [FOLDER] [--only ID-PREFIX] [--profile pi|default|strict]
    python tests/conformance/run.py providers|tools|sessions [FOLDER]

Prints every failing id with its first difference, then `N passed, N failed`. Ends with 0 if all passed, 1 if any
failed, 2 if there is nothing to run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("core", "providers", "tools", "sessions")
TABLE_PACKS = ("validation", "partial_json", "transcript", "event_stream", "fake_provider")

Case = dict[str, Any]
Verdicts = Iterator[tuple[str, "str | None"]]


class NothingToRun(Exception):
    """The folder or the suite cannot be run; the text is one clear line."""


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; the exit code."""
    asked = parse(arguments)
    try:
        return report(verdicts(asked), asked.only)
    except NothingToRun as error:
        print(error, file=sys.stderr)
        return 2


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run recorded conformance packs against this checkout.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of the packs")
    parser.add_argument("--only", default="", metavar="ID-PREFIX", help="only cases whose id begins like this")
    parser.add_argument("--profile", choices=("pi", "default", "strict"), default="pi", help="core: rules to play by")
    parser.add_argument("--seconds", type=float, default=20.0, help="core: a scenario that runs longer has failed")
    return parser.parse_args(arguments)


def default_folder(suite: str) -> Path:
    """Where the packs of a suite lie if nobody says otherwise."""
    given = os.environ.get("ANTIPHON_CONFORMANCE")
    return (Path(given) if given else ROOT.parent / "shared" / "conformance") / suite


def verdicts(asked: argparse.Namespace) -> Verdicts:
    """(id, difference or None) of every case of the suite."""
    folder: Path = asked.folder or default_folder(asked.suite)
    if not folder.is_dir():
        raise NothingToRun(f"{folder}: no such folder; give the folder of the {asked.suite} packs")
    if asked.suite == "core":
        return core_verdicts(folder, asked)
    module_name = f"tests.conformance.{asked.suite}_packs"
    try:
        run: Callable[[Path], Verdicts] = importlib.import_module(module_name).run
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise NothingToRun(f"the runner of the {asked.suite} packs ({module_name}) is not there yet") from None
    return run(folder)


def core_verdicts(folder: Path, asked: argparse.Namespace) -> Verdicts:
    """Verdicts on every case of every `*.jsonl` pack of a folder. Broken packs are refused before anything runs."""
    packs = [(path.stem, cases_of(path)) for path in sorted(folder.glob("*.jsonl"))]
    if not packs:
        raise NothingToRun(f"{folder}: no packs (*.jsonl) in this folder")
    return _core_verdicts(packs, asked)


def cases_of(path: Path) -> list[Case]:
    """The cases of one pack, in order."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if line.strip():
            cases.append(_case(line, f"{path} line {number}"))
    return cases


def _case(line: str, place: str) -> Case:
    try:
        case = json.loads(line)
    except ValueError as error:
        raise NothingToRun(f"{place}: not JSON ({error})") from None
    if not isinstance(case, dict) or not {"id", "scenario", "expected"} <= case.keys():
        raise NothingToRun(f"{place}: a case is an object with id, scenario and expected")
    return case


def _core_verdicts(packs: list[tuple[str, list[Case]]], asked: argparse.Namespace) -> Verdicts:
    for name, cases in packs:
        wanted = [case for case in cases if case["id"].startswith(asked.only)]
        for pack, group in groupby(wanted, key=lambda case: pack_of(case, name)):
            if pack is None:
                yield from scenario_verdicts(list(group), asked)
            else:
                yield from table_verdicts(pack, list(group))


def table_verdicts(pack: str, cases: list[Case]) -> Verdicts:
    """Verdicts on the lines of a table pack."""
    tables = importlib.import_module("tests.conformance.core_tables")
    if pack in tables.PACKS:
        yield from tables.run_pack(pack, cases)
    else:
        yield from ((case["id"], f"nobody here can run a case of pack {pack}") for case in cases)


def scenario_verdicts(cases: list[Case], asked: argparse.Namespace) -> Verdicts:
    """Verdicts on scenarios, played by the rules of the profile."""
    policy = importlib.import_module("antiphon.core.policy").PROFILES[asked.profile]
    scenarios = importlib.import_module("tests.conformance.core_scenarios")
    return scenarios.run_pack(cases, policy, seconds=asked.seconds)


def pack_of(case: Case, file_name: str) -> str | None:
    """The table pack that a case belongs to; None: it is a scenario with an entry."""
    if "entry" in case["scenario"]:
        return None
    theme = case.get("theme")
    return theme if theme in TABLE_PACKS else file_name


def report(results: Verdicts, only: str) -> int:
    """Print the failures and the count; the exit code."""
    passed = failed = 0
    for case, difference in results:
        if not case.startswith(only):
            continue
        if difference is None:
            passed += 1
        else:
            failed += 1
            print(f"{case}: {difference}", flush=True)
    if not passed and not failed:
        raise NothingToRun(f"no case begins with {only!r}" if only else "no case in this folder")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    sys.exit(main(sys.argv[1:]))
