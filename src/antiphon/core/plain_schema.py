"""The part of JSON Schema 2020-12 that needs no library: is a value certainly valid?

Each schema is compiled once into a function. It answers yes only if the value fits; a no is certain as well if the
schema `is_plain`, that is, if it and all it refers to use nothing but the keywords below. For the rest (formats,
unusual patterns, other drafts, …) a no means "ask the library".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast, final

from antiphon.core.schema import Pointer, Schema, SchemaDocument, below, equal_json, hashable_json
from antiphon.core.wire import JsonObject, JsonValue

Test: TypeAlias = Callable[[JsonValue], bool]

_LATEST = "https://json-schema.org/draft/2020-12/schema"

_NO_CONSTRAINT = frozenset(
    {
        *("$comment", "$defs", "definitions", "$anchor", "title", "description", "default", "examples", "example"),
        *("deprecated", "readOnly", "writeOnly", "nullable", "contentMediaType", "contentEncoding"),
    }
)


@final
class PlainSchema:
    """Tests for one document and each schema inside it."""

    __slots__ = ("_children", "_compiled", "_document", "_odd", "_parts", "_plain")

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._compiled: dict[Pointer, Test] = {}
        self._children: dict[Pointer, list[Pointer]] = {}
        """Which schemas a schema consults."""
        self._odd: set[Pointer] = set()
        """Schemas with a keyword that is not understood here."""
        self._plain: dict[Pointer, bool] = {}
        self._parts: dict[Pointer, dict[str, Test]] = {}

    def test(self, pointer: Pointer, schema: Schema) -> Test:
        """The test of the schema at this place: true if a value certainly fits."""
        known = self._compiled.get(pointer)
        if known is not None:
            return known
        self._compiled[pointer] = lambda value: self._compiled[pointer](value)  # a reference may lead back here
        self._children[pointer] = []
        self._compiled[pointer] = test = _Compiler(self, pointer).compile(schema)
        return test

    def is_plain(self, pointer: Pointer) -> bool:
        """Is a no of this test certain? Ask after the test was made."""
        known = self._plain.get(pointer)
        if known is None:
            known = self._plain[pointer] = not self._odd & self._reachable(pointer)
        return known

    def _reachable(self, pointer: Pointer) -> set[Pointer]:
        seen, waiting = {pointer}, [pointer]
        while waiting:
            new = [child for child in self._children[waiting.pop()] if child not in seen]
            seen.update(new)
            waiting += new
        return seen

    def parts(self, pointer: Pointer) -> dict[str, Test]:
        """The tests of the keywords of a schema, each group of keywords under its first name. For explanations."""
        return self._parts[pointer]

    def child(self, parent: Pointer, pointer: Pointer, schema: Schema) -> Test:
        """The test of a schema that another one consults."""
        self._children[parent].append(pointer)
        return self.test(pointer, schema)

    def referenced(self, parent: Pointer, ref: str) -> Test:
        """The test of what a reference names; one that names nothing fits nothing."""
        found = self._document.find(ref)
        return never if found is None else self.child(parent, *found)

    def keep(self, pointer: Pointer, parts: dict[str, Test]) -> None:
        self._parts[pointer] = parts

    def leave_to_library(self, pointer: Pointer) -> Test:
        self._odd.add(pointer)
        return never


def always(value: JsonValue) -> bool:
    return True


def never(value: JsonValue) -> bool:
    return False


# -- types -------------------------------------------------------------------------------------------------------------


def is_text(value: JsonValue) -> bool:
    return type(value) is str


def is_object(value: JsonValue) -> bool:
    return type(value) is dict


def is_array(value: JsonValue) -> bool:
    return type(value) is list


def is_boolean(value: JsonValue) -> bool:
    return value is True or value is False


def is_null(value: JsonValue) -> bool:
    return value is None


def is_integer(value: JsonValue) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def is_number(value: JsonValue) -> bool:
    return type(value) is int or (type(value) is float and value - value == 0)


TYPES: dict[str, Test] = {
    "string": is_text,
    "object": is_object,
    "array": is_array,
    "boolean": is_boolean,
    "null": is_null,
    "integer": is_integer,
    "number": is_number,
}


# -- one schema --------------------------------------------------------------------------------------------------------


class _Compiler:
    """Makes the test of one schema out of the tests of its keywords."""

    __slots__ = ("plain", "pointer")

    def __init__(self, plain: PlainSchema, pointer: Pointer) -> None:
        self.plain = plain
        self.pointer = pointer

    def compile(self, schema: Schema) -> Test:
        if schema is True:
            return always
        if schema is False:
            return never
        if type(schema) is not dict:
            return self.plain.leave_to_library(self.pointer)
        parts: dict[str, Test] = {}
        for keyword in cast("JsonObject", schema):
            group = _GROUPS.get(keyword, keyword)
            if group in parts or group in _NO_CONSTRAINT or keyword.startswith("x-"):
                continue
            build = _KEYWORDS.get(group)
            test = None if build is None else build(self, schema)
            parts[group] = self.plain.leave_to_library(self.pointer) if test is None else test
        self.plain.keep(self.pointer, parts)
        return _all(list(parts.values()))

    def child(self, schema: Schema, *steps: str | int) -> Test:
        return self.plain.child(self.pointer, below(self.pointer, *steps), schema)

    def children(self, schema: JsonObject, keyword: str) -> list[Test] | None:
        """The tests of a list of schemas, if it is one."""
        given = schema[keyword]
        if not isinstance(given, list) or not given:
            return None
        return [self.child(each, keyword, index) for index, each in enumerate(given)]

    def certain(self, test: Test, *steps: str | int) -> Test:
        """Is the answer of a child certain, whatever it is? Known only when all references were followed."""
        pointer = below(self.pointer, *steps)
        return lambda value: self.plain.is_plain(pointer)


def _all(tests: list[Test]) -> Test:
    match [test for test in tests if test is not always]:
        case []:
            return always
        case [only]:
            return only
        case [first, second]:
            return lambda value: first(value) and second(value)
        case [first, second, third]:
            return lambda value: first(value) and second(value) and third(value)
        case several:
            return lambda value: all(test(value) for test in several)


def _type(c: _Compiler, schema: JsonObject) -> Test | None:
    given = schema["type"]
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n in TYPES for n in names):
        return None
    tests = [TYPES[name] for name in names]
    return tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)


def _enum(c: _Compiler, schema: JsonObject) -> Test | None:
    members = schema["enum"]
    if not isinstance(members, list):
        return None
    if all(type(member) is str for member in members):
        texts = frozenset(members)
        return lambda value: type(value) is str and value in texts
    return lambda value: any(equal_json(member, value) for member in members)


def _const(c: _Compiler, schema: JsonObject) -> Test | None:
    constant = schema["const"]
    return lambda value: equal_json(constant, value)


def _ref(c: _Compiler, schema: JsonObject) -> Test | None:
    ref = schema["$ref"]
    return c.plain.referenced(c.pointer, ref) if isinstance(ref, str) else None


def _dialect(c: _Compiler, schema: JsonObject) -> Test | None:
    given = schema["$schema"]
    return always if isinstance(given, str) and given.removesuffix("#") == _LATEST else None


# -- numbers and texts -------------------------------------------------------------------------------------------------


def _bound(keyword: str, holds: Callable[[Any, Any], bool]) -> Callable[[_Compiler, JsonObject], Test | None]:
    def build(c: _Compiler, schema: JsonObject) -> Test | None:
        limit = schema[keyword]
        if not is_number(limit):
            return None
        return lambda value: not is_number(value) or holds(value, limit)

    return build


def _multiple_of(c: _Compiler, schema: JsonObject) -> Test | None:
    step = schema["multipleOf"]
    if type(step) is not int or step <= 0:
        return None  # fractions: what counts as a multiple of 0.1 is for the library to say
    return lambda value: not is_number(value) or value % step == 0


def _size(keyword: str, kind: type, fits: Callable[[int, int], bool]) -> Callable[[_Compiler, JsonObject], Test | None]:
    def build(c: _Compiler, schema: JsonObject) -> Test | None:
        limit = schema[keyword]
        if not is_integer(limit) or limit < 0:
            return None
        return lambda value: type(value) is not kind or fits(_length(value), limit)

    return build


_length: Callable[[Any], int] = len


def _at_least(size: Any, limit: Any) -> bool:
    return bool(size >= limit)


def _at_most(size: Any, limit: Any) -> bool:
    return bool(size <= limit)


_ATOM = r"(?:[A-Za-z0-9_ /:@,=<>~#%&!;\"'-]|\\[dw./\\-]|\[\^?(?:[A-Za-z0-9_]-[A-Za-z0-9_]|[A-Za-z0-9_ ./]|\\[dw])+\])"
_SIMPLE_PATTERN = re.compile(rf"\^?(?:{_ATOM}(?:[+*?]|\{{[0-9]{{1,3}}(?:,[0-9]{{0,3}})?\}})?)*\$?")
_MOST_REPEATS = 3


def simple_pattern(pattern: JsonValue) -> re.Pattern[str] | None:
    """The pattern for `search`, if it surely means the same to Python as to JavaScript and is cheap on any text."""
    if not isinstance(pattern, str) or not _SIMPLE_PATTERN.fullmatch(pattern):
        return None
    if sum(pattern.count(sign) for sign in "+*?{") > _MOST_REPEATS:
        return None
    ending = pattern.endswith("$")
    try:
        return re.compile(pattern[:-1] + r"\Z" if ending else pattern, re.ASCII)
    except re.error:
        return None


def _pattern(c: _Compiler, schema: JsonObject) -> Test | None:
    pattern = simple_pattern(schema["pattern"])
    if pattern is None:
        return None
    search = pattern.search
    return lambda value: type(value) is not str or search(value) is not None


# -- arrays ------------------------------------------------------------------------------------------------------------


def _items(c: _Compiler, schema: JsonObject) -> Test | None:
    first = c.children(schema, "prefixItems") if "prefixItems" in schema else []
    rest = schema.get("items", True)
    if first is None or not isinstance(rest, dict | bool):
        return None
    each = always if rest is True else c.child(rest, "items")
    start = len(first)

    def test(value: JsonValue) -> bool:
        if type(value) is not list:
            return True
        if start and not all(fits(item) for fits, item in zip(first, value, strict=False)):
            return False
        return each is always or all(map(each, value[start:] if start else value))

    return test


def _contains(c: _Compiler, schema: JsonObject) -> Test | None:
    if "contains" not in schema:
        return always  # the two counts mean nothing without it
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if not is_integer(least) or not (most is None or is_integer(most)):
        return None
    fits = c.child(schema["contains"], "contains")
    certain = c.certain(fits, "contains")

    def test(value: JsonValue) -> bool:
        if type(value) is not list:
            return True
        count = sum(map(fits, value))
        return count >= least and (most is None or (certain(value) and count <= most))

    return test


def _unique(c: _Compiler, schema: JsonObject) -> Test | None:
    wanted = schema["uniqueItems"]
    if wanted is False:
        return always
    if wanted is not True:
        return None
    return lambda value: type(value) is not list or len(set(map(hashable_json, value))) == len(value)


# -- objects -----------------------------------------------------------------------------------------------------------


def _members(c: _Compiler, schema: JsonObject) -> Test | None:
    """`properties`, `patternProperties` and `additionalProperties` together: each member is looked at once."""
    named, patterned = schema.get("properties", {}), schema.get("patternProperties", {})
    if type(named) is not dict or type(patterned) is not dict:
        return None
    tests = {name: c.child(each, "properties", name) for name, each in named.items()}
    rest = c.child(schema.get("additionalProperties", True), "additionalProperties")
    patterns = [(simple_pattern(p), c.child(each, "patternProperties", p)) for p, each in patterned.items()]
    if any(pattern is None for pattern, _ in patterns):
        return None
    searches = [(cast("re.Pattern[str]", pattern).search, test) for pattern, test in patterns]

    test_of = tests.get

    def test(value: JsonValue) -> bool:
        if type(value) is not dict:
            return True
        for name, item in value.items():  # noqa: SIM110 - a generator would cost more than the test
            if not test_of(name, rest)(item):
                return False
        return True

    def test_with_patterns(value: JsonValue) -> bool:
        if type(value) is not dict:
            return True
        for name, item in value.items():
            matched = [fits for search, fits in searches if search(name)]
            if name in tests:
                matched.append(tests[name])
            if not all(fits(item) for fits in matched or (rest,)):
                return False
        return True

    return test_with_patterns if searches else test


def _required(c: _Compiler, schema: JsonObject) -> Test | None:
    names = _names(schema["required"])
    if names is None:
        return None
    return lambda value: type(value) is not dict or names.issubset(value)


def _names(given: JsonValue) -> frozenset[str] | None:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        return None
    return frozenset(given)


def _property_names(c: _Compiler, schema: JsonObject) -> Test | None:
    fits = c.child(schema["propertyNames"], "propertyNames")
    return lambda value: type(value) is not dict or all(map(fits, value))


def _dependent_required(c: _Compiler, schema: JsonObject) -> Test | None:
    given = schema["dependentRequired"]
    if type(given) is not dict:
        return None
    needed = {name: _names(names) for name, names in given.items()}
    if None in needed.values():
        return None
    return lambda value: (
        type(value) is not dict
        or all(cast("frozenset[str]", names).issubset(value) for name, names in needed.items() if name in value)
    )


# -- combinations ------------------------------------------------------------------------------------------------------


def _all_of(c: _Compiler, schema: JsonObject) -> Test | None:
    tests = c.children(schema, "allOf")
    return None if tests is None else _all(tests)


def _any_of(c: _Compiler, schema: JsonObject) -> Test | None:
    tests = c.children(schema, "anyOf")
    return None if tests is None else lambda value: any(fits(value) for fits in tests)


def _one_of(c: _Compiler, schema: JsonObject) -> Test | None:
    tests = c.children(schema, "oneOf")
    if tests is None:
        return None
    certain = [c.certain(fits, "oneOf", index) for index, fits in enumerate(tests)]
    return lambda value: sum([fits(value) for fits in tests]) == 1 and all(sure(value) for sure in certain)


def _not(c: _Compiler, schema: JsonObject) -> Test | None:
    fits = c.child(schema["not"], "not")
    certain = c.certain(fits, "not")
    return lambda value: certain(value) and not fits(value)


def _if(c: _Compiler, schema: JsonObject) -> Test | None:
    if "if" not in schema:
        return always
    condition = c.child(schema["if"], "if")
    certain = c.certain(condition, "if")
    then = c.child(schema.get("then", True), "then")
    otherwise = c.child(schema.get("else", True), "else")
    return lambda value: certain(value) and (then(value) if condition(value) else otherwise(value))


_GROUPS = {
    "prefixItems": "items",
    "minContains": "contains",
    "maxContains": "contains",
    "patternProperties": "properties",
    "additionalProperties": "properties",
    "then": "if",
    "else": "if",
}

_KEYWORDS: dict[str, Callable[[_Compiler, JsonObject], Test | None]] = {
    "$schema": _dialect,
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _bound("minimum", lambda value, limit: bool(value >= limit)),
    "maximum": _bound("maximum", lambda value, limit: bool(value <= limit)),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda value, limit: bool(value > limit)),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda value, limit: bool(value < limit)),
    "multipleOf": _multiple_of,
    "minLength": _size("minLength", str, _at_least),
    "maxLength": _size("maxLength", str, _at_most),
    "pattern": _pattern,
    "items": _items,
    "contains": _contains,
    "uniqueItems": _unique,
    "minItems": _size("minItems", list, _at_least),
    "maxItems": _size("maxItems", list, _at_most),
    "properties": _members,
    "required": _required,
    "propertyNames": _property_names,
    "dependentRequired": _dependent_required,
    "minProperties": _size("minProperties", dict, _at_least),
    "maxProperties": _size("maxProperties", dict, _at_most),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
