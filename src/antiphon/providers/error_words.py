"""What a provider, or the network, says about an error, wherever its words are kept."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Final, cast

from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import wire_json

MAX_BODY_CHARS: Final = 4000


def words_of(body: JsonValue, text: str = "") -> str:
    """A provider's own words about an error, wherever its body keeps them; else the body, else `no body`."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        found = _words_in(cast("JsonObject", body))
        if found:
            return found
        return cut(text) or cut(wire_json.encode_text(body))
    if isinstance(body, str) and body.strip():
        return cut(body)
    return cut(text) or "no body"


def _words_in(body: JsonObject) -> str:
    error = body.get("error")
    if isinstance(error, dict):
        return error_words(cast("JsonObject", error))
    if isinstance(error, str):
        return with_details(cut(error), (body.get("code"), body.get("type")))
    return error_words(body)


def error_words(error: JsonObject) -> str:
    """The words of an error object: message, then whatever else names it."""
    message = error.get("message", error.get("detail"))
    if message is not None and not isinstance(message, str):
        message = wire_json.encode_text(message)
    metadata = error.get("metadata")
    raw = cast("JsonObject", metadata).get("raw") if isinstance(metadata, dict) else None
    if raw is not None and not isinstance(raw, str):
        raw = wire_json.encode_text(raw)
    details = (error.get("type"), error.get("code"), error.get("status"))
    return with_details(cut(message or ""), details, cut(raw or "", MAX_BODY_CHARS // 4))


def with_details(words: str, details: Iterable[object], more: str = "") -> str:
    """The words, then `(type, code 7)` as far as they say more, then the upstream's words if they are not in there."""
    said = [_detail(item) for item in details]
    fresh = list(dict.fromkeys(item for item in said if item and item not in words and len(item) < 100))
    out = words + (f" ({', '.join(fresh)})" if words and fresh else ", ".join(fresh))
    return f"{out} {more}".strip() if more and more not in words else out


def _detail(item: object) -> str:
    if isinstance(item, bool) or item is None:
        return ""
    text = str(item)
    return f"code {text}" if text.isdigit() else text if isinstance(item, str) else ""


def cut(text: str, limit: int = MAX_BODY_CHARS) -> str:
    """The text without blanks around it, shortened if it is very long."""
    text = text.strip()
    return text if len(text) <= limit else text[:limit].rstrip() + "…"


def explain(error: BaseException) -> str:
    """The deepest cause of an exception in words, with the name of its system error."""
    seen: set[int] = set()
    deepest = error
    while id(deepest) not in seen:
        seen.add(id(deepest))
        deepest = deepest.__cause__ or deepest.__context__ or deepest
    words = cut(str(deepest)) or cut(str(error)) or type(deepest).__name__
    number = getattr(deepest, "errno", None)
    name = errno.errorcode.get(number) if isinstance(number, int) else None
    return words if name is None or name in words else f"{words} ({name})"
