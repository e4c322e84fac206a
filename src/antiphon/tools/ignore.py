"""Ignore rules, exactly as git reads them. Pure: bytes in, verdicts out.

The last rule of a file that matches decides; a rule with `!` takes back. A rule without a slash (but for a final one)
is about names at any depth, one with a slash about paths from the folder of its file on. Names are bytes, as git sees
them: `?` is one byte. A file inside an ignored folder is ignored whatever rules say; that is up to whoever walks.

Where git's own description and git differ, git wins; the tests ask it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from antiphon.tools.glob import NOT_SLASH, Span, Star, Token, expression_of, literal, one_of

_SPECIAL = re.compile(rb"[*?\[\\]")
_BOM = b"\xef\xbb\xbf"


class Rule(Struct, frozen=True):
    """One line of an ignore file. `pattern` is without `!` and without a final slash."""

    pattern: bytes
    negated: bool = False
    only_folders: bool = False

    @property
    def is_about_names(self) -> bool:
        return b"/" not in self.pattern


def parse_rules(content: bytes) -> Iterator[Rule]:
    """The rules of an ignore file, in order; comments and blank lines are none."""
    for line in content.removeprefix(_BOM).split(b"\n"):
        line = line.removesuffix(b"\r")
        if not line or line.startswith(b"#"):
            continue
        line = _without_trailing_spaces(line.partition(b"\0")[0])
        negated = line.startswith(b"!")
        line = line[1:] if negated else line
        only_folders = line.endswith(b"/")
        yield Rule(line[:-1] if only_folders else line, negated, only_folders)


def _without_trailing_spaces(line: bytes) -> bytes:
    """Trailing spaces go unless a backslash protects them."""
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if backslashes % 2 and len(kept) < len(line) else kept


class IgnoreFile:
    """The rules of one file, ready for many questions."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._verdicts: list[bool] = []
        self._for_folders = _Index()
        self._for_files = _Index()
        for number, rule in enumerate(rules):
            self._verdicts.append(not rule.negated)
            self._for_folders.add(number, rule)
            if not rule.only_folders:
                self._for_files.add(number, rule)

    def __bool__(self) -> bool:
        """Whether it has any rules."""
        return bool(self._verdicts)

    @classmethod
    def parse(cls, content: bytes) -> IgnoreFile:
        return cls(parse_rules(content))

    def verdict(self, path: bytes, *, is_folder: bool) -> bool | None:
        """True: ignored; false: taken back; None: no rule is about it. `path` is relative to the file's folder."""
        number = (self._for_folders if is_folder else self._for_files).last_match(path)
        return None if number < 0 else self._verdicts[number]


class _Index:
    """Finds the last matching rule without trying them all: most rules are plain names or `*.ending`."""

    def __init__(self) -> None:
        self._names: dict[bytes, int] = {}
        self._paths: dict[bytes, int] = {}
        self._endings: dict[bytes, int] = {}
        self._name_patterns = _Expressions()
        self._path_patterns = _Expressions()

    def add(self, number: int, rule: Rule) -> None:
        pattern = rule.pattern
        if not _SPECIAL.search(pattern):
            (self._names if rule.is_about_names else self._paths)[pattern.removeprefix(b"/")] = number
        elif rule.is_about_names and pattern.startswith(b"*.") and not _SPECIAL.search(pattern, 1):
            self._endings[pattern[1:]] = number
        elif (expression := compiled_pattern(pattern)) is not None:
            (self._name_patterns if rule.is_about_names else self._path_patterns).add(number, expression)

    def last_match(self, path: bytes) -> int:
        """Number of the last rule that matches, or -1."""
        name = path[path.rfind(b"/") + 1 :]
        best = max(self._names.get(name, -1), self._paths.get(path, -1))
        if self._endings:
            dot = name.find(b".")
            while dot >= 0:
                best = max(best, self._endings.get(name[dot:], -1))
                dot = name.find(b".", dot + 1)
        return max(best, self._name_patterns.last_match(name), self._path_patterns.last_match(path))


