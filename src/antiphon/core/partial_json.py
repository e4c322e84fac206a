"""Arguments of a tool call while they stream, and their strict reading when they are complete.

`PartialReader` reads a JSON text that arrives in pieces and is patient with it: a cut text shows what it says so far,
a wrong one what can be made of it, and nothing raises. Feeding only stores the piece; the text is read when somebody
looks, each character once, however often they look.

The rules of tolerance (source: recorded behaviour, format "partial_json"):

- An open string shows what was read; an incomplete escape is held back, an invalid one is kept as text.
- An open number shows as soon as its digits form one, an open word when it begins `true`, `false` or `null`.
  Finished words that are none of these, and malformed numbers, are dropped together with their key.
- Missing commas and colons are tolerated; a value where none may stand is dropped. Any closer closes the innermost
  container. Before the first value anything is skipped, behind it everything is ignored.

An open string grows in place inside its container, which CPython does without copying while nobody else holds it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from json import JSONDecodeError, decoder, loads
from typing import Any, Final, Literal, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, UnsetType

from antiphon.core.json_numbers import JS_SPACE
from antiphon.core.wire import JsonObject, JsonValue


class Nothing(Enum):
    """No value has begun."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING

Box: TypeAlias = dict[str, Any] | list[Any]

LONGEST_WORD = 1_000
"""Characters of a number or word; a longer one counts as malformed, so that reading stays linear."""

_TOKEN = re.compile(r'[ \t\n\r:]*([,"{}\[\]]|[^ \t\n\r:,"{}\[\]]+)?')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_EXPONENT_TO_COME = re.compile(r"[eE][+-]?\Z")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_BEGINNINGS = {word[:n]: value for word, value in _WORDS.items() for n in range(1, len(word) + 1)}

_RUN = re.compile(r'[^"\\]*')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BEGUN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?")
_HIGH, _LOW = "[\ud800-\udbff]", "[\udc00-\udfff]"
_PAIR = re.compile(_HIGH + _LOW)
_SURROGATE = re.compile("[\ud800-\udfff]")

# the compiled string reader of the standard library: (text, start, strict) → (string, end behind the quote)
_read_string: Callable[[str, int, bool], tuple[str, int]] = vars(decoder)["scanstring"]

Inside: TypeAlias = Literal["", "key", "value"]


