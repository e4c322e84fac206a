"""Why a value does not fit a schema, told so that a model can repair it.

Each fault names a place, what is wrong there, and what was found. `explain` finds them for plain schemas; the phrases
serve for what a library finds as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast, final

from msgspec import Struct

from antiphon.core.plain_schema import PlainSchema, simple_pattern
from antiphon.core.schema import Pointer, Schema, SchemaDocument, below
from antiphon.core.wire import JsonObject, JsonValue, encode

Path: TypeAlias = tuple[str | int, ...]

ABSENT: Final = object()
"""Stands for the value of a fault when there is none to show."""

MOST_FAULTS = 12
LONGEST_VALUE = 120


@final
class Fault(Struct, frozen=True):
    """One thing that is wrong. `problem` completes a sentence whose subject is the place."""

    path: Path
    problem: str
    value: Any = ABSENT


_KINDS = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}

PHRASES: dict[str, Callable[[Any], str]] = {
    "type": lambda names: "must be " + " or ".join([_KINDS.get(n, str(n)) for n in _listed(names)]),
    "enum": lambda members: "must be one of " + ", ".join([shown(member) for member in members]),
    "const": lambda constant: f"must be {shown(constant)}",
    "minimum": lambda limit: f"must be at least {shown(limit)}",
    "maximum": lambda limit: f"must be at most {shown(limit)}",
    "exclusiveMinimum": lambda limit: f"must be more than {shown(limit)}",
    "exclusiveMaximum": lambda limit: f"must be less than {shown(limit)}",
    "multipleOf": lambda step: f"must be a multiple of {shown(step)}",
    "minLength": lambda limit: f"must have at least {limit} characters",
    "maxLength": lambda limit: f"must have at most {limit} characters",
    "pattern": lambda pattern: f"must match the pattern {pattern}",
    "format": lambda name: f"must be a valid {name}",
    "minItems": lambda limit: f"must have at least {limit} items",
    "maxItems": lambda limit: f"must have at most {limit} items",
    "uniqueItems": lambda _: "must not hold the same item twice",
    "contains": lambda wanted: f"must hold the right number of items like {shown(wanted)}",
    "minProperties": lambda limit: f"must have at least {limit} members",
    "maxProperties": lambda limit: f"must have at most {limit} members",
    "dependentRequired": lambda needs: f"lacks a member that goes with another one: {shown(needs)}",
    "not": lambda unwanted: f"must not be like {shown(unwanted)}",
}
"""What is wrong, by keyword and its value in the schema."""

MISSING = "is required and missing"
NOT_ALLOWED = "is not allowed"
UNKNOWN = "is not a known argument"
BAD_NAME = "is a name that is not allowed here"


def told(faults: Iterable[Fault]) -> str:
    """One line per fault, at most `MOST_FAULTS` of them."""
    lines: list[str] = []
    for fault in faults:
        if len(lines) == MOST_FAULTS:
            lines.append("- and more")
            break
        received = "" if fault.value is ABSENT else f", got {shown(fault.value)}"
        line = f"- {place(fault.path)} {fault.problem}{received}"
        if line not in lines:
            lines.append(line)
    return "\n".join(lines)


def place(path: Path) -> str:
    """A path as `edits[0].oldText`; the whole value is called `arguments`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text or "arguments"


def shown(value: JsonValue) -> str:
    """A value as JSON, shortened."""
    text = encode(_shortened(value)).decode()
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _shortened(value: JsonValue) -> JsonValue:
    """Only what can be seen in the end, so that a huge value is not encoded for nothing."""
    if isinstance(value, str):
        return value[: LONGEST_VALUE + 1]
    if isinstance(value, list):
        return [_shortened(item) for item in value[:LONGEST_VALUE]]
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in list(cast("JsonObject", value).items())[:LONGEST_VALUE]}
    return value


def _listed(names: Any) -> list[Any]:
    return names if isinstance(names, list) else [names]


def best_of(path: Path, value: JsonValue, branches: Sequence[Sequence[Fault]]) -> list[Fault]:
    """What to say if none of several forms fits: the faults of the form that was nearly met, else what each asks for.

    Nearly met is a form that only finds fault inside the value.
    """
    near = [faults for faults in branches if faults and all(len(fault.path) > len(path) for fault in faults)]
    if near:
        nearest: Sequence[Fault] = min(near, key=len)
        return list(nearest)
    problems = dict.fromkeys(fault.problem for faults in branches for fault in faults if fault.path == path)
    wanted = ", or ".join(problem.removeprefix("must be ") for problem in problems)
    return [Fault(path, f"must be {wanted}" if wanted else "fits none of the allowed forms", value)]


# -- plain schemas -----------------------------------------------------------------------------------------------------


def explain(document: SchemaDocument, plain: PlainSchema, value: JsonValue) -> list[Fault]:
    """What is wrong with a value that a plain schema does not accept."""
    return list(_Explanation(document, plain).of("", document.root, value, ()))


