"""The few lines of YAML at the head of a skill or template. Pure.

Understood: `key: value` with plain, quoted, literal (`|`) and folded (`>`) texts, lists and objects in block and flow
form, comments. Anchors, tags and several documents are not, and are refused rather than guessed at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_FENCE = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'"""
    r"""|[^\s#:\-?\[\]{},&*!|>'"%@`][^#:]*?|-[^\s:][^#:]*?)\s*:(?:\s+|$)"""
)
_BLOCK = re.compile(r"[|>](?:([1-9])?([+-])?|([+-])([1-9]))[ \t]*(?:#.*)?$")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+|[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?)$", re.ASCII)
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


class BadFrontMatter(ValueError):
    """The head cannot be understood; the text names the line."""


class Page(Struct, frozen=True):
    """A text and what its head says."""

    head: Mapping[str, Any]
    body: str


def split_page(text: str) -> Page:
    """A page cut into head and body; without a head it is all body.

    Raises:
        BadFrontMatter: there is a head that cannot be understood.
    """
    found = _FENCE.match(text)
    if found is None:
        return Page({}, text)
    return Page(read_head(found[1]), text[found.end() :])


def read_head(text: str) -> Mapping[str, Any]:
    """The object that a head describes.

    Raises:
        BadFrontMatter: it cannot be understood.
    """
    reader = _Reader([line.rstrip("\r") for line in text.split("\n")])
    value = reader.block(0)
    reader.skip_blank()
    if reader.at < len(reader.lines):
        raise reader.fault("this line does not belong to anything above it")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadFrontMatter("the head must be `name: value` lines")
    return value


