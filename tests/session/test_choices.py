"""Which model answers, how hard it thinks, and what of it is written down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace
from tests.session.stage import MODEL, OTHER, SETTINGS, Stage

from antiphon.core.messages import AssistantMessage, user
from antiphon.core.session_events import ModelChanged, ThinkingLevelChanged
from antiphon.errors import ConfigurationError
from antiphon.session.choices import ScopedModel
from antiphon.session.ports import GivenModels
from antiphon.session.refusals import NoCredentials
from antiphon.testing import calls, says

THIRD = structs.replace(MODEL, id="three")


class SomeKeys:
    """Models of which only some can be used."""

    def __init__(self, *usable: str) -> None:
        self._given = GivenModels(Stage().model, (MODEL, OTHER, THIRD))
        self._usable = usable
        self.stream = self._given.stream

    def available(self) -> Any:
        return [model for model in self._given.models if model.id in self._usable]

    def find(self, provider: str, model_id: str) -> Any:
        return self._given.find(provider, model_id)

    def has_credentials(self, model: Any) -> bool:
        return model.id in self._usable

    def api_key(self, _provider: str) -> str | None:
        return None


@pytest.mark.requirement("S3-74")
async def test_a_change_counts_from_the_next_request_on() -> None:
    stage = Stage([calls("A"), says("done")], models=(MODEL, OTHER))
    gate = stage.hold("A")
    going = asyncio.ensure_future(stage.session.prompt("go"))
    await stage.calls.running("A")
    stage.session.set_model("scripted/two")
    gate.open()
    await going
    assert [request.model.id for request in stage.model.requests] == ["one", "two"]
    assert stage.kinds.count("model_change") == 2
    assert [event.model.id for event in stage.of(ModelChanged)] == ["two"]


async def test_an_unknown_model_or_one_without_a_key_is_refused() -> None:
    stage = Stage(access=SomeKeys("one"))
    with pytest.raises(ConfigurationError, match="Model not found: scripted/ghost"):
        stage.session.set_model("scripted/ghost")
    with pytest.raises(NoCredentials):
        stage.session.set_model(OTHER)
    assert stage.session.model == MODEL


async def test_a_level_is_clamped_recorded_once_and_told_once() -> None:
    stage = Stage()
    stage.session.set_thinking_level("high")
    stage.session.set_thinking_level("high")
    assert stage.kinds == ["model_change", "thinking_level_change", "thinking_level_change"]
    assert [event.level for event in stage.of(ThinkingLevelChanged)] == ["high"]
    stage.session.set_thinking_level("nonsense")
    assert stage.session.thinking_level == "off"
    stage.session.set_model(OTHER)
    stage.session.set_thinking_level("max")
    assert stage.session.thinking_level == "off"
    assert stage.session.cycle_thinking_level() is None
    assert not stage.session.supports_thinking


async def test_the_level_goes_with_the_model() -> None:
    settings = replace(SETTINGS, model_thinking_levels={"scripted/three": "low"}, default_thinking_level="high")
    stage = Stage(settings=settings, models=(MODEL, OTHER, THIRD))
    stage.session.set_model(THIRD)
    assert stage.session.thinking_level == "low"
    stage.session.set_model(MODEL)
    assert stage.session.thinking_level == "high"


async def test_levels_are_gone_round() -> None:
    stage = Stage()
    seen = [stage.session.cycle_thinking_level() for _ in stage.session.get_available_thinking_levels()]
    assert seen == ["minimal", "low", "medium", "high", "off"]


async def test_models_are_gone_round_in_the_scope_or_among_the_usable() -> None:
    stage = Stage(models=(MODEL, OTHER, THIRD))
    first = stage.session.cycle_model()
    assert first is not None
    assert (first.model.id, first.is_scoped) == ("two", False)
    back = stage.session.cycle_model("backward")
    assert back is not None
    assert back.model.id == "one"

    stage.session.set_scoped_models([ScopedModel(THIRD, "high")])
    scoped = stage.session.cycle_model()
    assert scoped is not None
    assert (scoped.model.id, scoped.thinking_level, scoped.is_scoped) == ("three", "high", True)
    assert stage.session.cycle_model() is None


async def test_what_is_to_be_kept_needs_somebody_who_keeps_it() -> None:
    kept: dict[str, Any] = {}
    stage = Stage()
    with pytest.raises(ConfigurationError, match="no settings file"):
        stage.session.set_model(OTHER, persist=True)
    assert stage.session.model == MODEL
    stage.session._choices._persist = kept.__setitem__
    stage.session.set_model(OTHER, persist=True)
    stage.session.set_thinking_level("high", persist=True)
    stage.session.set_steering_mode("all", persist=True)
    stage.session.set_follow_up_mode("all")
    assert kept == {
        "defaultProvider": "scripted",
        "defaultModel": "two",
        "defaultThinkingLevel": "high",
        "steeringMode": "all",
    }
    assert (stage.session.steering_mode, stage.session.follow_up_mode) == ("all", "all")


def answered_by(model_id: str) -> list[Any]:
    answer = AssistantMessage(content=(), provider="scripted", model=model_id, stop_reason="stop")
    return [user("before"), answer]


async def test_a_resumed_session_goes_on_with_its_own_model_and_level() -> None:
    stage = Stage(history=answered_by("two"), model=None, thinking_level=None)
    assert stage.session.model == OTHER
    assert stage.session.thinking_level == "off"
    assert stage.created.diagnostics == ()


async def test_a_model_that_cannot_be_used_any_more_is_replaced_with_a_word() -> None:
    stage = Stage(history=answered_by("two"), model=None, thinking_level=None, access=SomeKeys("three"))
    assert stage.session.model == THIRD
    (notice,) = stage.created.diagnostics
    assert notice.message == "Could not restore model scripted/two. Using scripted/three."


async def test_nobody_who_could_answer_is_no_model() -> None:
    stage = Stage(model=None, thinking_level=None, access=SomeKeys())
    assert stage.session.model is None
    assert stage.session.thinking_level == "off"
    assert stage.session.get_available_models() == ()


async def test_looking_at_a_session_writes_nothing_into_it() -> None:
    """The reference appends a level as soon as a session is opened."""
    stage = Stage([says("x")], history=[user("before")], thinking_level="high")
    assert stage.kinds == ["message user"]
    await stage.session.prompt("go")
    assert stage.kinds[:3] == ["message user", "thinking_level_change", "message system"]
