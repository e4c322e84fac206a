"""A machine that decides about a line in one pass, however the pattern is written.

The pattern becomes a small nondeterministic machine (Thompson); its sets of states become states of a deterministic one
when a line first needs them, and are remembered. The memory for them is bounded: when it is full, it is emptied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from antiphon.tools.regex.charset import WORD, CharSet
from antiphon.tools.regex.syntax import Choice, Look, LookKind, Node, One, Repeat, Sequence

MAX_REMEMBERED = 50_000
_SLICE = 1 << 16

Side: TypeAlias = Literal["edge", "word", "other", "broken"]
"""What stands next to a place: start or end of the line, a word character, another one, a byte that is not UTF-8."""

_LOOK_TESTS: dict[LookKind, Callable[[Side, Side], bool]] = {
    "line start": lambda before, _after: before == "edge",
    "line end": lambda _before, after: after == "edge",
    "boundary": lambda before, after: (before == "word") != (after == "word"),
    "no boundary": lambda before, after: (before == "word") == (after == "word") and "broken" not in (before, after),
    "word start": lambda before, after: before != "word" and after == "word",
    "word end": lambda before, after: before == "word" and after != "word",
    "no word before": lambda before, _after: before not in ("word", "broken"),
    "no word after": lambda _before, after: after not in ("word", "broken"),
}


class _Program:
    """Steps of the nondeterministic machine: a step reads a character, splits, or looks. Step 0 is the end."""

    def __init__(self, node: Node) -> None:
        self.sets: list[CharSet | None] = [None]
        self.looks: list[LookKind | None] = [None]
        self.next: list[tuple[int, ...]] = [()]
        self.start = self._build(node, 0)

    def _step(self, following: tuple[int, ...], members: CharSet | None = None, look: LookKind | None = None) -> int:
        self.sets.append(members)
        self.looks.append(look)
        self.next.append(following)
        return len(self.next) - 1

    def _build(self, node: Node, after: int) -> int:
        """Steps for the node that lead to the step `after`; the first of them."""
        match node:
            case One(members):
                return self._step((after,), members=members)
            case Look(kind):
                return self._step((after,), look=kind)
            case Sequence(items):
                for item in reversed(items):
                    after = self._build(item, after)
                return after
            case Choice(items):
                return self._step(tuple(self._build(item, after) for item in items))
            case Repeat():
                return self._repeat(node, after)

    def _repeat(self, node: Repeat, after: int) -> int:
        if node.most is None:
            loop = self._step(())
            self.next[loop] = (self._build(node.item, loop), after)
            after = loop
        else:
            end = after
            for _ in range(node.most - node.least):
                after = self._step((self._build(node.item, after), end))
        for _ in range(node.least):
            after = self._build(node.item, after)
        return after


class _State(dict[str, "_State"]):
    """Where the machine may be after some characters; its items say where each next character leads."""

    __slots__ = ("before", "machine", "steps")

    def __init__(self, machine: LineMachine, steps: frozenset[int], before: Side) -> None:
        self.machine = machine
        self.steps = steps
        self.before: Side = before

    def __missing__(self, char: str) -> _State:
        following = self.machine.advance(self, char)
        self[char] = following
        return following


class _Matched(_State):
    def __missing__(self, char: str) -> _State:
        return self


def _side(code: int) -> Side:
    if 0xD800 <= code <= 0xDFFF:
        return "broken"
    return "word" if code in WORD else "other"


class LineMachine:
    """Says whether a line matches. Time grows with the length of the line; `feed` takes it in pieces."""

    def __init__(self, node: Node) -> None:
        self._program = _Program(node)
        self._needs_sides = any(look not in (None, "line start", "line end") for look in self._program.looks)
        self._states: dict[tuple[frozenset[int], Side], _State] = {}
        self._remembered = 0
        self.matched = _Matched(self, frozenset(), "other")
        self.begin = _State(self, frozenset(), "edge")

    def matches(self, line: str, stopped: Callable[[], bool]) -> bool:
        """Whether the line matches; false too if it was stopped."""
        return self.ends_matched(self.feed(self.begin, line, stopped))

    def feed(self, state: _State, piece: str, stopped: Callable[[], bool]) -> _State:
        """The state after a further piece of the line."""
        for start in range(0, len(piece), _SLICE):
            if state is self.matched or stopped():
                return state
            for char in piece[start : start + _SLICE]:
                state = state[char]
            if self._remembered > MAX_REMEMBERED:
                state = self._forget(state)
        return state

    def ends_matched(self, state: _State) -> bool:
        """Whether the line, if it ends here, matches."""
        return state is self.matched or 0 in self._reachable(state.steps, state.before, "edge")

    def advance(self, state: _State, char: str) -> _State:
        """The state after one more character: the road that is not remembered yet."""
        self._remembered += 1
        code = ord(char)
        side: Side = _side(code) if self._needs_sides else "other"
        reachable = self._reachable(state.steps, state.before, side)
        if 0 in reachable:
            return self.matched
        program = self._program
        steps = frozenset(
            program.next[step][0]
            for step in reachable
            if (members := program.sets[step]) is not None and code in members
        )
        key = (steps, side)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = _State(self, steps, side)
        return found

    def _reachable(self, steps: frozenset[int], before: Side, after: Side) -> set[int]:
        """Every step that can be reached without reading; a match may also begin here."""
        program = self._program
        seen: set[int] = set()
        todo = [*steps, program.start]
        while todo:
            step = todo.pop()
            if step in seen:
                continue
            look = program.looks[step]
            if look is not None and not _LOOK_TESTS[look](before, after):
                continue
            seen.add(step)
            if program.sets[step] is None:
                todo.extend(program.next[step])
        return seen

    def _forget(self, state: _State) -> _State:
        self._states.clear()
        self.begin.clear()
        self._remembered = 0
        if state is self.matched:
            return state
        return _State(self, state.steps, state.before)
