"""Matching lines of one file with the lines around them, whatever its size and bytes."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from antiphon.tools import search_lines as module
from antiphon.tools.local_files import LocalFiles
from antiphon.tools.regex import Pattern
from antiphon.tools.search_lines import Budget, search_lines


def never() -> bool:
    return False


def search(
    path: Path, pattern: str, *, context: int = 0, limit: int = 1000, any_bytes: bool = False
) -> tuple[list[tuple[int, str, bool]], bool]:
    """Number, text and kind of every shown line; and whether there was one match more."""
    budget = Budget(limit)
    with LocalFiles().open(str(path)) as reader:
        found = search_lines(reader, Pattern(pattern), budget, never, context=context, any_bytes=any_bytes)
        return [(line.number, line.text, line.is_match) for line in found], budget.more


def plain(lines: list[str], context: int, limit: int) -> tuple[list[tuple[int, str, bool]], bool]:
    """The same, told as plainly as possible."""
    matches = [number for number, line in enumerate(lines, 1) if "hit" in line]
    allowed = matches[:limit]
    near = {n for match in allowed for n in range(match - context, match + context + 1) if 1 <= n <= len(lines)}
    return [(n, lines[n - 1], n in allowed) for n in sorted(near)], len(matches) > limit


@pytest.mark.parametrize("piece", [7, 64, 1024 * 1024])
def test_random_files_and_sizes_of_pieces(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Borders of pieces may fall anywhere: in a line, in a context, between a match and its context."""
    monkeypatch.setattr(module, "FIRST_BYTES", piece)
    monkeypatch.setattr(module, "PIECE_BYTES", piece)
    for seed in range(60):
        random = Random(seed)
        lines = [random.choice(["hit", "x", "", "a hit é", "long line " * 3]) for _ in range(random.randint(0, 30))]
        end = random.choice(["\n", ""]) if lines and lines[-1] else "\n"
        path = tmp_path / "text"
        path.write_text("\n".join(lines) + (end if lines else ""))
        context, limit = random.randint(0, 3), random.choice([1, 2, 5, 1000])
        assert search(path, "hit", context=context, limit=limit) == plain(lines, context, limit), f"seed {seed}"


def test_a_file_with_a_zero_byte_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"hit\nx\0y\n")
    assert search(path, "hit") == ([], False)
    assert search(path, "hit", any_bytes=True) == ([(1, "hit", True)], False)


def test_a_late_zero_byte_ends_the_search_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"hit\n" + b"pad pad\n" * 20_000 + b"\0\n" + b"pad pad\n" * 200_000 + b"hit\n")
    assert search(path, "hit") == ([(1, "hit", True)], False)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_byte_order_marks(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("hit é\nx\nhit\n".encode(encoding))
    assert search(path, "^hit") == ([(1, "hit é", True), (3, "hit", True)], False)


def test_broken_bytes_are_kept_as_surrogates(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"hit \xe9 x\n")
    assert search(path, "hit") == ([(1, "hit \udce9 x", True)], False)


def test_a_line_of_any_length_costs_constant_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a line is decided bit by bit; its beginning is kept to be shown, and the lines after it are counted on."""
    monkeypatch.setattr(module, "LONG_LINE_BYTES", 10_000)
    monkeypatch.setattr(module, "PIECE_BYTES", 1_000)
    path = tmp_path / "f"
    for middle, matches in ((b"h" + b"it", True), (b"hi", False)):
        path.write_bytes(b"one\n" + "é".encode() * 20_000 + middle + b"y" * 30_000 + b"\nhit\nlast\n")
        shown, _ = search(path, "hit", context=1)
        long = ("é" * 20_000)[: len(shown[1][1]) if matches else len(shown[0][1])]
        assert len(long) >= 500
        expected = [(2, long, matches), (3, "hit", True), (4, "last", False)]
        assert shown == ([(1, "one", False), *expected] if matches else expected)


def test_a_search_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"x" * 50_000_000)
    stops = iter([False] * 5 + [True] * 10_000)
    begun = time.monotonic()
    with LocalFiles().open(str(path)) as reader:
        found = search_lines(reader, Pattern("(y|z)+q?$"), Budget(1), lambda: next(stops))
        assert list(found) == []
    assert time.monotonic() - begun < 2
