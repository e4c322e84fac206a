"""Values of the tool packs: text expressions in, long texts and pictures compared by what is recorded of them."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

Json = Any


def as_bytes(expression: Json) -> bytes:
    """The bytes that a text expression stands for."""
    if isinstance(expression, str):
        return expression.encode("utf-8", "surrogatepass")
    if isinstance(expression, list):
        return b"".join(as_bytes(part) for part in expression)
    if "base64" in expression:
        return base64.b64decode(expression["base64"])
    if "repeat" in expression:
        return as_bytes(expression["repeat"]) * expression["times"]
    if "$repeat" in expression:
        unit, count = expression["$repeat"]
        return as_bytes(unit) * count
    if "lines" in expression:
        return _lines(expression)
    raise ValueError(f"unknown text expression {json.dumps(expression)[:100]}")


def _lines(given: dict[str, Any]) -> bytes:
    first = given.get("from", 1)
    rows = (
        given["lines"].replace("{i4}", f"{i:04d}").replace("{i}", str(i)) for i in range(first, first + given["count"])
    )
    return (given.get("sep", "\n").join(rows) + given.get("end", "\n")).encode()


def arguments(given: Json, cwd: str) -> Json:
    """Arguments with their folder and text expressions filled in."""
    if isinstance(given, str):
        return given.replace("${CWD}", cwd)
    if isinstance(given, list):
        return [arguments(item, cwd) for item in given]
    if not isinstance(given, dict):
        return given
    if given.keys() == {"$text"}:
        return as_bytes(given["$text"]).decode("utf-8", "surrogatepass")
    if given.keys() == {"$repeat"}:
        return as_bytes(given).decode()
    return {key: arguments(item, cwd) for key, item in given.items()}


def difference(expected: Json, actual: Json, path: str = "") -> str | None:
    """Where an actual value differs first from a recorded one; None if it does not."""
    if isinstance(expected, dict) and "$long" in expected and isinstance(actual, str):
        return _long_difference(expected["$long"], actual, path)
    if (
        isinstance(actual, str)
        and isinstance(expected, dict)
        and ("$startsWith" in expected or "$endsWith" in expected)
    ):
        return _ends_difference(expected, actual, path)
    if isinstance(expected, dict) and isinstance(actual, dict):
        return _member_difference(expected, actual, path)
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return told(path + ".length", expected, actual)
        found = (difference(a, b, f"{path}[{i}]") for i, (a, b) in enumerate(zip(expected, actual, strict=True)))
        return next(filter(None, found), None)
    return None if expected == actual and type(expected) is type(actual) else told(path, expected, actual)


def _member_difference(expected: dict[str, Any], actual: dict[str, Any], path: str) -> str | None:
    if "$image" in expected:
        return image_difference(expected, actual, path)
    if expected.get("type") == "text" and ("$startsWith" in expected or "$endsWith" in expected):
        return _ends_difference(expected, actual.get("text"), path)
    for key in expected.keys() | actual.keys():
        if key not in actual or key not in expected:
            return told(f"{path}.{key}", expected.get(key, "absent"), actual.get(key, "absent"))
    found = (difference(expected[key], actual[key], f"{path}.{key}") for key in expected)
    return next(filter(None, found), None)


def _long_difference(expected: dict[str, Any], actual: str, path: str) -> str | None:
    data = actual.encode("utf-8", "replace")
    if hashlib.sha256(data).hexdigest() == expected["sha256"]:
        return None
    got = {"bytes": len(data), "chars": len(actual), "head": actual[:160], "tail": actual[-320:]}
    return told(path, {key: expected[key] for key in got}, got)


def _ends_difference(expected: dict[str, Any], actual: Any, path: str) -> str | None:
    """`<seconds>` in an expected end stands for any number."""
    if not isinstance(actual, str) or not actual.startswith(expected.get("$startsWith", "")):
        return told(path, expected, actual)
    before, marker, after = expected.get("$endsWith", "").partition("<seconds>")
    if not marker:
        return None if actual.endswith(before) else told(path, expected, actual)
    rest = actual.removesuffix(after)
    return None if rest != actual and rest.rstrip("0123456789.").endswith(before) else told(path, expected, actual)


def image_difference(expected: dict[str, Any], actual: dict[str, Any], path: str) -> str | None:
    """Only the size of a picture counts; whether PNG or JPEG is the smaller one depends on the encoder."""
    data = base64.b64decode(actual.get("data", ""))
    size = picture_size(data)
    wanted = (expected["$image"]["width"], expected["$image"]["height"])
    return None if size == wanted else told(path, wanted, size)


def picture_size(data: bytes) -> tuple[int, int] | None:
    from antiphon.tools.images import picture

    if data.startswith(b"\x89PNG"):
        width, height = struct.unpack_from(">II", data, 16)
        return width, height
    seen = picture(data)
    return None if seen is None else (seen.width, seen.height)


def told(path: str, expected: Any, actual: Any) -> str:
    def show(value: Any) -> str:
        text = json.dumps(value, ensure_ascii=True, default=repr)
        return text if len(text) <= 700 else f"{text[:500]} ... {text[-200:]}"

    return f"{path or '(whole)'}: expected {show(expected)}, got {show(actual)}"
