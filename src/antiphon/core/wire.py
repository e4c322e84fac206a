"""The two forms of every value: a frozen struct in memory, JSON on the wire.

A struct knows the fields of the specification. What a foreign writer added is not lost: unknown fields of a message or
block travel in `extra`, a block or message of an unknown kind is `Foreign` / `HostMessage` and is nothing but `extra`.
On the way out both are merged back, so bytes that came in leave again with the same content.

The fast road (no unknown field anywhere) is one call of the compiled codec. Marker keys begin with `$`, which no wire
name does; only when a marker is seen in the bytes, the slow road walks the value.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

JsonValue: TypeAlias = Any  # decoded JSON: None, bool, int, float, str, list, dict
JsonObject: TypeAlias = dict[str, Any]

EXTRA = "$extra"


class Wire(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False):
    """A value with a JSON form. Absent is `UNSET`, never `None` (which is JSON null, another fact).

    `gc=False`: these values are trees by construction, so the cycle collector need not visit them.
    """


class Typed(Wire, frozen=True, kw_only=True, gc=False, tag_field="type", tag=True):
    """A value whose wire form says what it is in `type`."""

    extra: JsonObject | UnsetType = field(default=UNSET, name=EXTRA)


class Spoken(Wire, frozen=True, kw_only=True, gc=False, tag_field="role", tag=True):
    """A message: its wire form says who speaks in `role`."""

    extra: JsonObject | UnsetType = field(default=UNSET, name=EXTRA)


_encoder = msgspec.json.Encoder(decimal_format="number")
_decoder = msgspec.json.Decoder()


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON of a wire value, unknown fields included. A lone surrogate is written as U+FFFD."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(without_surrogates(to_wire(value)))
    except TypeError:  # an answer that still grows has its wire form by way of `to_wire`
        return _encoder.encode(to_wire(value))
    return _encoder.encode(to_wire(value)) if b'"$' in data else data


def decode(data: bytes | str) -> JsonValue:
    """Plain JSON value of strict JSON text.

    Raises:
        msgspec.DecodeError: the text is not JSON.
    """
    return _decoder.decode(data)


def to_wire(value: Any) -> JsonValue:
    """The JSON form of a value as plain lists and dicts, unknown fields merged back in."""
    if isinstance(value, Struct):
        frozen = getattr(value, "freeze", None)
        return _struct_to_wire(value if frozen is None else frozen())
    if isinstance(value, dict | MappingProxyType):
        return {key: to_wire(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return msgspec.to_builtins(value)


def _struct_to_wire(value: Struct) -> JsonObject:
    config = value.__struct_config__
    out: JsonObject = {}
    if config.tag is not None and config.tag_field is not None and not str(config.tag).startswith("$"):
        out[config.tag_field] = config.tag
    extra: JsonObject = {}
    for name, wire_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        item = getattr(value, name)
        if item is UNSET:
            continue
        if wire_name == EXTRA:
            extra = item
        elif not wire_name.startswith("$"):  # `$name` lives in memory only
            out[wire_name] = to_wire(item)
    out.update(extra)
    return out


def split_extra(given: JsonObject, kind: type[Struct]) -> JsonObject:
    """The members of `given` under the field names of `kind`; unknown ones together under `extra`."""
    names = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    tag_field = kind.__struct_config__.tag_field
    out: JsonObject = {}
    extra: JsonObject = {}
    for key, item in given.items():
        if key in names and key != EXTRA:
            out[names[key]] = item
        elif key != tag_field:
            extra[key] = item
    if extra:
        out["extra"] = extra
    return out


def without_surrogates(value: JsonValue) -> JsonValue:
    """The same JSON value with every lone surrogate replaced by U+FFFD and every pair joined."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {without_surrogates(k): without_surrogates(v) for k, v in cast("JsonObject", value).items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value
