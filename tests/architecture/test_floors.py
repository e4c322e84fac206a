"""Imports go down, never up and never sideways; the ground floor imports almost nothing; there are no circles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.architecture.plan import (
    CORE_MAY_IMPORT,
    FLOOR_OF,
    OPTIONAL,
    SOURCE,
    files,
    imports,
    module_of,
    package_of,
)


def test_every_package_stands_on_a_floor() -> None:
    rooms = {package_of(module_of(path)) for path in files()} - {None}
    assert rooms <= set(FLOOR_OF), f"not in the plan: {sorted(rooms - set(FLOOR_OF))}"


@pytest.mark.requirement("S1-15", "S1-18", "S3-5")
@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down(path: Path) -> None:
    here = package_of(module_of(path))
    if here is None:
        return  # the front door may open every room
    wrong = [
        f"line {line}: {name}"
        for name, line in imports(path)
        if name.startswith("antiphon.")
        and (there := package_of(name)) not in (None, here, "errors")
        and there in FLOOR_OF
        and FLOOR_OF[there] >= FLOOR_OF[here]
    ]
    assert not wrong, f"{module_of(path)} imports upward or sideways: {wrong}"


@pytest.mark.requirement("S1-16")
def test_the_ground_floor_imports_no_io() -> None:
    wrong = [
        f"{module_of(path)}:{line} {name}"
        for path in files()
        if package_of(module_of(path)) in ("core", "errors")
        for name, line in imports(path)
        if (root := name.split(".")[0]) != "antiphon" and root not in CORE_MAY_IMPORT
    ]
    assert not wrong


def test_optional_libraries_are_imported_in_one_file_each() -> None:
    found: dict[str, set[str]] = {}
    for path in files():
        for name, _ in imports(path):
            root = name.split(".")[0]
            if root not in sys.stdlib_module_names and root not in ("antiphon", "msgspec"):
                found.setdefault(root, set()).add(str(path.relative_to(SOURCE)))
    unknown = {root: places for root, places in found.items() if root not in OPTIONAL}
    assert not unknown, f"not in the plan of optional libraries: {unknown}"
    assert {root: {OPTIONAL[root]} for root in found} == found


def test_optional_libraries_wait_until_they_are_used() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{line} {name}"
        for path in files()
        if str(path.relative_to(SOURCE)) not in ("testing/check.py",)
        for name, line in imports(path, at_import_only=True)
        if name.split(".")[0] in OPTIONAL
    ]
    assert not wrong


def test_there_are_no_circles() -> None:
    graph = {
        module_of(path): {name for name, _ in imports(path, at_import_only=True) if name.startswith("antiphon.")}
        for path in files()
    }
    edges = {module: {name for name in names if name in graph} for module, names in graph.items()}
    circle = _circle(edges)
    assert circle is None, " -> ".join(circle or ())


def _circle(edges: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def walk(module: str, trail: list[str]) -> list[str] | None:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return None
        for name in sorted(edges[module]):
            found = walk(name, [*trail, module])
            if found:
                return found
        done.add(module)
        return None

    for module in sorted(edges):
        if found := walk(module, []):
            return found
    return None
