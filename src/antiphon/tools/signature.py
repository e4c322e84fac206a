"""From a typed signature and its docstring to argument schema and argument conversion. Pure.

Types are those of msgspec (dataclasses, TypedDict, structs, enums, dates, unions, `Literal`, containers) and whatever
knows how to describe and check itself like a pydantic model, recognised by its methods and never imported. Definitions
are put where they are used; only a type that contains itself stays a reference, which not every provider understands.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import Struct

from antiphon.core.wire import JsonObject, encode
from antiphon.tools.docstring import split_docstring
from antiphon.tools.faults import ToolFault
from antiphon.tools.schema_inline import inlined

Convert = Callable[[Any], Any]

_PLAIN = (str, bool, float, type(None), Any, object)


class Parameter(Struct, frozen=True):
    """One argument. `wire` is its name for the model; `convert` None: the checked JSON value is what the code wants."""

    name: str
    wire: str
    schema: JsonObject
    required: bool
    convert: Convert | None


class Signature(Struct, frozen=True):
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
    return inlined(schema, shared)


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
