"""What a regular expression consists of. Pure.

Only whether a line matches is of interest, not where or what a group holds; so groups, names and greed leave no trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from antiphon.tools.regex.charset import CharSet

LookKind: TypeAlias = Literal[
    "line start", "line end", "boundary", "no boundary", "word start", "word end", "no word before", "no word after"
]


class BadPattern(ValueError):
    """A pattern that means nothing, or that this engine does not offer; the text says what is wrong and where."""


@dataclass(frozen=True, slots=True, eq=False)
class One:
    """One character of a set."""

    members: CharSet


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """A condition on what stands before and after this place."""

    kind: LookKind


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other; the empty sequence matches the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Any of several."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeat:
    """At least `least` times, at most `most` times; None: any number."""

    item: Node
    least: int
    most: int | None


Node: TypeAlias = One | Look | Sequence | Choice | Repeat

NOTHING = Sequence(())
