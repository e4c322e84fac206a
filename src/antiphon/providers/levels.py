"""Thinking levels of a model: which exist, which one an asked level becomes, and its word on the wire."""

from __future__ import annotations

from msgspec import UNSET

from antiphon.core.model import THINKING_LEVELS, Model, ThinkingLevel

_NEED_A_WORD: tuple[ThinkingLevel, ...] = ("xhigh", "max")


def supported_levels(model: Model) -> tuple[ThinkingLevel, ...]:
    """Levels in rising order. Without reasoning only `off`; a level mapped to null does not exist."""
    if not model.reasoning:
        return ("off",)
    words = {} if model.thinking_level_map is UNSET else model.thinking_level_map

    def exists(level: ThinkingLevel) -> bool:
        if level in _NEED_A_WORD:
            return words.get(level) is not None
        return level not in words or words[level] is not None

    return tuple(level for level in THINKING_LEVELS if exists(level))


def clamp_level(model: Model, level: str) -> ThinkingLevel:
    """The level that is used for the asked one: the next supported above it, else the nearest below."""
    supported = supported_levels(model)
    known = list(THINKING_LEVELS)
    place = known.index(level) if level in known else 0
    for above in known[place:]:
        if above in supported:
            return above
    for below in reversed(known[:place]):
        if below in supported:
            return below
    return supported[0] if supported else "off"


def word_for(model: Model, level: str) -> str:
    """What is sent for a level: its word in the map, else the level itself."""
    word = None if model.thinking_level_map is UNSET else model.thinking_level_map.get(level)
    return level if word is None else word


def is_switched_off(model: Model, level: str) -> bool:
    """Is the level mapped to null, that is: must nothing be sent for it?"""
    words = model.thinking_level_map
    return words is not UNSET and level in words and words[level] is None
