"""What may be said to a conversation over a line, and how it answers. Pure: bytes to values, values to bytes.

Each field of a command is checked before anything is done; an error names the field and what it takes. Unknown fields
are tolerated. Source: modes specification 8.2, 8.3, 8.11.
"""

from __future__ import annotations

import binascii
import json
from typing import Annotated, Any, Literal, TypeAlias, cast, final

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from antiphon.core.content import Image
from antiphon.core.model import ThinkingLevel
from antiphon.core.wire import JsonObject, JsonValue, decode, encode
from antiphon.resources.type_words import words_for

QueueMode: TypeAlias = Literal["all", "one-at-a-time"]
Behaviour: TypeAlias = Literal["steer", "followUp"]


class CommandBase(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """A command without its id."""


@final
class GivenImage(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="image"):
    """A picture: base64 `data` and its media type."""

    data: str
    mime_type: str


Images: TypeAlias = tuple[GivenImage, ...]


@final
class Prompt(CommandBase, frozen=True, tag="prompt"):
    """Say something. Answered with `started`, `queued` or `handled` when it is accepted."""

    message: str
    images: Images = ()
    streaming_behavior: Behaviour | UnsetType = UNSET


@final
class Steer(CommandBase, frozen=True, tag="steer"):
    """Say something before the next turn."""

    message: str
    images: Images = ()


@final
class FollowUp(CommandBase, frozen=True, tag="follow_up"):
    """Say something when the run would end."""

    message: str
    images: Images = ()


@final
class Abort(CommandBase, frozen=True, tag="abort"):
    """Stop whatever goes on; answered when it has settled. `queue`: what becomes of queued messages."""

    queue: Literal["keep", "clear"] = "keep"


@final
class ClearQueue(CommandBase, frozen=True, tag="clear_queue"):
    """Take back all queued messages."""


@final
class NewSession(CommandBase, frozen=True, tag="new_session"):
    """Begin a new conversation. `parent_session`: the file it continues. Queued messages come back as `dropped`."""

    parent_session: str | UnsetType = UNSET


@final
class GetState(CommandBase, frozen=True, tag="get_state"):
    """What goes on now."""


@final
class GetMessages(CommandBase, frozen=True, tag="get_messages"):
    """The messages of the conversation."""


@final
class SetModel(CommandBase, frozen=True, tag="set_model"):
    """Ask another model from the next request on. `persist`: also from the next start on."""

    provider: str
    model_id: str
    persist: bool = False


@final
class CycleModel(CommandBase, frozen=True, tag="cycle_model"):
    """Ask the next model of the scope."""

    direction: Literal["forward", "backward"] = "forward"


@final
class GetAvailableModels(CommandBase, frozen=True, tag="get_available_models"):
    """Models that can be asked."""


@final
class SetThinkingLevel(CommandBase, frozen=True, tag="set_thinking_level"):
    level: ThinkingLevel
    persist: bool = False


@final
class CycleThinkingLevel(CommandBase, frozen=True, tag="cycle_thinking_level"):
    """The next level that the model has."""


@final
class GetAvailableThinkingLevels(CommandBase, frozen=True, tag="get_available_thinking_levels"):
    """Levels that the model has."""


@final
class SetSteeringMode(CommandBase, frozen=True, tag="set_steering_mode"):
    mode: QueueMode
    persist: bool = False


@final
class SetFollowUpMode(CommandBase, frozen=True, tag="set_follow_up_mode"):
    mode: QueueMode
    persist: bool = False


@final
class Compact(CommandBase, frozen=True, tag="compact"):
    """Put a summary in place of old messages; a run is aborted first."""

    custom_instructions: str | UnsetType = UNSET


@final
class SetAutoCompaction(CommandBase, frozen=True, tag="set_auto_compaction"):
    enabled: bool
    persist: bool = False


@final
class SetAutoRetry(CommandBase, frozen=True, tag="set_auto_retry"):
    enabled: bool
    persist: bool = False


@final
class AbortRetry(CommandBase, frozen=True, tag="abort_retry"):
    """End the wait before a retry; do not retry."""


@final
class AbortCompaction(CommandBase, frozen=True, tag="abort_compaction"):
    """Stop the compaction that is being made."""


@final
class AbortBranchSummary(CommandBase, frozen=True, tag="abort_branch_summary"):
    """Stop the summary of a branch that is being made."""


@final
class Bash(CommandBase, frozen=True, tag="bash"):
    """Run a command for the user; the model is told with the next prompt, unless it is excluded."""

    command: str
    exclude_from_context: bool = False


@final
class AbortBash(CommandBase, frozen=True, tag="abort_bash"):
    """Stop all commands of the user."""


@final
class GetSessionStats(CommandBase, frozen=True, tag="get_session_stats"):
    """Counts, tokens and cost over the whole log."""


@final
class ExportHtml(CommandBase, frozen=True, tag="export_html"):
    """Write the conversation as a page."""

    output_path: str | UnsetType = UNSET


@final
class SwitchSession(CommandBase, frozen=True, tag="switch_session"):
    """Go on with another session file."""

    session_path: Annotated[str, Meta(min_length=1)]


@final
class Fork(CommandBase, frozen=True, tag="fork"):
    """Go on in a copy that ends before a message of the user; its text comes back."""

    entry_id: str


@final
class Clone(CommandBase, frozen=True, tag="clone"):
    """Go on in a copy of the conversation."""


@final
class GetForkMessages(CommandBase, frozen=True, tag="get_fork_messages"):
    """Messages of the user to fork before: of the active branch, or (`all`) of every branch."""

    all: bool = False


@final
class GetEntries(CommandBase, frozen=True, tag="get_entries"):
    """Entries of the log, all or those behind one."""

    since: str | UnsetType = UNSET


@final
class GetTree(CommandBase, frozen=True, tag="get_tree"):
    """The log as a tree."""


@final
class NavigateTree(CommandBase, frozen=True, tag="navigate_tree"):
    """Go on from another place of the tree; perhaps with a summary of what is left."""

    target_id: str
    summarize: bool = False
    custom_instructions: str | UnsetType = UNSET
    replace_instructions: bool = False
    label: str | UnsetType = UNSET


@final
class GetLastAssistantText(CommandBase, frozen=True, tag="get_last_assistant_text"):
    """The words of the last answer; null if there is none."""


@final
class SetSessionName(CommandBase, frozen=True, tag="set_session_name"):
    name: str


@final
class GetCommands(CommandBase, frozen=True, tag="get_commands"):
    """Names that a prompt may begin with: of extensions, templates, skills."""


@final
class AnswerApproval(CommandBase, frozen=True, tag="answer_approval"):
    """Allow or refuse a tool call that waits for a person, perhaps with other arguments."""

    approval_id: str
    approved: bool
    args: JsonObject | UnsetType = UNSET
    reason: str | UnsetType = UNSET


@final
class GetApprovals(CommandBase, frozen=True, tag="get_approvals"):
    """Tool calls that wait for a person."""


@final
class UiAnswer(CommandBase, frozen=True, tag="extension_ui_response"):
    """What a person said to a dialog. Never answered."""

    id: str
    value: Any = UNSET
    confirmed: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET


Command: TypeAlias = (
    Prompt
    | Steer
    | FollowUp
    | Abort
    | ClearQueue
    | NewSession
    | GetState
    | GetMessages
    | SetModel
    | CycleModel
    | GetAvailableModels
    | SetThinkingLevel
    | CycleThinkingLevel
    | GetAvailableThinkingLevels
    | SetSteeringMode
    | SetFollowUpMode
    | Compact
    | SetAutoCompaction
    | SetAutoRetry
    | AbortRetry
    | AbortCompaction
    | AbortBranchSummary
    | Bash
    | AbortBash
    | GetSessionStats
    | ExportHtml
    | SwitchSession
    | Fork
    | Clone
    | GetForkMessages
    | GetEntries
    | GetTree
    | NavigateTree
    | GetLastAssistantText
    | SetSessionName
    | GetCommands
    | AnswerApproval
    | GetApprovals
    | UiAnswer
)
COMMANDS: dict[str, type[CommandBase]] = {
    str(kind.__struct_config__.tag): kind for kind in cast("tuple[type[CommandBase], ...]", Command.__args__)
}
"""Every command by its name."""


_FOR_THE_SYSTEM = {
    "command": "command",
    "session_path": "sessionPath",
    "output_path": "outputPath",
    "parent_session": "parentSession",
}


@final
class Asked(Struct, frozen=True, gc=False):
    """A command that may be carried out. `id` UNSET: none was given."""

    id: JsonValue
    name: str
    command: Any


@final
class Refused(Struct, frozen=True, gc=False):
    """A line that is no command, and why. `name`: what it wanted to be, or `parse`."""

    id: JsonValue
    name: str
    error: str


def read_command(line: bytes) -> Asked | Refused:
    """The command that a line is. Never raises."""
    try:
        value = _json(line)
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        return Refused(UNSET, "parse", f"Failed to parse command: {why}")
    if not isinstance(value, dict):
        return Refused(UNSET, "parse", f"Failed to parse command: it must be a JSON object, not {kind_of(value)}")
    given = cast("JsonObject", value)
    id_ = given.get("id", UNSET)
    name = given.get("type", UNSET)
    if not isinstance(name, str):
        what = "it has no `type`" if name is UNSET else f"`type` must be a text, not {kind_of(name)}"
        return Refused(id_, "parse", f"Failed to parse command: {what}")
    kind = COMMANDS.get(name)
    if kind is None:
        return Refused(id_, name, f"Unknown command: {name}")
    return _checked(id_, name, kind, given)


def _json(line: bytes) -> JsonValue:
    """The value of a line of JSON. Broken UTF-8 becomes U+FFFD; escapes of half characters are taken as they are.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    try:
        return decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(line.decode("utf-8", "replace"), parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _checked(id_: JsonValue, name: str, kind: type[CommandBase], given: JsonObject) -> Asked | Refused:
    fields: dict[str, Any] = {}
    for info in msgspec.structs.fields(kind):
        value = given.get(info.encode_name, UNSET)
        if value is UNSET:
            if info.required:
                return Refused(id_, name, f"{name} needs `{info.encode_name}` ({_takes(info.type)})")
            continue
        if value is None and not info.required and info.type is not Any:
            continue  # null where a field may be absent: some programs write it so
        try:
            fields[info.name] = msgspec.convert(value, info.type)
        except ValueError as error:  # also of texts with half a character
            inside = _place(str(error), value)
            return Refused(
                id_, name, f"{name}: `{info.encode_name}` must be {_takes(info.type)}, not {kind_of(value)}{inside}"
            )
    wrong = _wrong_image(fields.get("images", ())) or _wrong_for_the_system(fields)
    if wrong is not None:
        return Refused(id_, name, f"{name}: {wrong}")
    return Asked(id_, name, kind(**fields))


def _place(error: str, value: JsonValue) -> str:
    """Where inside a value the fault is, if it is inside."""
    return f" ({error})" if isinstance(value, list | dict) and value else ""


def _takes(kind: Any) -> str:
    if kind == Images:
        return "a list of images, each with `data` and `mimeType`"
    shape = msgspec.inspect.type_info(kind)
    if isinstance(shape, msgspec.inspect.StrType) and shape.min_length:
        return "a text that is not empty"
    return words_for(shape)


def _wrong_image(images: Images) -> str | None:
    for number, image in enumerate(images):
        try:
            binascii.a2b_base64(image.data, strict_mode=True)
        except (binascii.Error, ValueError):
            return f"`images[{number}].data` is not base64"
        if not image.mime_type.startswith("image/"):
            return f"`images[{number}].mimeType` must be an image type such as image/png, not {image.mime_type[:80]!r}"
    return None


def _wrong_for_the_system(fields: dict[str, Any]) -> str | None:
    """Commands and paths are handed to the system, which takes no NUL and no half characters."""
    for name, encode_name in _FOR_THE_SYSTEM.items():
        value = fields.get(name, "")
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            return f"`{encode_name}` must not hold a NUL byte or half a character"
    return None


def kind_of(value: JsonValue) -> str:
    """What a JSON value is, in words; a short text or number is shown."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            text = str(value)
            return text if len(text) < 40 else "a number"
        case str():
            return json.dumps(value) if len(value) <= 40 else "that text"
        case list():
            return "a list"
        case _:
            return "an object"


def images_of(command: Prompt | Steer | FollowUp) -> tuple[Image, ...]:
    """The pictures of a command as blocks of a message."""
    return tuple(Image(data=image.data, mime_type=image.mime_type) for image in command.images)


# ---- answers --------------------------------------------------------------------------------------------------------


def success(asked: Asked, data: Any = UNSET) -> bytes:
    """The line that says it worked. `data` None is null on the wire; UNSET: there is none."""
    return _answer(asked.id, {"command": asked.name, "success": True}, data)


def failure(asked: Asked | Refused, error: str) -> bytes:
    """The line that says it did not work, and why."""
    return _answer(asked.id, {"command": asked.name, "success": False, "error": error}, UNSET)


def _answer(id_: JsonValue, rest: JsonObject, data: Any) -> bytes:
    head: JsonObject = {} if id_ is UNSET else {"id": id_}
    tail: JsonObject = {} if data is UNSET else {"data": data}
    try:
        return encode({**head, "type": "response", **rest, **tail}) + b"\n"
    except RecursionError:  # an id that could just be read may be too deep to be written
        return encode({"type": "response", **rest, **tail}) + b"\n"
