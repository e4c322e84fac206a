"""One conversation, many models: whoever takes over in the middle, the next request is one that its server takes."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.providers.conversations import IMAGE, READ, ask, events_of, result, said, system, user
from tests.providers.event_rules import check_events
from tests.providers.fake_server import Answer, FakeServer
from tests.providers.wire_rules import FAULTS

from antiphon.core.content import Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration, ToolName
from antiphon.core.messages import AssistantMessage, Message, calls_of
from antiphon.core.model import Model
from antiphon.core.ports import ModelStream
from antiphon.core.transcript import Transcript
from antiphon.providers.options import read_options
from antiphon.providers.registry import new_adapter

APIS = tuple(FAULTS)
LOOK = ToolDeclaration(name="look", description="Look", parameters={"type": "object", "properties": {}})

SCRIPT = (
    Answer(thinking="I should read both.", text="Reading.", calls=(("read", {"path": "ä"}), ("look", {}))),
    Answer(thinking="One more.", calls=(("read", {"path": "b"}),)),
    Answer(thinking="Enough.", text="Done."),
    Answer(text="You are welcome."),
)


def results_for(message: AssistantMessage) -> list[Message]:
    """Results of all calls; an image in each, and every second one an error."""
    return [
        result(call.id, f"result {n}", IMAGE, name=call.name, is_error=n % 2 == 1)
        for n, call in enumerate(calls_of(message))
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(APIS)), ids="-".join)
async def test_every_order_of_models_gets_through(order: tuple[str, ...]) -> None:
    """Thinking, text, parallel calls, results with images and errors: each step is answered by another protocol."""
    async with FakeServer(*SCRIPT) as server:
        adapters = {api: new_adapter(api) for api in APIS}
        messages = Transcript([system("Be brief.", tools_added=(READ, LOOK)), user("What is this?", IMAGE)])
        for number, api in enumerate(order):
            request = ask(server.model(api), messages, level="low")
            message = check_events(await events_of(adapters[api], request))

            assert message.stop_reason in ("stop", "toolUse"), message.error_message
            messages = messages.append(message).extend(results_for(message))
            if number == 2:
                messages = messages.append(user("Thanks", IMAGE))
        assert [seen.faults for seen in server.seen] == [[]] * 4


@pytest.mark.parametrize("api", APIS)
async def test_each_model_reads_back_its_own_whole_conversation(api: str) -> None:
    """And so does every other one, from a history that all four have made."""
    async with FakeServer(*SCRIPT, *SCRIPT, piece_bytes=7) as server:
        adapter = new_adapter(api)
        messages = Transcript([system("S", tools_added=(READ, LOOK)), user("Go")])
        for number in range(8):
            message = check_events(await events_of(adapter, ask(server.model(api), messages, level="high")))
            assert message.stop_reason in ("stop", "toolUse"), message.error_message
            messages = messages.append(message).extend(results_for(message))
            if number in (2, 3, 6):
                messages = messages.append(user("Again"))
        for other in APIS:
            blind = server.model(other, input=("text",))
            message = check_events(await events_of(new_adapter(other), ask(blind, messages.append(user("?")))))
            assert message.stop_reason == "stop", message.error_message
        assert not any(seen.faults for seen in server.seen)


# -- random histories, without a network -------------------------------------------------------------------------------

MODELS = [
    Model(id="gpt-4.1", provider="openai", api="openai-completions", base_url="https://api.openai.com/v1"),
    Model(id="deepseek-r", provider="deepseek", api="openai-completions", base_url="https://api.deepseek.com"),
    Model(id="gpt-5.2", provider="openai", api="openai-responses", base_url="https://api.openai.com/v1"),
    Model(id="claude-a", provider="anthropic", api="anthropic-messages", base_url="https://api.anthropic.com"),
    Model(id="claude-b", provider="anthropic", api="anthropic-messages", base_url="https://proxy.example"),
    Model(id="gemini-2.5-pro", provider="google", api="google-generative-ai", base_url="https://gemini.example"),
    Model(id="gemini-3-pro", provider="google", api="google-generative-ai", base_url="https://gemini.example"),
]
SOURCES = [
    *MODELS,
    Model(id="kimi", provider="moonshotai", api="openai-completions", base_url="https://api.moonshot.example"),
    Model(id="gpt-5", provider="github-copilot", api="openai-responses", base_url="https://copilot.example"),
]
"""Who may have made an answer: also models that nobody is handed over to, for their odd ids."""

CALL_IDS = {
    "gpt-4.1": "call_{}",
    "deepseek-r": "call_{}",
    "gpt-5.2": "call_{0}|fc_{0}",
    "claude-a": "toolu_{}",
    "claude-b": "toolu_{}",
    "gemini-2.5-pro": "read_17{}_1",
    "gemini-3-pro": "f-{}",
    "kimi": "functions.read ü:{}",
    "gpt-5": "call_{0}|{0}" + "Z9+/=" * 80,
}


class Teller:
    """Makes up histories: valid for a loop, hard for an adapter."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0

    def text(self) -> str:
        return self.chance.choice(["word", "zwei Wörter", "  ", "", "😀", "lone \ud83d half", "x" * 2000])

    def content(self) -> list[str | Image]:
        return [self.chance.choice([self.text(), IMAGE]) for _ in range(self.chance.randint(0, 3))]

    def answer(self, model: Model) -> AssistantMessage:
        blocks: list[Text | Thinking | ToolCall] = []
        if self.chance.random() < 0.6:
            blocks.append(self.thinking(model))
        if self.chance.random() < 0.6:
            blocks.append(Text(text=self.text()))
        for _ in range(self.chance.choice([0, 0, 1, 1, 2, 3])):
            self.count += 1
            id_ = CALL_IDS[model.id].format(self.count)
            blocks.append(ToolCall(id=id_, name=self.chance.choice(["read", "look"]), arguments={"path": self.text()}))
        if blocks and isinstance(blocks[-1], Thinking):
            blocks.append(Text(text="so"))  # reasoning alone cannot be replayed to Responses
        stop = self.chance.choices(["", "length", "error", "aborted"], [8, 1, 1, 1])[0]
        return said(model, *blocks, **({"stop_reason": stop} if stop else {}))

    def thinking(self, model: Model) -> Thinking:
        words = self.text()
        if model.api == "openai-responses":
            self.count += 1
            item = {"type": "reasoning", "id": f"rs_{self.count}", "summary": [], "encrypted_content": "gAAA"}
            return Thinking(thinking=words, thinking_signature=json.dumps(item))
        if model.api == "openai-completions":
            return Thinking(thinking=words, thinking_signature="reasoning_content")
        if self.chance.random() < 0.2 and model.api == "anthropic-messages":
            return Thinking(thinking="hidden", thinking_signature="ENC", redacted=True)
        return Thinking(thinking=words, thinking_signature=self.chance.choice(["QUJD", "QUJD", ""]))

    def history(self) -> list[Message]:
        messages: list[Message] = [system("S", tools_added=(READ, LOOK))]
        for _ in range(self.chance.randint(1, 6)):
            messages.append(user("q", *self.content()))
            for _ in range(self.chance.randint(0, 4)):
                message = self.answer(self.chance.choice(SOURCES))
                messages.append(message)
                messages += self.results(message)
                if self.chance.random() < 0.15:
                    messages.append(system("More", tools_removed=(ToolName(name="look"),)))
        return [*messages, user("and now?")]

    def results(self, message: AssistantMessage) -> list[Message]:
        """Results in any order, some missing; a system message may have come between."""
        if message.stop_reason in ("error", "aborted"):
            return []
        calls = list(calls_of(message))
        self.chance.shuffle(calls)
        found: list[Message] = [
            result(call.id, *self.content(), name=call.name, is_error=self.chance.random() < 0.3)
            for call in calls
            if self.chance.random() < 0.85
        ]
        if found and self.chance.random() < 0.2:
            found.insert(self.chance.randrange(len(found)), system("Meanwhile"))
        return found


