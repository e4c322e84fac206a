"""One line of a session file, as bytes: reading it leniently, sealing it, changing a member without touching the rest.

A sealed line ends with a member `check`, the CRC-32 of everything before it. Other readers see an unknown member and
keep it; we see at opening whether a line still says what was written. Lines of other writers have no seal.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

import msgspec

from antiphon.core.wire import JsonObject, JsonValue, encode, to_wire

Seal: TypeAlias = Literal["none", "good", "broken"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_HEAD, _TAIL = b',"check":"', b'"}'
_SEAL_BYTES = len(_HEAD) + 8 + len(_TAIL)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,128})"')
_PARENT = re.compile(rb'"parentId"\s*:\s*"([^"\\]{1,128})"')
_MESSAGE = re.compile(rb'"message"\s*:')
_SALVAGE_BYTES = 400
_ENTRY_START = b'{"type":"'
_MOST_STARTS = 32


def sealed(line: bytes) -> bytes:
    """The line of a JSON object with its check as last member."""
    body = line[:-1]
    return b"%b%b%08x%b" % (body, _HEAD, zlib.crc32(body), _TAIL)


def has_seal(line: bytes) -> bool:
    """Does the line end like a sealed one? Says nothing about whether the seal is right."""
    return line[-_SEAL_BYTES:-10] == _HEAD and line[-2:] == _TAIL


def seal_of(line: bytes) -> Seal:
    """Whether the line has a seal, and whether it fits."""
    if not has_seal(line):
        return "none"
    return "good" if b"%08x" % zlib.crc32(line[:-_SEAL_BYTES]) == line[-10:-2] else "broken"


def unsealed(line: bytes) -> bytes:
    """The line without its seal."""
    return line[:-_SEAL_BYTES] + b"}" if has_seal(line) else line


def read_value(line: bytes) -> tuple[bool, JsonValue]:
    """Whether the line is JSON, and its value. Broken UTF-8 becomes U+FFFD, escaped lone surrogates stay.

    The compiled decoder is tried first; it refuses both of these and values nested too deeply.
    """
    try:
        return True, msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return True, json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False, None


def is_skipped(value: JsonValue) -> bool:
    """Is this a value that readers of these files pass over like a blank line: `null`, `false`, `0` or `""`?"""
    return not value and not isinstance(value, dict | list)


def read_object(line: bytes) -> JsonObject | None:
    """The JSON object of a line, or nothing."""
    _, value = read_value(line)
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def write_object(value: Mapping[str, Any]) -> bytes:
    """Compact JSON of an object. Raw members are copied byte for byte, lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        plain = {k: read_value(bytes(v))[1] if isinstance(v, msgspec.Raw) else v for k, v in value.items()}
        return json.dumps(plain, separators=(",", ":")).encode("ascii")


def write_value(value: Any) -> bytes:
    """Compact JSON of a wire value. A lone surrogate is escaped, so that what is read back is what was written."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(to_wire(value), separators=(",", ":")).encode("ascii")
    return msgspec.json.encode(to_wire(value)) if b'"$' in data else data


def members(line: bytes) -> dict[str, Any]:
    """The members of an object line, their values as untouched bytes where possible.

    Raises:
        ValueError: the line is not a JSON object.
    """
    try:
        return cast("dict[str, Any]", _MEMBERS.decode(line))
    except (msgspec.DecodeError, RecursionError):
        found = read_object(line)
        if found is None:
            raise ValueError("the line is not a JSON object") from None
        return found


def member(value: Any) -> JsonValue:
    """The plain value of what `members` gave."""
    return read_value(bytes(value))[1] if isinstance(value, msgspec.Raw) else value


def changed(line: bytes, changes: Mapping[str, JsonValue]) -> bytes:
    """The line with some members replaced or added; all others keep their bytes. A seal is renewed."""
    was_sealed = has_seal(line)
    found = members(unsealed(line))
    for name, value in changes.items():
        found[name] = msgspec.Raw(encode(value))
    written = write_object(found)
    return sealed(written) if was_sealed else written


def salvaged_ids(line: bytes) -> tuple[str | None, str | None]:
    """Id and parent id that an unreadable line seems to have had. Only its beginning is trusted."""
    start = _MESSAGE.split(line[:_SALVAGE_BYTES], 1)[0]
    own, parent = _ID.search(start), _PARENT.search(start)
    return _text(own), _text(parent)


def _text(found: re.Match[bytes] | None) -> str | None:
    return found.group(1).decode("utf-8", "replace") if found else None


def glued_entry(line: bytes) -> int | None:
    """Where a whole entry begins inside an unreadable line: a half line was followed by it without a newline."""
    at = line.find(_ENTRY_START, 1)
    for _ in range(_MOST_STARTS):
        if at < 0:
            return None
        found = read_object(line[at:])
        if found is not None and isinstance(found.get("id"), str) and "parentId" in found:
            return at
        at = line.find(_ENTRY_START, at + 1)
    return None
