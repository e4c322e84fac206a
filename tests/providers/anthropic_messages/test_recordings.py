"""Recordings of a real server that speaks Anthropic Messages: what the decoder makes of them is what was said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conformance.run import default_folder
from tests.providers.conversations import Reply, Server, ask, events_of, user
from tests.providers.event_rules import check_events
from tests.providers.streams import CLAUDE, claude_decoder, decode_bytes

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.providers.anthropic_messages.client import AnthropicMessages
from antiphon.providers.failures import classify

FOLDER = default_folder("live")
STOPS = {"end_turn": "stop", "max_tokens": "length", "tool_use": "toolUse"}


def index() -> dict[str, Any]:
    path = FOLDER / "index.json"
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: entry for name, entry in entries.items() if name.startswith("messages-")}


def recorded(*, stream: bool, status: int = 200) -> list[Any]:
    found = [name for name, entry in index().items() if entry["stream"] == stream and entry["httpStatus"] == status]
    missing = pytest.mark.skip(reason="the recordings are kept outside of the repository")
    return found or [pytest.param("", marks=missing)]


def body_of(name: str) -> bytes:
    return Path(FOLDER / index()[name]["file"]).read_bytes()


def check(message: AssistantMessage, said: dict[str, Any]) -> None:
    """The message holds what the index says was sent."""
    texts = "".join(block.text for block in message.content if isinstance(block, Text))
    thoughts = "".join(block.thinking for block in message.content if isinstance(block, Thinking))
    assert (texts, thoughts) == (said["text"], said["reasoning"])
    calls = [block for block in message.content if isinstance(block, ToolCall)]
    assert [call.name for call in calls] == [call["name"] for call in said["toolCalls"]]
    for call, told in zip(calls, said["toolCalls"], strict=True):
        if told["argumentsAreCompleteJson"]:
            assert call.arguments == json.loads(told["arguments"])
        else:
            assert told["arguments"] in str(call.arguments_error)
    if said["error"] is None:
        assert message.stop_reason == STOPS[said["wireStop"]]
    usage = message.usage
    assert (usage.input, usage.output) == (said["usage"]["input_tokens"], said["usage"]["output_tokens"])
    assert usage.cache_read == said["usage"]["cache_read_input_tokens"]


@pytest.mark.parametrize("name", recorded(stream=True))
def test_streams_say_what_was_recorded_however_they_are_cut(name: str) -> None:
    said = index()[name]
    model = msgspec.structs.replace(CLAUDE, id="smollm2-135m-instruct-q4_1")
    messages = [check_events(decode_bytes(claude_decoder(model), body_of(name), size=size)) for size in (1, 7, 4096)]

    assert messages[0] == messages[1] == messages[2]
    check(messages[0], said)
    if said["error"] is not None:
        failure = classify(messages[0])
        assert failure is not None
        assert said["error"]["message"] in failure.text
        assert failure.kind == "provider_error"


@pytest.mark.parametrize("name", recorded(stream=False))
async def test_an_answer_that_was_not_streamed_is_understood(name: str) -> None:
    server = Server(Reply(body_of(name), headers={"content-type": "application/json"}))
    message = check_events(await events_of(AnthropicMessages(), ask(CLAUDE, [user("x")], transport=server)))

    check(message, index()[name])


@pytest.mark.parametrize("name", [*recorded(stream=False, status=400), *recorded(stream=False, status=500)])
async def test_refusals_are_told_in_the_servers_words(name: str) -> None:
    said = index()[name]
    server = Server(Reply(body_of(name), status=said["httpStatus"]))
    message = check_events(await events_of(AnthropicMessages(), ask(CLAUDE, [user("x")], transport=server)))
    failure = classify(message)

    assert failure is not None
    assert failure.status == said["httpStatus"]
    assert said["error"]["message"] in failure.text
    assert failure.overflow == ("overflow" in name)
