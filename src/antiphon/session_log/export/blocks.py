"""Small parts of a page that several others are made of. Pure."""

from __future__ import annotations

import re
from html import escape

from msgspec import UNSET, UnsetType

from antiphon.core.content import Image
from antiphon.core.usage import NO_USAGE, Usage, total_tokens

SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")


def folded(title: str, html: str, kind: str = "") -> str:
    """Preformatted text behind one line that opens it."""
    named = f' class="{kind}"' if kind else ""
    return f"<details{named}><summary>{escape(title)}</summary><pre>{html}</pre></details>"


def image(block: Image) -> str:
    """A picture, if it is one that a browser shows without running anything."""
    if block.mime_type in SHOWN_IMAGES and _BASE64.fullmatch(block.data):
        return f'<img alt="image" src="data:{block.mime_type};base64,{block.data}">'
    return f'<p class="note">an image ({escape(block.mime_type)}) that is not shown</p>'


def count(number: int, what: str) -> str:
    """`1 call`, `2 calls`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def duration(ms: float | UnsetType) -> str:
    """`340 ms`, `12.5 s`, `3 min 20 s`; empty if nobody measured."""
    if ms is UNSET or not 0 <= ms < 1e12:
        return ""
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(int(ms / 1_000), 60)
    return f"{minutes} min {seconds} s"


def money(usd: float) -> str:
    """US dollars, as exact as such small amounts need."""
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


def usage_line(usage: Usage) -> str:
    """Tokens and cost in words; empty if nothing was counted."""
    cost = money(usage.cost.total) if usage.cost.total else ""
    return " · ".join(part for part in (tokens_line(usage), cost) if part)


def tokens_line(usage: Usage) -> str:
    """Tokens by kind, in words."""
    if usage is NO_USAGE or not total_tokens(usage):
        return ""
    parts = [
        ("in", usage.input),
        ("cached", usage.cache_read),
        ("cache written", usage.cache_write),
        ("out", usage.output),
    ]
    words = [f"{name} {tokens:,}" for name, tokens in parts if tokens]
    if usage.reasoning is not UNSET and usage.reasoning:
        words.append(f"of these {usage.reasoning:,} reasoning")
    if not words:
        words.append(f"{usage.total_tokens:,} tokens")
    return " · ".join(words)
