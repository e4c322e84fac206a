"""JSON as it really travels: strict and fast where possible, tolerant where servers are sloppy.

Reading accepts what a careless server writes: raw control characters and bad escapes inside strings, lone surrogates,
bytes that are no UTF-8. Writing never fails on text: lone surrogates, which have no UTF-8, are removed.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.wire import JsonObject, JsonValue, to_wire

_decoder = msgspec.json.Decoder()
_encoder = msgspec.json.Encoder()

_BAD_ESCAPE = re.compile(r'\\(?:u(?![0-9a-fA-F]{4})|[^"\\/bfnrtu]|$)|\\\\|\\.', re.DOTALL)


def read(data: bytes | str) -> JsonValue:
    """The JSON value of a text, repaired if a careless writer made it.

    Raises:
        ValueError: it is no JSON even after repair.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        return _loads(text)
    except ValueError:
        repaired = _BAD_ESCAPE.sub(_double, text)
        if repaired == text:
            raise
        return _loads(repaired)


def _loads(text: str) -> JsonValue:
    """`strict=False`: raw control characters inside strings are taken as they are."""
    try:
        return json.loads(text, strict=False, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _double(found: re.Match[str]) -> str:
    """A backslash in front of something that is no escape means itself."""
    text = found.group()
    if len(text) == 2 and text[1] in '"\\/bfnrtu' and text != "\\u":
        return text
    if text == "\\u":
        is_escape = re.match(r"[0-9a-fA-F]{4}", found.string[found.end() : found.end() + 4])
        return text if is_escape else "\\\\u"
    return "\\" + text


def read_object(data: bytes | str) -> JsonObject | None:
    """The JSON object of a text, or nothing if it is something else."""
    try:
        value = read(data)
    except ValueError:
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def encode(value: JsonValue) -> bytes:
    """Compact UTF-8 JSON. Lone surrogates are removed, pairs of them joined."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(cleaned(value))


def encode_text(value: JsonValue) -> str:
    """The same as text, for JSON inside of JSON."""
    return encode(value).decode()


def clean(text: str) -> str:
    """The text without lone surrogates; two halves beside each other become their character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text


def cleaned(value: JsonValue) -> JsonValue:
    """The same JSON value with every text cleaned; structs become objects."""
    if isinstance(value, Struct):
        value = to_wire(value)
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in cast("JsonObject", value).items()}
    if isinstance(value, list | tuple):
        return [cleaned(item) for item in cast("list[Any]", value)]
    return value


def present(**members: Any) -> JsonObject:
    """A JSON object of the members that are neither UNSET nor None."""
    return {name: value for name, value in members.items() if value is not UNSET and value is not None}