class _Explanation:
    def __init__(self, document: SchemaDocument, plain: PlainSchema) -> None:
        self.document = document
        self.plain = plain

    def of(self, pointer: Pointer, schema: Schema, value: JsonValue, path: Path) -> Iterator[Fault]:
        if self.plain.test(pointer, schema)(value):
            return
        if not isinstance(schema, dict):
            yield Fault(path, NOT_ALLOWED, value)
            return
        parts = self.plain.parts(pointer)
        failed = [group for group, test in parts.items() if not test(value)]
        for group in ["type"] if "type" in failed else failed:
            inside = _INSIDE.get(group)
            if inside is not None:
                yield from inside(self, pointer, schema, value, path)
            else:
                yield Fault(path, PHRASES[group](schema.get(group)), value)

    def members(self, pointer: Pointer, schema: JsonObject, value: JsonObject, path: Path) -> Iterator[Fault]:
        named, patterned = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, item in value.items():
            places = [("properties", name)] if name in named else []
            places += [("patternProperties", p) for p in patterned if _matches(p, name)]
            for keyword, key in places:
                yield from self.of(below(pointer, keyword, key), schema[keyword][key], item, (*path, name))
            if places or "additionalProperties" not in schema:
                continue
            rest = schema["additionalProperties"]
            if rest is False:
                yield Fault((*path, name), UNKNOWN)
            else:
                yield from self.of(below(pointer, "additionalProperties"), rest, item, (*path, name))

    def required(self, pointer: Pointer, schema: JsonObject, value: JsonObject, path: Path) -> Iterator[Fault]:
        for name in schema["required"]:
            if name not in value:
                yield Fault((*path, name), MISSING)

    def names(self, pointer: Pointer, schema: JsonObject, value: JsonObject, path: Path) -> Iterator[Fault]:
        fits = self.plain.test(below(pointer, "propertyNames"), schema["propertyNames"])
        for name in value:
            if not fits(name):
                yield Fault((*path, name), BAD_NAME)

    def items(self, pointer: Pointer, schema: JsonObject, value: list[Any], path: Path) -> Iterator[Fault]:
        first = schema.get("prefixItems", [])
        for index, item in enumerate(value):
            at = ("prefixItems", index) if index < len(first) else ("items",)
            wanted = first[index] if index < len(first) else schema.get("items", True)
            yield from self.of(below(pointer, *at), wanted, item, (*path, index))

    def reference(self, pointer: Pointer, schema: JsonObject, value: JsonValue, path: Path) -> Iterator[Fault]:
        found = self.document.find(schema["$ref"])
        if found is None:
            yield Fault(path, f"can't be checked: the tool's schema refers to {schema['$ref']}, which it lacks")
        else:
            yield from self.of(*found, value, path)

    def all_of(self, pointer: Pointer, schema: JsonObject, value: JsonValue, path: Path) -> Iterator[Fault]:
        for index, each in enumerate(schema["allOf"]):
            yield from self.of(below(pointer, "allOf", index), each, value, path)

    def any_of(self, pointer: Pointer, schema: JsonObject, value: JsonValue, path: Path) -> Iterator[Fault]:
        yield from best_of(path, value, self.branches(pointer, "anyOf", schema, value, path))

    def one_of(self, pointer: Pointer, schema: JsonObject, value: JsonValue, path: Path) -> Iterator[Fault]:
        branches = self.branches(pointer, "oneOf", schema, value, path)
        if all(branches):
            yield from best_of(path, value, branches)
        else:
            yield Fault(path, "fits more than one of the forms of which it must fit exactly one", value)

    def branches(
        self, pointer: Pointer, keyword: str, schema: JsonObject, value: JsonValue, path: Path
    ) -> list[list[Fault]]:
        forms = enumerate(schema[keyword])
        return [list(self.of(below(pointer, keyword, index), each, value, path)) for index, each in forms]

    def condition(self, pointer: Pointer, schema: JsonObject, value: JsonValue, path: Path) -> Iterator[Fault]:
        holds = self.plain.test(below(pointer, "if"), schema["if"])(value)
        taken = "then" if holds else "else"
        yield from self.of(below(pointer, taken), schema[taken], value, path)


def _matches(pattern: str, name: str) -> bool:
    simple = simple_pattern(pattern)
    return simple is not None and simple.search(name) is not None


_INSIDE: dict[str, Callable[[_Explanation, Pointer, Any, Any, Path], Iterator[Fault]]] = {
    "properties": _Explanation.members,
    "required": _Explanation.required,
    "propertyNames": _Explanation.names,
    "items": _Explanation.items,
    "$ref": _Explanation.reference,
    "allOf": _Explanation.all_of,
    "anyOf": _Explanation.any_of,
    "oneOf": _Explanation.one_of,
    "if": _Explanation.condition,
}
