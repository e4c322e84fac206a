"""Reads a regular expression in the dialect that ripgrep users know (that of Rust's `regex`). Pure.

No back references and no looking around: what is left can be decided in time that grows with the line alone. A pattern
never matches across lines, so the line feed is in no set.
"""

from __future__ import annotations

import re

from msgspec import structs

from antiphon.tools.regex.charset import ANY, NEWLINE, CharSet, of_chars
from antiphon.tools.regex.cursor import MAX_DEPTH, Flags
from antiphon.tools.regex.set_parser import SetParser
from antiphon.tools.regex.syntax import NOTHING, BadPattern, Choice, Look, LookKind, Node, One, Repeat, Sequence

MAX_SIZE = 100_000

_LOOKS: dict[str, LookKind] = {
    "A": "line start",
    "z": "line end",
    "b": "boundary",
    "B": "no boundary",
    "<": "word start",
    ">": "word end",
}
_NAMED_LOOKS: dict[str, LookKind] = {
    "start": "word start",
    "end": "word end",
    "start-half": "no word before",
    "end-half": "no word after",
}
_GROUP_NAME = re.compile(r"[^\W\d][\w.\[\]]*")


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """What the pattern says.

    Raises:
        BadPattern: it says nothing, or asks for what this engine does not do.
    """
    parser = _Parser(pattern)
    node, _ = parser.choice(Flags(ignore_case=ignore_case), depth=0)
    if not parser.at_end:
        raise parser.fault("unopened group: ')' without '('")
    if size_of(node) > MAX_SIZE:
        raise BadPattern(f"the pattern is too large when its repetitions are written out (more than {MAX_SIZE} steps)")
    return node


def parse_literal(text: str, *, ignore_case: bool = False) -> Node:
    """A pattern for this text as it stands."""
    if "\n" in text:
        raise BadPattern('the literal "\\n" is not allowed: lines are searched one by one')
    sets = map(of_chars, text)
    return Sequence(tuple(One(members.folded() if ignore_case else members) for members in sets))


def size_of(node: Node) -> int:
    """How many steps a machine for this has."""
    match node:
        case Sequence(items) | Choice(items):
            return 1 + sum(map(size_of, items))
        case Repeat(item, least, most):
            return size_of(item) * max(least + 1 if most is None else most, 1) + 1
        case _:
            return 1


