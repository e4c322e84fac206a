"""Encoded conversations are kept: a further turn costs what is new, and gives the same bytes as encoding anew."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from msgspec import structs
from tests.providers.asking import model, request

from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage, user
from antiphon.core.model import Model
from antiphon.core.transcript import Transcript
from antiphon.core.usage import Usage
from antiphon.providers import wire_json
from antiphon.providers.frames import HistoryCache
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History
from antiphon.providers.openai_completions.client import OpenAICompletions
from antiphon.providers.options import read_options
from antiphon.providers.registry import new_adapter

CHAT = model("https://openrouter.ai/api/v1", id="anthropic/claude-x", provider="openrouter", input=("text", "image"))
FLAGS = {"supportsMidConvoSystemMessages": True, "supportsMidConvoToolAdditions": True, "supportsToolSearch": True}
MODELS = {
    "chat": model("https://api.openai.com/v1", provider="openai"),
    "chat with cache marks": CHAT,
    "chat in place": model(compat={**FLAGS, "requiresAssistantAfterToolResult": True}, input=("text", "image")),
    "responses": model(api="openai-responses", provider="openai", reasoning=True),
    "responses in place": model(
        api="openai-responses", provider="openai", compat={**FLAGS, "supportsAdditionalTools": True}
    ),
    "responses search": model(api="openai-responses", provider="openai", compat=FLAGS),
    "anthropic": model("https://claude.example.com", api="anthropic-messages", provider="anthropic", reasoning=True),
    "anthropic in place": model(
        "https://claude.example.com",
        api="anthropic-messages",
        provider="anthropic",
        compat={**FLAGS, "supportsMidConvoToolChanges": True},
        input=("text", "image"),
    ),
    "gemini": model(api="google-generative-ai", provider="google", id="gemini-3-pro", reasoning=True),
    "gemini with images behind": model(
        api="google-generative-ai", provider="google", id="gemini-2.5-flash", input=("text", "image")
    ),
}


def body(adapter: Any, asked: Model, messages: Any) -> Any:
    wanted = request(asked, messages, session_id="s")
    return json.loads(adapter.prepare(wanted, read_options(wanted)).request.body)


def grown(seed: int) -> list[Message]:
    """A conversation of every kind of message, in an order that chance wrote."""
    chance = random.Random(seed)
    out: list[Message] = [SystemMessage(content="Base", sections={"a": "1"}, tools_added=(tool("t0"),))]
    open_calls: list[str] = []
    for turn in range(chance.randrange(3, 14)):
        kind = chance.choice(["user", "image", "assistant", "foreign", "result", "result", "system", "failed"])
        if kind == "user":
            out.append(user(f"words {turn}", turn))
        elif kind == "image":
            out.append(
                UserMessage(content=(Text(text="see"), Image(data="AAAA", mime_type="image/png")), timestamp=turn)
            )
        elif kind == "system":
            added = (tool(f"t{turn}"),) if chance.random() < 0.6 else ()
            gone = (ToolName(name="t0"),) if chance.random() < 0.3 else ()
            out.append(SystemMessage(content=chance.choice(["", "More"]), tools_added=added, tools_removed=gone))
        elif kind == "result" and open_calls:
            content = (Text(text="ok"), Image(data="AAAA", mime_type="image/png"))[: chance.randrange(3)]
            out.append(
                ToolResultMessage(tool_call_id=open_calls.pop(0), tool_name="t0", content=content, is_error=False)
            )
        else:
            open_calls = [f"call_{turn}_{n}|fc_{n}" for n in range(chance.randrange(3))]
            out.append(assistant(turn, open_calls, foreign=kind == "foreign", failed=kind == "failed"))
    return out


def tool(name: str) -> ToolDeclaration:
    return ToolDeclaration(name=name, description="d", parameters={"type": "object", "properties": {}})


def assistant(turn: int, calls: list[str], *, foreign: bool, failed: bool) -> AssistantMessage:
    return AssistantMessage(
        content=(
            Thinking(thinking="hm", thinking_signature="reasoning"),
            Text(text=f"answer {turn}"),
            *(ToolCall(id=id_, name="t0", arguments={"n": turn}) for id_ in calls),
        ),
        api="openai-completions" if foreign else "openai-responses",
        provider="elsewhere" if foreign else "openai",
        model="small",
        usage=Usage(total_tokens=turn * 10),
        stop_reason="error" if failed else "stop",
        timestamp=turn,
    )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(25))
def test_a_conversation_that_grows_is_encoded_as_if_anew(name: str, seed: int) -> None:
    asked = MODELS[name]
    adapter = new_adapter(asked.api)
    transcript = Transcript()

    for message in [user("first"), *grown(seed)] if "gemini" in name else grown(seed):
        transcript = transcript.append(message)
        kept = body(adapter, asked, transcript)
        assert kept == body(new_adapter(asked.api), asked, list(transcript))


def test_a_fork_and_an_earlier_window_are_told_apart() -> None:
    asked, adapter = MODELS["chat"], OpenAICompletions()
    first = Transcript([user("a"), user("b")])
    left, right = first.append(user("left")), first.append(user("right"))

    texts = [[m["content"] for m in body(adapter, asked, t)["messages"]] for t in (left, right, first, left)]

    assert texts == [["a", "b", "left"], ["a", "b", "right"], ["a", "b"], ["a", "b", "left"]]


def test_another_model_gets_its_own_encoding() -> None:
    adapter = OpenAICompletions()
    transcript = Transcript([UserMessage(content=(Image(data="AAAA", mime_type="image/png"),))])
    sees, blind = model(input=("text", "image")), model()

    kinds = [body(adapter, asked, transcript)["messages"][0]["content"][0]["type"] for asked in (sees, blind, sees)]

    assert kinds == ["image_url", "text", "image_url"]


class _Counting:
    """A fold that counts what it is fed."""

    def __init__(self) -> None:
        self.fed = 0

    def feed(self, message: Message) -> list[Any]:
        self.fed += 1
        return [{"text": message.content if type(message) is UserMessage else ""}]

    def finish(self) -> list[Any]:
        return []

    def copy(self) -> _Counting:
        return _Counting()


def test_a_turn_on_ten_thousand_messages_feeds_only_the_new_ones() -> None:
    cache, fold = HistoryCache(), _Counting()
    transcript = Transcript([user("x")] * 10_000)

    def ask() -> bytes:
        history = cache.history(transcript, "key", lambda: History(fold, HandOff(model())))
        return history.body({"model": "m"}, "messages")

    ask()
    assert fold.fed == 10_000
    for _ in range(10):
        transcript = transcript.append(user("y"))
        sent = ask()

    assert fold.fed == 10_010
    assert len(wire_json.read(sent)["messages"]) == 10_010


def test_conversations_nobody_asks_about_are_dropped() -> None:
    cache = HistoryCache(budget_bytes=1000)
    folds = [_Counting() for _ in range(20)]
    transcripts = [Transcript([user("x" * 100)]) for _ in folds]
    for _ in range(2):
        for fold, transcript in zip(folds, transcripts, strict=True):
            cache.history(transcript, "key", lambda fold=fold: History(fold, HandOff(model())))

    assert all(fold.fed == 2 for fold in folds), "a dropped conversation is encoded again"
    last = folds[-1]
    cache.history(transcripts[-1], "key", lambda: History(last, HandOff(model())))
    assert last.fed == 2, "the latest one is still there"


def test_a_body_without_items_and_without_fields_is_json() -> None:
    history = History(_Counting(), HandOff(model()))

    assert wire_json.read(history.body({}, "input")) == {"input": []}
    assert wire_json.read(history.body({"a": 1}, "input", first=[{"b": 2}])) == {"a": 1, "input": [{"b": 2}]}


CHANGES: list[dict[str, Any]] = [
    {"temperature": 0.5},
    {"max_tokens": 7},
    {"api_key": "sk-other"},
    {"session_id": "other"},
    {"cache_retention": "none"},
    {"tool_choice": "none"},
    {"headers": {"x-one": "1"}},
    {"level": "high"},
]


def wire(adapter: Any, wanted: Any) -> tuple[Any, ...]:
    sent = adapter.prepare(wanted, read_options(wanted)).request
    return sent.url, dict(sent.headers), json.loads(sent.body)


@pytest.mark.parametrize("name", MODELS)
def test_what_surrounds_the_items_follows_every_option(name: str) -> None:
    """A kept frame is used for the same question only: any other gives what a fresh adapter would send."""
    asked = MODELS[name]
    kept = new_adapter(asked.api)
    transcript = Transcript([SystemMessage(content="Base", tools_added=(tool("t0"),)), user("a")])
    assert transcript.system.tools

    for change in ({}, *CHANGES, {}):
        transcript = transcript.append(user("more"))
        wanted = request(asked, transcript, **{"session_id": "s", **change})
        assert wire(kept, wanted) == wire(new_adapter(asked.api), wanted)


@pytest.mark.parametrize("name", MODELS)
def test_an_option_that_is_changed_in_place_is_seen(name: str) -> None:
    asked, headers = MODELS[name], {"x-one": "1"}
    adapter = new_adapter(asked.api)
    transcript = Transcript([user("a")])

    told = []
    for value in ("1", "2"):
        headers["x-one"] = value
        told.append(wire(adapter, request(asked, transcript, headers=headers))[1]["x-one"])

    assert told == ["1", "2"]


@pytest.mark.parametrize("name", MODELS)
def test_a_cap_shrinks_with_the_room(name: str) -> None:
    """The frame holds the output cap, which becomes smaller while the conversation fills the window."""
    asked = structs.replace(MODELS[name], context_window=20_000, max_tokens=4096, reasoning=False)
    kept = new_adapter(asked.api)
    transcript = Transcript([user("a")])
    bodies = []
    for _ in range(8):
        transcript = transcript.append(user("word " * 2_000))
        wanted = request(asked, transcript)
        bodies.append(wire(kept, wanted)[2])
        assert bodies[-1] == wire(new_adapter(asked.api), wanted)[2]

    assert json.dumps(bodies[0])[:300].count("4096") == 1
    assert json.dumps(bodies[-1])[:300].count("4096") == 0
