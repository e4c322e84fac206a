"""Structured reasoning (`reasoning_details`) of a streamed answer, collected for replay."""

from __future__ import annotations

from typing import Any, cast, final

from antiphon.core.wire import JsonObject

_WORDS = {"reasoning.text": "text", "reasoning.summary": "summary", "reasoning.encrypted": "data"}
_MERGED = ("reasoning.text", "reasoning.summary")
_FILLED = ("signature", "id", "format", "index")


@final
class ReasoningDetails:
    """Valid entries in order; consecutive texts, and consecutive summaries, are one entry."""

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []
        self._pieces: list[list[str]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, given: Any) -> str | None:
        """Take in an entry. Its words, empty for encrypted ones; None if it is not valid."""
        if not _is_valid(given):
            return None
        entry = cast("JsonObject", given)
        kind = entry["type"]
        words = cast("str", entry[_WORDS[kind]])
        if kind in _MERGED and self._entries and self._entries[-1]["type"] == kind:
            self._pieces[-1].append(words)
            last = self._entries[-1]
            for name in _FILLED:
                if last.get(name) in (None, "") and entry.get(name) is not None:
                    last[name] = entry[name]
        else:
            self._entries.append(dict(entry))
            self._pieces.append([words])
        return words if kind in _MERGED else ""

    def entries(self) -> list[JsonObject]:
        """What to send back."""
        return [
            {**entry, _WORDS[entry["type"]]: "".join(pieces)}
            for entry, pieces in zip(self._entries, self._pieces, strict=True)
        ]


def _is_valid(given: Any) -> bool:
    if not isinstance(given, dict):
        return False
    entry = cast("JsonObject", given)
    kind = entry.get("type")
    if not isinstance(kind, str) or kind not in _WORDS or not isinstance(entry.get(_WORDS[kind]), str):
        return False
    index = entry.get("index", 0)
    return (
        isinstance(entry.get("id"), str | None)
        and isinstance(entry.get("format", ""), str)
        and isinstance(index, int | float)
        and not isinstance(index, bool)
    )
