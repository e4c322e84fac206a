"""Sentences of the providers specification that no shared case reaches."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.providers.asking import answer, model, request
from tests.providers.loopback import sse

from antiphon.core.content import Text
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, SystemMessage, user
from antiphon.loop.abort import AbortController
from antiphon.providers.failures import RequestRefused
from antiphon.providers.http import HttpReply, HttpRequest
from antiphon.providers.options import read_options
from antiphon.providers.registry import new_adapter

APIS = ("openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai")


def prepared(wanted: Any) -> Any:
    return new_adapter(wanted.model.api).prepare(wanted, read_options(wanted)).request


def body(wanted: Any) -> Any:
    return json.loads(prepared(wanted).body)


@pytest.mark.parametrize("api", APIS)
async def test_a_tool_that_requires_strict_sampling_is_not_sent_where_there_is_none(api: str) -> None:
    """Section 7: `prefer` falls back, `require` fails the call before it is sent."""

    def tool(strict: str) -> ToolDeclaration:
        return ToolDeclaration(
            name="t",
            description="d",
            parameters={"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            constrained_sampling={"type": "json_schema", "strict": strict},
        )

    def asked(strict: str) -> Any:
        return request(model(api=api, id="gemini-2.0-flash"), [SystemMessage(tools_added=(tool(strict),)), user("Hi")])

    assert "strict" not in json.dumps(body(asked("prefer"))["tools"])
    with pytest.raises((RequestRefused, ValueError), match="requires strict sampling"):
        prepared(asked("require"))


@pytest.mark.parametrize("api", ["openai-completions", "openai-responses"])
def test_the_raw_entry_samples_by_its_effort(api: str) -> None:
    """Section 4: the model's sampling parameters, then the effective level's, then the request's."""
    asked = model(
        api=api,
        reasoning=True,
        sampling_params={"top_p": 0.1, "top_k": 1},
        sampling_params_by_thinking_level={"high": {"top_p": 0.5}, "off": {"top_p": 0.9}},
    )

    told = [
        body(request(asked, entry="raw", reasoningEffort="high")),
        body(request(asked, entry="raw")),
        body(request(asked, level="high", sampling_params={"top_k": 7})),
    ]

    assert [(b["top_p"], b["top_k"]) for b in told] == [(0.5, 1), (0.9, 1), (0.5, 7)]


def test_a_system_prompt_that_stays_in_place_is_marked_for_the_cache() -> None:
    """Section 4.1: cache markers on the system prompt's text and on the last text; later system messages have none."""
    asked = model(compat={"cacheControlFormat": "anthropic", "supportsMidConvoSystemMessages": True})
    history = [SystemMessage(content="Base"), user("a"), SystemMessage(content="More"), user("b")]

    messages = body(request(asked, history))["messages"]
    unmarked = body(request(asked, history, cache_retention="none"))["messages"]

    mark = {"type": "ephemeral"}
    assert [m["content"] for m in messages] == [
        [{"type": "text", "text": "Base", "cache_control": mark}],
        "a",
        "More",
        [{"type": "text", "text": "b", "cache_control": mark}],
    ]
    assert [m["content"] for m in unmarked] == ["Base", "a", "More", "b"]


SCHEMA = {
    "title": "A review",
    "type": "object",
    "properties": {"mood": {"enum": ["good", "bad"]}, "points": {"type": "array", "items": {"type": "string"}}},
    "required": ["mood", "points"],
}
CLOSED = {**SCHEMA, "additionalProperties": False}


def format_of(api: str, sent: Any) -> Any:
    """Where a family asks for the form of the answer."""
    match api:
        case "openai-completions":
            return sent.get("response_format")
        case "openai-responses":
            return sent.get("text")
        case "anthropic-messages":
            return sent.get("output_config")
        case _:
            config = sent["generationConfig"]
            return {name: config[name] for name in ("responseMimeType", "responseJsonSchema") if name in config}


FORMATS: dict[str, Any] = {
    "openai-completions": {
        "type": "json_schema",
        "json_schema": {"name": "A_review", "schema": CLOSED, "strict": True},
    },
    "openai-responses": {"format": {"type": "json_schema", "name": "A_review", "schema": CLOSED, "strict": True}},
    "anthropic-messages": {"format": {"type": "json_schema", "schema": CLOSED}},
    "google-generative-ai": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
}


@pytest.mark.parametrize("api", APIS)
def test_an_answer_of_a_schema_is_asked_for_in_each_familys_way(api: str) -> None:
    asked = model(api=api, id="gemini-2.5-flash")

    assert format_of(api, body(request(asked, response_schema=SCHEMA))) == FORMATS[api]
    assert not format_of(api, body(request(asked)))


def test_a_schema_that_strict_sampling_would_change_is_not_sampled_strictly() -> None:
    loose = {**SCHEMA, "required": ["mood"]}

    form = body(request(model(), response_schema=loose))["response_format"]["json_schema"]

    assert (form["strict"], form["schema"]["required"]) == (False, ["mood"])


def test_effort_and_form_of_the_answer_stand_side_by_side() -> None:
    asked = model(api="anthropic-messages", reasoning=True, compat={"forceAdaptiveThinking": True})

    sent = body(request(asked, level="medium", response_schema=SCHEMA))

    assert sent["output_config"] == {"effort": "medium", "format": FORMATS["anthropic-messages"]["format"]}


class _Broken:
    """A reply whose body breaks, and somebody aborts in the same moment."""

    status = 200
    headers: dict[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, controller: AbortController) -> None:
        self._controller = controller

    async def pieces(self) -> AsyncIterator[bytes]:
        yield sse({"choices": [{"index": 0, "delta": {"content": "half"}}]}).encode()
        self._controller.abort("enough")
        raise ConnectionResetError("gone")

    async def close(self) -> None:
        return None


async def test_an_abort_wins_over_a_failure_that_happens_with_it() -> None:
    """Section 9, while the answer streams and before it begins."""
    during, before = AbortController(), AbortController()

    async def broken_body(_: HttpRequest, *, connect_seconds: float) -> HttpReply:
        return _Broken(during)

    async def broken_at_once(_: HttpRequest, *, connect_seconds: float) -> HttpReply:
        before.abort("enough")
        raise ConnectionResetError("gone")

    adapter = new_adapter("openai-completions")
    streamed: AssistantMessage = await answer(adapter, request(model(), controller=during, transport=broken_body))
    early: AssistantMessage = await answer(adapter, request(model(), controller=before, transport=broken_at_once))

    assert (streamed.stop_reason, streamed.content) == ("aborted", (Text(text="half"),))
    assert (early.stop_reason, early.content) == ("aborted", ())
