"""Patterns for names and paths, as `find` and the `glob` argument of `grep` take them."""

from __future__ import annotations

import time

import pytest

from antiphon.tools.glob import BadGlob, compile_glob

ROWS = [
    ("*.py", "a.py", True),
    ("*.py", "x/a.py", False),
    ("*", ".hidden", True),
    ("?", "é", False),  # one byte, as in fd and ripgrep
    ("src/*.ts", "src/a.ts", True),
    ("src/*.ts", "src/d/a.ts", False),
    ("src/**/*.ts", "src/a.ts", True),
    ("src/**/*.ts", "src/d/e/a.ts", True),
    ("**/a", "a", True),
    ("**/a", "x/y/a", True),
    ("a/**", "a/x/y", True),
    ("a/**", "a", False),
    ("**", "x/y", True),
    ("a**b", "axxb", True),
    ("a**b", "ax/xb", False),
    ("{a,b}.c", "b.c", True),
    ("{a,{b,c}x}", "cx", True),
    ("a{,x}", "a", False),  # an empty alternative counts only if it is the only one
    ("a{,x}", "ax", True),
    ("a{}", "a", True),
    ("[ab]", "b", True),
    ("[!ab]", "b", False),
    ("[^ab]", "c", True),
    ("[!a]x", "/x", False),
    ("[]]", "]", True),
    ("[a-]", "-", True),
    ("\\*", "*", True),
    ("\\*", "a", False),
    ("a\\{b", "a{b", True),
    ("[{]", "{", True),
    ("[,]{a,b}", ",b", True),
]


@pytest.mark.parametrize(("pattern", "path", "fits"), ROWS)
def test_one_pattern(pattern: str, path: str, fits: bool) -> None:
    assert (compile_glob(pattern).fullmatch(path.encode()) is not None) is fits


@pytest.mark.parametrize("pattern", ["[", "[a", "{a", "a}", "[z-a]", "a\\", "{a,b", "{[}"])
def test_a_broken_pattern_says_what_is_wrong(pattern: str) -> None:
    with pytest.raises(BadGlob, match=r"error parsing glob '.*': \w+"):
        compile_glob(pattern)


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(BadGlob, match="more than 1000 alternatives"):
        compile_glob("{a,b}" * 11)


def test_ignoring_case() -> None:
    assert compile_glob("*.ts", ignore_case=True).fullmatch(b"A.TS")
    assert not compile_glob("[!a]", ignore_case=True).fullmatch(b"a")
    assert not compile_glob("[!a]", ignore_case=True).fullmatch(b"A")
    assert compile_glob("[a-c]", ignore_case=True).fullmatch(b"B")


def test_no_pattern_takes_long() -> None:
    begun = time.monotonic()
    compile_glob("*a" * 20 + "b").fullmatch(b"a" * 255)
    compile_glob("**/a/" * 20 + "b").fullmatch(b"a/" * 2000)
    assert time.monotonic() - begun < 1
