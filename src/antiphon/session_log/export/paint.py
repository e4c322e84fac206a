"""Code, JSON and diffs as HTML with coloured parts. Pure, and linear in the length of the text.

A lexer per family of languages, not per language: comments, strings, numbers and the usual words are what helps an eye.
Every character comes out again, escaped; a wrong guess costs a colour.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import PurePosixPath

from antiphon.core.wire import JsonValue

PAINTED_CHARACTERS = 200_000
"""Longer texts stay without colours: a page of a million coloured words is slow to show."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNIFIED = re.compile(r"(?:diff --git |Index: |--- [^\n]*\n\+\+\+ )")

_STRINGS = r"""(?P<s>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)"""
_LONG_STRINGS = r'''(?P<l>"""[\s\S]*?(?:"""|\Z)|\'\'\'[\s\S]*?(?:\'\'\'|\Z))'''
_TICKS = r"(?P<t>`(?:[^`\\]|\\.)*`?)"
_HASH = r"(?P<c>(?<![^\s(])\#[^\n]*)"
_SLASHES = r"(?P<c>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))"
_DASHES = r"(?P<c>--[^\n]*|/\*[\s\S]*?(?:\*/|\Z))"
_NUMBERS = r"(?P<n>(?<![\w.])(?:0[xX][0-9a-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w]))"
_WORD = r"(?P<w>[A-Za-z_$][\w$]*)"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTHON_WORDS = _words("""
    and as assert async await break case class continue def del elif else except False finally for from global if
    import in is lambda match None nonlocal not or pass raise return self True try type while with yield
""")
_BRACES_WORDS = _words("""
    abstract as async await bool boolean break case catch char class const continue default defer delete do double
    else enum export extends extern false final finally float fn for from func function go if impl implements import
    in instanceof int interface let long match mod module mut namespace new nil null package private protected pub
    public range return self short signed sizeof static struct super switch this throw trait true try type typedef
    typeof undefined union unsafe unsigned use using var virtual void volatile where while yield
""")
_SHELL_WORDS = _words("""
    case do done elif else esac export fi for function if in local return then until while cd echo set exit source
""")
_SQL_WORDS = _words("""
    add all alter and as asc between by case create delete desc distinct drop else end exists from group having in
    index inner insert into is join left like limit not null on or order outer primary key references right select
    set table then union unique update values view when where with
""")
_DATA_WORDS = _words("true false null yes no on off")


def _lexer(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts))


_FAMILIES: dict[str, tuple[re.Pattern[str], frozenset[str]]] = {
    "python": (_lexer(_LONG_STRINGS, _STRINGS, _HASH, _NUMBERS, _WORD), _PYTHON_WORDS),
    "braces": (_lexer(_TICKS, _STRINGS, _SLASHES, _NUMBERS, _WORD), _BRACES_WORDS),
    "shell": (_lexer(_STRINGS, _HASH, _NUMBERS, _WORD), _SHELL_WORDS),
    "sql": (_lexer(_STRINGS, _DASHES, _NUMBERS, _WORD), _SQL_WORDS | {word.upper() for word in _SQL_WORDS}),
    "data": (_lexer(_STRINGS, _HASH, _NUMBERS, _WORD), _DATA_WORDS),
    "markup": (
        _lexer(
            r"(?P<c><!--[\s\S]*?(?:-->|\Z))", r"(?P<k></?[A-Za-z][\w:-]*|/?>)", r"""(?P<s>"[^"<>\n]*"|'[^'<>\n]*')"""
        ),
        frozenset(),
    ),
}
_LANGUAGES = {
    "python": "python py pyi python3",
    "braces": "js jsx mjs cjs ts tsx javascript typescript c h cc cpp hpp c++ cs java kt kotlin go rs rust swift scala "
    "php dart zig css scss less proto groovy",
    "shell": "sh bash zsh shell console fish make makefile dockerfile",
    "data": "json jsonl json5 yaml yml toml ini cfg conf env",
    "markup": "html htm xml svg vue xhtml",
    "sql": "sql lua",
    "diff": "diff patch",
}
_NAMES = {name: family for family, names in _LANGUAGES.items() for name in names.split()}
_CLASSES = {"s": "s", "l": "s", "t": "s", "c": "c", "n": "n", "k": "k"}


def language_of(path: str) -> str:
    """The name of a file's language as far as its ending tells."""
    name = PurePosixPath(path).name.lower()
    return name.rpartition(".")[2] if "." in name else name


def printable(text: str) -> str:
    """The text without the sequences that colour a terminal."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def painted(text: str, language: str = "") -> str:
    """Code as HTML, in the colours of its language.

    Text of a language that nobody knows is a diff if it looks like one, and plain else.
    """
    family = _NAMES.get(language.lower(), "")
    if not family and _UNIFIED.match(text):
        family = "diff"
    if len(text) > PAINTED_CHARACTERS or not family:
        return escape(text)
    return painted_diff(text) if family == "diff" else _lexed(text, *_FAMILIES[family])


def _lexed(text: str, lexer: re.Pattern[str], words: frozenset[str]) -> str:
    out: list[str] = []
    end = 0
    for found in lexer.finditer(text):
        kind = found.lastgroup or ""
        name = _CLASSES.get(kind) or ("k" if found.group() in words else None)
        if name is None:
            continue
        out += (escape(text[end : found.start()]), f'<span class="{name}">{escape(found.group())}</span>')
        end = found.end()
    out.append(escape(text[end:]))
    return "".join(out)


def painted_diff(text: str) -> str:
    """A diff as HTML: what came, what went, and where."""
    return "\n".join([_diff_line(line) for line in text.split("\n")])


def _diff_line(line: str) -> str:
    kind = "hunk" if line.startswith(("@@", "diff ", "+++ ", "--- ")) else {"+": "add", "-": "del"}.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)


def painted_json(value: JsonValue | Mapping[str, object]) -> str:
    """JSON to read, as HTML."""
    return painted(json.dumps(value, ensure_ascii=False, indent=2, default=str), "json")
