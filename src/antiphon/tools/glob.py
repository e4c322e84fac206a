"""Name patterns with `* ? [] {} **`, and how any such pattern becomes a regular expression. Pure.

Names are bytes, `/` separates folders. Backtracking is bounded by construction: of several places where the text
between two stars could stand, the first is as good as any later one, so it is taken for good (an atomic group).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import TypeAlias

from msgspec import Struct

MAX_ALTERNATIVES = 1_000


class BadGlob(ValueError):
    """A pattern that means nothing; the text says what is wrong with it."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"error parsing glob '{pattern}': {why}")


class One(Struct, frozen=True):
    """Exactly one byte: a literal, or one of a set. `expression` is its regular expression."""

    expression: bytes


class Star(Struct, frozen=True):
    """Any bytes but a slash."""


class Span(Struct, frozen=True):
    """Any bytes at all; `folders`: nothing, or whole folders with the slash behind them."""

    folders: bool


Token: TypeAlias = One | Star | Span

SLASH = One(b"/")
NOT_SLASH = One(b"[^/]")


def literal(byte: int) -> One:
    """The token for one byte as it stands."""
    return SLASH if byte == 0x2F else One(re.escape(bytes([byte])))


def one_of(members: Iterable[int]) -> One:
    """The token for a set of bytes, which must not be empty."""
    return One(b"[" + b"".join(b"\\x%02x" % member for member in sorted(members)) + b"]")


def expression_of(tokens: Sequence[Token]) -> bytes:
    """A regular expression, to be compiled with DOTALL, that matches up to the end of the tokens."""
    pieces: list[tuple[Span | None, list[Token]]] = [(None, [])]
    for token in tokens:
        if isinstance(token, Span):
            pieces.append((token, []))
        else:
            pieces[-1][1].append(token)
    out: list[bytes] = []
    for number, (span, rest) in enumerate(pieces):
        text = b"".join(_components(rest))
        if span is None:
            out.append(text)
        elif number == len(pieces) - 1:
            out.append((b"(?:.*/)?" if span.folders else b".*") + text)
        else:
            out.append(b"(?>%s%s)" % (b"(?:.*?/)??" if span.folders else b".*?", text))
    return b"".join(out)


def _components(tokens: Iterable[Token]) -> Iterator[bytes]:
    """One folder level after the other: no star reaches beyond the next slash."""
    level: list[bytes] = [b""]  # the texts between the stars of this level
    for token in tokens:
        if isinstance(token, Star):
            level.append(b"")
        elif token == SLASH:
            yield _level(level) + b"/"
            level = [b""]
        elif isinstance(token, One):
            level[-1] += token.expression
    yield _level(level)


def _level(texts: list[bytes]) -> bytes:
    first, *others = texts
    if not others:
        return first
    return first + b"".join(b"(?>[^/]*?%s)" % text for text in others[:-1] if text) + b"[^/]*" + others[-1]


