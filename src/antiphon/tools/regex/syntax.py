"""What a regular expression consists of. Pure.

Only whether a line matches is of interest, not where or what a group holds; so groups, names and greed leave no trace.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from antiphon.tools.regex.charset import CharSet

LookKind: TypeAlias = Literal[
    "line start", "line end", "boundary", "no boundary", "word start", "word end", "no word before", "no word after"
]


class BadPattern(ValueError):
    """A pattern that means nothing, or that this engine does not offer; the text says what is wrong and where."""


class One(Struct, frozen=True, eq=False):
    """One character of a set."""

    members: CharSet


class Look(Struct, frozen=True, eq=False):
    """A condition on what stands before and after this place."""

    kind: LookKind


class Sequence(Struct, frozen=True):
    """One after the other; the empty sequence matches the empty text."""

    items: tuple[Node, ...]


class Choice(Struct, frozen=True, eq=False):
    """Any of several."""

    items: tuple[Node, ...]


class Repeat(Struct, frozen=True, eq=False):
    """At least `least` times, at most `most` times; None: any number."""

    item: Node
    least: int
    most: int | None


Node: TypeAlias = One | Look | Sequence | Choice | Repeat

NOTHING = Sequence(())
