"""Bring arguments into the shape that a JSON Schema asks for: "10" where a number is wanted becomes 10.

Nothing is checked here: what cannot be converted stays as it is and fails the check that follows. Nothing is filled in
either. A schema is compiled once into functions; they never change what they are given, and return the very same
object where there was nothing to convert.

Per schema, in this order (source: recorded behaviour, format "validation"):

1. A null in an optional property is dropped if the property's schema rejects null, whatever stands beside `properties`.
2. The first keyword that applies converts: `$ref`; `const` or `enum`; `anyOf` or `oneOf`; `allOf`; a single `type`.
3. A list of types converts to its first type that changes the value, unless the value has one of them already. In a
   union this is what remains when no branch helped by 2.

Whether a branch of `anyOf` accepts a value is a question for the check. Where `core/plain_schema` is not certain, the
`Oracle` is asked, which is a library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, cast, final

from antiphon.core.json_numbers import JS_SPACE, number_from_text, number_text, whole_if_exact
from antiphon.core.plain_schema import TYPES, PlainSchema, Test, simple_pattern
from antiphon.core.schema import Pointer, Schema, SchemaDocument, below, equal_json
from antiphon.core.wire import JsonObject, JsonValue

Convert: TypeAlias = Callable[[JsonValue], JsonValue]
Task: TypeAlias = Literal["everything", "all but lists", "nulls"]

_FIRST = frozenset(("$ref", "const", "enum", "anyOf", "oneOf", "allOf"))
"""Keywords that decide before `type` and what stands beside it."""


class Oracle(Protocol):
    """A full implementation of JSON Schema, asked about one document."""

    def accepts(self, pointer: Pointer, value: JsonValue) -> bool:
        """Does the schema at this place accept the value?"""
        ...

    def matches(self, pattern: str, text: str) -> bool:
        """Is there a match of the pattern anywhere in the text?"""
        ...


@final
class Coercion:
    """The conversions of one document."""

    __slots__ = ("_compiled", "_document", "_nulls", "_oracle", "_plain", "_rounds", "_task")

    def __init__(self, document: SchemaDocument, plain: PlainSchema, oracle: Oracle, task: Task = "everything") -> None:
        self._document = document
        self._plain = plain
        self._oracle = oracle
        self._task = task
        everything = task == "everything"
        self._nulls = Coercion(document, plain, oracle, "nulls") if everything else self
        """Does 1 alone: members beside a keyword that decides the rest."""
        self._rounds = (Coercion(document, plain, oracle, "all but lists"), self) if everything else (self,)
        """What a union tries in turn: lists of types come last, so they are left alone in the first round."""
        self._compiled: dict[Pointer, Convert | None] = {}

    def convert(self, value: JsonValue) -> JsonValue:
        """The value in the shape that the document asks for, as far as that is possible."""
        convert = self.at("", self._document.root)
        return value if convert is None else convert(value)

    def at(self, pointer: Pointer, schema: Schema) -> Convert | None:
        """The conversion of the schema at this place; nothing if it never converts."""
        if pointer not in self._compiled:
            self._compiled[pointer] = lambda value: cast("Convert", self._compiled[pointer])(
                value
            )  # for what refers back
            self._compiled[pointer] = self._compile(pointer, schema) if type(schema) is dict else None
        return self._compiled[pointer]

    def accepts(self, pointer: Pointer, schema: Schema) -> Test:
        """The exact test of the schema at this place."""
        fits = self._plain.test(pointer, schema)

        def test(value: JsonValue) -> bool:
            return fits(value) or (not self._plain.is_plain(pointer) and self._oracle.accepts(pointer, value))

        return test

    def _compile(self, pointer: Pointer, schema: JsonObject) -> Convert | None:
        if self._task == "nulls":
            return self._without_nulls(pointer, schema)
        steps = [self._by_first_keyword(pointer, schema)]
        if self._task == "everything" and "properties" in schema and not _FIRST.isdisjoint(schema):
            steps.insert(0, self._nulls.at(pointer, schema))
        types = schema.get("type")
        if isinstance(types, list) and self._task == "everything":
            names = [name for name in types if isinstance(name, str)]
            steps.append(lambda value: to_first_type(names, value))
        return _chain(steps)

    def _without_nulls(self, pointer: Pointer, schema: JsonObject) -> Convert | None:
        """Step 1 here and below, also in what is referred to; a branch of a union takes care of itself."""
        found = self._document.find(schema["$ref"]) if isinstance(schema.get("$ref"), str) else None
        every = schema["allOf"] if isinstance(schema.get("allOf"), list) else []
        applied = [None if found is None else self.at(*found)]
        applied += [self.at(below(pointer, "allOf", index), each) for index, each in enumerate(every)]
        return _chain([*applied, self._members(pointer, schema), self._list(pointer, schema, wraps=False)])

    def _by_first_keyword(self, pointer: Pointer, schema: JsonObject) -> Convert | None:
        if "$ref" in schema:
            found = self._document.find(schema["$ref"]) if isinstance(schema["$ref"], str) else None
            return None if found is None else self.at(*found)
        if "const" in schema:
            return lambda value: to_member([schema["const"]], value)
        if isinstance(schema.get("enum"), list):
            return lambda value: to_member(schema["enum"], value)
        for keyword in ("anyOf", "oneOf"):
            if isinstance(schema.get(keyword), list):
                return self._union(pointer, schema, keyword)
        if isinstance(schema.get("allOf"), list):
            return _chain([self.at(below(pointer, "allOf", i), each) for i, each in enumerate(schema["allOf"])])
        return self._by_type(pointer, schema)

    def _union(self, pointer: Pointer, schema: JsonObject, keyword: str) -> Convert:
        """Keep what a branch accepts, else take the first branch's conversion that the whole schema accepts."""
        branches = [(below(pointer, keyword, index), branch) for index, branch in enumerate(schema[keyword])]
        tests = [self.accepts(*branch) for branch in branches]
        converts = [c for each in self._rounds for branch in branches if (c := each.at(*branch)) is not None]
        whole = self.accepts(pointer, schema)

        def convert_union(value: JsonValue) -> JsonValue:
            if any(accepts(value) for accepts in tests):
                return value
            for convert in converts:
                changed = convert(value)
                if changed is not value and whole(changed):
                    return changed
            return value

        return convert_union

    def _by_type(self, pointer: Pointer, schema: JsonObject) -> Convert | None:
        kind = schema.get("type")
        if isinstance(kind, str) and kind in _SCALARS:
            return _SCALARS[kind]
        if isinstance(kind, list) and self._task == "all but lists":
            return None
        converts: list[Convert | None] = []
        if kind in ("object", None) or isinstance(kind, list):
            converts.append(self._members(pointer, schema))
        if kind in ("array", None) or isinstance(kind, list):
            converts.append(self._list(pointer, schema, wraps=kind == "array"))
        return _chain(converts)

    # -- objects -----------------------------------------------------------------------------------------------------

    def _members(self, pointer: Pointer, schema: JsonObject) -> Convert | None:
        member = _Members(self, pointer, schema)

        def convert_object(value: JsonValue) -> JsonValue:
            if type(value) is not dict:
                return value
            changed: JsonObject | None = None
            for name, item in value.items():
                if item is None and member.drops_null(name):
                    changed = dict(value) if changed is None else changed
                    del changed[name]
                    continue
                new = member.converted(name, item)
                if new is not item:
                    changed = dict(value) if changed is None else changed
                    changed[name] = new
            return value if changed is None else changed

        return convert_object if member.matters else None

    def pattern_test(self, pattern: str) -> Callable[[str], bool]:
        """Does a name match the pattern?"""
        simple = simple_pattern(pattern)
        if simple is not None:
            return lambda name: simple.search(name) is not None
        return lambda name: self._oracle.matches(pattern, name)

    # -- arrays ------------------------------------------------------------------------------------------------------

    def _list(self, pointer: Pointer, schema: JsonObject, *, wraps: bool) -> Convert | None:
        """Items one by one. A single value becomes a list of one, unless the list is a tuple of fixed places."""
        key = "items" if isinstance(schema.get("items"), list) else "prefixItems"
        places = schema[key] if isinstance(schema.get(key), list) else []
        rest_key = "additionalItems" if key == "items" else "items"
        first = [self.at(below(pointer, key, index), each) for index, each in enumerate(places)]
        rest = self.at(below(pointer, rest_key), schema[rest_key]) if rest_key in schema else None
        wraps = wraps and not places
        if not wraps and rest is None and not any(first):
            return None

        def convert_list(value: JsonValue) -> JsonValue:
            if type(value) is not list:
                if not wraps:
                    return value
                return [value if rest is None else rest(value)]
            converts = first[: len(value)] + [rest] * (len(value) - len(first))
            new = [item if c is None else c(item) for c, item in zip(converts, value, strict=True)]
            return value if all(a is b for a, b in zip(new, value, strict=True)) else new

        return convert_list


