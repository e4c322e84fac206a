"""Numbers as JavaScript writes and reads them: arguments are converted by its rules, whatever made them.

And whole values in its compact JSON, for what is counted by its length.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from antiphon.core.wire import JsonValue

JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What JavaScript trims. Python trims some control characters more, and no byte order mark."""

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
_RADIX = re.compile(r"0(?:[xX](?P<x16>[0-9a-fA-F]+)|[oO](?P<x8>[0-7]+)|[bB](?P<x2>[01]+))")
_REPR = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?(?:e([+-]?[0-9]+))?")

_EXACT = 2**53
"""Below it every whole double is one whole number."""


def number_from_text(text: str) -> int | float | None:
    """What `Number(text)` gives, or nothing if that is no finite number. Blank text is 0. Whole numbers stay exact."""
    word = text.strip(JS_SPACE)
    if not word:
        return 0
    if _WHOLE.fullmatch(word):
        return _if_finite(int(word))
    if _DECIMAL.fullmatch(word):
        return whole_if_exact(float(word))
    radix = _RADIX.fullmatch(word)
    if radix is None or radix.lastgroup is None:
        return None
    return _if_finite(int(radix[radix.lastgroup], int(radix.lastgroup[1:])))


def _if_finite(number: int) -> int | None:
    """The same number, nothing if it is too large for a double."""
    try:
        float(number)
    except OverflowError:
        return None
    return number


def whole_if_exact(number: float) -> int | float | None:
    """The same number as `int` if that says the same, nothing if it is not finite."""
    if number - number != 0:
        return None
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def number_text(number: int | float) -> str:
    """How JavaScript prints a number: `1e+21`, `1e-7`, no trailing `.0`. Whole numbers below 1e21 stay exact."""
    if isinstance(number, int) and abs(number) < 10**21:
        return str(number)
    try:
        match = _REPR.fullmatch(repr(float(number)))
    except OverflowError:
        match = None
    if match is None:
        return "NaN" if number != number else ("Infinity" if number > 0 else "-Infinity")
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", int(match[4] or 0)
    all_digits = (whole + fraction).lstrip("0")
    point = len(whole) + exponent - (len(whole + fraction) - len(all_digits))
    digits = all_digits.rstrip("0")
    return "0" if not digits else sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    """`0.digits` times ten to the power of `point`."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    power = f"e{point - 1:+d}"
    return digits[0] + power if len(digits) == 1 else f"{digits[0]}.{digits[1:]}{power}"


_LONE = re.compile("[\ud800-\udfff]")


def json_text(value: JsonValue) -> str:
    """Compact JSON as JavaScript writes it: non-ASCII kept, lone surrogates escaped, numbers in their shortest form."""
    match value:
        case str():
            text = json.dumps(value, ensure_ascii=False)
            return text if text.isascii() else _LONE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            text = number_text(value)
            return text if text[-1].isdigit() else "null"
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "{" + ",".join([f"{json_text(key)}:{json_text(item)}" for key, item in items]) + "}"
        case _:
            return "[" + ",".join([json_text(item) for item in value]) + "]"
