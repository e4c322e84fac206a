"""The one schema of everything on the line: commands, answers, events. Written from the definitions themselves.

`python -m antiphon.modes.rpc.schema > schema.json` writes the file beside this one; a test fails when it is stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast, get_args

import msgspec

from antiphon.core.events import AgentEnd, MessageUpdate
from antiphon.core.session_events import SessionEvent
from antiphon.core.wire import JsonObject
from antiphon.modes.rpc.protocol import COMMANDS
from antiphon.modes.wire_events import Update

FILE = Path(__file__).with_name("schema.json")
_REF = "#/$defs/"
_ROLES = ["system", "user", "assistant", "toolResult"]
_BLOCKS = ["text", "image", "thinking", "toolCall"]


def schema() -> JsonObject:
    """A JSON Schema: `command` for lines that go in, `record` for lines that come out."""
    events = [kind for kind in get_args(SessionEvent) if kind not in (MessageUpdate, AgentEnd)] + [Update]
    commands = list(COMMANDS.values())
    found, parts = msgspec.json.schema_components([*commands, *events], ref_template=_REF + "{name}")
    refs = list(found)
    defs: JsonObject = {name: _for_readers(part) for name, part in parts.items()}
    for ref in refs[: len(commands)]:
        name = ref["$ref"].removeprefix(_REF)
        defs[name]["properties"] = {"id": {"description": "Any JSON; it comes back"}, **defs[name]["properties"]}
    defs["HostMessage"] = _open("role", "A message of the host: a note, output of a command, a summary", _ROLES)
    defs["Foreign"] = _open("type", "A block of a kind that is not known yet", _BLOCKS)
    defs["Response"] = _RESPONSE
    defs["UiRequest"] = _UI_REQUEST
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "antiphon, lines of --mode rpc and --mode json",
        "description": "One JSON object a line, LF only. Readers must tolerate unknown types and members.",
        "command": {"oneOf": refs[: len(commands)]},
        "record": {
            "oneOf": [{"$ref": _REF + "Response"}, *refs[len(commands) :], {"$ref": _REF + "UiRequest"}],
        },
        "$defs": dict(sorted(defs.items())),
    }


_RESPONSE: JsonObject = {
    "type": "object",
    "properties": {
        "id": {"description": "That of the command, if it had one"},
        "type": {"const": "response"},
        "command": {"type": "string", "description": "Name of the command; `parse` if it could not be read"},
        "success": {"type": "boolean"},
        "data": {"description": "What was asked for; absent if there is nothing"},
        "error": {"type": "string", "description": "Why not; only without success"},
    },
    "required": ["type", "command", "success"],
}
_UI_REQUEST: JsonObject = {
    "type": "object",
    "description": "A question or message of an extension to the person",
    "properties": {
        "type": {"const": "extension_ui_request"},
        "id": {"type": "string", "format": "uuid"},
        "method": {
            "enum": [
                "select",
                "confirm",
                "input",
                "editor",
                "notify",
                "setStatus",
                "setWidget",
                "setTitle",
                "set_editor_text",
            ]
        },
    },
    "required": ["type", "id", "method"],
}


def _open(member: str, description: str, others: list[str]) -> JsonObject:
    """An object that is told from others by a member, and may have any members besides."""
    kind: JsonObject = {"type": "string", "not": {"enum": others}}
    return {"type": "object", "description": description, "properties": {member: kind}, "required": [member]}


def _for_readers(part: Any) -> Any:
    """Without members and names that live in memory only, and open to members that come later."""
    if isinstance(part, list):
        return [_for_readers(item) for item in part]
    if not isinstance(part, dict):
        return part
    table = cast("JsonObject", part)
    out = {name: _for_readers(item) for name, item in table.items() if name != "additionalProperties" or item}
    if isinstance(out.get("properties"), dict):
        out["properties"] = {name: item for name, item in out["properties"].items() if not name.startswith("$")}
    if isinstance(out.get("mapping"), dict):
        out["mapping"] = {name: item for name, item in out["mapping"].items() if not name.startswith("$")}
    return out


def text() -> str:
    """The file's content."""
    return json.dumps(schema(), indent=1, ensure_ascii=False, sort_keys=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
