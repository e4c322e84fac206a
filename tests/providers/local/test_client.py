"""The real model, in this process: whole loops, an abort, several at once, and what happens when it cannot be loaded.

The shape of a run is asserted, never the model's words.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec import structs
from tests.providers.asking import events, request
from tests.providers.event_rules import check_events

from antiphon.agent import Agent
from antiphon.core.content import Text, ToolCall
from antiphon.core.messages import AssistantMessage, ToolResultMessage, UserMessage, user
from antiphon.core.ports import ModelRequest
from antiphon.core.response_events import Done, Failed, ResponseEvent, TextDelta, ToolCallDelta
from antiphon.loop.abort import AbortController
from antiphon.providers import failures, stream_for
from antiphon.providers.local import client
from antiphon.providers.local.client import engine
from antiphon.providers.local.engine import Engine
from antiphon.providers.local.model import EMBEDDED, FILE_VARIABLE, model_file
from antiphon.tools import tool

pytestmark = pytest.mark.model


@tool
async def get_weather(city: str) -> str:
    """Get the current weather in a city."""
    return f"It is 18 degrees in {city}."


@pytest.mark.usefixtures("installed")
class TestRuns:
    async def test_a_whole_loop(self) -> None:
        agent = Agent(stream=stream_for(EMBEDDED), model=EMBEDDED, tools=[get_weather])
        outcome = await agent.prompt("What is the weather in Paris?")
        assert outcome.reason == "stop"
        asked, call, result, answer = agent.messages[1:]
        assert isinstance(asked, UserMessage)
        assert isinstance(call, AssistantMessage)
        assert call.stop_reason == "toolUse"
        assert [type(block) for block in call.content] == [ToolCall]
        assert isinstance(result, ToolResultMessage)
        assert not result.is_error
        assert isinstance(answer, AssistantMessage)
        assert answer.stop_reason in ("stop", "length")
        assert answer.usage.output > 0
        assert answer.usage.cost.total == 0

    async def test_events_of_a_call_and_of_words(self) -> None:
        from antiphon.core.system_state import initial_system_message

        first = initial_system_message("", [get_weather])
        assert first is not None
        called = await events(stream_for(EMBEDDED), request(EMBEDDED, [first, user("Weather in Rome?")], api_key=None))
        check_events(called)
        assert sum(isinstance(event, ToolCallDelta) for event in called) > 1
        spoken = await events(stream_for(EMBEDDED), request(EMBEDDED, [user("Hello!")], api_key=None, max_tokens=12))
        check_events(spoken)
        assert sum(isinstance(event, TextDelta) for event in spoken) > 1

    async def test_an_abort_stops_it_within_a_token(self) -> None:
        controller = AbortController()
        asked = request(EMBEDDED, [user("Tell me a long story.")], api_key=None, controller=controller)
        seen: list[ResponseEvent] = []
        async for event in stream(asked):
            seen.append(event)
            if isinstance(event, TextDelta):
                controller.abort("enough")
        last = seen[-1]
        assert isinstance(last, Failed)
        assert last.reason == "aborted"
        assert sum(isinstance(event, TextDelta) for event in seen) <= 2
        after = await events(stream_for(EMBEDDED), request(EMBEDDED, [user("Hi")], api_key=None, max_tokens=3))
        assert isinstance(after[-1], Done)

    async def test_an_abort_while_it_waits_for_another_answer(self) -> None:
        first = asyncio.create_task(ask("Tell me a story.", 20))
        controller = AbortController()
        second = request(EMBEDDED, [user("Me, too.")], api_key=None, controller=controller)
        waiting = asyncio.create_task(events(stream_for(EMBEDDED), second))
        await asyncio.sleep(0)
        controller.abort()
        (failed,) = await waiting
        assert isinstance(failed, Failed)
        assert (await first).stop_reason == "length"

    async def test_a_consumer_that_leaves_stops_it(self) -> None:
        answer = stream(request(EMBEDDED, [user("Tell me a long story.")], api_key=None))
        async for event in answer:
            if isinstance(event, TextDelta):
                break
        await answer.aclose()  # type: ignore[attr-defined]
        assert (await ask("Hi", 3)).usage.output == 3

    async def test_two_conversations_at_once(self) -> None:
        answers = await asyncio.gather(ask("Name a color.", 8), ask("Name an animal.", 8))
        assert all(answer.stop_reason in ("stop", "length") for answer in answers)
        assert all(isinstance(answer.content[0], Text) for answer in answers)

    async def test_the_event_loop_is_free_meanwhile(self) -> None:
        await ask("Hi", 1)  # loaded now
        answer = asyncio.create_task(ask("Count to ten.", 15))
        turns = 0
        while not answer.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert turns > 15

    async def test_a_text_that_cannot_fit_is_cut_until_it_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small = structs.replace(EMBEDDED, context_window=512, max_tokens=8)
        its_engine = Engine(model_file, small.id, small.context_window)
        monkeypatch.setattr(client, "engine", lambda: its_engine)
        digits = "0123456789 " * 400  # a token each: twice as many as the first request reckons with
        try:
            asked = request(small, [user(digits)], api_key=None, max_tokens=2)
            last = (await events(stream_for(small), asked))[-1]
            assert isinstance(last, Done), last
            assert 100 < last.message.usage.total_tokens < small.context_window
        finally:
            its_engine.close()

    async def test_half_of_a_character_does_no_harm(self) -> None:
        assert (await ask("Hi \ud83d there", 2)).stop_reason in ("stop", "length")


class TestCannotBeLoaded:
    @pytest.fixture(autouse=True)
    def _begin_anew(self) -> None:
        engine().close()

    async def test_there_is_no_such_file(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "none.gguf"))
        await self.fails_with(f"there is no file {tmp_path / 'none.gguf'}")

    @pytest.mark.usefixtures("installed")
    @pytest.mark.parametrize(("content", "kind"), [(b"<html>", "no GGUF file"), (b"GGUF\x03\0\0\0", "damaged")])
    async def test_the_file_is_bad(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, kind: str
    ) -> None:
        file = tmp_path / "bad.gguf"
        file.write_bytes(content)
        monkeypatch.setenv(FILE_VARIABLE, str(file))
        await self.fails_with(f"{file} is {kind}")

    async def test_nothing_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine(), "_file", lambda: None)
        await self.fails_with("not installed")

    async def fails_with(self, words: str) -> None:
        (failed,) = await events(stream_for(EMBEDDED), request(EMBEDDED, [user("Hi")], api_key=None))
        assert isinstance(failed, Failed)
        text = str(failed.error.error_message)
        assert words in text
        assert FILE_VARIABLE in text
        assert "\n" not in text
        failure = failures.classify(failed.error)
        assert failure is not None
        assert not failure.retryable


def stream(asked: ModelRequest) -> AsyncIterator[ResponseEvent]:
    return stream_for(EMBEDDED)(asked)  # type: ignore[return-value]


async def ask(text: str, max_tokens: int) -> AssistantMessage:
    last = (await events(stream_for(EMBEDDED), request(EMBEDDED, [user(text)], api_key=None, max_tokens=max_tokens)))[
        -1
    ]
    assert isinstance(last, Done), last
    return last.message
