"""Reads a regular expression in the dialect that ripgrep users know (that of Rust's `regex`). Pure.

No back references and no looking around: what is left can be decided in time that grows with the line alone. A pattern
never matches across lines, so the line feed is in no set.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from antiphon.tools.regex.charset import ANY, DIGIT, EMPTY, NEWLINE, SPACE, WORD, CharSet, of_chars, of_ranges
from antiphon.tools.regex.properties import ascii_class, property_class
from antiphon.tools.regex.syntax import NOTHING, BadPattern, Choice, Look, LookKind, Node, One, Repeat, Sequence

MAX_DEPTH = 100
MAX_SIZE = 100_000

_CLASSES = {"d": DIGIT, "s": SPACE, "w": WORD}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}
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
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True, slots=True)
class _Flags:
    ignore_case: bool = False
    spaced: bool = False


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """What the pattern says.

    Raises:
        BadPattern: it says nothing, or asks for what this engine does not do.
    """
    parser = _Parser(pattern)
    node, _ = parser.choice(_Flags(ignore_case=ignore_case), depth=0)
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


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def fault(self, why: str, at: int | None = None) -> BadPattern:
        """What is wrong, and where."""
        place = min(self._at if at is None else at, len(self._text))
        return BadPattern(f"regex parse error at character {place + 1} of '{self._text}': {why}")

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _take(self, text: str) -> bool:
        if self._peek(text):
            self._at += len(text)
            return True
        return False

    def _next(self, missing: str) -> str:
        if self.at_end:
            raise self.fault(missing)
        self._at += 1
        return self._text[self._at - 1]

    def _until(self, end: str, missing: str) -> str:
        stop = self._text.find(end, self._at)
        if stop < 0:
            raise self.fault(missing)
        found = self._text[self._at : stop]
        self._at = stop + len(end)
        return found

    def choice(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        """Alternatives up to the end of the group; and the flags that were in force at its end."""
        if depth > MAX_DEPTH:
            raise self.fault(f"groups are nested deeper than {MAX_DEPTH} levels")
        branches: list[Node] = []
        while True:
            branch, flags = self._branch(flags, depth)
            branches.append(branch)
            if not self._take("|"):
                return (branches[0] if len(branches) == 1 else Choice(tuple(branches))), flags

    def _branch(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        items: list[Node] = []
        while True:
            if flags.spaced:
                self._skip_blank()
            if self.at_end or self._peek("|") or self._peek(")"):
                return (items[0] if len(items) == 1 else Sequence(tuple(items))), flags
            if self._peek("(?") and (changed := self._flag_group(flags)) is not None:
                flags = changed
                continue
            items.append(self._repeated(self._atom(flags, depth), flags))

    def _skip_blank(self) -> None:
        while not self.at_end:
            char = self._text[self._at]
            if char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif char.isspace():
                self._at += 1
            else:
                return

    def _flag_group(self, flags: _Flags) -> _Flags | None:
        """The flags after `(?i)` and the like; None, and nothing read, if a group with content begins here."""
        start = self._at
        self._at += 2
        changed = self._flags(flags)
        if changed is not None and self._take(")"):
            if self._at - start == 3:
                raise self.fault("repetition operator missing expression", start + 2)
            return changed
        self._at = start
        return None

    def _flags(self, flags: _Flags) -> _Flags | None:
        """Flag letters up to `)` or `:`; None if these are none."""
        on = True
        while not self._peek(")") and not self._peek(":"):
            char = self._next("unclosed group")
            match char:
                case "-":
                    on = False
                case "i":
                    flags = replace(flags, ignore_case=on)
                case "x":
                    flags = replace(flags, spaced=on)
                case "u" if not on:
                    raise self.fault("matching bytes instead of characters, (?-u), is not supported")
                case "m" | "s" | "U" | "u" | "R":
                    pass  # lines are searched one by one, and whether they match does not depend on greed
                case _:
                    return None
        return flags

    def _atom(self, flags: _Flags, depth: int) -> Node:
        start = self._at
        char = self._next("pattern ended too early")
        match char:
            case "(":
                return self._group(flags, depth, start)
            case "[":
                return self._one(self._class(flags, depth, start), start)
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

    def _char(self, char: str, flags: _Flags, start: int) -> Node:
        members = of_chars(char)
        return self._one(members.folded() if flags.ignore_case else members, start)

    def _group(self, flags: _Flags, depth: int, start: int) -> Node:
        inner = flags
        if self._take("?"):
            inner = self._group_head(flags, start)
        node, _ = self.choice(inner, depth + 1)
        if not self._take(")"):
            raise self.fault("unclosed group", start)
        return node

    def _group_head(self, flags: _Flags, start: int) -> _Flags:
        for look in ("<=", "<!", "=", "!"):
            if self._peek(look):
                raise self.fault("look-around, including look-ahead and look-behind, is not supported", start)
        if self._take("P<") or self._take("<"):
            name = self._until(">", "unclosed group name")
            if (
                not name
                or not (name[0].isalpha() or name[0] == "_")
                or not all(c.isalnum() or c in "_.[]" for c in name)
            ):
                raise self.fault(f"invalid group name '{name}'", start)
            return flags
        changed = self._flags(flags)
        if changed is None or not self._take(":"):
            raise self.fault("unrecognized flag", start + 2)
        return changed

    def _repeated(self, node: Node, flags: _Flags) -> Node:
        for _ in range(MAX_DEPTH):
            if flags.spaced:
                self._skip_blank()
            if self._take("*"):
                least, most = 0, None
            elif self._take("+"):
                least, most = 1, None
            elif self._take("?"):
                least, most = 0, 1
            elif self._take("{"):
                least, most = self._counts()
            else:
                return node
            self._take("?")  # how greedy: of no interest here
            node = NOTHING if most == 0 else Repeat(node, least, most)
        raise self.fault(f"more than {MAX_DEPTH} repetition operators behind each other")

    def _counts(self) -> tuple[int, int | None]:
        start = self._at - 1
        least_text, comma, most_text = self._until("}", "unclosed counted repetition").partition(",")
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

    def _escape(self, flags: _Flags, start: int) -> Node:
        char = self._next("incomplete escape sequence, reached end of pattern prematurely")
        if char == "b" and (name := self._boundary_name()) is not None:
            return Look(name)
        if char in _LOOKS:
            return Look(_LOOKS[char])
        return self._one(self._escaped_set(char, flags, start), start)

    def _boundary_name(self) -> LookKind | None:
        """The rest of `\\b{start}`; None if a counted repetition, or nothing of the kind, follows."""
        end = self._text.find("}", self._at)
        if not self._peek("{") or end < 0:
            return None
        name = self._text[self._at + 1 : end].strip()
        if not name or not all(char.isalpha() or char == "-" for char in name):
            return None
        if name not in _NAMED_LOOKS:
            raise self.fault("unrecognized word boundary; there are start, end, start-half and end-half")
        self._at = end + 1
        return _NAMED_LOOKS[name]

    def _escaped_set(self, char: str, flags: _Flags, start: int) -> CharSet:
        """What `\\` and `char` stand for, outside or inside brackets."""
        if char.lower() in _CLASSES:
            members = _CLASSES[char.lower()]
            return members if char.islower() else ~members
        if char in "pP":
            members = self._property(start)
            members = members.folded() if flags.ignore_case else members
            return members if char == "p" else ~members
        members = of_chars(self._escaped_char(char, start))
        return members.folded() if flags.ignore_case else members

    def _property(self, start: int) -> CharSet:
        name = self._until("}", "unclosed property name") if self._take("{") else self._next("incomplete property name")
        members = property_class(name)
        if members is None:
            raise self.fault(f"Unicode property '{name}' is not known here", start)
        return members

    def _escaped_char(self, char: str, start: int) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_DIGITS:
            return self._hexadecimal(_HEX_DIGITS[char])
        if char.isdecimal():
            raise self.fault("back references are not supported (for a byte in octal write \\x..)", start)
        if char.isascii() and not char.isalnum() and char.isprintable() and char not in "<>":
            return char
        raise self.fault(f"unrecognized escape sequence '\\{char}'", start)

    def _hexadecimal(self, digits: int) -> str:
        start = self._at
        if self._take("{"):
            text = self._until("}", "unclosed hexadecimal escape")
        else:
            text = self._text[self._at : self._at + digits]
            self._at += digits
            if len(text) < digits:
                raise self.fault("incomplete escape sequence, reached end of pattern prematurely")
        if not text or not all(char in "0123456789abcdefABCDEF" for char in text):
            raise self.fault("invalid hexadecimal digit", start)
        code = int(text, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.fault("this number is not that of a character", start)
        return chr(code)

    def _class(self, flags: _Flags, depth: int, start: int) -> CharSet:
        """The set in brackets; the opening one has been read."""
        if depth > MAX_DEPTH:
            raise self.fault(f"brackets are nested deeper than {MAX_DEPTH} levels")
        negated = self._take("^")
        members = self._union(flags, depth, start, first=True)
        while not self._take("]"):
            if self._take("&&"):
                members = members & self._union(flags, depth, start)
            elif self._take("--"):
                members = members - self._union(flags, depth, start)
            elif self._take("~~"):
                members = members ^ self._union(flags, depth, start)
        return ~members if negated else members

    def _union(self, flags: _Flags, depth: int, start: int, *, first: bool = False) -> CharSet:
        """Items up to an operator or the closing bracket."""
        members = EMPTY
        if first:
            while self._take("-"):  # a dash in front is itself, however many there are
                members = members | of_chars("-")
            if not members.ascii and self._take("]"):
                members = self._class_range("]", flags, start)
        while True:
            if flags.spaced:
                self._skip_blank()
            if self.at_end:
                raise self.fault("unclosed character class", start)
            if self._peek("]") or self._peek("&&") or self._peek("--") or self._peek("~~"):
                return members
            members = members | self._class_item(flags, depth, start)

    def _class_item(self, flags: _Flags, depth: int, start: int) -> CharSet:
        begun = self._at
        char = self._next("unclosed character class")
        if char == "[":
            return self._ascii_class(flags) or self._class(flags, depth + 1, begun)
        if char != "\\":
            return self._class_range(char, flags, start)
        char = self._next("unclosed character class")
        if char in "dswDSWpP":
            members = self._escaped_set(char, flags, begun)
            if self._peek("-") and not self._text.startswith(("-]", "--"), self._at):
                raise self.fault("invalid range boundary, must be a literal", begun)
            return members
        return self._class_range(self._escaped_char(char, begun), flags, start)

    def _class_range(self, first: str, flags: _Flags, start: int) -> CharSet:
        """One character, or a range if a dash and another one follow."""
        begun = self._at
        last = first
        if self._peek("-") and not self._text.startswith(("-]", "--"), self._at) and self._at + 1 < len(self._text):
            self._at += 1
            last = self._next("unclosed character class")
            if last == "\\":
                escaped = self._next("unclosed character class")
                if escaped in "dswDSWpP":
                    raise self.fault("invalid range boundary, must be a literal", begun)
                last = self._escaped_char(escaped, begun)
        if last < first:
            raise self.fault("invalid character class range, the start must be <= the end", begun)
        members = of_ranges(((ord(first), ord(last)),))
        return members.folded() if flags.ignore_case else members

    def _ascii_class(self, flags: _Flags) -> CharSet | None:
        """The rest of `[:name:]`; None, and nothing read, if these brackets are something else."""
        end = self._text.find(":]", self._at)
        if not self._peek(":") or end < 0:
            return None
        name = self._text[self._at + 1 : end]
        members = ascii_class(name.removeprefix("^"))
        if members is None:
            return None
        self._at = end + 2
        members = members.folded() if flags.ignore_case else members
        return ~members if name.startswith("^") else members
