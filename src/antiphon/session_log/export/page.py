"""A session as one page of HTML that needs nothing else, not even scripts: to read, to keep, to pass on. Pure.

Everything that was said is text of somebody else: it is escaped, never interpreted. The page forbids scripts, frames
and every request to elsewhere, so that it can be opened without fear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import cast, final

from msgspec import UNSET

from antiphon.core.usage import total_tokens
from antiphon.core.wire import without_surrogates
from antiphon.session_log.export.articles import Shown, shown
from antiphon.session_log.export.blocks import count, folded, money, tokens_line
from antiphon.session_log.export.steps import Reading, Way, anchor_of, reading, steps_of
from antiphon.session_log.export.style import STYLE
from antiphon.session_log.log import SessionLog
from antiphon.session_log.totals import Totals
from antiphon.session_log.tree import ROOT

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_MOST_FINDINGS = 200
_ICONS = {"user": "›", "assistant": "", "host": "·", "compaction": "Σ", "branch": "Σ"}


def session_html(log: SessionLog) -> str:
    """The whole session as a page: the active path in full, other ways folded where they leave it, a tree of both."""
    body = _Body(log, reading(log))
    main = list(body.parts())
    title = escape(log.name or f"Session {log.session_id}")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title><style>{STYLE}</style></head><body>",
        f'<nav aria-label="Tree of the session"><p>Tree</p><ul>{"".join(body.rows)}</ul></nav>',
        f"<div><header><h1>{title}</h1>{_facts(log, body.totals)}{_findings(log)}</header><main>",
        *main,
        "</main></div></body></html>",
    ]
    return cast("str", without_surrogates("\n".join(part for part in parts if part)))


@final
@dataclass(slots=True)
class _Body:
    """The parts in reading order; on the way the rows of the tree and the totals come together."""

    log: SessionLog
    reading: Reading
    rows: list[str] = field(default_factory=list[str])
    totals: Totals = field(default_factory=Totals)

    def parts(self) -> Iterator[str]:
        yield from self._aside(ROOT)
        for step in steps_of(self.log, self.reading.path):
            self.totals.add(step.entry)
            part = shown(step)
            self._row(part, step.anchor, "here")
            yield part.html
            yield from self._aside(step.number)

    def _aside(self, number: int) -> Iterator[str]:
        for way in self.reading.aside.get(number, ()):
            yield self._way(way, is_first=way.parent == number)

    def _way(self, way: Way, *, is_first: bool) -> str:
        """Another way, folded; nothing if nothing is said on it."""
        steps = steps_of(self.log, way)
        for step in steps:
            self.totals.add(step.entry)
        parts = [(shown(step), step.anchor) for step in steps]
        said = [part for part, _ in parts if part.title]
        if not said:
            return ""
        for part, anchor in parts:
            self._row(part, anchor, "aside" if is_first else "aside deeper")
        inside = "".join(part.html for part, _ in parts)
        origin = ""
        if not is_first:
            origin = (
                f'<p class="note"><a href="#{escape(anchor_of(self.log, way.parent))}">leaves another way here</a></p>'
            )
        head = f"{count(len(said), 'message')} on another way: <bdi>{escape(said[0].title)}</bdi>"
        return f'<details class="way"><summary>{head}</summary>{origin}{inside}</details>'

    def _row(self, part: Shown, anchor: str, place: str) -> None:
        if part.title:
            words = f"{_ICONS.get(part.kind, '')} {part.title}".strip()
            self.rows.append(
                f'<li class="{part.kind} {place}"><a href="#{escape(anchor)}"><bdi>{escape(words)}</bdi></a></li>'
            )


def _facts(log: SessionLog, totals: Totals) -> str:
    usage = totals.usage
    messages = ", ".join(f"{number:,} {role}" for role, number in totals.messages.items())
    rows = [
        ("session", log.session_id),
        ("created", log.header.timestamp),
        ("folder", log.cwd),
        ("forked from", "" if log.header.parent_session is UNSET else log.header.parent_session),
        ("entries", f"{len(log.path_ids()):,} on the active path, {log.entry_count:,} in all"),
        ("messages", messages),
        ("tool calls", f"{totals.tool_calls:,}" if totals.tool_calls else ""),
        ("tokens", f"{total_tokens(usage):,} ({tokens_line(usage)})" if total_tokens(usage) else ""),
        ("cost", money(usage.cost.total) if usage.cost.total else ""),
    ]
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(value)}</dd>" for name, value in rows if value) + "</dl>"


def _findings(log: SessionLog) -> str:
    """What was found wrong with the file."""
    damages = log.report.damages
    if not damages:
        return ""
    lines = [str(damage) for damage in damages[:_MOST_FINDINGS]]
    if len(damages) > _MOST_FINDINGS:
        lines.append(f"and {len(damages) - _MOST_FINDINGS:,} more")
    return folded(f"the file is damaged: {count(len(damages), 'finding')}", escape("\n".join(lines)), "findings")