def compile_glob(pattern: str, *, ignore_case: bool = False) -> re.Pattern[bytes]:
    """An expression whose `fullmatch` says whether a name or path fits. `ignore_case` is about ASCII letters.

    Raises:
        BadGlob: a bracket or brace is not closed, a range runs backwards, or it has too many alternatives.
    """
    texts = [expression_of(tuple(_tokens(text, pattern, ignore_case))) for text in expand_braces(pattern)]
    return re.compile(b"|".join(texts), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def expand_braces(pattern: str) -> list[str]:
    """Every pattern that `{a,b}` stands for. An empty alternative is left out unless it is the only one.

    Raises:
        BadGlob: see `compile_glob`.
    """
    texts, end = _branch(pattern, 0, nested=False)
    if end < len(pattern):
        raise BadGlob(pattern, "unopened alternate group; missing '{' (maybe escape '}' with '[}]'?)")
    return texts


def _branch(pattern: str, index: int, *, nested: bool) -> tuple[list[str], int]:
    """The texts that the pattern stands for from `index` to the next unescaped `,` or `}` of this level."""
    parts: list[list[str]] = []
    start = index
    while index < len(pattern) and not (pattern[index] == "}" or (nested and pattern[index] == ",")):
        if pattern[index] == "\\":
            index += 2
        elif pattern[index] == "[":
            index = _class_end(pattern, index)
        elif pattern[index] == "{":
            parts.append([pattern[start:index]])
            choices, index = _group(pattern, index)
            parts.append(choices)
            start = index
        else:
            index += 1
    index = min(index, len(pattern))
    parts.append([pattern[start:index]])
    return _combined(parts, pattern), index


def _group(pattern: str, index: int) -> tuple[list[str], int]:
    choices: list[str] = []
    while True:
        texts, index = _branch(pattern, index + 1, nested=True)
        choices += texts
        if index >= len(pattern):
            raise BadGlob(pattern, "unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)")
        if pattern[index] == "}":
            return [text for text in choices if text] or [""], index + 1


def _combined(parts: list[list[str]], pattern: str) -> list[str]:
    count = 1
    for choices in parts:
        count *= len(choices)
    if count > MAX_ALTERNATIVES:
        raise BadGlob(pattern, f"more than {MAX_ALTERNATIVES} alternatives")
    return ["".join(choice) for choice in product(*parts)]


def _class_end(pattern: str, index: int) -> int:
    """The place behind the `]` that closes the set which opens at `index`."""
    body = index + 1 + pattern.startswith(("!", "^"), index + 1)
    end = pattern.find("]", body + 1)
    if end < 0:
        raise BadGlob(pattern, "unclosed character class; missing ']'")
    return end + 1


def _tokens(text: str, pattern: str, ignore_case: bool) -> Iterator[Token]:
    index = 0
    while index < len(text):
        char = text[index]
        if char == "*":
            end = index
            while text.startswith("*", end):
                end += 1
            yield from _stars(text, index, end)
            index = end + (1 if _spans_folders(text, index, end) else 0)
        elif char == "[":
            end = _class_end(text, index)
            yield from _set(text[index + 1 : end - 1], pattern, ignore_case)
            index = end
        elif char == "?":
            yield NOT_SLASH
            index += 1
        else:
            index += char == "\\"
            if index >= len(text):
                raise BadGlob(pattern, "dangling '\\'")
            yield from map(literal, text[index].encode("utf-8", "surrogateescape"))
            index += 1


def _stars(text: str, start: int, end: int) -> Iterator[Token]:
    if _spans_folders(text, start, end):
        yield Span(folders=True)
    elif end - start == 2 and end == len(text) and (start == 0 or text[start - 1] == "/"):
        yield Span(folders=False)
    else:
        yield Star()


def _spans_folders(text: str, start: int, end: int) -> bool:
    """Whether the stars from `start` to `end` are a whole folder level: `**/` behind a slash or at the beginning."""
    return end - start == 2 and text.startswith("/", end) and (start == 0 or text[start - 1] == "/")


def _set(body: str, pattern: str, ignore_case: bool) -> Iterator[Token]:
    """One token for a set of ASCII characters; a set with others counts them byte by byte."""
    negated = body.startswith(("!", "^"))
    data = body[negated:].encode("utf-8", "surrogateescape")
    members: set[int] = set()
    index = 0
    while index < len(data):
        if data[index + 1 : index + 2] == b"-" and index + 2 < len(data):
            if data[index + 2] < data[index]:
                raise BadGlob(pattern, f"invalid range; '{chr(data[index])}' > '{chr(data[index + 2])}'")
            members.update(range(data[index], data[index + 2] + 1))
            index += 3
        else:
            members.add(data[index])
            index += 1
    if ignore_case:  # before the set is turned around: `[!a]` is not to fit `A`
        members |= {ord(chr(member).swapcase()) for member in members if member < 128}
    if negated:
        members = set(range(256)) - members
    members.discard(0x2F)
    yield one_of(members) if members else One(rb"(?!)")
