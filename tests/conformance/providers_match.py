"""Compare what an adapter did with what the provider packs expect: matchers, house texts, and the event rules."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from antiphon.core.partial_json import join_surrogates
from antiphon.providers.house_texts import HOUSE_TEXTS

_TOKEN = re.compile(r"\{\{([^{}]*)\}\}")
_MATCHERS = ("$json", "$contains", "$any", "$id")
_SHOWN = 300


def house_text(token: str) -> str:
    """What a `{{token|argument}}` stands for here."""
    name, *arguments = token.split("|")
    text = HOUSE_TEXTS[name]
    return text if isinstance(text, str) else text(*arguments)


def with_house_texts(value: Any) -> Any:
    """The expected value with every house text filled in."""
    if isinstance(value, str):
        return _TOKEN.sub(lambda found: house_text(found[1]), value)
    if isinstance(value, list):
        return [with_house_texts(item) for item in value]
    if isinstance(value, dict):
        return {with_house_texts(key): with_house_texts(item) for key, item in value.items()}
    return value


class Matcher:
    """Compares one case; equal `$id` labels must stand for equal texts throughout."""

    def __init__(self) -> None:
        self._labels: dict[str, str] = {}

    def difference(self, expected: Any, actual: Any, path: str = "") -> str | None:
        """The first place where they differ, or None."""
        if isinstance(expected, dict) and any(name in expected for name in _MATCHERS):
            return self._matcher(expected, actual, path)
        if isinstance(expected, dict):
            return self._object(expected, actual, path)
        if isinstance(expected, list):
            return self._list(expected, actual, path)
        if _is_number(expected) and _is_number(actual):
            same = expected == actual or math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1e-15)
            return None if same else _told(path, expected, actual)
        if isinstance(expected, str) and isinstance(actual, str):
            return None if join_surrogates(expected) == join_surrogates(actual) else _told(path, expected, actual)
        same = type(expected) is type(actual) and expected == actual
        return None if same else _told(path, expected, actual)

    def _object(self, expected: dict[str, Any], actual: Any, path: str) -> str | None:
        if not isinstance(actual, dict):
            return _told(path, expected, actual)
        for name in expected:
            if name not in actual:
                return f"{path}.{name}: missing"
        for name in actual:
            if name not in expected:
                return f"{path}.{name}: unexpected {_short(actual[name])}"
        return _first(self.difference(item, actual[name], f"{path}.{name}") for name, item in expected.items())

    def _list(self, expected: list[Any], actual: Any, path: str) -> str | None:
        if not isinstance(actual, list | tuple):
            return _told(path, expected, actual)
        pairs = enumerate(zip(expected, actual, strict=False))
        found = _first(self.difference(left, right, f"{path}[{index}]") for index, (left, right) in pairs)
        if found is None and len(expected) != len(actual):
            extra = actual[len(expected) :] or expected[len(actual) :]
            return f"{path}: {len(expected)} expected, {len(actual)} came; first further one {_short(extra[0])}"
        return found

    def _matcher(self, expected: dict[str, Any], actual: Any, path: str) -> str | None:
        if "$any" in expected:
            return None
        if not isinstance(actual, str):
            return _told(path, expected, actual)
        if "$contains" in expected:
            return None if expected["$contains"] in actual else _told(path, expected, actual)
        if "$json" in expected:
            return self._json(expected["$json"], actual, path)
        label = self._labels.setdefault(expected["$id"], actual)
        fits = actual.startswith(expected.get("prefix", "")) and len(actual) <= expected.get("maxLength", 10**6)
        others = [text for name, text in self._labels.items() if name != expected["$id"]]
        fine = fits and actual and not re.search(r"\s", actual) and label == actual and actual not in others
        return None if fine else _told(path, expected, actual)

    def _json(self, expected: Any, actual: str, path: str) -> str | None:
        try:
            value = json.loads(actual)
        except ValueError:
            return f"{path}: not JSON: {_short(actual)}"
        if isinstance(expected, list) and isinstance(value, list):
            value = [_without_nulls(item) for item in value]
            expected = [_without_nulls(item) for item in expected]
        return self.difference(expected, value, f"{path}$")


def _without_nulls(item: Any) -> Any:
    return {k: v for k, v in item.items() if v is not None} if isinstance(item, dict) else item


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _first(found: Any) -> str | None:
    return next((item for item in found if item is not None), None)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _told(path: str, expected: Any, actual: Any) -> str:
    return f"{path}: expected {_short(expected)!r}, got {_short(actual)!r}"


def broken_rule(events: Sequence[dict[str, Any]], content: Sequence[Any]) -> str | None:
    """The first rule of the event protocol that a sequence of wire events breaks (specification section 2)."""
    if not events or events[-1]["type"] not in ("done", "error"):
        return "no terminal event at the end"
    started: dict[int, str] = {}
    ended: dict[int, Any] = {}
    text: dict[int, list[str]] = {}
    for place, event in enumerate(events):
        kind, _, phase = event["type"].partition("_")
        if event["type"] == "start":
            if place:
                return f"start at {place}"
        elif kind in ("done", "error"):
            if place != len(events) - 1:
                return f"{kind} at {place} is not the last event"
        elif place == 0 or events[0]["type"] != "start":
            return "a block before start"
        else:
            index = event["contentIndex"]
            if phase == "start":
                if index in started or index != len(started):
                    return f"block {index} starts at {place}, {len(started)} are there"
                started[index], text[index] = kind, []
            elif index in ended or started.get(index) != kind:
                return f"{event['type']} of block {index}, which is not an open {kind}"
            elif phase == "delta":
                text[index].append(event["delta"])
            else:
                ended[index] = event
    if events[-1]["type"] == "done" and ended.keys() != started.keys():
        return f"blocks {sorted(started.keys() - ended.keys())} never end"
    return f"{len(started)} blocks started, {len(content)} are in the message" if len(started) != len(content) else None
