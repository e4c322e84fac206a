"""What is asked of Gemini: models by their ids, thinking, tools, schemas."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.providers.conversations import READ, STRICT_READ, ask, user
from tests.providers.streams import GEMINI

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.model import Model
from antiphon.providers.constrained import NotConvertible
from antiphon.providers.google_generative_ai.dialect import gemini_dialect
from antiphon.providers.google_generative_ai.encode import body_fields, const_as_enum, endpoint
from antiphon.providers.options import read_options


def named(id_: str, **fields: Any) -> Model:
    return msgspec.structs.replace(GEMINI, id=id_, **fields)


def fields(model: Model, level: str = "off", tools: tuple[ToolDeclaration, ...] = (), **options: Any) -> dict[str, Any]:
    read = read_options(ask(model, [user("x")], level=level, **options))
    return body_fields(model, read, gemini_dialect(model), prompt="", tools=tools, context_tokens=10)


def thinking(model: Model, level: str = "off", **options: Any) -> Any:
    return fields(model, level, **options)["generationConfig"].get("thinkingConfig")


@pytest.mark.parametrize(
    ("id_", "ids", "images", "strict", "levels"),
    [
        ("gemini-2.5-pro", False, False, False, False),
        ("gemini-2.0-flash-thinking", False, False, False, False),
        ("gemini-3-flash-preview", True, True, True, True),
        ("gemini-3.1-pro-preview", True, True, True, True),
        ("gemini-4-nano", True, True, True, True),
        ("gemini-live-3-audio", True, True, True, False),
        ("gemini-flash-latest", False, True, False, True),
        ("gemini-flash-lite-latest", False, True, False, True),
        ("gemma-4-27b", False, True, False, True),
        ("gemma-3-27b", False, True, False, False),
        ("claude-sonnet-4-5", True, True, False, False),
        ("gpt-oss-120b", True, True, False, False),
    ],
)
def test_a_model_is_known_by_its_id(id_: str, ids: bool, images: bool, strict: bool, levels: bool) -> None:
    dialect = gemini_dialect(named(id_))

    assert (dialect.call_ids, dialect.images_in_results) == (ids, images)
    assert (dialect.strict_tools, dialect.thinking_levels) == (strict, levels)


@pytest.mark.parametrize(
    ("id_", "level", "budget"),
    [
        ("gemini-2.5-pro", "minimal", 128),
        ("gemini-2.5-pro", "high", 32768),
        ("gemini-2.5-flash", "high", 24576),
        ("gemini-2.5-flash-lite", "minimal", 512),
        ("gemini-2.0-flash-thinking", "low", -1),
    ],
)
def test_older_models_think_by_budget(id_: str, level: str, budget: int) -> None:
    assert thinking(named(id_), level) == {"includeThoughts": True, "thinkingBudget": budget}


def test_a_custom_budget_wins_and_off_is_no_budget() -> None:
    model = named("gemini-2.5-flash")

    assert thinking(model, "low", thinking_budgets={"low": 7})["thinkingBudget"] == 7
    assert thinking(model) == {"thinkingBudget": 0}


def test_recent_models_think_by_level() -> None:
    mapped = named("gemini-3-flash", thinking_level_map={"medium": None, "high": "HIGH"})

    assert thinking(GEMINI, "minimal") == {"includeThoughts": True, "thinkingLevel": "MINIMAL"}
    assert thinking(mapped, "medium") == {"includeThoughts": True, "thinkingLevel": "HIGH"}
    assert thinking(GEMINI) == {"thinkingBudget": 0}


def test_a_model_that_cannot_be_switched_off_thinks_as_little_as_it_can() -> None:
    model = named("gemini-3-pro", thinking_level_map={"off": None, "minimal": None})

    assert thinking(model) == {"thinkingLevel": "LOW"}
    budgeted = named("gemini-2.5-pro", thinking_level_map={"off": None})
    assert thinking(budgeted) == {"thinkingBudget": 128}
    assert thinking(named("gemini-3-pro", reasoning=False), "high") is None


def test_the_raw_entry_says_what_it_is_told() -> None:
    assert thinking(GEMINI, entry="raw") is None
    wish = {"enabled": True, "level": "LOW"}
    assert thinking(GEMINI, entry="raw", thinking=wish) == {"includeThoughts": True, "thinkingLevel": "LOW"}
    wish = {"enabled": True, "budgetTokens": 5}
    assert thinking(GEMINI, entry="raw", thinking=wish) == {"includeThoughts": True, "thinkingBudget": 5}
    assert thinking(GEMINI, entry="raw", thinking={"enabled": False}) == {"thinkingBudget": 0}


@pytest.mark.parametrize(
    ("choice", "tools", "mode"),
    [
        (None, (READ,), None),
        ("auto", (READ,), "AUTO"),
        ("none", (STRICT_READ,), "NONE"),
        ("any", (STRICT_READ,), "ANY"),
        (None, (STRICT_READ,), "VALIDATED"),
        ("auto", (STRICT_READ,), "VALIDATED"),
        ("none", (), None),
    ],
)
def test_the_mode_of_function_calling(choice: Any, tools: tuple[ToolDeclaration, ...], mode: str | None) -> None:
    config = fields(GEMINI, tools=tools, tool_choice=choice).get("toolConfig")

    assert config == (None if mode is None else {"functionCallingConfig": {"mode": mode}})


def test_a_tool_that_requires_strict_is_refused_by_older_models() -> None:
    wish = {"type": "json_schema", "strict": "require"}

    with pytest.raises(NotConvertible, match="read"):
        fields(named("gemini-2.5-pro"), tools=(msgspec.structs.replace(READ, constrained_sampling=wish),))


def test_const_becomes_enum_where_a_schema_stands_and_nowhere_else() -> None:
    schema = {
        "type": "object",
        "default": {"const": "data"},
        "examples": [{"const": "data"}],
        "properties": {
            "const": {"const": "a"},
            "n": {"const": 3},
            "b": {"const": True},
            "z": {"const": None},
            "list": {"items": {"anyOf": [{"const": "x"}, True]}, "enum": [{"const": 1}]},
        },
        "$defs": {"const": {"not": {"const": 1.5}}},
        "additionalProperties": {"const": "y"},
    }

    assert const_as_enum(schema) == {
        "type": "object",
        "default": {"const": "data"},
        "examples": [{"const": "data"}],
        "properties": {
            "const": {"enum": ["a"]},
            "n": {"enum": [3]},
            "b": {"const": True},
            "z": {"const": None},
            "list": {"items": {"anyOf": [{"enum": ["x"]}, True]}, "enum": [{"const": 1}]},
        },
        "$defs": {"const": {"not": {"enum": [1.5]}}},
        "additionalProperties": {"enum": ["y"]},
    }


def test_the_model_stands_in_the_address() -> None:
    assert endpoint(GEMINI) == f"https://gemini.example/v1beta/models/{GEMINI.id}:streamGenerateContent?alt=sse"
