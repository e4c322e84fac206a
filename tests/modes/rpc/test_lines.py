"""Lines end at LF and nowhere else, wherever the bytes were cut."""

from __future__ import annotations

import random

import pytest

from antiphon.modes.rpc.lines import LineCutter, TooLong


def cut(pieces: list[bytes], most: int = 100) -> list[bytes | str]:
    cutter = LineCutter(most)
    found = [line for piece in pieces for line in cutter.feed(piece)] + list(cutter.finish())
    return ["too long" if isinstance(line, TooLong) else line for line in found]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\r\n", [b"a", b"b\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b"\n\n", [b"", b""]),
        ("a\u2028b\u2029c\x85d\x0ce\x1ef\n".encode(), ["a\u2028b\u2029c\x85d\x0ce\x1ef".encode()]),
        (b"\0\n", [b"\0"]),
        (b"x" * 100 + b"\n", [b"x" * 100]),
        (b"x" * 101 + b"\nok\n", ["too long", b"ok"]),
        (b"x" * 1000, ["too long"]),
    ],
)
def test_lines_are_the_same_wherever_the_bytes_are_cut(data: bytes, lines: list[bytes | str]) -> None:
    assert cut([data]) == lines
    assert cut([data[n : n + 1] for n in range(len(data))]) == lines
    chance = random.Random(1)
    for _ in range(20):
        places = sorted(chance.choices(range(len(data) + 1), k=3))
        assert cut([data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]) == lines


def test_a_line_without_an_end_is_not_kept_beyond_the_limit() -> None:
    cutter = LineCutter(1000)
    for _ in range(1000):
        assert list(cutter.feed(b"x" * 1000)) == []
        assert sum(map(len, cutter._parts)) <= 1000
    (line,) = cutter.feed(b"\n")
    assert isinstance(line, TooLong)
    assert list(cutter.feed(b"next\n")) == [b"next"]


def test_many_small_pieces_take_linear_time() -> None:
    cutter = LineCutter(10_000_000)
    for _ in range(500_000):
        assert not list(cutter.feed(b"ab"))
    (line,) = cutter.feed(b"\n")
    assert line == b"ab" * 500_000
