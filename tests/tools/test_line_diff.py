"""Differences line by line; forms are pinned by recorded data, correctness is checked by applying patches."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from antiphon.tools.edit_details import TextLines, describe
from antiphon.tools.edit_match import Edit, EditRefused, Original, plan
from antiphon.tools.line_diff import Region, changes, display_diff, split_lines, unified_patch

LINES = st.text(alphabet="ab\n", max_size=30)


def _whole(old: list[str], new: list[str]) -> list[Region]:
    return [Region(0, len(old), 0, len(new))]


@given(LINES, LINES)
def test_the_changes_turn_the_old_text_into_the_new(old_text: str, new_text: str) -> None:
    old, new = split_lines(old_text), split_lines(new_text)
    made: list[str] = []
    at = 0
    for region in changes(old, new, _whole(old, new)):
        assert region.old_start >= at
        assert old[at : region.old_start] == new[len(made) : region.new_start]
        made += old[at : region.old_start] + new[region.new_start : region.new_end]
        at = region.old_end
    assert made + old[at:] == new


def test_the_patch_program_accepts_our_patches(tmp_path: Path) -> None:
    old_text = "".join(f"line {n}\n" for n in range(1, 80)) + "last"
    for number, edits in enumerate(
        [
            [Edit("line 1\n", "")],
            [Edit("line 40", "forty\nand a half"), Edit("line 70\n", "")],
            [Edit("last", "last\n")],
            [Edit("line 3\n", "line 3\nnew\n"), Edit("line 12\n", "x\n"), Edit("line 13\n", "y\n")],
            [Edit(old_text, "all new\n")],
        ]
    ):
        original = Original(old_text.encode())
        found = plan(original, edits, "f")
        path = tmp_path / f"f{number}"
        path.write_text(old_text)
        patch = describe(original.text, found, path.name)["patch"]
        subprocess.run(["patch", "-p0"], input=patch, text=True, cwd=tmp_path, check=True, capture_output=True)
        assert path.read_bytes() == original.replaced(found)


def test_a_place_that_changed_completely_costs_no_search() -> None:
    old = [f"old {n}\n" for n in range(20_000)]
    new = [f"new {n}\n" for n in range(20_000)]
    started = time.process_time()
    (found,) = changes(old, new, _whole(old, new))
    assert found == Region(0, 20_000, 0, 20_000)
    assert time.process_time() - started < 5


def test_one_change_in_a_very_long_file_costs_little() -> None:
    """The reference needs half a second for half a million lines."""
    text = "".join(f"row {n} abcdefghij\n" for n in range(500_000))
    original = Original(text.encode())
    started = time.process_time()
    found = plan(original, [Edit("row 250000 abcdefghij", "ROW")], "f")
    original.replaced(found)
    details = describe(original.text, found, "f")
    assert details["firstChangedLine"] == 250_001
    assert time.process_time() - started < 2


def test_texts_without_change_have_no_diff() -> None:
    lines = ["a\n", "b\n"]
    assert changes(lines, lines, _whole(lines, lines)) == []
    assert display_diff(lines, lines, [], 1) == ""
    assert unified_patch(lines, lines, [], "f") == "--- f\n+++ f\n"


@given(st.text(alphabet="ab \n", min_size=1, max_size=20), st.text(alphabet="ab \n", min_size=1, max_size=3), LINES)
def test_every_edit_that_is_made_has_a_diff_that_fits(text: str, old: str, new: str) -> None:
    original = Original(text.encode())
    try:
        found = plan(original, [Edit(old, new)], "f")
    except EditRefused:
        return
    after = original.replaced(found).decode()
    details = describe(original.text, found, "f")
    assert ("firstChangedLine" in details) == (after != text)
    added = [line[1:] for line in details["patch"].split("\n")[2:] if line.startswith("+")]
    assert all(line in after.split("\n") for line in added)


@given(st.text(alphabet="ab\n", max_size=40), st.data())
def test_lines_cut_out_on_demand_are_those_of_the_whole_text(text: str, data: st.DataObject) -> None:
    expected = split_lines(text)
    lines = TextLines(text)
    for position in sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4))):
        lines.know(text.count("\n", 0, position), position)
    assert len(lines) == len(expected)
    first, last = data.draw(st.integers(0, 12)), data.draw(st.integers(0, 12))
    assert lines[first:last] == expected[first:last]
    assert [lines[n] for n in range(len(lines))] == expected


def test_a_large_place_that_changed_completely_keeps_its_surroundings() -> None:
    old = "".join(f"keep {n}\n" for n in range(50)) + "old\n" * 3000 + "end\n" * 50
    original = Original(old.encode())
    found = plan(original, [Edit("old\n" * 3000, "".join(f"new {n}\n" for n in range(3000)))], "f")
    patch = describe(original.text, found, "f")["patch"]
    assert patch.count("\n-") == 3000
    assert "-keep" not in patch and "-end" not in patch
