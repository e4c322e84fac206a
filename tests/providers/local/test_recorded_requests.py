"""The requests of `conformance/live`, byte for byte, to a real llama.cpp server in its three dialects.

The server has another chat template and a smaller window than the recorded one, so the words may differ. What kind of
answer it is may not: our decoders find its calls, its end, its usage, or its error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from tests.conformance.run import default_folder
from tests.providers.asking import model, request
from tests.providers.event_rules import check_events

from antiphon.core.content import Text, Thinking
from antiphon.core.messages import AssistantMessage, calls_of
from antiphon.providers import failures, http
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.registry import new_adapter

pytestmark = [pytest.mark.model, pytest.mark.slow, pytest.mark.usefixtures("installed")]

FOLDER: Path = default_folder("live")
APIS = {
    "/v1/chat/completions": "openai-completions",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic-messages",
}
NAMES = sorted(path.name.removesuffix(".request.json") for path in FOLDER.glob("*.request.json"))
ABBREVIATED = "(the word 'word ' 9000 times)"
WHOLE_CALLS = ("tool-forced", "tool-parallel-complete")


async def answered(address: str, name: str) -> AssistantMessage:
    recorded: dict[str, Any] = json.loads((FOLDER / f"{name}.request.json").read_text())
    api = APIS[recorded["path"]]
    body = json.dumps(recorded["body"]).replace(ABBREVIATED, "word " * 9000).encode()

    async def as_recorded(_: HttpRequest, *, connect_seconds: float) -> HttpReply:
        sent = HttpRequest(address + recorded["path"], {"content-type": "application/json"}, body)
        return await http.send(sent, connect_seconds=connect_seconds)

    asked = request(model(address, api, id=recorded["body"].get("model", "m"), reasoning=True), transport=as_recorded)
    return check_events([event async for event in new_adapter(api)(asked)])  # type: ignore[union-attr]


@pytest.mark.parametrize("name", NAMES)
async def test_a_recorded_request_is_answered_in_kind(address: str, name: str) -> None:
    message = await answered(address, name)

    calls = calls_of(message)
    failure = failures.classify(message)
    if "-error-" in name:
        assert message.stop_reason == "error"
        assert failure is not None
        assert failure.overflow == ("overflow" in name)
        return
    assert failure is None, message.error_message
    assert message.stop_reason in ("stop", "length", "toolUse")
    assert message.usage.output > 0 or name.endswith("no-usage")
    if name.endswith(WHOLE_CALLS):
        assert calls
        assert message.stop_reason == "length" or all(call.arguments_error == UNSET for call in calls)
    if "tool-cut" in name:
        assert message.stop_reason == "length" or calls[-1].arguments_error != UNSET, "a cut call must never run"
    if not calls:
        assert any(type(block) in (Text, Thinking) for block in message.content)