class _Expressions:
    """Several expressions joined into one, whose group number tells which it was; the last is tried first."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._texts: list[bytes] = []
        self._joined: re.Pattern[bytes] | None = None

    def add(self, number: int, expression: bytes) -> None:
        self._numbers.append(number)
        self._texts.append(expression)

    def last_match(self, text: bytes) -> int:
        if not self._texts:
            return -1
        if self._joined is None:
            self._joined = re.compile(b"|".join(b"(%s)\\Z" % each for each in reversed(self._texts)), re.DOTALL)
        match = self._joined.match(text)
        return -1 if match is None else self._numbers[-(match.lastindex or 1)]


def compiled_pattern(pattern: bytes) -> bytes | None:
    """A regular expression for the whole of a name or path; None if the pattern can match nothing.

    The part before the first special character is compared as it stands and the rest for itself, as git does; so `**`
    right behind it counts as if it stood at the beginning.
    """
    pattern = pattern.removeprefix(b"/")
    found = _SPECIAL.search(pattern)
    start = found.start() if found else len(pattern)
    try:
        return expression_of([*map(literal, pattern[:start]), *_tokens(pattern[start:])])
    except _Unmatchable:
        return None


class _Unmatchable(Exception):
    """A pattern that is broken, and therefore matches nothing."""


def _tokens(pattern: bytes) -> Iterator[Token]:
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == ord("*"):
            token, index = _stars(pattern, index)
            yield token
        elif char == ord("["):
            token, index = _class(pattern, index + 1)
            yield token
        elif char == ord("\\"):
            yield literal(_byte(pattern, index + 1))
            index += 2
        else:
            yield NOT_SLASH if char == ord("?") else literal(char)
            index += 1


def _stars(pattern: bytes, index: int) -> tuple[Token, int]:
    """`*` stays inside a folder; `**` between slashes, or between a slash and an end, spans folders."""
    end = index
    while pattern[end : end + 1] == b"*":
        end += 1
    alone_before = index == 0 or pattern[index - 1 : index] == b"/"
    rest = pattern[end:]
    if end - index == 1 or not alone_before or (rest and not rest.startswith((b"/", b"\\/"))):
        return Star(), end
    if rest.startswith(b"/"):
        return Span(folders=True), end + 1
    return Span(folders=False), end


_NAMED: dict[bytes, bytes] = {
    b"alnum": b"0-9A-Za-z",
    b"alpha": b"A-Za-z",
    b"blank": b" \t",
    b"cntrl": b"\x00-\x1f\x7f",
    b"digit": b"0-9",
    b"graph": b"!-~",
    b"lower": b"a-z",
    b"print": b" -~",
    b"punct": b"!-/:-@[-`{-~",
    b"space": b" \t\n\v\f\r",
    b"upper": b"A-Z",
    b"xdigit": b"0-9A-Fa-f",
}


def _named_class(name: bytes) -> set[int]:
    text = _NAMED.get(name)
    if text is None:
        raise _Unmatchable
    out: set[int] = set()
    index = 0
    while index < len(text):
        if text[index + 1 : index + 2] == b"-":
            out.update(range(text[index], text[index + 2] + 1))
            index += 3
        else:
            out.add(text[index])
            index += 1
    return out


def _class(pattern: bytes, index: int) -> tuple[Token, int]:
    """The set after `[` as a token, and where the pattern goes on. A slash is never in it."""
    negated = pattern[index : index + 1] in (b"!", b"^")
    index += negated
    members: set[int] = set()
    previous: int | None = None
    first = True
    while first or pattern[index : index + 1] != b"]":
        first = False
        members_here, previous, index = _class_item(pattern, index, previous)
        members |= members_here
    if negated:
        members = set(range(256)) - members
    members.discard(ord("/"))
    if not members:
        raise _Unmatchable
    return one_of(members), index + 1


def _class_item(pattern: bytes, index: int, previous: int | None) -> tuple[set[int], int | None, int]:
    """One item of a set: its bytes, the byte a following `-` would start from, and the place behind it."""
    char = pattern[index : index + 1]
    if not char:
        raise _Unmatchable
    if char == b"\\":
        value = _byte(pattern, index + 1)
        return {value}, value, index + 2
    if char == b"-" and previous and pattern[index + 1 : index + 2] not in (b"", b"]"):
        escaped = pattern[index + 1 : index + 2] == b"\\"
        last = _byte(pattern, index + 1 + escaped)
        return set(range(previous, last + 1)), None, index + 2 + escaped
    if pattern[index : index + 2] == b"[:":
        end = pattern.find(b"]", index + 2)
        if end < 0:
            raise _Unmatchable
        if end > index + 2 and pattern[end - 1 : end] == b":":
            return _named_class(pattern[index + 2 : end - 1]), None, end + 1
    return {char[0]}, char[0], index + 1


def _byte(pattern: bytes, index: int) -> int:
    if index >= len(pattern):
        raise _Unmatchable
    return pattern[index]