def body_of(adapter: ModelStream, model: Model, messages: Sequence[Message], level: str) -> dict[str, Any]:
    request = ask(model, messages, level=level)
    body: dict[str, Any] = json.loads(adapter.prepare(request, read_options(request)).request.body)  # type: ignore[attr-defined]
    return body


@pytest.mark.parametrize("seed", range(40))
def test_made_up_histories_are_valid_for_every_model(seed: int) -> None:
    check_history(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1000))
def test_many_more_made_up_histories(seed: int) -> None:
    check_history(seed)


def check_history(seed: int) -> None:
    """A history, told to every model with and without eyes and thought, is a request that its server takes."""
    teller = Teller(seed)
    history = teller.history()
    adapters = {api: new_adapter(api) for api in APIS}
    for model in MODELS:
        for inputs, reasoning in ((("text", "image"), True), (("text",), False)):
            target = Model(
                **{name: getattr(model, name) for name in ("id", "provider", "api", "base_url")},
                input=inputs,
                reasoning=reasoning,
                context_window=200_000,
                max_tokens=32_000,
            )
            body = body_of(adapters[model.api], target, history, "low" if reasoning else "off")

            assert list(FAULTS[model.api](body)) == [], f"{model.id} {inputs}"


def test_the_rules_notice_what_they_are_for() -> None:
    """A net without a mesh catches nothing."""
    broken: dict[str, dict[str, Any]] = {
        "openai-completions": {
            "messages": [{"role": "assistant", "content": None, "tool_calls": [{"id": "a", "type": "function"}]}]
        },
        "openai-responses": {"input": [{"type": "function_call", "call_id": "a b", "name": "x", "arguments": "1"}]},
        "anthropic-messages": {
            "max_tokens": 1,
            "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a.b", "input": {}}]}],
        },
        "google-generative-ai": {
            "contents": [{"role": "model", "parts": [{"functionCall": {"name": "x"}, "text": "both"}]}]
        },
    }
    for api, body in broken.items():
        assert len(list(FAULTS[api](body))) >= 2, api
