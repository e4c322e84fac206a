"""Schemas and values by chance, for tests that compare two judges."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

NAMES = ["a", "b", "n_x", "s_y", ""]
SCALARS = [None, True, False, 0, 1, 2, 5, -1, 1.0, 0.5, 2.5, -3.0, 1e300, "", "a", "ab", "1", "n_x", "😀é", "a\n"]
TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"]
PATTERNS = ["^a", "b$", "^[a-z]+$", r"^\d{1,2}$", r"\w", "n_", "^[^a]*$", "a-b", "^$", "x?", "😀", "(a|b)", "^.$"]
BOUNDS = [0, 1, 2, -1, 0.5, 2.0, 2.5]


class Chance:
    """Schemas and values by chance, biased towards those that have something to say to each other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, items: list[Any]) -> Any:
        return self.random.choice(items)

    def some(self, make: Callable[[], Any], most: int = 3, least: int = 0) -> list[Any]:
        return [make() for _ in range(self.random.randint(least, most))]

    def value(self, depth: int = 2) -> Any:
        kind = self.random.random()
        if depth == 0 or kind < 0.4:
            return self.pick(SCALARS)
        if kind < 0.6:
            return self.some(lambda: self.value(depth - 1))
        return {self.pick(NAMES): self.value(depth - 1) for _ in range(self.random.randint(0, 3))}

    def schema(self, depth: int) -> Any:
        if depth == 0:
            simple = {"type": self.pick(TYPES)}
            return self.pick([True, False, simple, simple, simple, {"enum": self.some(self.value, 3, 1)}, {}])
        keywords = self.random.sample(sorted(KEYWORDS), self.random.choice([1, 1, 2, 2, 3]))
        return {keyword: KEYWORDS[keyword](self, depth - 1) for keyword in keywords}

    def schemas(self, depth: int) -> list[Any]:
        return self.some(lambda: self.schema(depth), 3, 1)

    def by_name(self, depth: int, names: list[str] = NAMES) -> dict[str, Any]:
        return {self.pick(names): self.schema(depth) for _ in range(self.random.randint(0, 3))}

    def names(self) -> list[str]:
        return sorted({self.pick(NAMES) for _ in range(self.random.randint(0, 2))})

    def document(self) -> Any:
        defs = {"one": self.schema(1), "two": self.schema(1), "word": {"$anchor": "word", "type": "string"}}
        root = self.schema(self.random.choice([1, 2, 3]))
        return root | {"$defs": defs} if isinstance(root, dict) else root


def small(chance: Chance, depth: int) -> Any:
    return chance.pick([0, 1, 2, 3, 2.0])


def bound(chance: Chance, depth: int) -> Any:
    return chance.pick(BOUNDS)


KEYWORDS: dict[str, Callable[[Chance, int], Any]] = {
    "$ref": lambda c, d: c.pick(["#/$defs/one", "#/$defs/two", "#word"]),
    "$schema": lambda c, d: "https://json-schema.org/draft/2020-12/schema",
    "type": lambda c, d: c.pick([c.pick(TYPES), c.pick(TYPES), sorted({c.pick(TYPES), c.pick(TYPES)})]),
    "enum": lambda c, d: c.pick([["a", "b", "ab"], c.some(c.value, 4, 1)]),
    "const": lambda c, d: c.value(),
    "minimum": bound,
    "maximum": bound,
    "exclusiveMinimum": bound,
    "exclusiveMaximum": bound,
    "multipleOf": lambda c, d: c.pick([1, 2, 5, 0.5]),
    "minLength": small,
    "maxLength": small,
    "pattern": lambda c, d: c.pick(PATTERNS),
    "minItems": small,
    "maxItems": small,
    "uniqueItems": lambda c, d: c.pick([True, False]),
    "items": lambda c, d: c.schema(d),
    "prefixItems": lambda c, d: c.schemas(d),
    "contains": lambda c, d: c.schema(d),
    "minContains": small,
    "maxContains": small,
    "properties": lambda c, d: c.by_name(d),
    "patternProperties": lambda c, d: c.by_name(d, PATTERNS),
    "additionalProperties": lambda c, d: c.schema(d),
    "required": lambda c, d: c.names(),
    "propertyNames": lambda c, d: c.schema(d),
    "minProperties": small,
    "maxProperties": small,
    "dependentRequired": lambda c, d: {c.pick(NAMES): c.names()},
    "allOf": lambda c, d: c.schemas(d),
    "anyOf": lambda c, d: c.schemas(d),
    "oneOf": lambda c, d: c.schemas(d),
    "not": lambda c, d: c.schema(d),
    "if": lambda c, d: c.schema(d),
    "then": lambda c, d: c.schema(d),
    "else": lambda c, d: c.schema(d),
    "format": lambda c, d: c.pick(["email", "no-such-format"]),
    "unevaluatedProperties": lambda c, d: c.pick([True, False]),
    "title": lambda c, d: "t",
    "nullable": lambda c, d: True,
    "x-hint": lambda c, d: {"y": 1},
}