class _Members:
    """What happens to each member of an object."""

    __slots__ = ("_named", "_null", "_patterned", "_rest", "matters")

    def __init__(self, coercion: Coercion, pointer: Pointer, schema: JsonObject) -> None:
        named, patterned = _object(schema.get("properties")), _object(schema.get("patternProperties"))
        required = cast("list[Any]", schema["required"]) if isinstance(schema.get("required"), list) else []
        self._named = {name: coercion.at(below(pointer, "properties", name), each) for name, each in named.items()}
        self._null: dict[str, Callable[[], bool]] = {
            name: _remembered(coercion.accepts(below(pointer, "properties", name), each), None)
            for name, each in named.items()
            if name not in required and not (type(each) is dict and each.keys() == {"$ref"})
        }
        """Optional properties: do they accept null?"""
        self._patterned = [
            (coercion.pattern_test(p), coercion.at(below(pointer, "patternProperties", p), each))
            for p, each in patterned.items()
        ]
        rest = schema.get("additionalProperties")
        self._rest = coercion.at(below(pointer, "additionalProperties"), rest)
        self.matters = bool(named or patterned or self._rest)

    def drops_null(self, name: str) -> bool:
        accepts_null = self._null.get(name)
        return accepts_null is not None and not accepts_null()

    def converted(self, name: str, item: JsonValue) -> JsonValue:
        known = name in self._named
        convert = self._named.get(name)
        if convert is not None:
            item = convert(item)
        for matches, convert in self._patterned:
            if matches(name):
                known = True
                item = item if convert is None else convert(item)
        return item if known or self._rest is None else self._rest(item)


