"""From a typed signature and its docstring to argument schema and argument conversion. Pure.

Types are those of msgspec (dataclasses, TypedDict, structs, enums, dates, unions, `Literal`, containers) and whatever
knows how to describe and check itself like a pydantic model, recognised by its methods and never imported. Definitions
are put where they are used; only a type that contains itself stays a reference, which not every provider understands.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

from antiphon.core.wire import JsonObject, encode
from antiphon.tools.faults import ToolFault

Convert = Callable[[Any], Any]

_PLAIN = (str, bool, float, type(None), Any, object)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One argument. `wire` is its name for the model; `convert` None: the checked JSON value is what the code wants."""

    name: str
    wire: str
    schema: JsonObject
    required: bool
    convert: Convert | None


@dataclasses.dataclass(frozen=True, slots=True)
class Signature:
    """What a function says about itself. `takes_rest`: it accepts arguments that it does not name."""

    parameters: tuple[Parameter, ...]
    context: str | None
    takes_rest: bool
    schema: JsonObject
    description: str
    output_schema: JsonObject | None


def read_signature(
    function: Callable[..., Any], context_type: type, names: Mapping[str, str], known: Mapping[str, Any]
) -> Signature:
    """Look at a function. `known`: names that its annotations may use besides its globals.

    Raises:
        TypeError: a parameter has no type, a type without a JSON form, or cannot be given by name.
    """
    hints = _hints(function, known)
    text, notes = split_docstring(inspect.getdoc(_described(function)) or "")
    found: list[Parameter] = []
    context: str | None = None
    takes_rest = False
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if hint is context_type or (hint is inspect.Parameter.empty and parameter.name == "ctx"):
            context = parameter.name
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            takes_rest = True
        else:
            found.append(_parameter(function, parameter, hint, names, notes))
    return Signature(
        parameters=tuple(found),
        context=context,
        takes_rest=takes_rest,
        schema=_object_schema(found),
        description=text,
        output_schema=_output_schema(hints.get("return")),
    )


def _described(function: Callable[..., Any]) -> Callable[..., Any]:
    return cast("Callable[..., Any]", getattr(function, "func", function))  # a partial is described by its function


def _hints(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    target = _described(function)
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, localns=dict(known), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{_name(function)}: a type in the signature cannot be found ({error}); import it at run time, "
            "not only for type checkers"
        ) from error


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(_described(function), "__qualname__", repr(function)))


def _parameter(
    function: Callable[..., Any],
    parameter: inspect.Parameter,
    hint: Any,
    names: Mapping[str, str],
    notes: Mapping[str, str],
) -> Parameter:
    where = f"{_name(function)}: parameter {parameter.name!r}"
    if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
        raise TypeError(f"{where} cannot be given by name; arguments of a tool have names")
    if hint is inspect.Parameter.empty:
        raise TypeError(f"{where} has no type; a model must be told what to send")
    has_default = parameter.default is not inspect.Parameter.empty
    kind, description = _take_description(hint)
    if has_default and parameter.default is None:
        kind = _without_none(kind)
    schema = schema_of(kind, where)
    description = description or notes.get(parameter.name)
    if description:
        schema["description"] = description
    if has_default and parameter.default is not None and parameter.default is not msgspec.UNSET:
        _note_default(schema, parameter.default)
    return Parameter(
        name=parameter.name,
        wire=names.get(parameter.name, parameter.name),
        schema=schema,
        required=not has_default,
        convert=converter(kind, names.get(parameter.name, parameter.name)),
    )


