"""Models from files and environment: keys and headers are put into a request when it leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.messages import user
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.loop.abort import never_aborted
from antiphon.resources.paths import Places
from antiphon.resources.secret_values import Unresolved
from antiphon.session.model_access import FileModels, load_models

NEW = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "models": [{"id": "m"}]}


@pytest.fixture
def where(tmp_path: Path) -> Places:
    return Places(tmp_path, tmp_path / "agent", tmp_path)


def models(where: Places, provider: dict[str, Any], **environ: str) -> FileModels:
    where.agent.mkdir(exist_ok=True)
    where.models.write_text(json.dumps({"providers": {"mine": NEW | provider}}))
    return load_models(where, environ)


def request(found: FileModels, **fields: Any) -> ModelRequest:
    model = found.find("mine", "m")
    assert model is not None
    return ModelRequest(
        **{"model": model, "messages": (user("x"),), "thinking_level": "off", "signal": never_aborted(), **fields}
    )


async def completed(found: FileModels, **fields: Any) -> ModelRequest:
    done = await found.completed(request(found, **fields))
    assert isinstance(done, ModelRequest), done
    return done


async def test_a_key_of_models_json_is_resolved_when_it_is_needed(where: Places) -> None:
    found = models(where, {"apiKey": "$MINE"}, MINE="secret")
    assert (await completed(found)).api_key == "secret"
    assert (await completed(found, api_key="given")).api_key == "given"
    by_command = models(where, {"apiKey": "!printf from-command"})
    assert (await completed(by_command)).api_key == "from-command"


async def test_a_variable_named_after_a_new_provider(where: Places) -> None:
    assert (await completed(models(where, {}, MINE_API_KEY="k"))).api_key == "k"


async def test_headers_are_resolved(where: Places) -> None:
    found = models(where, {"headers": {"x-one": "$ONE", "x-two": "!printf two", "x-three": "plain"}}, ONE="1")
    headers = (await completed(found)).model.headers
    assert headers == {"x-one": "1", "x-two": "two", "x-three": "plain"}


async def test_a_header_without_a_value_is_a_failed_answer_that_says_why(where: Places) -> None:
    found = models(where, {"headers": {"x-one": "$NOPE"}})
    done = await found.completed(request(found))
    assert isinstance(done, Unresolved)
    events = [event async for event in await found.stream(request(found))]  # type: ignore[misc]
    assert events[-1].error.error_message == "the header x-one of mine has no value: variable NOPE is not set"


async def test_a_key_as_bearer(where: Places) -> None:
    found = models(where, {"apiKey": "k", "authHeader": True})
    assert (await completed(found)).model.headers == {"authorization": "Bearer k"}


def test_which_models_can_be_asked(where: Places) -> None:
    assert models(where, {}).find("mine", "m") is not None
    assert not models(where, {}).usable("mine")
    for provider in ({"apiKey": "k"}, {"local": True}):
        assert models(where, provider).usable("mine")
    bearer = models(where, {"headers": {"Authorization": "Bearer x"}})
    model = bearer.find("mine", "m")
    assert isinstance(model, Model)
    assert bearer.has_credentials(model)
    assert any(m.provider == "mine" for m in bearer.available())


def test_what_is_wrong_with_the_file_is_told(where: Places) -> None:
    where.agent.mkdir()
    where.models.write_text('{"providers": {"odd": {"api": "x"}, "openai": {"models": [{}]}}}')
    found = load_models(where, {})
    assert len(found.diagnostics) == 2
    assert all(str(where.models) in each.message for each in found.diagnostics)


def test_secrets_do_not_show(where: Places) -> None:
    found = models(where, {"apiKey": "sk-very-secret", "headers": {"x": "sk-very-secret"}})
    assert "sk-very-secret" not in repr(found)
    assert "sk-very-secret" not in repr(found.keys)
