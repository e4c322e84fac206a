"""Recordings of a real server decode to what their index says, however the bytes are cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conformance.providers_stage import Reply, cuts
from tests.conformance.run import default_folder
from tests.providers.asking import answer, model, request

from antiphon.core.content import Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage
from antiphon.providers import failures
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.registry import new_adapter

FOLDER: Path = default_folder("live")
APIS = {"openai-chat": "openai-completions", "openai-responses": "openai-responses"}
STOPS = {"stop": "stop", "length": "length", "tool_calls": "toolUse"}

INDEX: dict[str, Any] = json.loads((FOLDER / "index.json").read_text()) if FOLDER.is_dir() else {}
NAMES = [name for name, entry in INDEX.items() if entry["dialect"] in APIS]
ANSWERS = [name for name in NAMES if INDEX[name]["error"] is None]
REFUSALS = [name for name in NAMES if INDEX[name]["error"] is not None]


async def decoded(name: str, size: int) -> AssistantMessage:
    entry = INDEX[name]
    recorded = json.loads((FOLDER / f"{name}.request.json").read_text())
    body = (FOLDER / entry["file"]).read_bytes()

    async def transport(_: HttpRequest, *, connect_seconds: float) -> HttpReply:
        return Reply(recorded["status"], {"content-type": recorded["content_type"]}, cuts(size)(body))

    api = APIS[entry["dialect"]]
    asked = model("http://127.0.0.1:8080/v1", api, id=recorded["body"].get("model", "m"), reasoning=True)
    return await answer(new_adapter(api), request(asked, transport=transport))


def words(message: AssistantMessage, kind: type) -> str:
    return "".join(b.text if type(b) is Text else b.thinking for b in message.content if type(b) is kind)  # type: ignore


@pytest.mark.skipif(not INDEX, reason="the recordings are not beside this checkout")
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_is_what_the_index_says_at_every_cut(name: str) -> None:
    entry = INDEX[name]
    messages = [await decoded(name, size) for size in (1, 7, 4096)]

    message = messages[0]
    calls = [block for block in message.content if type(block) is ToolCall]
    assert words(message, Text) == entry["text"]
    assert words(message, Thinking) == entry["reasoning"]
    assert [call.name for call in calls] == [call["name"] for call in entry["toolCalls"]]
    for call, told in zip(calls, entry["toolCalls"], strict=True):
        if told["argumentsAreCompleteJson"]:
            assert call.arguments == json.loads(told["arguments"])
        else:
            assert told["arguments"] in str(call.arguments_error), "a cut call must never run"
            assert call.arguments == {}
    if entry["dialect"] == "openai-chat":
        assert message.stop_reason == STOPS[entry["wireStop"]]
    else:
        assert message.stop_reason == ("toolUse" if calls else "stop")
    if entry["usage"]:
        total = entry["usage"]["total_tokens"]
        assert message.usage.input + message.usage.cache_read + message.usage.output == total
    assert [(m.content, m.usage, m.stop_reason) for m in messages[1:]] == [
        (message.content, message.usage, message.stop_reason)
    ] * 2


@pytest.mark.skipif(not INDEX, reason="the recordings are not beside this checkout")
@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refusal_keeps_its_words_and_meaning(name: str) -> None:
    message = await decoded(name, 7)

    failure = failures.classify(message)
    assert failure is not None
    assert INDEX[name]["error"]["message"] in failure.text
    assert failure.status == INDEX[name]["httpStatus"]
    assert failure.overflow == ("overflow" in name)
    assert not failure.retryable