@final
class PartialReader:
    """Reads one JSON value that arrives in pieces.

    `feed(piece)` stores a piece in constant time. `value` and `arguments` show the live value: its open containers are
    the reader's own and grow with further pieces, so do not change them; strings and closed containers never change.
    Whoever wants to keep what was read so far takes a `snapshot()`.
    """

    __slots__ = ("_box", "_done", "_held", "_inside", "_key", "_read", "_stack", "_tentative", "_top", "feed", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.feed: Callable[[str], None] = self.pieces.append
        self._read = 0
        """How many pieces were read."""
        self._top: list[Any] = []
        """Holds the root value, once there is one; so the root lies in a container like every other value."""
        self._box: Box = self._top
        """The innermost open container, and `_key` the member name that waits for its value there."""
        self._key: str | None = None
        self._stack: list[tuple[Box, str | None]] = []
        """The containers around `_box`, each with the key it had then."""
        self._inside: Inside = ""
        """The string that is open: its text is `_key` or stands in `_box`."""
        self._held = ""
        """Text at the end of what was read that can't be understood yet: a word, or the beginning of an escape."""
        self._tentative: Any = NOTHING
        """A held word that is shown already: what it replaced, or `_ABSENT`."""
        self._done = False

    @property
    def text(self) -> str:
        """Everything that was fed."""
        return "".join(self.pieces)

    @property
    def value(self) -> JsonValue | Nothing:
        """The value so far, live; `NOTHING` until one has begun."""
        if self._read != len(self.pieces):
            self._catch_up()
        return self._top[0] if self._top else NOTHING

    @property
    def arguments(self) -> JsonObject:
        """The value so far if it is an object, live; else an empty object."""
        if self._read != len(self.pieces):
            self._catch_up()
        top = self._top
        return top[0] if top and type(top[0]) is dict else {}

    def snapshot(self) -> JsonValue | Nothing:
        """The value so far as one that never changes. Copies the open containers, shares everything else."""
        if self.value is NOTHING:
            return NOTHING
        if len(self._stack) == 1:
            return self._box.copy()  # only the root is open
        root = copy = self._top.copy()
        children = [box for box, _ in self._stack[1:]] + [self._box]
        for (box, key), child in zip(self._stack, children, strict=False):
            if key is None and type(box) is dict:
                break  # a container that stands where none may: not shown
            grown = child.copy()
            copy[cast("Any", -1 if key is None else key)] = grown
            copy = cast("Any", grown)
        return root[0]

    def arguments_now(self) -> JsonObject:
        """The value so far if it is an object, as one that never changes; else an empty object."""
        value = self.snapshot()
        return cast("JsonObject", value) if type(value) is dict else {}

    # -- reading ---------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Read the pieces that came since. The short way is for plain text inside an open string."""
        pieces = self.pieces
        new = pieces[-1] if len(pieces) - self._read == 1 else "".join(pieces[self._read :])
        self._read = len(pieces)
        if self._done:
            return
        if self._inside == "value" and not self._held and '"' not in new and "\\" not in new and new.isascii():
            self._grow(new)
        else:
            self._scan(self._held + new)

    def _grow(self, more: str) -> None:
        """Add to the open string. Nobody else may hold it while it grows, or CPython copies it."""
        box, slot = cast("Any", self._box), -1 if self._key is None else self._key
        text = box[slot]
        box[slot] = None
        text += more
        box[slot] = text

    def _scan(self, text: str) -> None:
        """Read `text` up to its end, or up to what can't be understood before more comes."""
        self._held = ""
        if self._tentative is not NOTHING:
            self._take_back()
        end = len(text)
        text += '"'  # stops the string reader at the end
        at = self._string(text, 0, end) if self._inside else 0
        while at < end and not self._done:
            found = cast("re.Match[str]", _TOKEN.match(text, at, end))
            at = found.end()
            mark = found[1]
            if mark == '"':
                self._open_string()
                at = self._string(text, at, end)
            elif mark == "{":
                self._open({})
            elif mark == "[":
                self._open([])
            elif mark == "}" or mark == "]":
                self._close()
            elif mark == ",":
                self._key = None
            elif mark is not None:
                self._word(mark, is_open=at == end)

    def _open(self, box: Box) -> None:
        if not (self._key is None and type(self._box) is dict):
            self._put(box)
        self._stack.append((self._box, self._key))
        self._box, self._key = box, None

    def _close(self) -> None:
        if self._stack:
            self._box, _ = self._stack.pop()
            self._value_ended()

    def _value_ended(self) -> None:
        self._key = None
        self._done = self._box is self._top

    def _put(self, value: Any) -> None:
        if type(self._box) is dict:
            self._box[cast("str", self._key)] = value
        else:
            cast("list[Any]", self._box).append(value)

    # -- words and numbers -------------------------------------------------------------------------------------------

    def _word(self, word: str, *, is_open: bool) -> None:
        """A run of characters that are neither string nor structure. `is_open`: it may go on in the next piece."""
        allowed = self._key is not None or type(self._box) is list
        if is_open:
            self._held = word[: LONGEST_WORD + 1]
        if allowed:
            value = _reading(word, is_open=is_open)
            if is_open:
                self._show(value)
            elif value is not NOTHING:
                self._put(value)
                self._value_ended()
        if not is_open:
            self._key = None

    def _show(self, value: Any) -> None:
        """Let an open word be seen; it is taken back when more of it comes."""
        if value is NOTHING:
            return
        box, key = self._box, self._key
        self._tentative = box.get(cast("str", key), _ABSENT) if type(box) is dict else _ABSENT
        self._put(value)

    def _take_back(self) -> None:
        box, before = self._box, self._tentative
        self._tentative = NOTHING
        if type(box) is list:
            box.pop()
        elif before is _ABSENT:
            del cast("Any", box)[self._key]
        else:
            cast("Any", box)[self._key] = before

    # -- strings -----------------------------------------------------------------------------------------------------

    def _open_string(self) -> None:
        if self._key is None and type(self._box) is dict:
            self._inside, self._key = "key", ""
        else:
            self._inside = "value"
            self._put("")

    def _string(self, text: str, at: int, end: int) -> int:
        """Read the rest of the open string. `text[end]` is a quote of our own."""
        try:
            more, after = _read_string(text, at, False)
        except JSONDecodeError:
            more, after = self._string_with_faults(text, at, end)
        if more:
            self._add(more)
        if after > end:
            return end
        if self._inside == "value":
            self._value_ended()
        self._inside = ""
        return after

    def _string_with_faults(self, text: str, at: int, end: int) -> tuple[str, int]:
        """The same, step by step: keeps invalid escapes as text and holds back one that is cut off."""
        parts: list[str] = []
        while True:
            stop = cast("re.Match[str]", _RUN.match(text, at)).end()
            parts.append(text[at:stop])
            if text[stop] == '"':
                return "".join(parts), stop + 1
            begun = cast("re.Match[str]", _BEGUN_ESCAPE.match(text, stop, end))
            valid = _ESCAPE.match(text, stop, end)
            if valid is not None:
                at = valid.end()
                parts.append(_read_string(valid[0] + '"', 0, False)[0])
            elif begun.end() == end:
                self._held = text[stop:end]
                return "".join(parts), end + 1
            else:
                at = stop + 1
                parts.append("\\")

    def _add(self, more: str) -> None:
        """Add to the open string; halves of a surrogate pair that meet become one character."""
        is_value = self._inside == "value"
        if not more.isascii():
            box = cast("Any", self._box)
            before = box[-1 if self._key is None else self._key] if is_value else self._key
            if before and _PAIR.match(before[-1] + more[0]):
                more = before[-1] + more
                before = before[:-1]
                if is_value:
                    box[-1 if self._key is None else self._key] = before
                else:
                    self._key = before
            more = join_surrogates(more)
        if is_value:
            self._grow(more)
        else:
            self._key = cast("str", self._key) + more


_ABSENT: Final = object()


def _reading(word: str, *, is_open: bool) -> JsonValue | Nothing:
    """What a word means, or would mean if it ended here."""
    words = _BEGINNINGS if is_open else _WORDS
    if word in words:
        return words[word]
    if len(word) > LONGEST_WORD:
        return NOTHING
    if is_open:
        word = _EXPONENT_TO_COME.sub("", word)
    number = _NUMBER.fullmatch(word)
    if number is None:
        return NOTHING
    return int(word) if number[1] is None and number[2] is None else float(word)


def join_surrogates(text: str) -> str:
    """The text with each high surrogate and the low one behind it as the character they encode."""
    return text if text.isascii() else _PAIR.sub(_joined, text)


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


# -- the strict reading ------------------------------------------------------------------------------------------------

_STRING = re.compile(r'"(?:[^"\\]+|\\["\\]|\\)*+"?')
_TO_REPAIR = re.compile(r'[\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')


def read_arguments(text: str) -> tuple[JsonObject, str | UnsetType]:
    """The arguments that a complete text spells, and what was wrong with it if it is not one JSON object.

    Blank text means no arguments. Raw control characters in strings and backslashes that begin no valid escape are
    repaired; everything else must be strict JSON. The text of the error contains the whole argument text.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if not text.strip(JS_SPACE):
            return {}, UNSET
        value = _read_repaired(text)
        if isinstance(value, ValueError):
            return {}, f"The arguments are not valid JSON ({value}). They were: {text}"
    if type(value) is not dict:
        return {}, f"The arguments must be one JSON object, not {_kind(value)}. They were: {text}"
    return value, UNSET


def _read_repaired(text: str) -> JsonValue | ValueError:
    """Also reads what the fast decoder refuses although it is JSON: lone surrogates, very large numbers."""
    try:
        try:
            value = loads(text, parse_constant=_refuse)
        except ValueError:
            value = loads(_STRING.sub(_repair_string, text), parse_constant=_refuse)
    except ValueError as problem:
        return problem
    except RecursionError:
        return ValueError("nested too deeply")
    return _with_joined_surrogates(value) if _SURROGATE.search(text) else value


def _refuse(word: str) -> JsonValue:
    raise ValueError(f"{word} is not JSON")


def _repair_string(string: re.Match[str]) -> str:
    return _TO_REPAIR.sub(_repaired, string[0])


def _repaired(found: re.Match[str]) -> str:
    part = found[0]
    if part == "\\":
        return "\\\\"
    return f"\\u{ord(part):04x}" if len(part) == 1 else part


def _with_joined_surrogates(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return join_surrogates(value)
    if isinstance(value, list):
        return [_with_joined_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {join_surrogates(key): _with_joined_surrogates(item) for key, item in value.items()}
    return value


def _kind(value: JsonValue) -> str:
    if value is None:
        return "null"
    kinds: dict[type, str] = {bool: "a boolean", str: "a text", list: "a list"}
    return kinds.get(type(value), "a number")
