"""Settings, headers and tools of a request to Anthropic Messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.providers.conversations import READ, STRICT_READ, ask, user
from tests.providers.streams import CLAUDE

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.model import Model
from antiphon.providers.anthropic_messages import encode
from antiphon.providers.anthropic_messages.tools import marked_tools, plain_schema, prefers_strict, tool_list
from antiphon.providers.constrained import NotConvertible
from antiphon.providers.dialects import AnthropicDialect, anthropic_dialect
from antiphon.providers.options import read_options


def settings(model: Model = CLAUDE, level: str = "off", **options: Any) -> dict[str, Any]:
    dialect = anthropic_dialect(model)
    read = read_options(ask(model, [user("x")], level=level, **options))
    return encode.settings(model, read, dialect, encode.thinking_of(model, read, dialect, 10))


def with_flags(**flags: Any) -> Model:
    return msgspec.structs.replace(CLAUDE, compat=flags)


@pytest.mark.parametrize(
    ("level", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16384), ("max", 16384)]
)
def test_a_level_is_a_budget(level: str, budget: int) -> None:
    assert settings(level=level)["thinking"] == {"type": "enabled", "budget_tokens": budget, "display": "summarized"}


def test_the_budget_comes_on_top_of_the_asked_cap() -> None:
    assert settings(level="high", max_tokens=2000)["max_tokens"] == 18384


def test_the_budget_leaves_room_for_the_answer() -> None:
    small = msgspec.structs.replace(CLAUDE, max_tokens=8192)

    fields = settings(small, level="high")
    assert (fields["max_tokens"], fields["thinking"]["budget_tokens"]) == (8192, 7168)


def test_thinking_off_is_said_unless_it_cannot_be_switched_off() -> None:
    always = msgspec.structs.replace(CLAUDE, thinking_level_map={"off": None})

    assert settings()["thinking"] == {"type": "disabled"}
    assert "thinking" not in settings(always)
    assert "thinking" not in settings(msgspec.structs.replace(CLAUDE, reasoning=False), level="high")


@pytest.mark.parametrize(
    ("level", "effort"), [("minimal", "low"), ("medium", "medium"), ("max", "most"), ("high", "high")]
)
def test_adaptive_thinking_takes_an_effort(level: str, effort: str) -> None:
    model = msgspec.structs.replace(with_flags(forceAdaptiveThinking=True), thinking_level_map={"max": "most"})

    fields = settings(model, level=level)
    assert fields["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert fields["output_config"] == {"effort": effort}


def test_temperature_only_without_thinking() -> None:
    assert settings(temperature=0.5)["temperature"] == 0.5
    assert "temperature" not in settings(level="low", temperature=0.5)
    assert "temperature" not in settings(with_flags(supportsTemperature=False), temperature=0.5)


def test_the_raw_entry_says_what_it_is_told() -> None:
    fields = settings(
        entry="raw", thinkingEnabled=True, thinkingBudgetTokens=3000, thinkingDisplay="omitted", max_tokens=9
    )

    assert fields["thinking"] == {"type": "enabled", "budget_tokens": 3000, "display": "omitted"}
    assert fields["max_tokens"] == 9
    assert "thinking" not in settings(entry="raw")
    assert settings(entry="raw", thinking_enabled=False)["thinking"] == {"type": "disabled"}
    assert settings(entry="raw", toolChoice={"type": "tool", "name": "x"})["tool_choice"] == {
        "type": "tool",
        "name": "x",
    }


def test_only_a_user_id_of_text_is_metadata() -> None:
    assert settings(metadata={"user_id": "u", "x": 1})["metadata"] == {"user_id": "u"}
    assert "metadata" not in settings(metadata={"user_id": 7})


def test_a_callers_list_of_betas_replaces_ours() -> None:
    assert encode.tidy_betas({"anthropic-beta": " a, b,a ,"}) == {"anthropic-beta": "a,b"}
    assert encode.tidy_betas({"anthropic-beta": " , "}) == {}
    assert encode.tidy_betas({"x": "y"}) == {"x": "y"}


def test_the_root_of_a_schema_keeps_what_the_server_knows() -> None:
    given = {"$schema": "x", "type": "object", "anyOf": [], "$defs": {"A": {}}, "additionalProperties": False}

    assert plain_schema(given) == {
        "type": "object",
        "properties": {},
        "required": [],
        "$defs": {"A": {}},
        "additionalProperties": False,
    }


def test_a_tool_that_prefers_strict_goes_without_where_it_must() -> None:
    strict = AnthropicDialect(supports_strict_tools=True)

    (tool,) = tool_list((STRICT_READ,), strict, strict=True)
    assert tool["strict"] is True
    assert prefers_strict([tool], (STRICT_READ,))
    for dialect, allowed in ((strict, False), (AnthropicDialect(), True)):
        (plain,) = tool_list((STRICT_READ,), dialect, strict=allowed)
        assert "strict" not in plain
        assert plain["input_schema"] == READ.parameters


def test_a_tool_that_requires_strict_is_refused_where_it_cannot_be() -> None:
    wish = {"type": "json_schema", "strict": "require"}
    plain = msgspec.structs.replace(READ, constrained_sampling=wish)
    odd = ToolDeclaration(name="odd", description="", parameters={"type": "string"}, constrained_sampling=wish)

    with pytest.raises(NotConvertible, match="read"):
        tool_list((plain,), AnthropicDialect(), strict=True)
    with pytest.raises(NotConvertible, match="odd"):
        tool_list((odd,), AnthropicDialect(supports_strict_tools=True), strict=True)


def test_the_mark_stands_on_the_last_real_tool() -> None:
    mark = {"type": "ephemeral"}
    tools = tool_list((READ, READ), AnthropicDialect(), strict=True)

    first, second, held = marked_tools(tools, mark, AnthropicDialect(), keep_place=True)
    assert "cache_control" not in first
    assert second["cache_control"] == mark
    assert held["defer_loading"] is True
    assert "cache_control" not in tools[1]
