"""Which model a command line and the settings mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import ConfigurationError
from antiphon.modes.arguments import parse
from antiphon.modes.model_choice import ModelWish, model_wish
from antiphon.providers.catalog import builtin
from antiphon.providers.local.model import EMBEDDED
from antiphon.resources.credentials import CredentialFile
from antiphon.resources.settings import Settings
from antiphon.session.model_access import FileModels

ALL_KEYS = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b"}


def wish(*words: str, environ: dict[str, str] | None = None, settings: dict[str, Any] | None = None) -> ModelWish:
    models = FileModels(builtin(), CredentialFile({}), {"ANTIPHON_LOCAL_MODEL": "/none", **(environ or {})})
    plan = parse(words)
    assert plan.errors == []
    return model_wish(plan, models, Settings(**(settings or {})))


def name(found: Any) -> str | None:
    return None if found is None else f"{found.provider}/{found.id}"


def test_nobody_asked_and_there_is_no_key() -> None:
    found = wish()
    assert (found.model, found.default, found.scope) == (None, None, ())


def test_the_first_provider_with_a_key() -> None:
    assert name(wish(environ={"OPENAI_API_KEY": "x"}).default) == "openai/gpt-5.4"
    assert name(wish(environ={"OPENAI_API_KEY": ""}).default) is None


def test_a_model_and_its_level() -> None:
    found = wish("--model", "openai/gpt-5:high", environ=ALL_KEYS)
    assert (name(found.model), found.level) == ("openai/gpt-5", "high")
    assert wish("--model", "openai/gpt-5:high", "--thinking", "low", environ=ALL_KEYS).level == "low"
    odd = wish("--thinking", "huge", environ=ALL_KEYS)
    assert odd.level is None
    assert "huge" in odd.warnings[0]


def test_a_model_that_does_not_exist() -> None:
    with pytest.raises(ConfigurationError, match="no model matches"):
        wish("--model", "nonsense-xyz", environ=ALL_KEYS)
    found = wish("--model", "openai/brand-new", environ=ALL_KEYS)
    assert name(found.model) == "openai/brand-new"
    assert "not a known model" in found.warnings[0]


def test_a_key_of_the_command_line_is_for_the_model_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="--api-key needs --model"):
        wish("--api-key", "k")
    models = FileModels(builtin(), CredentialFile({}), {})
    model_wish(parse(["--model", "anthropic/claude-sonnet-4-6", "--api-key", "k"]), models, Settings())
    assert models.keys.key("anthropic") == "k"
    assert models.keys.key("openai") is None


def test_settings_name_the_default() -> None:
    given = {"default_provider": "anthropic", "default_model": "claude-sonnet-4-6"}
    assert name(wish(environ=ALL_KEYS, settings=given).default) == "anthropic/claude-sonnet-4-6"
    only = {"default_provider": "openai"}
    assert name(wish(environ=ALL_KEYS, settings=only).default) == "openai/gpt-5.4"
    without_key = wish(environ={"OPENAI_API_KEY": "x"}, settings=given)
    assert name(without_key.default) == "openai/gpt-5.4"
    wrong = wish(environ=ALL_KEYS, settings={"default_model": "nonsense-xyz"})
    assert "defaultModel is ignored" in wrong.warnings[0]
    assert wrong.default is not None


def test_a_scope_of_models() -> None:
    found = wish("--models", "openai/gpt-5,anthropic/claude-*:low,nothing-xyz", environ=ALL_KEYS)
    names = [name(scoped.model) for scoped in found.scope]
    assert names[0] == "openai/gpt-5"
    assert all(n is not None and n.startswith("anthropic/claude-") for n in names[1:])
    assert {scoped.thinking_level for scoped in found.scope[1:]} == {"low"}
    assert name(found.model) == "openai/gpt-5"
    assert any("nothing-xyz" in warning for warning in found.warnings)
    from_settings = wish(environ=ALL_KEYS, settings={"enabled_models": ("openai/gpt-5",)})
    assert (from_settings.model, name(from_settings.default)) == (None, "openai/gpt-5")


def test_a_scope_has_only_usable_models() -> None:
    assert wish("--models", "anthropic/*", environ={"OPENAI_API_KEY": "x"}).scope == ()


def test_another_address() -> None:
    environ = {**ALL_KEYS, "OPENAI_BASE_URL": "http://127.0.0.1:1/v1/"}
    found = wish("--model", "openai/gpt-5", environ=environ).model
    assert found is not None
    assert (found.base_url, found.api) == ("http://127.0.0.1:1/v1", "openai-completions")


def test_the_embedded_model_is_the_last_resort(tmp_path: Path) -> None:
    from antiphon.providers.local.model import is_installed

    if not is_installed({}):
        pytest.skip("the embedded model is not installed")
    models = FileModels(builtin(), CredentialFile({}), {})
    assert models.default_model() is EMBEDDED
    assert models.available() == (EMBEDDED,)
    keyed = FileModels(builtin(), CredentialFile({}), {"OPENAI_API_KEY": "x"})
    assert EMBEDDED not in keyed.available()


def test_a_part_of_a_name_is_told_what_it_is_taken_for() -> None:
    found = wish("--model", "sonnet", environ={"ANTHROPIC_API_KEY": "b"})
    assert found.model is not None
    assert found.warnings == (f"'sonnet' is taken for anthropic/{found.model.id}",)
    assert wish("--model", "claude-sonnet-4-6:high", environ=ALL_KEYS).warnings == ()


@pytest.mark.parametrize(
    ("words", "id_", "level"),
    [
        (("--model", "openai/gpt-oss-20b"), "gpt-oss-20b", None),
        (("--model", "openai/qwen:7b"), "qwen:7b", None),
        (("--model", "openai/qwen:high"), "qwen", "high"),
        (("--model", "org/model", "--provider", "openai"), "org/model", None),
    ],
)
def test_a_server_of_ones_own_knows_its_models(words: tuple[str, ...], id_: str, level: str | None) -> None:
    found = wish(*words, environ={"OPENAI_API_KEY": "x", "OPENAI_BASE_URL": "http://127.0.0.1:8000/v1"})
    assert (name(found.model), found.level, found.warnings) == (f"openai/{id_}", level, ())
    assert found.model is not None
    assert found.model.base_url == "http://127.0.0.1:8000/v1"


def test_a_provider_alone_is_no_model() -> None:
    with pytest.raises(ConfigurationError, match="names a provider, but no model"):
        wish("--model", "openai/", environ=ALL_KEYS)