class _Reader:
    """Reads blocks of lines by their indentation. `at`: the next line."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    def fault(self, why: str) -> BadFrontMatter:
        return BadFrontMatter(f"line {self.at + 2}: {why}")  # line 1 is the fence

    def skip_blank(self) -> None:
        while self.at < len(self.lines) and (not self.lines[self.at].strip() or self.lines[self.at].lstrip()[0] == "#"):
            self.at += 1

    def indent(self) -> int:
        """Indentation of the next line that says something; -1 at the end."""
        self.skip_blank()
        if self.at >= len(self.lines):
            return -1
        line = self.lines[self.at]
        if "\t" in line[: len(line) - len(line.lstrip())]:
            raise self.fault("indentation must be spaces, not tabs")
        return len(line) - len(line.lstrip(" "))

    def block(self, least: int) -> Any:
        """The object, list or text that begins at the next line, if it is indented enough."""
        depth = self.indent()
        if depth < least:
            return None
        line = self.lines[self.at].strip()
        if line == "-" or line.startswith("- "):
            return self._list(depth)
        if _KEY.match(line):
            return self._object(depth)
        self.at += 1
        return self._inline(line, depth)

    def _list(self, depth: int) -> list[Any]:
        out: list[Any] = []
        while self.indent() == depth:
            line = self.lines[self.at].strip()
            if line != "-" and not line.startswith("- "):
                break
            rest = line[1:].strip()
            if rest and _KEY.match(rest) and rest[0] not in "[{":
                inner = depth + len(line) - len(rest)
                self.lines[self.at] = " " * inner + rest
                out.append(self._object(inner))
            else:
                self.at += 1
                out.append(self._value(rest, depth))
        return out

    def _object(self, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        while self.indent() == depth:
            line = self.lines[self.at].strip()
            found = _KEY.match(line)
            if found is None:
                raise self.fault("expected `name: value`")
            name = str(self._scalar(found["key"]) if found["key"][0] in "\"'" else found["key"])
            if name in out:
                raise self.fault(f"{name} stands here twice")
            self.at += 1
            out[name] = self._value(line[found.end() :].strip(), depth)
        if self.indent() > depth:
            raise self.fault("this line is indented more than the one it follows")
        return out

    def _value(self, rest: str, depth: int) -> Any:
        if _BLOCK.match(rest):
            return self._text_block(rest, depth)
        if not rest or rest.startswith("#"):
            nested = self.indent()
            is_list = nested == depth and self.lines[self.at].lstrip().startswith("-")
            return self.block(depth if is_list else depth + 1)
        return self._inline(rest, depth)

    def _inline(self, text: str, depth: int) -> Any:
        """A value that begins on this line and may go on in lines that are indented more."""
        if text[0] in "\"'[{":
            while not _closed(text) and self.indent() > depth:
                text += " " + self.lines[self.at].strip()
                self.at += 1
            return self._flow(text)
        if text[0] in "&*!|>%@`":
            raise self.fault(f"a value may not begin with {text[0]}; put it in quotes")
        text = _without_comment(text)
        if re.search(r":(?:\s|$)", text):
            raise self.fault("a value with `: ` in it needs quotes")
        while self.at < len(self.lines) and self.lines[self.at].strip() and self.indent() > depth:
            more = self.lines[self.at].strip()
            if _KEY.match(more):
                raise self.fault("this line is indented more than the one it follows")
            text += " " + _without_comment(more)
            self.at += 1
        return self._scalar(text)

    def _text_block(self, header: str, depth: int) -> str:
        lines: list[str] = []
        width: int | None = None
        while self.at < len(self.lines):
            line = self.lines[self.at]
            own = len(line) - len(line.lstrip(" "))
            if line.strip() and own <= depth:
                break
            if line.strip() and width is None:
                width = own
            lines.append(line)
            self.at += 1
        body = [line[width or 0 :] for line in lines]
        while body and not body[-1].strip():
            body.pop()
        text = "\n".join(body) if header[0] == "|" else _folded(body)
        return text + ("\n" if body and "-" not in header.split("#")[0] else "")

    def _flow(self, text: str) -> Any:
        value, end = self._flow_value(text, 0)
        rest = text[end:].strip()
        if rest and not rest.startswith("#"):
            if text[0] in "\"'":
                raise self.fault(f"nothing may follow {text[:end]!r} here")
            return _without_comment(text)  # `[file] [level]`: no YAML, but what people write for hints
        return value

    def _flow_value(self, text: str, at: int) -> tuple[Any, int]:
        at = _past_space(text, at)
        if at < len(text) and text[at] in "[{":
            return self._flow_group(text, at)
        if at < len(text) and text[at] in "\"'":
            end = _quote_end(text, at)
            if end < 0:
                raise self.fault("a quoted text does not end")
            return self._scalar(text[at:end]), end
        end = at
        while end < len(text) and text[end] not in ",]}" and not (text[end] == ":" and text[end + 1 : end + 2] in " "):
            end += 1
        return self._scalar(text[at:end].strip()), end

    def _flow_group(self, text: str, at: int) -> tuple[Any, int]:
        closing = "]" if text[at] == "[" else "}"
        items: list[Any] = []
        table: dict[str, Any] = {}
        at = _past_space(text, at + 1)
        while text[at : at + 1] != closing:
            value, at = self._flow_value(text, at)
            at = _past_space(text, at)
            if closing == "}":
                if text[at : at + 1] != ":":
                    raise self.fault("expected `name: value` inside { }")
                table[str(value)], at = self._flow_value(text, at + 1)
                at = _past_space(text, at)
            else:
                items.append(value)
            if text[at : at + 1] == ",":
                at = _past_space(text, at + 1)
            elif text[at : at + 1] != closing:
                raise self.fault(f"expected , or {closing}")
        return (items if closing == "]" else table), at + 1

    def _scalar(self, text: str) -> Any:
        if text[:1] == '"':
            try:
                return json.loads(text)
            except ValueError:
                raise self.fault(f"a text in double quotes cannot be read: {text[:40]}") from None
        if text[:1] == "'":
            return text[1:-1].replace("''", "'")
        if text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if _NUMBER.match(text):
            return int(text) if re.fullmatch(r"[+-]?[0-9]{1,300}", text) else text if len(text) > 300 else float(text)
        return text


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _quote_end(text: str, at: int) -> int:
    """Where a quoted text is over; -1: it is not."""
    found = re.compile(r'"(?:[^"\\]|\\.)*"' if text[at] == '"' else r"'(?:[^']|'')*'").match(text, at)
    return found.end() if found else -1


def _closed(text: str) -> bool:
    """Do quotes and brackets that were opened end in this text?"""
    depth, at = 0, 0
    while at < len(text):
        if text[at] in "\"'":
            end = _quote_end(text, at)
            if end < 0:
                return False
            at = end
            continue
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(text[at], 0)
        at += 1
    return depth <= 0


def _without_comment(text: str) -> str:
    return re.split(r"\s#", text, maxsplit=1)[0].rstrip()


def _folded(lines: list[str]) -> str:
    """Lines of a folded text: a single break is a space, an empty line is a break."""
    out = ""
    for line in lines:
        if not line.strip():
            out += "\n"
        elif not out or out.endswith("\n"):
            out += line
        else:
            out += " " + line
    return out
