"""What can be said about a pattern without running it: what it must contain, and how bad its worst case is. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from antiphon.tools.regex.charset import ANY, CharSet
from antiphon.tools.regex.syntax import NOTHING, Choice, Look, Node, One, Repeat, Sequence

_MANY = 8
"""From so many repetitions on a bounded loop counts as an unbounded one."""


def trimmed(node: Node) -> Node:
    """An equal pattern for the question whether a line matches: loops at its ends run no more often than they must.

    A match may begin and end anywhere, so what a loop at the end takes beyond its minimum proves nothing.
    """
    return _trimmed(_trimmed(_flat(node), first=True), first=False)


def _flat(node: Node) -> Node:
    match node:
        case Sequence(items):
            parts: list[Node] = []
            for item in map(_flat, items):
                parts.extend(item.items if isinstance(item, Sequence) else (item,))
            return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
        case Choice(items):
            return Choice(tuple(map(_flat, items)))
        case Repeat(item, least, most):
            return _flat(item) if least == most == 1 else Repeat(_flat(item), least, most)
        case _:
            return node


def _trimmed(node: Node, *, first: bool) -> Node:
    match node:
        case Repeat(item, least, most) if most != least:
            return _trimmed(_flat(Repeat(item, least, least)) if least else NOTHING, first=first)
        case Sequence(items) if items:
            rest = items[1:] if first else items[:-1]
            edge = _trimmed(items[0] if first else items[-1], first=first)
            joined = _flat(Sequence((edge, *rest) if first else (*rest, edge)))
            return _trimmed(joined, first=first) if edge == NOTHING else joined
        case Choice(items):
            return Choice(tuple(_trimmed(item, first=first) for item in items))
        case _:
            return node


class Needed(Struct, frozen=True):
    """A text that every matching line contains; `any_case`: in lower case, if the line is lowered (ASCII lines)."""

    text: str
    any_case: bool


def needed_text(node: Node) -> Needed | None:
    """The longest text that can be found without thinking."""
    items = node.items if isinstance(node, Sequence) else (node,)
    return max(_runs(items), key=lambda run: len(run.text), default=None)


def _runs(items: Iterable[Node]) -> Iterable[Needed]:
    text, any_case = "", False
    for item in items:
        char = _certain_char(item)
        if char is not None and (not text or any_case == char.any_case or not char.text.isalpha()):
            any_case = any_case or char.any_case
            text += char.text
            continue
        if text:
            yield Needed(text, any_case)
        text, any_case = (char.text, char.any_case) if char is not None else ("", False)
    if text:
        yield Needed(text, any_case)


def _certain_char(node: Node) -> Needed | None:
    if not isinstance(node, One):
        return None
    bits = node.members.ascii
    if bits.bit_count() == 2 and bits & (bits >> 32):
        code = (bits & (bits >> 32)).bit_length() - 1 + 32
        char = chr(code)
        return Needed(char, any_case=True) if char.isalpha() and char.islower() else None
    if bits.bit_count() > 1:
        return None
    ranges = node.members.ranges
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return Needed(chr(ranges[0][0]), any_case=False)
    return None


class Outline(Struct, frozen=True):
    """How many steps a backtracking engine takes at worst: `weight * length ** exponent`; exponent None: far more.

    `is_text`: the pattern is a plain text, and finding it is all there is to do.
    """

    exponent: int | None
    weight: int
    is_text: bool

    def longest(self, steps: int) -> int:
        """The longest line that cannot cost more than this many steps."""
        return 0 if self.exponent is None else int((steps / self.weight) ** (1 / self.exponent))


def outline(node: Node) -> Outline:
    """Judge a pattern."""
    items = node.items if isinstance(node, Sequence) else (node,)
    certain = [_certain_char(item) for item in items]
    is_text = bool(items) and all(char is not None and not char.any_case for char in certain)
    worst = _worst(node, None)
    if worst is None or worst.ways > _TOO_MANY:
        return Outline(None, 1, is_text)
    return Outline(1 + max(worst.ambiguous, min(worst.loops, 1)), worst.ways, is_text)


_TOO_MANY = 100_000


class _Worst(Struct, frozen=True):
    """Loops without a bound; how many of them can share what they take with what follows; ways through the rest."""

    loops: int = 0
    ambiguous: int = 0
    ways: int = 1

    def then(self, other: _Worst) -> _Worst:
        return _Worst(
            self.loops + other.loops, self.ambiguous + other.ambiguous, min(self.ways * other.ways, 10 * _TOO_MANY)
        )


def _worst(node: Node, after: CharSet | None) -> _Worst | None:
    """None: worse than any power. `after`: the characters that may follow; None: anything, or the end."""
    match node:
        case Sequence(items):
            total = _Worst()
            for index, item in enumerate(items):
                worst = _worst(item, _first(items[index + 1 :], after))
                if worst is None:
                    return None
                total = total.then(worst)
            return total
        case Choice(items):
            each = [_worst(item, after) for item in items]
            known = [worst for worst in each if worst is not None]
            if len(known) < len(each):
                return None
            return _Worst(
                max(worst.loops for worst in known),
                max(worst.ambiguous for worst in known),
                sum(worst.ways for worst in known),
            )
        case Repeat(item, least, most) if most is None or (most > _MANY and most != least):
            return _worst_loop(item, after)
        case Repeat(item, least, most):
            return _worst_copies(item, least, least if most is None else most)
        case _:
            return _Worst()


def _worst_loop(item: Node, after: CharSet | None) -> _Worst | None:
    if isinstance(item, One):
        shares = after is None or _overlap(item.members, after)
        return _Worst(loops=1, ambiguous=int(shares))
    inner = _worst(item, None)
    if inner is None or inner.loops or inner.ways > 1 or _can_be_empty(item):
        return None  # a loop over loops or choices: the bad case
    return _Worst(loops=1, ambiguous=1)


def _worst_copies(item: Node, least: int, most: int) -> _Worst | None:
    inner = _worst(item, None)
    if inner is None or (inner.loops and most > 1):
        return None
    ways = min(inner.ways, 10) ** min(most, 20) * (most - least + 1) * (most if isinstance(item, One) else 1)
    return _Worst(inner.loops, inner.ambiguous, min(max(ways, inner.ways), 10 * _TOO_MANY))


def _overlap(left: CharSet, right: CharSet) -> bool:
    return bool(left.ascii & right.ascii) or bool((left & right).ranges)


def _first(items: tuple[Node, ...], after: CharSet | None) -> CharSet | None:
    """The characters with which the rest of a sequence may begin; None: any, or none at all."""
    if not items:
        return after
    match items[0]:
        case One(members):
            return members
        case Look():
            return _first(items[1:], after)
        case Repeat(item, least, _):
            first = _first((item,), None)
            if least and not _can_be_empty(item):
                return first
            rest = _first(items[1:], after)
            return None if first is None or rest is None else first | rest
        case Sequence(inner):
            return _first((*inner, *items[1:]), after)
        case Choice(choices):
            each = [_first((choice, *items[1:]), after) for choice in choices]
            known = [members for members in each if members is not None]
            if len(known) < len(each):
                return None
            return known[0] if len(known) == 1 else _united(known)


def _united(sets: list[CharSet]) -> CharSet:
    out = ~ANY
    for members in sets:
        out = out | members
    return out


def _can_be_empty(node: Node) -> bool:
    match node:
        case One():
            return False
        case Look():
            return True
        case Sequence(items):
            return all(map(_can_be_empty, items))
        case Choice(items):
            return any(map(_can_be_empty, items))
        case Repeat(item, least, _):
            return least == 0 or _can_be_empty(item)
