"""What a session file holds: a header and entries, as frozen values.

A value knows the fields of the specification; members it does not know travel in `extra`, an entry of an unknown kind
is an `UnknownEntry`. Values are for reading and for making new lines. An old line is never written from its value:
whoever copies it copies its bytes (`line.changed`), so nothing is lost that we do not understand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.core.content import Content, content_from_wire
from antiphon.core.messages import HostMessage, Message, SystemMessage, message_from_wire
from antiphon.core.usage import NO_USAGE, Cost, Usage
from antiphon.core.wire import JsonObject, JsonValue, Typed, Wire, to_wire
from antiphon.errors import WireError
from antiphon.session_log.line import read_object, unsealed
from antiphon.session_log.refusals import EntryRefused

CURRENT_VERSION = 3


@final
class Header(Typed, frozen=True, kw_only=True, gc=False, tag="session"):
    """First line of a file. `version` absent is 1, `cwd` absent is the opener's folder."""

    type: ClassVar[Literal["session"]] = "session"
    version: int | float | UnsetType = UNSET
    id: str
    timestamp: str = ""
    cwd: str | UnsetType = UNSET
    parent_session: str | UnsetType = UNSET


class EntryBase(Typed, frozen=True, kw_only=True, gc=False, tag=True):
    """Common to all entries. `parent_id` None: a root. `timestamp`: ISO, UTC, milliseconds."""

    id: str
    parent_id: str | None = None
    timestamp: str = ""


@final
class MessageEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="message"):
    type: ClassVar[Literal["message"]] = "message"
    message: Message


@final
class ModelChangeEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="model_change"):
    type: ClassVar[Literal["model_change"]] = "model_change"
    provider: str = ""
    model_id: str = ""


@final
class ThinkingLevelEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="thinking_level_change"):
    type: ClassVar[Literal["thinking_level_change"]] = "thinking_level_change"
    thinking_level: str = "off"


@final
class UsageEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="usage"):
    """Tokens spent outside of messages. `kind` is free, for example `cache_warm`."""

    type: ClassVar[Literal["usage"]] = "usage"
    kind: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    note: str | UnsetType = UNSET


@final
class CompactionEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="compaction"):
    """From here on the summary stands for what came before `first_kept_entry_id` (its own id: for everything)."""

    type: ClassVar[Literal["compaction"]] = "compaction"
    summary: str = ""
    first_kept_entry_id: str | UnsetType = UNSET
    tokens_before: int | float = 0
    details: Any | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    from_hook: bool | UnsetType = UNSET
    system_message: SystemMessage | UnsetType = UNSET


@final
class BranchSummaryEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="branch_summary"):
    """What happened on the branch that was left at `from_id` (`root`: from an empty position)."""

    type: ClassVar[Literal["branch_summary"]] = "branch_summary"
    from_id: str = ""
    summary: str = ""
    details: Any | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET
    from_hook: bool | UnsetType = UNSET


@final
class CustomEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="custom"):
    """State of an extension or of ours (`calls.py`); never seen by a model."""

    type: ClassVar[Literal["custom"]] = "custom"
    custom_type: str = ""
    data: Any | UnsetType = UNSET


@final
class CustomMessageEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="custom_message"):
    """A message of an extension; the model sees it as the user's."""

    type: ClassVar[Literal["custom_message"]] = "custom_message"
    custom_type: str = ""
    content: str | Content = ()
    display: bool = False
    details: Any | UnsetType = UNSET


@final
class Replacement(Wire, frozen=True, kw_only=True, gc=False):
    """New content of an edited entry."""

    content: str | Content


@final
class ContextEditEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="context_edit"):
    """The model sees `target_id` with other content, or (None) not at all. The target's own line stays."""

    type: ClassVar[Literal["context_edit"]] = "context_edit"
    target_id: str = ""
    replacement: Replacement | None = None


@final
class LabelEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="label"):
    """A name for an entry; absent or empty takes it away."""

    type: ClassVar[Literal["label"]] = "label"
    target_id: str = ""
    label: str | UnsetType = UNSET


@final
class SessionInfoEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="session_info"):
    type: ClassVar[Literal["session_info"]] = "session_info"
    name: str = ""


@final
class PositionEntry(EntryBase, frozen=True, kw_only=True, gc=False, tag="position"):
    """Our own kind: the user moved here (`parent_id`). Other readers keep it and show what it points at."""

    type: ClassVar[Literal["position"]] = "position"


