"""Are the arguments of a call what the tool asks for? Convert a copy, check it, and tell a model what to repair.

A schema is compiled once. Most schemas of tools are plain: they are decided by `core/plain_schema`, without a library.
The rest is left to jsonschema-rs, an optional dependency (extra `schema`), which is loaded when it is first needed.
Schemas are treated as read only: a schema that is changed in place after its first use may keep its old meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast, final
from urllib.parse import quote

import msgspec

from antiphon.core.coerce import Coercion
from antiphon.core.content import ToolCall
from antiphon.core.plain_schema import PlainSchema
from antiphon.core.schema import Pointer, Schema, SchemaDocument, copy_json
from antiphon.core.schema_faults import BAD_NAME, MISSING, NOT_ALLOWED, PHRASES, UNKNOWN, Fault, best_of, explain, told
from antiphon.core.wire import JsonObject, JsonValue, without_surrogates
from antiphon.errors import AntiphonError

Validator: TypeAlias = Any
"""A validator of jsonschema-rs."""

MOST_SCHEMAS = 1_024
LONGEST_PARSE_ERROR = 2_000

_HOME = "urn:antiphon:arguments"
_BUNDLED = ("https://json-schema.org/draft/", "http://json-schema.org/draft")


class ArgumentsRefused(AntiphonError):
    """The arguments do not fit, or can't be checked. The text is for the model."""


def check_arguments(call: ToolCall, parameters: Schema) -> JsonObject:
    """A converted copy of the call's arguments that fits the schema `parameters`. The call is not changed.

    Raises:
        ArgumentsRefused: they do not fit, were no JSON, or the schema can't be used.
    """
    if call.arguments_error is not msgspec.UNSET:
        raise ArgumentsRefused(f"Tool {call.name} was not run. {_cut(call.arguments_error)}")
    schema = compiled(parameters)
    try:
        return cast("JsonObject", schema.checked(copy_json(call.arguments)))
    except Misfit as misfit:
        raise ArgumentsRefused(f"The arguments of tool {call.name} do not fit its schema:\n{misfit}") from None
    except Unusable as problem:
        raise ArgumentsRefused(f"The arguments of tool {call.name} can't be checked: {problem}") from None
    except RecursionError:
        text = f"The arguments of tool {call.name} can't be checked: they, or the tool's schema, are nested too deeply"
        raise ArgumentsRefused(text) from None


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_PARSE_ERROR else text[:LONGEST_PARSE_ERROR] + "…"


class Misfit(Exception):
    """A value does not fit; the text lists why."""


class Unusable(Exception):
    """A schema or value that can't be checked; the text says why."""


@final
class CompiledSchema:
    """Everything that is made once per schema. Its parts are made when first needed."""

    __slots__ = ("_coercion", "_document", "_fits", "_library", "_mentions_integer", "_plain")

    def __init__(self, schema: Schema) -> None:
        self._document = SchemaDocument(schema)
        self._plain = PlainSchema(self._document)
        self._fits = self._plain.test("", schema)
        self._library = Library(self._document)
        self._coercion = Coercion(self._document, self._plain, self._library)
        self._mentions_integer = b'"integer"' in msgspec.json.encode(schema)

    def checked(self, value: JsonValue) -> JsonValue:
        """The value, converted. Takes it over: give a copy.

        Raises:
            Misfit: it does not fit.
            Unusable: it can't be checked.
        """
        if self._fits(value) and not (self._mentions_integer and _has_float(value)):
            return value
        _refuse_other_than_json(value)
        converted = self._coercion.convert(value)
        if self._fits(converted):
            return converted
        if self._plain.is_plain(""):
            raise Misfit(told(explain(self._document, self._plain, converted)))
        faults = self._library.faults(converted)
        if faults:
            raise Misfit(told(faults))
        return converted