def _take_description(hint: Any) -> tuple[Any, str | None]:
    """`Annotated[T, "words"]` as T and words; other annotations stay."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *notes = get_args(hint)
    words = next((note for note in notes if isinstance(note, str)), None)
    rest = [note for note in notes if not isinstance(note, str)]
    for note in rest:
        kind = Annotated[kind, note]
    return kind, words


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType)


def _without_none(kind: Any) -> Any:
    """An optional argument is left out, not sent as null, so the model need not hear of null."""
    if not _is_union(kind):
        return kind
    rest = tuple(member for member in get_args(kind) if member is not type(None) and member is not msgspec.UnsetType)
    return Union[rest] if rest else kind  # noqa: UP007 - the members are known at run time only


def _note_default(schema: JsonObject, default: Any) -> None:
    try:
        schema["default"] = msgspec.to_builtins(default)
        encode(schema["default"])
    except (TypeError, NotImplementedError):
        schema.pop("default", None)  # a default without a JSON form is the code's own business


def _object_schema(found: list[Parameter]) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {one.wire: one.schema for one in found}}
    required = [one.wire for one in found if one.required]
    if required:
        schema["required"] = required
    shared: JsonObject = {}
    for one in found:
        for name, definition in one.schema.pop("$defs", {}).items():
            if shared.setdefault(name, definition) != definition:
                raise TypeError(f"parameter {one.name!r}: two different types are called {name}; rename one of them")
    if shared:
        schema["$defs"] = shared
    return schema


def schema_of(kind: Any, where: str) -> JsonObject:
    """The JSON schema of a type, self-contained.

    Raises:
        TypeError: it has none; `where` says whose type it is.
    """
    try:
        (schema,), shared = msgspec.json.schema_components(
            (kind,), schema_hook=_foreign_schema, ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        raise TypeError(f"{where}: {str(error).splitlines()[-1]}; use a type with a JSON form") from error
    _add_descriptions(kind, shared, set())
    return _inlined(schema, shared)


def _foreign_schema(kind: type) -> JsonObject:
    if hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate"):
        return cast("JsonObject", kind.model_json_schema())
    if issubclass(kind, pathlib.PurePath):
        return {"type": "string"}
    raise TypeError(f"type {kind.__qualname__} is not supported")


def _add_descriptions(kind: Any, shared: dict[str, Any], seen: set[Any]) -> None:
    """`Annotated[T, "words"]` on the fields of dataclasses, structs and typed dicts below `kind`."""
    for member in get_args(kind):
        _add_descriptions(member, shared, seen)
    kind = get_origin(kind) or kind
    if not isinstance(kind, type) or kind in seen or kind.__name__ not in shared:
        return
    seen.add(kind)
    properties = shared[kind.__name__].get("properties", {})
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inner, words = _take_description(hint)
        if words and name in properties:
            properties[name] = {"description": words, **properties[name]}
        _add_descriptions(inner, shared, seen)


def _inlined(schema: JsonObject, shared: Mapping[str, JsonObject]) -> JsonObject:
    """The schema with every definition put in its place, except those that contain themselves."""
    inliner = _Inliner()
    out = cast("JsonObject", inliner.put(schema, (), shared))
    if inliner.kept:
        out["$defs"] = inliner.kept
    return out


class _Inliner:
    """A walk through a schema; `kept` collects the definitions that must stay references."""

    def __init__(self) -> None:
        self.kept: JsonObject = {}

    def put(self, value: Any, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if isinstance(value, list):
            return [self.put(item, inside, shared) for item in value]
        if not isinstance(value, dict):
            return value
        node = cast("JsonObject", value)
        shared = {**shared, **node.get("$defs", {})}  # a pydantic model brings its own
        reference = node.get("$ref")
        if isinstance(reference, str) and (name := reference.rpartition("/")[2]) in shared:
            return self._definition(name, {k: v for k, v in node.items() if k != "$ref"}, inside, shared)
        return _with_type(
            {key: self._member(key, item, inside, shared) for key, item in node.items() if _is_kept(key, item)}
        )

    def _definition(self, name: str, beside: JsonObject, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if name not in inside and not _reaches(shared[name], name, shared):
            return {**self.put(shared[name], (*inside, name), shared), **beside}
        if name not in self.kept:
            self.kept[name] = {}  # so that the walk below does not begin again
            self.kept[name] = self.put(shared[name], (*inside, name), shared)
        return {"$ref": f"#/$defs/{name}", **beside}

    def _member(self, key: str, value: Any, inside: tuple[str, ...], shared: Mapping[str, Any]) -> Any:
        if key in _NAME_MAPS and isinstance(value, dict):
            named = cast("JsonObject", value)
            return {name: self.put(item, inside, shared) for name, item in named.items()}
        return value if key in _LITERAL_KEYS else self.put(value, inside, shared)


_LITERAL_KEYS = ("enum", "const", "default", "examples")
_NAME_MAPS = ("properties", "patternProperties", "dependentSchemas")


def _is_kept(key: str, value: Any) -> bool:
    """Definitions go where they are used; titles repeat names."""
    return key != "$defs" and not (key == "title" and isinstance(value, str))


def _with_type(node: JsonObject) -> JsonObject:
    """An enumeration of texts says that it is text: some providers insist."""
    values = node.get("enum")
    if isinstance(values, list) and "type" not in node and all(isinstance(value, str) for value in values):
        node["type"] = "string"
    return node


def _reaches(schema: Any, name: str, shared: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> bool:
    """Does a definition lead back to `name`?"""
    if isinstance(schema, list):
        return any(_reaches(item, name, shared, seen) for item in schema)
    if not isinstance(schema, dict):
        return False
    node = cast("JsonObject", schema)
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = reference.rpartition("/")[2]
        if target == name:
            return True
        if target in seen or target not in shared:
            return False
        return _reaches(shared[target], name, shared, seen | {target})
    return any(_reaches(item, name, shared, seen) for item in node.values())


def converter(kind: Any, wire: str) -> Convert | None:
    """How a checked JSON value becomes what the code expects; None: it already is."""
    if kind is int:
        return _whole_number
    if _is_plain(kind):
        return None

    def convert(value: Any) -> Any:
        try:
            return msgspec.convert(value, kind, strict=False, dec_hook=_foreign_value)
        except (msgspec.ValidationError, ValueError, TypeError) as error:
            raise ToolFault(f"Argument {wire!r} does not fit: {error}") from error

    return convert


def _whole_number(value: Any) -> Any:
    """JSON does not tell 5.0 from 5."""
    return int(value) if type(value) is float and value.is_integer() else value


def _is_plain(kind: Any) -> bool:
    """Does every JSON value of this type already look as its Python value does?"""
    origin = get_origin(kind)
    if origin is Annotated or origin is list or _is_union(kind):
        members = get_args(kind)[:1] if origin is Annotated else get_args(kind)
        return all(_is_plain(member) for member in members)
    if origin is dict:
        return get_args(kind)[0] is str and _is_plain(get_args(kind)[1])
    return origin is Literal or kind in _PLAIN or kind in (list, dict)


def _foreign_value(kind: type, value: Any) -> Any:
    validate = getattr(kind, "model_validate", None)
    if validate is not None:
        return validate(value)
    if issubclass(kind, pathlib.PurePath):
        return kind(value)
    raise NotImplementedError(f"{kind.__qualname__} cannot be made from JSON")


def _output_schema(hint: Any) -> JsonObject | None:
    """The schema of what a tool gives to programs, if its return type is an object with named fields."""
    kind, _ = _take_description(hint)
    named = dataclasses.is_dataclass(kind) or typing.is_typeddict(kind) or hasattr(kind, "model_json_schema")
    if not (named or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))):
        return None
    if isinstance(kind, type) and kind.__module__.startswith("antiphon.core."):
        return None  # a full result or a block, not data
    return schema_of(kind, "the result")


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises):\s*$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The words for the model, and what an `Args:` section says of single arguments."""
    parts = _SECTION.split(text)
    notes: dict[str, str] = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title in ("Args", "Arguments", "Parameters"):
            notes.update(_entries(inspect.cleandoc("\n" + body)))
    return parts[0].strip(), notes


def _entries(body: str) -> dict[str, str]:
    notes: dict[str, str] = {}
    name = ""
    for line in body.split("\n"):
        match = _ENTRY.match(line)
        if match:
            name = match[1]
            notes[name] = match[2]
        elif name and line.startswith(" "):
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return notes