@final
class UnknownEntry(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of a kind, or with a shape, that we do not know; `data` is all of it."""

    id: str
    parent_id: str | None
    timestamp: str
    type: str
    data: JsonObject


KnownEntry: TypeAlias = (
    MessageEntry
    | ModelChangeEntry
    | ThinkingLevelEntry
    | UsageEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | ContextEditEntry
    | LabelEntry
    | SessionInfoEntry
    | PositionEntry
)
Entry: TypeAlias = KnownEntry | UnknownEntry

_KINDS: dict[str, type[KnownEntry]] = {
    kind.type: kind
    for kind in (
        MessageEntry,
        ModelChangeEntry,
        ThinkingLevelEntry,
        UsageEntry,
        CompactionEntry,
        BranchSummaryEntry,
        CustomEntry,
        CustomMessageEntry,
        ContextEditEntry,
        LabelEntry,
        SessionInfoEntry,
        PositionEntry,
    )
}
_fast: msgspec.json.Decoder[KnownEntry] = msgspec.json.Decoder(KnownEntry)


def entry_from_line(line: bytes) -> Entry:
    """The entry that a line describes, seal or not.

    Raises:
        WireError: the line is not an object with an id.
    """
    body = unsealed(line)
    try:
        return _fast.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        data = read_object(body)
    if data is None:
        raise WireError("a session entry must be a JSON object")
    return entry_from_wire(data)


def entry_from_wire(data: JsonObject) -> Entry:
    """The entry that a JSON object describes. A member of the wrong type is kept aside in `extra`.

    Raises:
        WireError: no text in `id`.
    """
    if not isinstance(data.get("id"), str):
        raise WireError("a session entry needs a text in `id`")
    kind = _KINDS.get(cast("str", data.get("type"))) if isinstance(data.get("type"), str) else None
    if kind is None or (kind is MessageEntry and not _is_message(data.get("message"))):
        return _unknown(data)
    fields, extra = _read_fields(data, kind)
    return kind(**fields, extra=extra or UNSET)


def _is_message(given: JsonValue) -> bool:
    return isinstance(given, dict) and isinstance(cast("JsonObject", given).get("role"), str)


def _unknown(data: JsonObject) -> UnknownEntry:
    parent, kind = data.get("parentId"), data.get("type")
    return UnknownEntry(
        id=data["id"],
        parent_id=parent if isinstance(parent, str) else None,
        timestamp=_text(data.get("timestamp")),
        type=_text(kind),
        data=data,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _read_fields(data: JsonObject, kind: type[Struct]) -> tuple[JsonObject, JsonObject]:
    """Members under their field names, and those that are unknown or do not fit under their own."""
    fields: JsonObject = {}
    extra: JsonObject = {}
    known = _fields_of(kind)
    for name, value in data.items():
        info = known.get(name)
        if info is None:
            if name != "type":
                extra[name] = value
            continue
        read = _READERS.get(name)
        try:
            fields[info.name] = read(value) if read else msgspec.convert(value, info.type)
        except (msgspec.ValidationError, WireError, ValueError):
            extra[name] = value
    return fields, extra


@cache
def _fields_of(kind: type[Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """The fields of a kind by their wire names. Looking them up costs half a millisecond."""
    return {info.encode_name: info for info in msgspec.structs.fields(kind) if not info.encode_name.startswith("$")}


def message_of(given: JsonObject) -> Message:
    """The message, or, if it has a member of the wrong type, the same kept whole as a host message."""
    try:
        return message_from_wire(given)
    except (WireError, TypeError, ValueError):  # a content that is no list, a text that is no text
        return HostMessage(extra=given)


def _content(given: JsonValue) -> str | Content:
    if given is not None and not isinstance(given, str | list):
        raise WireError("a content must be a text or a list of blocks")
    try:
        return given if isinstance(given, str) else content_from_wire(given)
    except (TypeError, ValueError) as error:
        raise WireError(f"a content with a block that is none: {error}") from error


def _object(given: JsonValue) -> JsonObject:
    if not isinstance(given, dict):
        raise WireError("a JSON object is missing")
    return cast("JsonObject", given)


def _usage(given: JsonValue) -> Usage:
    """Usage without members that we do not know."""
    known = {k: v for k, v in _object(given).items() if k in Usage.__struct_encode_fields__}
    if isinstance(known.get("cost"), dict):
        known["cost"] = {k: v for k, v in known["cost"].items() if k in Cost.__struct_encode_fields__}
    return msgspec.convert(known, Usage, strict=False)


def _replacement(given: JsonValue) -> Replacement | None:
    return None if given is None else Replacement(content=_content(_object(given).get("content")))


def edit_content_from_wire(given: JsonValue) -> str | Content | None:
    """The new content that a replacement on the wire asks for; None to leave the target out.

    Raises:
        EntryRefused: it is neither null nor an object with a text or a list in `content`.
    """
    if given is None:
        return None
    content = cast("JsonObject", given).get("content") if isinstance(given, dict) else None
    if not isinstance(content, str | list):
        raise EntryRefused("a replacement must be null or an object with a text or a list of blocks in `content`")
    return _content(content)


def _system(given: JsonValue) -> SystemMessage:
    message = message_of(_object(given))
    if type(message) is not SystemMessage:
        raise WireError("a checkpoint needs a system message")
    return message


_READERS: dict[str, Callable[[JsonValue], Any]] = {
    "message": message_of,
    "content": _content,
    "usage": _usage,
    "replacement": _replacement,
    "systemMessage": _system,
}


def entry_to_wire(entry: Entry) -> JsonObject:
    """The entry as plain lists and dicts with wire names."""
    if type(entry) is UnknownEntry:
        return entry.data
    out: JsonObject = to_wire(entry)
    return out


def header_from_wire(data: JsonValue) -> Header | None:
    """The header that a JSON value is, or nothing: it needs type `session` and a text in `id`."""
    if not isinstance(data, dict):
        return None
    given = cast("JsonObject", data)
    if given.get("type") != "session" or not isinstance(given.get("id"), str):
        return None
    fields, extra = _read_fields(given, Header)
    return Header(**fields, extra=extra or UNSET)


def header_from_line(line: bytes) -> Header | None:
    """The header that a line is, or nothing."""
    return header_from_wire(read_object(unsealed(line)))


def version_of(header: Header) -> float:
    """The version of the file; absent is 1."""
    return 1 if header.version is UNSET else header.version
