"""Token counts of one answer, as they are reported piece by piece. Source: provider specification, 5.3, 5.5 and 5.7."""

from __future__ import annotations

from typing import Any, cast, final

import msgspec
from msgspec import UNSET, structs

from antiphon.core.model import Model, Prices
from antiphon.core.usage import NO_USAGE, Usage
from antiphon.core.wire import JsonObject
from antiphon.providers.cost import charged, count, priced
from antiphon.providers.dialects import is_openrouter

_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}


@final
class Counts:
    """Later reports override earlier ones, member by member; null and absent members stay what they were."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._prices = model.cost
        self._counts = dict.fromkeys((*_COUNTS.values(), "cache_write_1h"), 0)
        self._reported: JsonObject = {}

    def answered_by(self, other: str) -> None:
        """Another model took over; its own prices apply if the asked model's flags name them."""
        allowed = self._model.compat.get("allowedFallbackModels") if self._model.compat is not UNSET else None
        for entry in allowed if isinstance(allowed, list) else ():
            if _object(entry).get("model") == other:
                try:
                    self._prices = msgspec.convert(_object(entry).get("cost"), Prices)
                except msgspec.ValidationError:
                    return

    def take(self, usage: JsonObject) -> Usage:
        """All counts with those of this report, and their cost."""
        for wire, name in _COUNTS.items():
            self._note(name, usage.get(wire))
        self._note("cache_write_1h", _object(usage.get("cache_creation")).get("ephemeral_1h_input_tokens"))
        self._note("reasoning", _object(usage.get("output_tokens_details")).get("thinking_tokens"))
        self._reported.update(usage)
        total = sum(self._counts[name] for name in _COUNTS.values())
        counted = priced(structs.replace(NO_USAGE, **self._counts, total_tokens=total), self._prices)
        return charged(counted, self._reported) if is_openrouter(self._model) else counted

    def _note(self, name: str, given: Any) -> None:
        """Nothing is taken from null and nonsense: they report no count."""
        if isinstance(given, int | float) and not isinstance(given, bool):
            self._counts[name] = count(given)


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