class _Parser(SetParser):
    def choice(self, flags: Flags, depth: int) -> tuple[Node, Flags]:
        """Alternatives up to the end of the group; and the flags that were in force at its end."""
        if depth > MAX_DEPTH:
            raise self.fault(f"groups are nested deeper than {MAX_DEPTH} levels")
        branches: list[Node] = []
        while True:
            branch, flags = self._branch(flags, depth)
            branches.append(branch)
            if not self.take("|"):
                return (branches[0] if len(branches) == 1 else Choice(tuple(branches))), flags

    def _branch(self, flags: Flags, depth: int) -> tuple[Node, Flags]:
        items: list[Node] = []
        while True:
            if flags.spaced:
                self.skip_blank()
            if self.at_end or self.peek("|") or self.peek(")"):
                return (items[0] if len(items) == 1 else Sequence(tuple(items))), flags
            if self.peek("(?") and (changed := self._flag_group(flags)) is not None:
                flags = changed
                continue
            items.append(self._repeated(self._atom(flags, depth), flags))

    def _flag_group(self, flags: Flags) -> Flags | None:
        """The flags after `(?i)` and the like; None, and nothing read, if a group with content begins here."""
        start = self.at
        self.at += 2
        changed = self._flags(flags)
        if changed is not None and self.take(")"):
            if self.at - start == 3:
                raise self.fault("repetition operator missing expression", start + 2)
            return changed
        self.at = start
        return None

    def _flags(self, flags: Flags) -> Flags | None:
        """Flag letters up to `)` or `:`; None if these are none."""
        on = True
        while not self.peek(")") and not self.peek(":"):
            char = self.next("unclosed group")
            match char:
                case "-":
                    on = False
                case "i":
                    flags = structs.replace(flags, ignore_case=on)
                case "x":
                    flags = structs.replace(flags, spaced=on)
                case "u" if not on:
                    raise self.fault("matching bytes instead of characters, (?-u), is not supported")
                case "m" | "s" | "U" | "u" | "R":
                    pass  # lines are searched one by one, and whether they match does not depend on greed
                case _:
                    return None
        return flags

    def _atom(self, flags: Flags, depth: int) -> Node:
        start = self.at
        char = self.next("pattern ended too early")
        match char:
            case "(":
                return self._group(flags, depth, start)
            case "[":
                return self._one(self.bracketed(flags, depth, start), start)
            case ".":
                return One(ANY - NEWLINE)
            case "^":
                return Look("line start")
            case "$":
                return Look("line end")
            case "*" | "+" | "?" | "{":
                raise self.fault("repetition operator missing expression", start)
            case "\\":
                return self._escape(flags, start)
            case _:
                return self._char(char, flags, start)

    def _one(self, members: CharSet, start: int) -> Node:
        if members.ascii == NEWLINE.ascii and members.ranges == NEWLINE.ranges:
            raise self.fault('the literal "\\n" is not allowed: lines are searched one by one', start)
        return One(members - NEWLINE)

    def _char(self, char: str, flags: Flags, start: int) -> Node:
        members = of_chars(char)
        return self._one(members.folded() if flags.ignore_case else members, start)

    def _group(self, flags: Flags, depth: int, start: int) -> Node:
        inner = flags
        if self.take("?"):
            inner = self._group_head(flags, start)
        node, _ = self.choice(inner, depth + 1)
        if not self.take(")"):
            raise self.fault("unclosed group", start)
        return node

    def _group_head(self, flags: Flags, start: int) -> Flags:
        for look in ("<=", "<!", "=", "!"):
            if self.peek(look):
                raise self.fault("look-around, including look-ahead and look-behind, is not supported", start)
        if self.take("P<") or self.take("<"):
            name = self.until(">", "unclosed group name")
            if (
                not name
                or not (name[0].isalpha() or name[0] == "_")
                or not all(c.isalnum() or c in "_.[]" for c in name)
            ):
                raise self.fault(f"invalid group name '{name}'", start)
            return flags
        changed = self._flags(flags)
        if changed is None or not self.take(":"):
            raise self.fault("unrecognized flag", start + 2)
        return changed

    def _repeated(self, node: Node, flags: Flags) -> Node:
        for _ in range(MAX_DEPTH):
            if flags.spaced:
                self.skip_blank()
            if self.take("*"):
                least, most = 0, None
            elif self.take("+"):
                least, most = 1, None
            elif self.take("?"):
                least, most = 0, 1
            elif self.take("{"):
                least, most = self._counts()
            else:
                return node
            self.take("?")  # how greedy: of no interest here
            node = NOTHING if most == 0 else Repeat(node, least, most)
        raise self.fault(f"more than {MAX_DEPTH} repetition operators behind each other")

    def _counts(self) -> tuple[int, int | None]:
        start = self.at - 1
        least_text, comma, most_text = self.until("}", "unclosed counted repetition").partition(",")
        least = self._count(least_text, start)
        if not comma:
            return least, least
        most = self._count(most_text, start) if most_text.strip() else None
        if most is not None and most < least:
            raise self.fault("invalid repetition count range, the start must be <= the end", start)
        return least, most

    def _count(self, text: str, start: int) -> int:
        text = text.strip()
        if not (text.isascii() and text.isdecimal()) or len(text) > 9:
            raise self.fault("repetition quantifier expects a valid decimal; write \\{ for the brace itself", start)
        return int(text)

    def _escape(self, flags: Flags, start: int) -> Node:
        char = self.next("incomplete escape sequence, reached end of pattern prematurely")
        if char == "b" and (name := self._boundary_name()) is not None:
            return Look(name)
        if char in _LOOKS:
            return Look(_LOOKS[char])
        return self._one(self.escaped_set(char, flags, start), start)

    def _boundary_name(self) -> LookKind | None:
        """The rest of `\\b{start}`; None if a counted repetition, or nothing of the kind, follows."""
        end = self.text.find("}", self.at)
        if not self.peek("{") or end < 0:
            return None
        name = self.text[self.at + 1 : end].strip()
        if not name or not all(char.isalpha() or char == "-" for char in name):
            return None
        if name not in _NAMED_LOOKS:
            raise self.fault("unrecognized word boundary; there are start, end, start-half and end-half")
        self.at = end + 1
        return _NAMED_LOOKS[name]
