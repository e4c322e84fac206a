"""Commands are checked field by field; whatever a line is, there is an answer."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from antiphon.modes.rpc.protocol import COMMANDS, Asked, Refused, failure, images_of, read_command, success


def ask(line: str | bytes | dict[str, Any]) -> Asked | Refused:
    if isinstance(line, dict):
        line = json.dumps(line)
    return read_command(line.encode() if isinstance(line, str) else line)


def refused(line: str | bytes | dict[str, Any]) -> dict[str, Any]:
    found = ask(line)
    assert isinstance(found, Refused), found
    return json.loads(failure(found, found.error))


def command(line: str | bytes | dict[str, Any]) -> Any:
    found = ask(line)
    assert isinstance(found, Asked), found
    return found.command


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("null", "not null"),
        ("42", "not 42"),
        ("[]", "not a list"),
        ('"x"', 'not "x"'),
        ("true", "not true"),
        ("{}", "it has no `type`"),
        ('{"type":null}', "`type` must be a text, not null"),
        ('{"type":["a"]}', "`type` must be a text, not a list"),
        ("", "Failed to parse"),
        ("{", "Failed to parse"),
        ('{"type":"abort"} x', "Failed to parse"),
        ("NaN", "NaN is not JSON"),
        ('{"type":"abort","x":Infinity}', "Infinity is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"a":' * 200_000, "nested too deeply"),
        ('{"type":"prompt","message":"a\0b"}', "Failed to parse"),
    ],
)
def test_what_is_no_command_is_answered_as_unparsable(line: str, says: str) -> None:
    answer = refused(line)
    assert answer["command"] == "parse"
    assert answer["success"] is False
    assert answer["error"].startswith("Failed to parse command: ")
    assert says in answer["error"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "prompt"}, "prompt needs `message` (a text)"),
    ({"type": "prompt", "message": 5}, "`message` must be a text, not 5"),
    ({"type": "prompt", "message": None}, "`message` must be a text, not null"),
    ({"type": "prompt", "message": "x", "streamingBehavior": "later"}, '`streamingBehavior` must be "followUp" or'),
    ({"type": "prompt", "message": "x", "images": "no"}, "`images` must be a list of images"),
    ({"type": "prompt", "message": "x", "images": [{"type": "image"}]}, "`images` must be a list of images"),
    (
        {"type": "prompt", "message": "x", "images": [{"type": "image", "data": "?", "mimeType": "image/png"}]},
        "`images[0].data` is not base64",
    ),
    (
        {"type": "prompt", "message": "x", "images": [{"type": "image", "data": "QUJD", "mimeType": "text/x"}]},
        "`images[0].mimeType` must be an image type",
    ),
    ({"type": "bash"}, "bash needs `command` (a text)"),
    ({"type": "bash", "command": 1}, "`command` must be a text"),
    ({"type": "bash", "command": "x", "excludeFromContext": "yes"}, "must be true or false"),
    ({"type": "set_steering_mode", "mode": "bogus"}, '`mode` must be "all" or "one-at-a-time", not "bogus"'),
    ({"type": "set_thinking_level", "level": "hard"}, 'one of "off", "minimal"'),
    ({"type": "set_model", "provider": "x"}, "set_model needs `modelId` (a text)"),
    ({"type": "set_auto_retry"}, "set_auto_retry needs `enabled` (true or false)"),
    ({"type": "set_auto_retry", "enabled": 1}, "`enabled` must be true or false, not 1"),
    ({"type": "switch_session", "sessionPath": ""}, "`sessionPath` must be a text that is not empty"),
    ({"type": "fork"}, "fork needs `entryId`"),
    ({"type": "answer_approval", "approvalId": "a", "approved": True, "args": [1]}, "`args` must be an object"),
]


@pytest.mark.parametrize(("given", "says"), WRONG)
def test_a_wrong_field_is_named_with_what_it_takes(given: dict[str, Any], says: str) -> None:
    answer = refused({"id": 7, **given})
    assert says in answer["error"]
    assert (answer["id"], answer["command"]) == (7, given["type"])
    assert "undefined" not in answer["error"]
    assert "Traceback" not in answer["error"]


def test_an_unknown_command_is_named() -> None:
    assert refused('{"id":"a","type":"nope"}') == {
        "id": "a",
        "type": "response",
        "command": "nope",
        "success": False,
        "error": "Unknown command: nope",
    }


@pytest.mark.parametrize("id_", ["a", 1, 1.5, None, True, [1, {"x": "\u2028"}], {"deep": {"er": []}}, "", 10**30])
def test_an_id_comes_back_as_it_was(id_: Any) -> None:
    found = ask({"id": id_, "type": "abort"})
    assert isinstance(found, Asked)
    answer = json.loads(success(found))
    assert answer["id"] == id_
    assert list(answer) == ["id", "type", "command", "success"]


def test_without_an_id_there_is_none_and_null_data_is_real() -> None:
    found = ask('{"type":"cycle_model"}')
    assert isinstance(found, Asked)
    assert success(found, None) == b'{"type":"response","command":"cycle_model","success":true,"data":null}\n'
    assert success(found) == b'{"type":"response","command":"cycle_model","success":true}\n'


def test_texts_arrive_as_they_were_sent() -> None:
    for text in ("a\u2028b\u2029c\x85", "a\0b", "中文 🎉", "\ud83d half", "x" * 1_000_000, "a\rb\nc"):
        assert command({"type": "prompt", "message": text}).message == text
    assert command(b'{"type":"prompt","message":"\xff"}').message == "\ufffd"


def test_unknown_fields_and_nulls_in_optional_ones_are_tolerated() -> None:
    assert command({"type": "prompt", "message": "x", "new": {"a": 1}, "images": None}).images == ()
    assert command({"type": "compact", "customInstructions": None}) == command({"type": "compact"})


def test_images_become_blocks() -> None:
    given = command(
        {"type": "steer", "message": "x", "images": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}]}
    )
    (image,) = images_of(given)
    assert (image.data, image.mime_type) == ("QUJD", "image/png")


def test_every_command_can_be_given_with_its_required_fields() -> None:
    samples = {"str": "x", "bool": True}
    for name, kind in COMMANDS.items():
        given: dict[str, Any] = {"type": name}
        for field in msgspec.structs.fields(kind):
            if field.required:
                given[field.encode_name] = {"level": "off", "mode": "all"}.get(
                    field.encode_name, samples.get(getattr(field.type, "__name__", ""), "x")
                )
        assert type(command(given)) is kind


def test_an_id_that_is_nearly_too_deep_does_no_harm() -> None:
    for depth in (10, 100, 500, 900, 990, 1000, 1100, 5000):
        found = ask('{"type":"abort","id":' + '{"$a":' * depth + "1" + "}" * depth + "}")
        line = success(found) if isinstance(found, Asked) else failure(found, found.error)
        assert json.loads(line)["type"] == "response"


def test_random_bytes_never_raise() -> None:
    chance = random.Random(7)
    parts = [
        b'{"type":"prompt","message":"',
        b'"}',
        b"{",
        b"}",
        b"[",
        b"\\u",
        b"\xff",
        b"null",
        b":",
        b",",
        b'"id":',
        b"\0",
    ]
    for _ in range(3000):
        line = b"".join(chance.choices(parts, k=chance.randrange(1, 9)))
        found = read_command(line)
        json.loads(success(found) if isinstance(found, Asked) else failure(found, found.error))