def _refuse_other_than_json(value: JsonValue) -> None:
    """A tool's own preparation may have made anything."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return  # a lone surrogate: strange, but a text
    except (TypeError, ValueError, OverflowError) as error:
        raise Unusable(f"they are no JSON ({error})") from error


def _has_float(value: JsonValue) -> bool:
    """Then 3.0 may stand where a whole number is wanted, and the short way is not allowed."""
    if isinstance(value, dict):
        return any(map(_has_float, value.values()))
    return any(map(_has_float, value)) if isinstance(value, list) else type(value) is float


_by_identity: dict[int, tuple[Schema, CompiledSchema]] = {}
_by_content: dict[bytes, CompiledSchema] = {}


def compiled(schema: Schema) -> CompiledSchema:
    """The compiled form of a schema, kept for the schema object and for others that say the same.

    Raises:
        ArgumentsRefused: the schema is no JSON.
    """
    known = _by_identity.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    try:
        content = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsRefused(f"The tool's schema is no JSON: {error}") from error
    made = _by_content.get(content)
    if made is None:
        made = CompiledSchema(schema)
        _keep(_by_content, content, made)
    _keep(_by_identity, id(schema), (schema, made))
    return made


def _keep(cache: dict[Any, Any], key: Any, item: Any) -> None:
    """Remember an item, and forget the oldest one if there are too many."""
    if len(cache) >= MOST_SCHEMAS:
        cache.pop(next(iter(cache)), None)
    cache[key] = item


# -- the library -------------------------------------------------------------------------------------------------------


def _jsonschema() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise Unusable(
            "the tool's schema uses keywords that need the package jsonschema-rs; install the extra antiphon[schema]"
        ) from None
    return jsonschema_rs


@final
class Library:
    """jsonschema-rs, asked about one document and the schemas inside it. Nothing is ever fetched."""

    __slots__ = ("_document", "_registry", "_validators")

    def __init__(self, document: SchemaDocument) -> None:
        self._document = document
        self._validators: dict[str, Validator] = {}
        self._registry: Any = None

    def accepts(self, pointer: Pointer, value: JsonValue) -> bool:
        return bool(_answer(self._validator(pointer).is_valid, value))

    def matches(self, pattern: str, text: str) -> bool:
        key = f"pattern {pattern}"
        if key not in self._validators:
            self._validators[key] = _built(lambda: self._build({"pattern": pattern}, "Draft202012Validator"))
        return bool(_answer(self._validators[key].is_valid, text))

    def faults(self, value: JsonValue) -> list[Fault]:
        """What is wrong with a value; nothing if the document accepts it."""
        validator = self._validator("")
        if _answer(validator.is_valid, value):
            return []
        errors = _answer(lambda given: list(validator.iter_errors(given)), value)
        return [fault for error in errors for fault in _faults_of(error)]

    def _validator(self, pointer: Pointer) -> Validator:
        known = self._validators.get(pointer)
        if known is None:
            known = self._validators[pointer] = _built(lambda: self._at(pointer))
        return known

    def _at(self, pointer: Pointer) -> Validator:
        root = without_dangling(self._document)
        if not pointer:
            return self._build(root, None)
        library = _jsonschema()
        if self._registry is None:
            self._registry = library.Registry([(_HOME, root)], retriever=_refuse_to_fetch)
        return self._build({"$ref": f"{_HOME}#{quote(pointer)}"}, None, registry=self._registry)

    def _build(self, schema: Schema, draft: str | None, **options: Any) -> Validator:
        library = _jsonschema()
        options |= {"validate_formats": True, "retriever": _refuse_to_fetch}
        if draft is not None:
            return getattr(library, draft)(schema, **options)
        try:
            return library.validator_for(schema, **options)
        except ValueError:
            if "$schema" in schema:
                raise
            return library.Draft201909Validator(schema, **options)  # knows lists of `items` as well


def _refuse_to_fetch(uri: str) -> JsonValue:
    raise ValueError(f"{uri} is not part of the schema")


def _built(build: Callable[[], Validator]) -> Validator:
    try:
        return build()
    except (ValueError, OverflowError, TypeError) as error:
        first = (str(error).split("\n") or [""])[0]
        raise Unusable(f"the tool's schema is not valid: {first}") from error


def _answer(ask: Callable[[JsonValue], Any], value: JsonValue) -> Any:
    """What the library says about a value. It reads UTF-8 only: a lone surrogate is shown to it as U+FFFD."""
    try:
        return ask(value)
    except UnicodeEncodeError:
        return ask(without_surrogates(value))
    except (ValueError, OverflowError, TypeError) as error:
        raise Unusable(str(error)) from error


def without_dangling(document: SchemaDocument) -> Schema:
    """The document with `false` for each schema whose `$ref` names nothing: it rejects values at its place only."""
    return _without_dangling(document, document.root, is_schema=True)


def _without_dangling(document: SchemaDocument, here: JsonValue, *, is_schema: bool) -> JsonValue:
    if isinstance(here, list):
        return [_without_dangling(document, item, is_schema=is_schema) for item in here]
    if not isinstance(here, dict):
        return here
    ref = here.get("$ref")
    if is_schema and isinstance(ref, str) and not ref.startswith(_BUNDLED) and document.find(ref) is None:
        return False
    return {
        key: item
        if is_schema and key in ("const", "enum", "default", "examples")
        else _without_dangling(document, item, is_schema=not (is_schema and key in _BY_NAME))
        for key, item in here.items()
    }


_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords whose members are schemas under names of the author's choice."""


def _faults_of(error: Any) -> Iterator[Fault]:
    """An error of the library in our words."""
    path = tuple(error.instance_path)
    keyword, found, value = error.kind.name, error.kind.as_dict(), error.instance
    if keyword == "required":
        yield Fault((*path, found["property"]), MISSING)
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        yield from (Fault((*path, name), UNKNOWN) for name in found["unexpected"])
    elif keyword == "propertyNames":
        yield Fault((*path, str(found["error"].instance)), BAD_NAME)
    elif keyword == "falseSchema":
        yield Fault(path, NOT_ALLOWED, value)
    elif keyword in ("anyOf", "oneOf") and "context" in found:
        branches = [[f for inner in branch for f in _faults_of(inner)] for branch in found["context"]]
        yield from best_of(path, value, branches)
    elif keyword in PHRASES and len(found) == 1:
        yield Fault(path, PHRASES[keyword](next(iter(found.values()))), value)
    else:
        yield Fault(path, f"is not valid: {_cut(error.message)}")