def _object(given: JsonValue) -> JsonObject:
    return cast("JsonObject", given) if type(given) is dict else {}


def _remembered(test: Test, value: JsonValue) -> Callable[[], bool]:
    """The answer of the test for this value, found when first asked for."""
    answer: list[bool] = []

    def ask() -> bool:
        if not answer:
            answer.append(test(value))
        return answer[0]

    return ask


def _chain(converts: list[Convert | None]) -> Convert | None:
    """One after the other."""
    steps = [convert for convert in converts if convert is not None]
    if len(steps) <= 1:
        return steps[0] if steps else None

    def convert_in_steps(value: JsonValue) -> JsonValue:
        for step in steps:
            value = step(value)
        return value

    return convert_in_steps


# -- scalars: a single type --------------------------------------------------------------------------------------------


def to_text(value: JsonValue) -> JsonValue:
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    return number_text(value) if type(value) is int or type(value) is float else value


def to_number(value: JsonValue) -> JsonValue:
    if value is None or value is False:
        return 0
    if value is True:
        return 1
    if type(value) is not str:
        return value
    word = value.lower()
    if word in ("true", "false"):
        return int(word == "true")
    digits = value.removesuffix("n")  # JavaScript's spelling of a large whole number
    if digits is not value and digits.removeprefix("-").isdecimal() and digits.isascii():
        value = digits
    number = number_from_text(value)
    return value if number is None else number


def to_integer(value: JsonValue) -> JsonValue:
    number = to_number(value)
    return int(number) if type(number) is float and number - number == 0 else number


def to_boolean(value: JsonValue) -> JsonValue:
    if value is None:
        return False
    if type(value) is str:
        word = value.lower()
        return True if word in ("true", "1") else False if word in ("false", "0") else value
    if type(value) is int or type(value) is float:
        return bool(value) if value in (0, 1) else value
    return value


def to_null(value: JsonValue) -> JsonValue:
    if type(value) is str:
        return None if value.lower() in ("null", "undefined", "", "0") else value
    return None if value is False or (type(value) in (int, float) and value == 0) else value


_SCALARS: dict[str, Convert] = {
    "string": to_text,
    "number": to_number,
    "integer": to_integer,
    "boolean": to_boolean,
    "null": to_null,
}


def to_member(members: list[JsonValue], value: JsonValue) -> JsonValue:
    """The member that the value is, or else the first one that it converts to exactly."""
    if any(equal_json(member, value) for member in members):
        return value
    for member in members:
        convert = _MEMBERS.get(type(member))
        if convert is not None and equal_json(member, convert(value)):
            return member
    return value


_MEMBERS: dict[type, Convert] = {str: to_text, int: to_number, float: to_number, bool: to_boolean}


# -- scalars: a list of types ------------------------------------------------------------------------------------------


def to_first_type(names: list[str], value: JsonValue) -> JsonValue:
    """The value in the first type of the list that changes it, unless it has one of the types already."""
    if any(name in TYPES and TYPES[name](value) for name in names):
        return whole_if_exact(value) if type(value) is float and "number" not in names else value
    for name in names:
        convert = _LISTED.get(name)
        if convert is not None and (changed := convert(value)) is not value:
            return changed
    return value


def _listed_number(value: JsonValue) -> JsonValue:
    if value is None or value is True or value is False:
        return int(value or 0)
    number = number_from_text(value) if type(value) is str and value.strip(JS_SPACE) else None
    return value if number is None else number


def _listed_integer(value: JsonValue) -> JsonValue:
    number = _listed_number(value)
    return number if TYPES["integer"](number) else value


def _listed_boolean(value: JsonValue) -> JsonValue:
    if value is None or value == "false" or (type(value) in (int, float) and value == 0):
        return False
    return True if value == "true" or (type(value) in (int, float) and value == 1) else value


def _listed_text(value: JsonValue) -> JsonValue:
    return "" if value is None else to_text(value)


def _listed_null(value: JsonValue) -> JsonValue:
    return None if value is False or value == "" or (type(value) in (int, float) and value == 0) else value


_LISTED: dict[str, Convert] = {
    "number": _listed_number,
    "integer": _listed_integer,
    "boolean": _listed_boolean,
    "string": _listed_text,
    "null": _listed_null,
}
