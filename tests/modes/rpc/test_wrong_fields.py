"""Every field of every command with values of every wrong kind: an answer each, and life goes on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.modes.children import Place
from tests.modes.rpc.talk import Record, talking
from tests.modes.rpc.test_pairs import FIELDS

from antiphon.modes.rpc.protocol import COMMANDS

WRONG: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a large number": 10**40,
    "a fraction": -0.5,
    "true": True,
    "an empty text": "",
    "half a character": "\ud800",
    "a text with NUL": "a\0b",
    "an empty list": [],
    "a list": [{"type": "image"}, 1],
    "an object": {"a": {"b": [None]}},
    "a deep list": json.loads("[" * 300 + "]" * 300),
}


def commands() -> dict[str, Record]:
    """Commands by their ids: in each one field has a wrong value, or there is a field that nobody knows."""
    found: dict[str, Record] = {}
    for name, kind in COMMANDS.items():
        fields = [info.encode_name for info in msgspec.structs.fields(kind)]
        for field in [*fields, "unknown"] if name != "extension_ui_response" else []:
            for what, value in WRONG.items():
                id_ = f"{name}, {field}: {what}"
                found[id_] = {"id": id_, "type": name, **FIELDS.get(name, {}), field: value}
    return found


async def test_every_wrong_field_is_answered(place: Place) -> None:
    sent = commands()
    async with talking(place) as (talk, _):
        for command in sent.values():
            await talk.send(command)
        await talk.send({"id": "abort", "type": "abort"})
        await talk.answer("abort")
        answers: dict[str, Record] = {}
        for id_ in sent:
            answers[id_] = await talk.answer(id_)
        assert (await talk.ask("get_state"))["sessionId"]
        talk.since = 0
        ids = [record["id"] for record in talk.records if record["type"] == "response"]
        await talk.end()
    assert len(ids) == len(set(ids)), "each is answered once"
    failed = [answer for answer in answers.values() if not answer["success"]]
    ours = [(answer["id"], answer["error"]) for answer in failed if "internal error" in answer["error"]]
    assert not ours, "\n".join(map(str, ours))
    assert all(answer["error"] and "Traceback" not in answer["error"] for answer in failed)
    assert len(failed) > len(sent) / 3
    print(f"{len(sent)} commands with a wrong field, {len(failed)} refused")
