"""A conversation as plain text for a summariser, and the files it touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast, final

from msgspec import UNSET, Struct

from antiphon.core.content import Content, Text, ToolCall
from antiphon.core.json_numbers import json_text
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.session_log.compaction.estimate import units
from antiphon.session_log.convert import to_model_messages

RESULT_UNITS = 2_000
"""Of a tool result so many UTF-16 units are told."""


def conversation_text(messages: Sequence[Message]) -> str:
    """What was said, part by part. Prompts, thinking and images are left out, long results are cut."""
    return "\n\n".join(part for message in to_model_messages(messages) for part in _parts(message))


def _parts(message: Message) -> Iterable[str]:
    match message:
        case UserMessage(content=content):
            text = _joined(content, "")
            if text:
                yield f"[User]: {text}"
        case AssistantMessage(content=content):
            if any(type(block) is Text for block in content):
                yield f"[Assistant]: {_joined(content, chr(10))}"
            calls = [_call_text(block) for block in content if type(block) is ToolCall]
            if calls:
                yield f"[Assistant tool calls]: {'; '.join(calls)}"
        case ToolResultMessage(content=content):
            text = _joined(content, "")
            if text:
                yield f"[Tool result]: {shortened(text, RESULT_UNITS)}"
        case _:
            return


def _joined(content: str | Content, separator: str) -> str:
    if isinstance(content, str):
        return content
    return separator.join([block.text for block in content if type(block) is Text])


def _call_text(call: ToolCall) -> str:
    arguments = ", ".join([f"{name}={json_text(value)}" for name, value in call.arguments.items()])
    return f"{call.name}({arguments})"


def shortened(text: str, most_units: int) -> str:
    """At most so many UTF-16 units of a text, never half a character, and a note of how many are too many."""
    length = units(text)
    if length <= most_units:
        return text
    kept = text.encode("utf-16-le", "surrogatepass")[: 2 * most_units]
    if 0xD8 <= kept[-1] <= 0xDB:
        kept = kept[:-2]
    rest = length - most_units
    return f"{kept.decode('utf-16-le', 'surrogatepass')}\n\n[... {rest} more characters truncated]"


@final
class FileLists(Struct, frozen=True, gc=False):
    """Files that were only read, and files that were changed: sorted, without repeats, disjoint."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()

    def details(self) -> JsonObject:
        """The form in which a compaction or branch summary stores them."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}

    def as_text(self) -> str:
        """The blocks behind a summary; empty if there are no files."""
        blocks = [("read-files", self.read), ("modified-files", self.modified)]
        return "".join(f"\n\n<{tag}>\n{chr(10).join(paths)}\n</{tag}>" for tag, paths in blocks if paths)


def file_lists(messages: Iterable[Message], earlier: Iterable[JsonValue] = ()) -> FileLists:
    """Files of the calls in these messages, nested ones included, and of the `details` of earlier summaries."""
    read: set[str] = set()
    modified: set[str] = set()
    for details in earlier:
        read.update(_paths_in(details, "readFiles"))
        modified.update(_paths_in(details, "modifiedFiles"))
    for name, arguments in (call for message in messages for call in _calls(message)):
        path = arguments.get("path")
        if isinstance(path, str) and name in ("read", "write", "edit"):
            (read if name == "read" else modified).add(path)
    return FileLists(_sorted(read - modified), _sorted(modified))


def _paths_in(details: JsonValue, name: str) -> Iterable[str]:
    found = cast("JsonObject", details).get(name) if isinstance(details, dict) else None
    return [path for path in found if isinstance(path, str)] if isinstance(found, list) else []


def _sorted(paths: set[str]) -> tuple[str, ...]:
    """By UTF-16 units, as the reference sorts."""
    return tuple(sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass")))


def _calls(message: Message) -> Iterable[tuple[str, JsonObject]]:
    match message:
        case AssistantMessage(content=content):
            for block in content:
                if type(block) is ToolCall:
                    yield block.name, block.arguments
        case ToolResultMessage(nested_calls=record) if record is not UNSET:
            yield from _nested(record)
        case _:
            return


def _nested(record: Any) -> Iterable[tuple[str, JsonObject]]:
    calls = record.get("calls") if isinstance(record, dict) else None
    for call in calls if isinstance(calls, list) else ():
        match call:
            case {"name": str(name), "arguments": dict(arguments)}:
                yield name, arguments
            case _:
                pass
