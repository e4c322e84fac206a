"""The adapter end to end, over a scripted transport."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.providers.conversations import READ, STRICT_READ, Reply, Server, ask, call, events_of, said, system, user
from tests.providers.event_rules import check_events
from tests.providers.streams import CLAUDE, sse

from antiphon.core.messages import AssistantMessage, Message
from antiphon.core.model import Model
from antiphon.core.transcript import Transcript
from antiphon.providers.anthropic_messages.client import AnthropicMessages

DIRECT = msgspec.structs.replace(CLAUDE, base_url="https://api.anthropic.com", reasoning=False)


def answer(id_: str, *, stop: str = "end_turn", model: str = CLAUDE.id, blocks: list[Any] | None = None) -> Reply:
    content = blocks or [{"type": "text", "text": "hi"}]
    parts: list[Any] = [{"type": "message_start", "message": {"id": id_, "model": model, "usage": {"input_tokens": 1}}}]
    for index, block in enumerate(content):
        parts.append({"type": "content_block_start", "index": index, "content_block": block})
        parts.append({"type": "content_block_stop", "index": index})
    parts.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 1}})
    return Reply(sse([*parts, {"type": "message_stop"}]))


def refusal(message: str, status: int = 400, code: str | None = None) -> Reply:
    error: dict[str, Any] = {"type": "invalid_request_error", "message": message}
    if code is not None:
        error["details"] = {"error_code": code}
    return Reply({"type": "error", "error": error}, status=status)


class Talk:
    """One conversation of one session with a scripted server."""

    def __init__(self, *replies: Reply, model: Model = DIRECT, **options: Any) -> None:
        self.server = Server(*replies)
        self.adapter = AnthropicMessages()
        self.model = model
        self.options = {"session_id": "s", **options}
        self.messages = Transcript([system("S", tools_added=(READ,))])

    async def say(self, *messages: Message, **options: Any) -> AssistantMessage:
        self.messages = self.messages.extend(messages)
        request = ask(self.model, self.messages, transport=self.server, **(self.options | options))
        message = check_events(await events_of(self.adapter, request))
        if message.stop_reason not in ("error", "aborted"):
            self.messages = self.messages.append(message)
        return message


async def test_a_request_is_sent_with_key_and_version() -> None:
    talk = Talk(answer("m1"), model=CLAUDE)
    message = await talk.say(user("hello"))
    (request,) = talk.server.requests

    assert request.url == "https://messages.example/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == ("test-key", "2023-06-01")
    assert talk.server.body()["system"] == [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}]
    assert message.stop_reason == "stop"


async def test_a_thread_goes_on_with_what_is_new() -> None:
    talk = Talk(answer("m1"), answer("m2"), answer("m3"))
    await talk.say(user("one"))
    await talk.say(user("two"))
    await talk.say(user("three"))

    assert talk.server.body(0)["thread"] == {"type": "create"}
    assert talk.server.body(1)["thread"] == {"type": "continue", "previous_message_id": "m1"}
    third = talk.server.body(2)
    assert third["thread"] == {"type": "continue", "previous_message_id": "m2"}
    assert [item["content"][0]["text"] for item in third["messages"]] == ["three"]
    assert "system" not in third
    assert "tools" not in third


async def test_a_thread_is_recognised_without_the_transcripts_identity() -> None:
    talk = Talk(answer("m1"), answer("m2"))
    await talk.say(user("one"))
    talk.messages = Transcript(list(talk.messages))
    await talk.say(user("two"))

    assert talk.server.body(1)["thread"]["type"] == "continue"


async def test_a_changed_setting_starts_a_new_thread() -> None:
    talk = Talk(answer("m1"), answer("m2"))
    await talk.say(user("one"))
    await talk.say(user("two"), temperature=0.5)

    assert talk.server.body(1)["thread"] == {"type": "create"}
    assert len(talk.server.body(1)["messages"]) == 3


async def test_an_answer_that_is_not_whole_cannot_be_continued() -> None:
    talk = Talk(answer("m1"), answer("m2", stop="max_tokens"), answer("m3"))
    await talk.say(user("one"))
    await talk.say(user("two"))
    await talk.say(user("three"))

    assert talk.server.body(2)["thread"] == {"type": "create"}


async def test_a_lost_thread_is_sent_again_in_full() -> None:
    talk = Talk(answer("m1"), refusal("gone", 404, "thread_not_found"), answer("m2"), answer("m3"))
    await talk.say(user("one"))
    message = await talk.say(user("two"))
    await talk.say(user("three"))

    assert [entry["type"] for entry in message.diagnostics or []] == ["anthropic_thread_fallback"]  # type: ignore[union-attr]
    assert talk.server.body(2)["thread"] == {"type": "create"}
    assert talk.server.body(3)["thread"] == {"type": "continue", "previous_message_id": "m2"}


async def test_a_server_without_threads_is_not_asked_again() -> None:
    talk = Talk(refusal("thread: Extra inputs are not permitted"), answer("m1"), answer("m2"))
    await talk.say(user("one"))
    await talk.say(user("two"))

    assert ["thread" in talk.server.body(index) for index in range(3)] == [True, False, False]


async def test_a_refusal_of_another_kind_is_final() -> None:
    talk = Talk(answer("m1"), refusal("prompt is too long: 9 tokens > 8 maximum"))
    await talk.say(user("one"))
    message = await talk.say(user("two"))

    assert message.stop_reason == "error"
    assert len(talk.server.requests) == 2


async def test_every_refused_feature_is_given_up_once() -> None:
    """First the thread is lost, then threads are unknown, then strict tools are too many; then it works."""
    model = msgspec.structs.replace(DIRECT, compat={"supportsStrictTools": True})
    talk = Talk(
        answer("m1"),
        refusal("gone", 404, "thread_not_found"),
        refusal("no", 400, "thread_unsupported_request"),
        refusal("Too many strict tools (21)."),
        answer("m2"),
        model=model,
    )
    talk.messages = Transcript([system("S", tools_added=(STRICT_READ,))])
    await talk.say(user("one"))
    message = await talk.say(user("two"))

    assert message.stop_reason == "stop"
    assert [entry["type"] for entry in message.diagnostics or []] == [  # type: ignore[union-attr]
        "anthropic_thread_fallback",
        "anthropic_thread_fallback",
        "anthropic_strict_tools_fallback",
    ]
    last = talk.server.body()
    assert "thread" not in last
    assert "strict" not in last["tools"][0]


async def test_sessions_do_not_mix() -> None:
    talk = Talk(answer("m1"), answer("m2"))
    await talk.say(user("one"))
    await talk.say(user("two"), session_id="other")

    assert talk.server.body(1)["thread"] == {"type": "create"}


async def test_the_effort_stands_behind_the_marked_message_and_is_recorded() -> None:
    model = msgspec.structs.replace(
        CLAUDE, compat={"supportsMidConvoEffort": True, "supportsMidConvoSystemMessages": True}
    )
    talk = Talk(answer("m1"), answer("m2"), model=model)
    messages = talk.messages.append(user("one"))
    for text in ("two", "three"):
        request = ask(model, messages, level="high", transport=talk.server)
        message = check_events(await events_of(talk.adapter, request))
        messages = messages.append(message).append(user(text))

    assert message.provider_thinking_level == "high"
    items = talk.server.body()["messages"]
    marker = {"role": "system", "content": [], "output_config": {"effort": "high"}}
    assert [item["role"] for item in items] == ["user", "system", "assistant", "user", "system"]
    assert items[1] == items[4] == marker
    assert items[3]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert talk.server.body()["output_config"] == {"effort": "low"}


async def test_a_tool_that_cannot_be_strict_is_a_failed_event_and_no_request() -> None:
    talk = Talk(model=CLAUDE)
    wish = {"type": "json_schema", "strict": "require"}
    talk.messages = Transcript([system("S", tools_added=(msgspec.structs.replace(READ, constrained_sampling=wish),))])
    message = await talk.say(user("x"))

    assert message.stop_reason == "error"
    assert "read" in str(message.error_message)
    assert not talk.server.requests


async def test_an_image_of_a_web_page_is_a_failed_event() -> None:
    talk = Talk(Reply(b"<html><title>Sign in</title></html>", headers={"content-type": "text/html"}), model=CLAUDE)
    message = await talk.say(user("x"))

    assert message.stop_reason == "error"
    assert "Sign in" in str(message.error_message)


async def test_the_body_grows_by_what_is_new_and_says_the_same_as_one_made_afresh() -> None:
    """Encoded history is kept; the bytes must not depend on that."""
    talk = Talk(*(answer(f"m{n}") for n in range(6)), model=CLAUDE)
    for n in range(6):
        await talk.say(user(f"word {n}"))
        fresh = Server(answer("f"))
        shown = Transcript(list(talk.messages)[:-1])
        await events_of(AnthropicMessages(), ask(CLAUDE, shown, transport=fresh, **talk.options))

        assert json.loads(fresh.requests[0].body) == talk.server.body()


async def test_history_of_other_models_is_rewritten() -> None:
    other = msgspec.structs.replace(CLAUDE, id="other")
    talk = Talk(answer("m1"), model=CLAUDE)
    await talk.say(user("x"), said(other, "y", call("a.b")))

    items = talk.server.body()["messages"]
    assert items[1]["content"][1]["id"] == "a_b"
    assert items[2]["content"][0]["is_error"] is True
