"""Bring two records into one form and name the first place where they differ.

The form is plain JSON. Both sides go through `normal`, so a rule such as "an all-zero usage is written 0" is applied to
what was expected and to what happened alike. Differences are told as `path: expected …, got …`.
"""

from __future__ import annotations

import json
from typing import Any

ZERO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
ZERO_USAGE = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": ZERO_COST}
ANY_TEXT = {"$any": "string"}
SHOWN_CHARACTERS = 240


def resolved(value: Any, table: list[Any]) -> Any:
    """`value` with every `{"$m": n}` and `{"$m": [n, …]}` replaced by the messages of the table."""
    if isinstance(value, list):
        return [resolved(item, table) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$m"}:
        place = value["$m"]
        return table[place] if isinstance(place, int) else [table[index] for index in place]
    return {key: resolved(item, table) for key, item in value.items()}


def normal(value: Any) -> Any:
    """One spelling for what counts as equal: joined surrogate pairs, zero usage as 0, no unset result content."""
    if isinstance(value, str):
        return joined_surrogates(value)
    if isinstance(value, list):
        return [normal(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {joined_surrogates(key): normal(item) for key, item in value.items()}
    if out.get("usage") == ZERO_USAGE:
        out["usage"] = 0
    for key in ("result", "partial"):  # a tool's content that is not set is an empty one in our type
        if isinstance(out.get(key), dict) and out[key].get("content") == []:
            out[key] = {name: item for name, item in out[key].items() if name != "content"}
    return out


def joined_surrogates(text: str) -> str:
    """The text with every surrogate pair as the one character it encodes; lone halves stay."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def first_difference(expected: Any, actual: Any, path: str = "") -> str | None:
    """Where two normal values differ first, as one line; None if they are equal."""
    if expected == ANY_TEXT:
        return None if isinstance(actual, str) and actual else told(path, "any text", actual)
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _members_differ(expected, actual, path)
    if isinstance(expected, list) and isinstance(actual, list):
        return _items_differ(expected, actual, path)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return None if expected is actual else told(path, expected, actual)
    return None if expected == actual else told(path, expected, actual)


def _members_differ(expected: dict[str, Any], actual: dict[str, Any], path: str) -> str | None:
    if expected.keys() != actual.keys():
        missing = sorted(expected.keys() - actual.keys())
        surplus = sorted(actual.keys() - expected.keys())
        names = [f"missing {name!r}" for name in missing] + [f"surplus {name!r}" for name in surplus]
        return f"{path or '.'}: {', '.join(names)}; expected {shown(expected)}, got {shown(actual)}"
    for key, item in expected.items():
        if (difference := first_difference(item, actual[key], f"{path}.{key}")) is not None:
            return difference
    return None


def _items_differ(expected: list[Any], actual: list[Any], path: str) -> str | None:
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if (difference := first_difference(left, right, f"{path}[{index}]")) is not None:
            return difference
    if len(expected) > len(actual):
        return told(f"{path}[{len(actual)}]", expected[len(actual)], "nothing more")
    if len(actual) > len(expected):
        return told(f"{path}[{len(expected)}]", "nothing more", actual[len(expected)])
    return None


def told(path: str, expected: Any, actual: Any) -> str:
    """One line that names the place and shows both sides, shortened."""
    return f"{path or '.'}: expected {shown(expected)}, got {shown(actual)}"


def shown(value: Any) -> str:
    """A value as short JSON text that any terminal can print."""
    text = json.dumps(value, ensure_ascii=True, default=repr)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
