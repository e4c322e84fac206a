"""Prompt templates: a Markdown file that becomes a prompt, with arguments put in. Pure, but for reading the files.

Source: resources specification 6 and R14.
"""

from __future__ import annotations

import re

from msgspec import Struct

from antiphon.resources.front_matter import BadFrontMatter, split_page

_SHOWN_UNITS = 60
_HOLE = re.compile(
    r"\$(?:"
    r"(?P<number>[0-9]+)|(?P<all>@|ARGUMENTS)"
    r"|\{(?P<name>[0-9]+|@|ARGUMENTS):-(?P<instead>[^}]*)\}"
    r"|\{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}"
    r")",
    re.ASCII,
)
_ESCAPE = re.compile(r"\$\$|" + _HOLE.pattern, re.ASCII)


class Template(Struct, frozen=True):
    """A page that becomes a prompt. `escapes`: `$$` in it is a plain `$`."""

    description: str
    argument_hint: str
    body: str
    escapes: bool = False

    def expand(self, arguments: str) -> str:
        """The prompt for what stood behind the name."""
        return fill(self.body, split_arguments(arguments), escapes=self.escapes)


def read_template(text: str) -> Template:
    """A template file as a template.

    Raises:
        BadFrontMatter: its head cannot be understood.
    """
    page = split_page(text)
    body = page.body.lstrip("\r\n") if page.head else page.body
    described, hint = page.head.get("description"), page.head.get("argument-hint")
    first = next((line.strip() for line in body.split("\n") if line.strip()), "")
    return Template(
        description=str(described) if described else _shortened(first),
        argument_hint=_hint(hint),
        body=body.strip(),
        escapes=page.head.get("dollar-escapes") is True,
    )


def _hint(given: object) -> str:
    """`[file] [level]` is a list in YAML; people mean the text."""
    if isinstance(given, list):
        return " ".join(f"[{item}]" for item in given)
    return "" if given is None else str(given)


def _shortened(line: str) -> str:
    return line if len(line) <= _SHOWN_UNITS else line[:_SHOWN_UNITS] + "..."


def fill(body: str, arguments: list[str], *, escapes: bool = False) -> str:
    """The body with its holes filled, in one pass: what is put in is not looked at again."""

    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        if found["number"]:
            return _nth(arguments, found["number"])
        if found["all"]:
            return " ".join(arguments)
        if found["name"]:
            given = _nth(arguments, found["name"]) if found["name"].isdigit() else " ".join(arguments)
            return given or found["instead"]
        start = max(_small(found["start"]), 1) - 1
        end = None if found["count"] is None else start + _small(found["count"])
        return " ".join(arguments[start:end])

    return (_ESCAPE if escapes else _HOLE).sub(value, body)


def _nth(arguments: list[str], number: str) -> str:
    place = _small(number)
    return arguments[place - 1] if 0 < place <= len(arguments) else ""


def _small(digits: str) -> int:
    """The number; a huge one is just larger than every list."""
    return int(digits[-18:]) if len(digits) <= 18 else 10**18


def split_arguments(text: str) -> list[str]:
    """Arguments cut at white space. A quote counts only where an argument begins; one that does not end is literal."""
    out: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return out
        value, at = _argument(text, at)
        out.append(value)


def _argument(text: str, at: int) -> tuple[str, int]:
    quote = text[at]
    if quote in "\"'":
        found = re.compile(rf"{quote}((?:\\{quote}|[^{quote}])*){quote}").match(text, at)
        if found is not None:
            rest = _word_end(text, found.end())
            return found[1].replace("\\" + quote, quote) + text[found.end() : rest], rest
    end = _word_end(text, at)
    return text[at:end], end


def _word_end(text: str, at: int) -> int:
    while at < len(text) and not text[at].isspace():
        at += 1
    return at


__all__ = ["BadFrontMatter", "Template", "fill", "read_template", "split_arguments"]
