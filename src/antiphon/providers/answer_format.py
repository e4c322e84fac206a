"""Answers that must be JSON of a schema (`options["response_schema"]`), as each family asks for them.

The schema goes out closed (`additionalProperties: false` wherever an object says nothing about it), which all families
take and two insist on. OpenAI samples strictly only if it can: every property is required and no keyword is beyond it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers.constrained import NotConvertible, strict_schema

_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME: Final = 64
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS: Final = ("items", "not", "if", "then", "else", "contains")


def chat_fields(schema: Mapping[str, Any] | None) -> JsonObject:
    """Body fields of Chat Completions; none without a schema."""
    return {} if schema is None else {"response_format": {"type": "json_schema", "json_schema": _named(schema)}}


def responses_fields(schema: Mapping[str, Any] | None) -> JsonObject:
    """Body fields of Responses."""
    return {} if schema is None else {"text": {"format": {"type": "json_schema", **_named(schema)}}}


def anthropic_format(schema: Mapping[str, Any]) -> JsonObject:
    """The `format` of Anthropic's `output_config`."""
    return {"type": "json_schema", "schema": closed(dict(schema))}


def gemini_config(schema: Mapping[str, Any] | None) -> JsonObject:
    """Members of Gemini's `generationConfig`."""
    return {} if schema is None else {"responseMimeType": "application/json", "responseJsonSchema": dict(schema)}


def _named(schema: Mapping[str, Any]) -> JsonObject:
    whole = closed(dict(schema))
    title = schema.get("title")
    name = _ODD.sub("_", title).strip("_")[:_LONGEST_NAME] if isinstance(title, str) else ""
    return {"name": name or "answer", "schema": whole, "strict": _is_strict(whole)}


def _is_strict(schema: JsonObject) -> bool:
    """Would strict sampling change nothing in it?"""
    try:
        return strict_schema(schema) == schema
    except NotConvertible:
        return False


def closed(schema: JsonValue) -> Any:
    """A copy in which every object with properties says whether it may have others; if it says nothing, it may not."""
    if not isinstance(schema, dict):
        return schema
    out: JsonObject = dict(cast("JsonObject", schema))
    for name in _NAMED:
        if isinstance(out.get(name), dict):
            out[name] = {key: closed(item) for key, item in out[name].items()}
    for name in _LISTS:
        if isinstance(out.get(name), list):
            out[name] = [closed(item) for item in out[name]]
    for name in _SCHEMAS:
        if name in out:
            out[name] = closed(out[name])
    if out.get("type") == "object" or "properties" in out:
        out.setdefault("additionalProperties", False)
    return out
