"""A damaged file is opened or refused, never silently shortened or changed: every byte and every line is tried.

The walks over all bytes take minutes and are run by name; a sample of them runs always. `-s` shows the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.session_log.make import counting_sources, forty_entries, history

from antiphon.errors import SessionError
from antiphon.session_log import SessionStore
from antiphon.session_log.refusals import NotASession


class Walk:
    """A session of 40 entries, damaged again and again in a file of its own."""

    def __init__(self, folder: Path) -> None:
        self.store = SessionStore(folder, cwd="/proj", sources=counting_sources(), durability="fast")
        with forty_entries(self.store) as log:
            self.before = history(log)
            self.prefixes = _prefixes(log)
            path = log.path
        assert path is not None
        self.bytes = path.read_bytes()
        self.path = folder / "damaged.jsonl"
        self.counts: Counter[str] = Counter()

    def open_damaged(self, data: bytes) -> str:
        """How opening the damaged file ends, in a word. Fails if history changed and nobody said so."""
        self.path.write_bytes(data)
        try:
            log = self.store.open(self.path)
        except NotASession:
            assert self.path.read_bytes() == data, "a refused file is left alone"
            return self._count("refused")
        with log:
            told, report = history(log), log.report
        if told == self.before:
            return self._count(f"{report.outcome}, history whole")
        if report.outcome == "clean":
            assert told["path"] in self.prefixes, "history changed and nobody said so"
            return self._count("clean, an earlier state of the session")
        return self._count("repaired, history changed, said so")

    def _count(self, outcome: str) -> str:
        self.counts[outcome] += 1
        return outcome


def _prefixes(log: Any) -> list[list[str]]:
    ids = log.path_ids()
    return [ids[:length] for length in range(len(ids) + 1)]


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    walk = Walk(tmp_path)
    yield walk
    print(dict(walk.counts))


def truncated(data: bytes, step: int = 1) -> Iterable[bytes]:
    return (data[:length] for length in range(1, len(data), step))


def flipped(data: bytes, step: int = 1, bits: int = 1) -> Iterable[bytes]:
    return (data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :] for at in range(0, len(data), step))


def lines_changed(data: bytes, change: Callable[[list[bytes], int], list[bytes]]) -> Iterable[bytes]:
    lines = data.split(b"\n")[:-1]
    return (b"".join(line + b"\n" for line in change(list(lines), at)) for at in range(len(lines)))


def dropped(lines: list[bytes], at: int) -> list[bytes]:
    return lines[:at] + lines[at + 1 :]


def doubled(lines: list[bytes], at: int) -> list[bytes]:
    return lines[: at + 1] + lines[at:]


def doubled_at_end(lines: list[bytes], at: int) -> list[bytes]:
    return [*lines, lines[at]]


def swapped(lines: list[bytes], at: int) -> list[bytes]:
    if at + 1 < len(lines):
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return lines


def zeroed(lines: list[bytes], at: int) -> list[bytes]:
    return [*lines[:at], bytes(len(lines[at])), *lines[at + 1 :]]


def joined(lines: list[bytes], at: int) -> list[bytes]:
    return [*lines[:at], b"".join(lines[at : at + 2]), *lines[at + 2 :]]


def test_an_undamaged_file_is_clean(walk: Walk) -> None:
    assert walk.open_damaged(walk.bytes) == "clean, history whole"


@pytest.mark.parametrize(
    "change", [dropped, doubled, doubled_at_end, swapped, zeroed, joined], ids=lambda f: f.__name__
)
def test_every_line_damaged(walk: Walk, change: Callable[[list[bytes], int], list[bytes]]) -> None:
    for data in lines_changed(walk.bytes, change):
        walk.open_damaged(data)


def test_a_dropped_line_is_noticed_unless_it_is_the_last(walk: Walk) -> None:
    outcomes = [walk.open_damaged(data) for data in lines_changed(walk.bytes, dropped)]

    assert outcomes[0] == "refused", "the header"
    assert set(outcomes[1:-1]) <= {"repaired, history changed, said so", "repaired, history whole"}
    assert outcomes[-1] == "clean, an earlier state of the session", "as if it had not been written yet"


def test_a_sample_of_truncations(walk: Walk) -> None:
    for data in truncated(walk.bytes, 61):
        walk.open_damaged(data)


def test_a_sample_of_flipped_bits(walk: Walk) -> None:
    for data in flipped(walk.bytes, 61):
        walk.open_damaged(data)


@pytest.mark.slow
def test_truncated_at_every_byte(walk: Walk) -> None:
    for data in truncated(walk.bytes):
        walk.open_damaged(data)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0x01, 0x20, 0x80])
def test_every_byte_flipped(walk: Walk, bits: int) -> None:
    for data in flipped(walk.bytes, bits=bits):
        walk.open_damaged(data)


def test_a_damaged_session_can_be_continued_and_opened_again(walk: Walk) -> None:
    """Whatever was lost, the next entry hangs where the user stands, and the second opening sees what the first saw."""
    for data in [*truncated(walk.bytes, 997), *lines_changed(walk.bytes, zeroed)]:
        walk.path.write_bytes(data)
        try:
            log = walk.store.open(walk.path)
        except SessionError:
            continue
        with log:
            log.set_name("continued")
            told, path = history(log)["told"], log.path_ids()
        with walk.store.open(walk.path) as again:
            assert history(again)["told"] == told
            assert again.path_ids() == path
            assert again.name == "continued"
