"""What a type takes, in words for a person. Pure; reads types as `msgspec.inspect` describes them."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.core.model import THINKING_LEVELS


def words_for(shape: Any) -> str:
    """What a type takes, in words for a person."""
    match shape:
        case msgspec.inspect.Metadata(type=inner):
            return words_for(inner)
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(map(words_for, types))
        case msgspec.inspect.LiteralType(values=values):
            return _choice(values)
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.IntType():
            return "a whole number" if shape.ge is None else f"a whole number from {shape.ge} on"
        case msgspec.inspect.FloatType():
            return "a number" if shape.ge is None else f"a number from {shape.ge:g} on"
        case msgspec.inspect.StrType():
            return "a text"
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"a list, each {words_for(item)}"
        case msgspec.inspect.DictType(value_type=value):
            return f"an object, each value {words_for(value)}"
        case msgspec.inspect.StructType(fields=fields):
            return f"an object of {', '.join(field.encode_name for field in fields)}"
        case _:
            return "any value"


def _choice(values: tuple[Any, ...]) -> str:
    if set(values) == set(THINKING_LEVELS):
        values = THINKING_LEVELS
    words = [f'"{value}"' for value in values]
    return " or ".join(words) if len(words) < 3 else f"one of {', '.join(words)}"
