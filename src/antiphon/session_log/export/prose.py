"""What people and models write, as HTML: fences become code, a little Markdown is honoured, the rest stays as it is.

Nothing becomes a link: a page that is passed on leads nowhere that its reader has not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from antiphon.session_log.export.paint import painted, printable

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,}) *([\w+#.-]*)[^`\n]*\Z")
_HEADING = re.compile(r" {0,3}#{1,6} +(.*?)[ #]*\Z")
_INLINE = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")
_BAR = re.compile(r"(?<!\\)\|")
_DASHES = re.compile(r":?-+:?")
_MARKUP = re.compile(r"^[ >#*-]+|```[\w-]*|\*\*|`", re.MULTILINE)
_MOST_HEADING = 300


def prose(text: str) -> str:
    """Text of a message as HTML."""
    return "".join(_parts(printable(text)))


def bare(text: str) -> str:
    """The words of a text without the signs of Markdown, for a title."""
    return _MARKUP.sub("", printable(text))


def _parts(text: str) -> Iterator[str]:
    """Runs of lines of one kind: plain ones, headings, tables, code between fences."""
    run: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        fence = _FENCE.match(line)
        heading = _HEADING.match(line) if len(line) < _MOST_HEADING else None
        if fence is None and heading is None:
            if run and _is_row(line) != _is_row(run[-1]):
                yield _run(run)
                run = []
            run.append(line)
            continue
        yield _run(run)
        run = []
        if fence is not None:
            yield _code(_until_closed(lines, fence.group(1)), fence.group(2))
        elif heading is not None:
            yield f'<div class="heading">{_inline(heading.group(1))}</div>'
    yield _run(run)


def _is_row(line: str) -> bool:
    """Does the line belong to a table?"""
    return line.lstrip(" ").startswith("|")


def _until_closed(lines: Iterator[str], fence: str) -> list[str]:
    """The lines up to the fence that closes this one, or to the end."""
    found: list[str] = []
    for line in lines:
        bare = line.strip()
        if len(bare) >= len(fence) and set(bare) == {fence[0]}:
            break
        found.append(line)
    return found


def _code(lines: list[str], language: str) -> str:
    return f'<pre class="code">{painted(chr(10).join(lines), language)}</pre>'


def _run(lines: list[str]) -> str:
    """Lines that stay as they are, or a table."""
    text = "\n".join(lines).strip("\n")
    if not text.strip():
        return ""
    return _table(lines) if _is_row(text) else f'<div class="text">{_inline(text)}</div>'


def _table(lines: list[str]) -> str:
    """Rows of cells between bars; the row above the dashes is the head."""
    rows = [[cell.strip() for cell in _BAR.split(line.strip().strip("|"))] for line in lines]
    has_head = len(rows) > 1 and all(_DASHES.fullmatch(cell) for cell in rows[1])
    shown = [_row("th", rows[0]), *(_row("td", row) for row in rows[2:])] if has_head else [_row("td", r) for r in rows]
    return f"<table>{''.join(shown)}</table>"


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in cells)}</tr>"


def _inline(text: str) -> str:
    out: list[str] = []
    end = 0
    for found in _INLINE.finditer(text):
        code, strong = found.groups()
        out.append(escape(text[end : found.start()]))
        out.append(f"<code>{escape(code)}</code>" if code is not None else f"<strong>{escape(strong)}</strong>")
        end = found.end()
    out.append(escape(text[end:]))
    return "".join(out)
