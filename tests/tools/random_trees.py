"""Random folders with ignore files, for comparisons with the programs that define what these mean."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random


def words(text: str) -> list[str]:
    """The words of a text; a table that stays readable."""
    return text.split()


_ATOMS = words(r"""
    a b c ab * ? ** [ab] [!a] [a-c] \a \* [^b] []a] [[:alpha:]] . *.c a* **a a** [a \ [a-] [-a] [[:foo:]] [\]a] é ?c
    {a,b} # ! *a*b*c a*b
""") + [" "]
_NAMES = ["a", "b", "c", "ab", "ba", "a.c", "b.c", "abc", "aa", "-", "*", "a b", "é", "]", "[a", "a ", "{a,b}"]
_NAMES += ["#", "!", "!a", "\\"]


def random_rule(random: Random) -> str:
    """A line of an ignore file: often sensible, sometimes broken."""
    levels = ("".join(random.choice(_ATOMS) for _ in range(random.randint(1, 2))) for _ in range(random.randint(1, 3)))
    rule = "/".join(levels)
    for chance, change in (
        (0.3, lambda text: "/" + text),
        (0.3, lambda text: text + "/"),
        (0.2, lambda text: "**/" + text),
        (0.2, lambda text: text + "/**"),
        (0.25, lambda text: "!" + text),
        (0.05, lambda text: "\\" + text),
        (0.1, lambda text: text + random.choice([" ", "  ", "\\ ", "\t", "\r", "\\  "])),
    ):
        if random.random() < chance:
            rule = change(rule)
    return rule


def make_tree(random: Random, root: Path) -> list[str]:
    """Files and folders with odd names and rules in some of them; all paths, relative."""
    paths: list[str] = []

    def fill(folder: str, depth: int) -> None:
        if depth == 0 or random.random() < 0.3:
            rules = "\n".join(random_rule(random) for _ in range(random.randint(1, 4)))
            (root / folder / ".gitignore").write_bytes((random.choice(["", "\ufeff"]) + rules + "\n").encode())
            paths.append(f"{folder}.gitignore")
        for name in random.sample(_NAMES, random.randint(3, 6)):
            path = folder + name
            paths.append(path)
            if depth < 3 and random.random() < 0.45:
                os.mkdir(root / path)
                fill(f"{path}/", depth + 1)
            else:
                (root / path).touch()

    fill("", 0)
    return sorted(paths)
