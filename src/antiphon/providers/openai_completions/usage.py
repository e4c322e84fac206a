"""Token counts of Chat Completions servers. Source: providers specification 5.1."""

from __future__ import annotations

from typing import Any, cast

from antiphon.core.model import Model
from antiphon.core.usage import Usage
from antiphon.core.wire import JsonObject
from antiphon.providers.cost import charged, count, priced
from antiphon.providers.dialects import is_openrouter


def read_usage(raw: JsonObject, model: Model) -> Usage:
    """Usage with cost. Null and missing counts are 0."""
    prompt_details, completion_details = (
        _object(raw, "prompt_tokens_details"),
        _object(raw, "completion_tokens_details"),
    )
    read = _first(prompt_details.get("cached_tokens"), raw.get("prompt_cache_hit_tokens"), raw.get("cached_tokens"))
    written = count(prompt_details.get("cache_write_tokens"))
    reasoning = count(completion_details.get("reasoning_tokens")) or count(raw.get("reasoning_tokens"))
    fresh = max(0, count(raw.get("prompt_tokens")) - read - written)
    output = count(raw.get("completion_tokens"))
    usage = Usage(
        input=fresh,
        output=output,
        cache_read=read,
        cache_write=written,
        reasoning=reasoning,
        total_tokens=fresh + output + read + written,
    )
    usage = priced(usage, model.cost)
    return charged(usage, raw) if is_openrouter(model) else usage


def _first(*values: Any) -> int:
    """The first count that is given at all."""
    return next((count(value) for value in values if value is not None), 0)


def _object(raw: JsonObject, name: str) -> JsonObject:
    value = raw.get(name)
    return cast("JsonObject", value) if isinstance(value, dict) else {}
