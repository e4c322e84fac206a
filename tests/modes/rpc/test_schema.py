"""The schema file is what the definitions say, and commands and records fit it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from antiphon.modes.rpc.protocol import COMMANDS
from antiphon.modes.rpc.schema import FILE, text

SCHEMA: dict[str, Any] = json.loads(FILE.read_bytes())


def validator(part: str) -> Any:
    return jsonschema_rs.validator_for({"$defs": SCHEMA["$defs"], **SCHEMA[part]})


def test_the_file_is_fresh() -> None:
    assert FILE.read_text("utf-8") == text(), "write it: python -m antiphon.modes.rpc.schema > schema.json"


def test_it_knows_every_command_and_nothing_of_memory() -> None:
    names = {
        SCHEMA["$defs"][ref["$ref"].rpartition("/")[2]]["properties"]["type"]["enum"][0]
        for ref in SCHEMA["command"]["oneOf"]
    }
    assert names == set(COMMANDS)
    assert '"$position"' not in FILE.read_text()
    assert '"$extra"' not in FILE.read_text()
    assert '"additionalProperties": false' not in FILE.read_text()


def test_commands_are_told_apart() -> None:
    commands = validator("command")
    assert commands.is_valid({"id": 1, "type": "prompt", "message": "x", "future": True})
    assert not commands.is_valid({"type": "prompt"})
    assert not commands.is_valid({"type": "nope"})
    assert not commands.is_valid({"type": "set_steering_mode", "mode": "bogus"})


def test_answers_and_questions_are_records() -> None:
    records = validator("record")
    assert records.is_valid({"type": "response", "command": "abort", "success": True, "id": None})
    assert records.is_valid({"type": "extension_ui_request", "id": "x", "method": "notify", "message": "m"})
    assert records.is_valid({"type": "agent_settled", "aborted": False, "later": 1})
    assert not records.is_valid({"type": "agent_settled"})
