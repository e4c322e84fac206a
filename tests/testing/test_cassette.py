"""Recorded once, played offline: the same conversation without a model, and a clear word when it is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon import Agent, tool
from antiphon.errors import ConfigurationError
from antiphon.testing import SCRIPTED_MODEL, Cassette, ScriptedModel, call, calls, fails, says, who

executed: list[str] = []


@tool
async def weather(city: str) -> str:
    """The weather somewhere."""
    executed.append(city)
    return f"-4 in {city}, at {len(executed)}"


async def talk(cassette: Cassette, *prompts: str) -> tuple[list[str], Any]:
    agent = Agent(model=SCRIPTED_MODEL, stream=cassette, tools=cassette.tools(weather))
    outcome = None
    for prompt in prompts or ("How is Oslo?",):
        outcome = await agent.prompt(prompt)
    return [who(m) for m in agent.messages], outcome


def script() -> ScriptedModel:
    return ScriptedModel([call("weather", {"city": "Oslo"}), says("Cold."), fails("overloaded")])


async def test_it_is_recorded_once_and_played_offline(tmp_path: Path) -> None:
    path = tmp_path / "recorded" / "oslo.jsonl"
    executed.clear()
    first, outcome = await talk(Cassette(path, script()))
    assert (outcome.final_text, executed) == ("Cold.", ["Oslo"])

    cassette = Cassette(path)
    again, outcome = await talk(cassette)

    assert (again, outcome.final_text) == (first, "Cold.")
    assert executed == ["Oslo"], "nothing is executed again"
    cassette.finished()


async def test_a_model_is_not_asked_when_there_is_a_record(tmp_path: Path) -> None:
    await talk(Cassette(tmp_path / "a.jsonl", script()))
    model = script()
    await talk(Cassette(tmp_path / "a.jsonl", model))
    assert model.requests == []


async def test_failures_are_part_of_the_record(tmp_path: Path) -> None:
    await talk(Cassette(tmp_path / "a.jsonl", script()), "How is Oslo?", "And now?")
    _, outcome = await talk(Cassette(tmp_path / "a.jsonl"), "How is Oslo?", "And now?")
    assert (outcome.reason, outcome.error) == ("error", "overloaded")


async def test_another_question_is_told(tmp_path: Path) -> None:
    await talk(Cassette(tmp_path / "a.jsonl", script()))
    cassette = Cassette(tmp_path / "a.jsonl")
    _, outcome = await talk(cassette, "How is Rome?")
    assert outcome.reason == "error"
    assert "request 1 is not the one that was recorded" in outcome.error
    assert "How is Rome?" in outcome.error
    with pytest.raises(AssertionError, match="1 recorded answers were not asked for"):
        cassette.finished()


async def test_more_than_was_recorded_is_told(tmp_path: Path) -> None:
    await talk(Cassette(tmp_path / "a.jsonl", ScriptedModel([says("Cold.")])))
    _, outcome = await talk(Cassette(tmp_path / "a.jsonl"), "How is Oslo?", "And now?")
    assert "request 2 is not in the record" in outcome.error


async def test_a_call_that_was_not_recorded_is_a_failed_result(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    await talk(Cassette(path, script()))
    path.write_bytes(path.read_bytes().replace(b'"args":{"city":"Oslo"}', b'"args":{"city":"Rome"}'))
    agent_messages, outcome = await talk(Cassette(path))
    assert outcome.reason == "error"
    assert agent_messages[-2] == "result weather"


async def test_equal_calls_take_turns(tmp_path: Path) -> None:
    oslo = {"city": "Oslo"}
    both = calls(call("weather", oslo, id="1"), call("weather", oslo, id="2"))
    first = Cassette(tmp_path / "a.jsonl", ScriptedModel([both, says("Twice.")]))
    await talk(first)
    _, outcome = await talk(Cassette(tmp_path / "a.jsonl"))
    assert outcome.final_text == "Twice."


@pytest.mark.parametrize("text", [b"{", b"{}", b"[]", b'{"answer":{},"asked":{}}\n{"name":"x"}'])
def test_what_is_no_record_is_a_line(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(text)
    with pytest.raises(ConfigurationError, match="a.jsonl, line "):
        Cassette(tmp_path / "a.jsonl")
    with pytest.raises(ConfigurationError, match="give a model to make one"):
        Cassette(tmp_path / "b.jsonl")
