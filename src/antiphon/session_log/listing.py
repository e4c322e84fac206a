"""What a list of sessions shows of each: facts gathered in one pass over its lines. No I/O, nothing is kept in memory.

The same pass can gather the words of a session, for searching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast, final

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from antiphon.core.json_numbers import JS_SPACE
from antiphon.core.wire import JsonObject
from antiphon.session_log.entries import Header, header_from_line
from antiphon.session_log.line import BYTE_ORDER_MARK, is_skipped, read_object, read_value, unsealed
from antiphon.session_log.stamps import LAST_MS, iso, ms_of

NO_MESSAGES = "(no messages)"


@final
class Facts(Struct, frozen=True, kw_only=True, gc=False):
    """One row of a list. `modified_ms`: when a user or model last spoke; `created`: ISO, of the header.

    `cwd` is empty if the header names none. `message_count` counts message entries of all kinds and branches.
    `parent_session` is the file it was forked from.
    """

    id: str
    cwd: str
    name: str | None
    parent_session: str | None
    created: str
    modified_ms: int
    message_count: int
    first_message: str

    @property
    def modified(self) -> str:
        """The same as ISO text."""
        return iso(self.modified_ms)


class _Block(Struct, gc=False):
    type: str = ""
    text: str = ""


class _Message(Struct, gc=False):
    role: str = ""
    content: str | list[_Block] | None = None
    timestamp: int | float | UnsetType = UNSET


class _Line(Struct, gc=False):
    type: str = ""
    timestamp: str = ""
    name: str | UnsetType = UNSET
    message: _Message | UnsetType = UNSET


_lines = msgspec.json.Decoder(_Line)


@final
class Gathering(Struct):
    """The fold: feed it all lines of a file in order. `words`: keep the words too."""

    words: bool = False
    header: Header | None = None
    refused: bool = False
    name: str | None = None
    message_count: int = 0
    first_message: str | None = None
    last_ms: int | None = None
    texts: list[str] = field(default_factory=list[str])

    def feed(self, lines: Iterable[bytes]) -> None:
        """More lines, without newlines."""
        for line in lines:
            if self.refused:
                return
            if self.header is None:
                self._first(line)
            elif line:
                self._line(line)

    def _first(self, line: bytes) -> None:
        line = line.removeprefix(BYTE_ORDER_MARK)
        readable, value = read_value(line)
        if readable and not is_skipped(value):
            self.header = header_from_line(line)
            self.refused = self.header is None

    def _line(self, line: bytes) -> None:
        try:
            read = _lines.decode(line)
        except (msgspec.MsgspecError, RecursionError):
            data = read_object(unsealed(line))
            if data is None:
                return
            read = _lenient(data)
        if read.type == "message":
            self.message_count += 1
            if read.message is not UNSET:
                self._message(read, read.message)
        elif read.type == "session_info":
            self.name = None if read.name is UNSET else read.name.strip(JS_SPACE) or None

    def _message(self, line: _Line, message: _Message) -> None:
        if message.role not in ("user", "assistant"):
            return
        moment = _moment(line, message)
        if moment is not None and (self.last_ms is None or moment > self.last_ms):
            self.last_ms = moment
        if not self.words and (message.role == "assistant" or self.first_message is not None):
            return
        text = _text(message.content)
        if not text:
            return
        if self.words:
            self.texts.append(text)
        if message.role == "user" and self.first_message is None:
            self.first_message = text

    def facts(self, file_ms: int) -> Facts | None:
        """What was gathered; nothing if it was no session. `file_ms`: the file's time, if the header has none."""
        header = self.header
        if header is None or self.refused:
            return None
        modified = self.last_ms
        if modified is None:
            modified = ms_of(header.timestamp)
        return Facts(
            id=header.id,
            cwd="" if header.cwd is UNSET else header.cwd,
            name=self.name,
            parent_session=None if header.parent_session is UNSET else header.parent_session,
            created=header.timestamp,
            modified_ms=file_ms if modified is None else modified,
            message_count=self.message_count,
            first_message=NO_MESSAGES if self.first_message is None else self.first_message,
        )


def _moment(line: _Line, message: _Message) -> int | None:
    """When a message was said: its own time if it is one, else that of its entry."""
    stamp = message.timestamp
    return ms_of(line.timestamp) if stamp is UNSET or not abs(stamp) <= LAST_MS else int(stamp)


def _text(content: str | list[_Block] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return " ".join([block.text for block in content if block.type == "text"])


def _lenient(data: JsonObject) -> _Line:
    """The same of an object whose members may have any type."""
    message = data.get("message")
    return _Line(
        type=_string(data.get("type")),
        timestamp=_string(data.get("timestamp")),
        name=_string(data.get("name")),
        message=_lenient_message(cast("JsonObject", message)) if isinstance(message, dict) else UNSET,
    )


def _lenient_message(data: JsonObject) -> _Message:
    content, stamp = data.get("content"), data.get("timestamp")
    if isinstance(content, list):
        blocks = [cast("JsonObject", item) for item in content if isinstance(item, dict)]
        content = [_Block(_string(block.get("type")), _string(block.get("text"))) for block in blocks]
    return _Message(
        role=_string(data.get("role")),
        content=content if isinstance(content, str | list) else None,
        timestamp=stamp if isinstance(stamp, int | float) and not isinstance(stamp, bool) else UNSET,
    )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a file read in blocks."""
    rest: list[bytes] = []
    for block in blocks:
        lines = block.split(b"\n")
        rest.append(lines[0])
        if len(lines) > 1:
            yield b"".join(rest)
            yield from lines[1:-1]
            rest = [lines[-1]]
    yield b"".join(rest)
