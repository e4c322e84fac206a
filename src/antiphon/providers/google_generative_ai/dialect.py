"""What a model behind the Gemini API can do, read from its id. Source: provider specification, 4.5."""

from __future__ import annotations

import re

from msgspec import Struct

from antiphon.core.model import Model

_VERSION = re.compile(r"gemini(?:-live)?-([0-9]+)", re.ASCII)
_LEVELS = re.compile(r"gemini-3(?:\.[0-9]+)?-(?:pro|flash)|gemini-(?:flash|flash-lite)-latest|gemma-?4", re.ASCII)
_BUDGETS: tuple[tuple[str, dict[str, int]], ...] = (
    ("2.5-pro", {"minimal": 128, "low": 2048, "medium": 8192, "high": 32768}),
    ("2.5-flash-lite", {"minimal": 512, "low": 2048, "medium": 8192, "high": 24576}),
    ("2.5-flash", {"minimal": 128, "low": 2048, "medium": 8192, "high": 24576}),
)
AUTOMATIC_BUDGET = -1
_FIRST_WITH_IDS = 3
_FIRST_ALL_LEVELS = 4


class GeminiDialect(Struct, frozen=True):
    """Flags of one model. Equal values mean equal requests."""

    call_ids: bool
    """Calls and results carry ids, which must be plain."""
    images_in_results: bool
    strict_tools: bool
    thinking_levels: bool
    """Thinking is asked for by level, not by budget."""


def gemini_dialect(model: Model) -> GeminiDialect:
    """The flags of a model. Where nothing is known of an id that is no Gemini's, images may stand in results."""
    id_ = model.id.lower()
    found = _VERSION.search(id_)
    version = int(found[1][:6]) if found else None
    recent = version is not None and version >= _FIRST_WITH_IDS
    return GeminiDialect(
        call_ids=recent or id_.startswith(("claude-", "gpt-oss-")),
        images_in_results=version is None or recent,
        strict_tools=recent,
        thinking_levels=(version is not None and version >= _FIRST_ALL_LEVELS) or _LEVELS.search(id_) is not None,
    )


def budget_for(model: Model, level: str) -> int:
    """Thinking tokens for a level; −1 lets the model decide."""
    for name, budgets in _BUDGETS:
        if name in model.id.lower():
            return budgets.get(level, budgets["high"])
    return AUTOMATIC_BUDGET
