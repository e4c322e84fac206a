"""Which model a person means, and what a settings file may add."""

from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon.core.model import THINKING_LEVELS, Model, Prices, PriceTier
from antiphon.errors import ConfigurationError
from antiphon.providers.catalog import Catalog, builtin, key_for, list_models, resolve
from antiphon.providers.levels import supported_levels
from antiphon.providers.provider_entry import Provider
from antiphon.providers.registry import ADAPTERS, adapter, new_adapter


def entry(provider: str, *ids: str, **more: object) -> Provider:
    models = tuple(Model(id=id_, name=id_.upper(), provider=provider, api="openai-completions") for id_ in ids)
    return Provider(provider, provider, "https://x.example/v1", "openai-completions", models=models, **more)  # type: ignore[arg-type]


SMALL = Catalog(
    {
        "acme": entry(
            "acme", "fox-1", "fox-2", "fox-2-20250101", "owl:free", keys=("ACME_KEY", "ACME_OLD"), default_model="fox-2"
        ),
        "acme/west": entry("acme/west", "fox-2", "bear"),
        "router": entry("router", "acme/fox-9", "bear-large"),
    }
)


@pytest.mark.parametrize(
    ("pattern", "provider", "id_"),
    [
        ("fox-1", "acme", "fox-1"),
        ("FOX-1", "acme", "fox-1"),
        ("acme/fox-2", "acme", "fox-2"),
        ("acme/west/fox-2", "acme/west", "fox-2"),
        ("acme/fox-9", "router", "acme/fox-9"),
        ("router/acme/fox-9", "router", "acme/fox-9"),
        ("owl", "acme", "owl:free"),
        ("owl:free", "acme", "owl:free"),
        ("bear-l", "router", "bear-large"),
    ],
)
def test_a_name_means_one_model(pattern: str, provider: str, id_: str) -> None:
    found = SMALL.find(pattern).model

    assert (found.provider, found.id) == (provider, id_)


def test_among_parts_the_undated_and_greatest_id_wins() -> None:
    assert SMALL.find("fox", provider="acme").model.id == "fox-2"
    assert SMALL.find("2025").model.id == "fox-2-20250101"


@pytest.mark.parametrize("level", THINKING_LEVELS)
def test_a_level_may_stand_behind_the_name(level: str) -> None:
    found = SMALL.find(f"fox-1:{level}")

    assert (found.model.id, found.level) == ("fox-1", level)


def test_a_word_that_is_no_level_stays_part_of_the_id() -> None:
    found = SMALL.find("acme/fox-1:nitro")

    assert (found.model.id, found.level) == ("fox-1:nitro", None)
    assert "not a known model" in str(found.warning)


def test_the_same_id_at_two_providers_is_settled_by_a_key_or_refused() -> None:
    assert SMALL.find("fox-2", usable=lambda provider: provider == "acme/west").model.provider == "acme/west"
    with pytest.raises(ConfigurationError, match=r"ambiguous: acme/fox-2, acme/west/fox-2"):
        SMALL.find("fox-2")
    assert SMALL.find("fox-2", provider="acme").model.provider == "acme"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("foks-1", "did you mean acme/fox-1"), ("zzzzz", "known are"), (" ", "no model given")],
)
def test_a_name_nobody_knows_is_refused_with_near_ones(pattern: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        SMALL.find(pattern)


def test_an_unknown_provider_is_refused_with_near_ones() -> None:
    with pytest.raises(ConfigurationError, match="did you mean"):
        SMALL.find("fox-1", provider="acmee")


def test_an_unlisted_model_of_a_known_provider_is_like_its_default_one_but_without_prices() -> None:
    big = Model(id="fox-2", provider="acme", api="a", context_window=99, cost=Prices(input=5))
    catalog = Catalog({"acme": Provider("acme", "Acme", "u", "a", default_model="fox-2", models=(big,))})

    found = catalog.find("acme/fox-3")

    assert (found.model.id, found.model.context_window, found.model.cost) == ("fox-3", 99, Prices())
    assert found.warning


def test_a_key_comes_from_the_first_variable_that_is_set() -> None:
    assert SMALL.key_for("acme", {"ACME_OLD": "old", "ACME_KEY": ""}) == "old"
    assert SMALL.key_for("acme", {"ACME_OLD": "old", "ACME_KEY": "new"}) == "new"
    assert SMALL.key_for("acme", {}) is None
    assert SMALL.key_for("my-own.server", {"MY_OWN_SERVER_API_KEY": "k"}) == "k"


def test_the_default_model_is_that_of_the_first_provider_with_a_key() -> None:
    found = SMALL.default_model({"ACME_KEY": "k"})

    assert found is not None
    assert found.id == "fox-2"
    assert SMALL.default_model({}) is None


# -- settings files ----------------------------------------------------------------------------------------------------


def test_a_new_provider_with_models() -> None:
    config = {
        "providers": {
            "mine": {
                "baseUrl": "http://localhost:1/v1",
                "api": "openai-completions",
                "headers": {"x-a": "1"},
                "compat": {"supportsStore": False},
                "models": [
                    {"id": "m", "reasoning": True, "cost": {"input": 1, "tiers": [
                        {"inputTokensAbove": 10, "input": 2, "output": 3, "cacheRead": 4, "cacheWrite": 5}]}},
                    {"id": "n", "api": "anthropic-messages", "contextWindow": 5, "compat": {"supportsStore": True}},
                ],
            }
        }
    }  # fmt: skip

    catalog, faults = SMALL.with_config(config)

    assert faults == ()
    m, n = catalog.provider("mine").models
    assert (m.name, m.api, m.base_url) == ("m", "openai-completions", "http://localhost:1/v1")
    assert (m.context_window, m.max_tokens, m.input) == (128_000, 16_384, ("text",))
    assert (m.headers, m.compat) == ({"x-a": "1"}, {"supportsStore": False})
    assert m.cost.tiers == (PriceTier(input_tokens_above=10, input=2, output=3, cache_read=4, cache_write=5),)
    assert (n.api, n.context_window, n.compat) == ("anthropic-messages", 5, {"supportsStore": True})
    assert catalog.find("mine/m").model is m


def test_a_known_provider_is_patched() -> None:
    config = {
        "providers": {
            "acme": {
                "baseUrl": "https://proxy.example",
                "headers": {"x-b": "2"},
                "models": [{"id": "fox-1", "maxTokens": 7}, {"id": "new"}],
                "modelOverrides": {"fox-2": {"name": "Fox", "compat": {"a": 1}}, "unknown": {"name": "x"}},
            }
        }
    }

    catalog, faults = SMALL.with_config(config)

    provider = catalog.provider("acme")
    ids = [model.id for model in provider.models]
    assert faults == ()
    assert ids == ["fox-1", "fox-2", "fox-2-20250101", "owl:free", "new"]
    fox1, fox2 = provider.models[:2]
    assert (fox1.max_tokens, fox1.base_url) == (7, "https://proxy.example")
    assert (fox2.name, fox2.compat, fox2.headers) == ("Fox", {"a": 1}, {"x-b": "2"})
    assert SMALL.provider("acme").models[1].name == "FOX-2", "the catalogue it was laid over is as before"


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"providers": []}, '"providers" must be an object'),
        ({"providers": {"x": 1}}, "provider x: must be an object"),
        ({"providers": {"x": {"api": "a"}}}, "provider x: a new provider needs baseUrl"),
        ({"providers": {"x": {}}}, "needs baseUrl and api"),
        ({"providers": {"acme": {"baseUrl": 5}}}, "baseUrl must be a str, not int"),
        ({"providers": {"acme": {"models": {}}}}, "models must be a list"),
        ({"providers": {"acme": {"models": [{"name": "x"}]}}}, "each model needs an id"),
        ({"providers": {"acme": {"models": [{"id": "x", "maxTokens": "many"}]}}}, "model acme/x: .*maxTokens"),
        ({"providers": {"acme": {"modelOverrides": {"fox-1": {"reasoning": 5}}}}}, "modelOverrides acme/fox-1"),
    ],
)
def test_what_is_wrong_in_a_settings_file_is_told_and_left_out(config: dict[str, object], words: str) -> None:
    catalog, faults = SMALL.with_config(config)

    assert len(faults) == 1
    assert __import__("re").search(words, faults[0]), faults[0]
    assert catalog.provider("acme").models[0] == SMALL.provider("acme").models[0]


# -- the built-in table ------------------------------------------------------------------------------------------------


def test_every_built_in_model_can_be_asked() -> None:
    for model in builtin().models:
        assert model.api in ADAPTERS, model
        assert model.context_window > 0, model
        assert 0 < model.max_tokens <= model.context_window, model
        assert set(model.input) <= {"text", "image"}, model
        assert supported_levels(model), model
        assert model.cost.input >= 0, model
        if model.api != "local-llama":
            assert model.base_url.startswith("http"), model


def test_every_built_in_default_exists_or_is_free_to_choose() -> None:
    for provider in builtin().providers.values():
        if provider.default_model and provider.models:
            assert provider.model(provider.default_model), provider.id


NAMED = ("openai", "anthropic", "google", "openrouter", "groq", "mistral", "deepseek", "xai", "cerebras", "together")
LOCAL = ("ollama", "lmstudio", "vllm", "llamacpp")


@pytest.mark.parametrize("name", NAMED)
def test_a_named_provider_has_models_with_prices_and_a_key(name: str) -> None:
    provider = builtin().provider(name)

    assert provider.keys
    assert len(provider.models) >= 4
    assert any(model.cost.input > 0 and model.cost.output > 0 for model in provider.models)
    assert any(model.reasoning for model in provider.models)


@pytest.mark.parametrize("name", LOCAL)
def test_a_server_of_ones_own_takes_any_model_and_asks_for_no_key(name: str) -> None:
    found = builtin().find(f"{name}/whatever:7b")

    assert found.model.base_url.startswith("http://127.0.0.1:")
    assert (found.model.id, found.warning) == ("whatever:7b", None)


def test_who_makes_a_model_comes_before_who_passes_it_on() -> None:
    assert builtin().find("sonnet").model.provider == "anthropic"
    assert builtin().find("sonnet", usable=lambda provider: provider == "openrouter").model.provider == "openrouter"
    assert builtin().find("openrouter/anthropic/claude-sonnet-5").model.provider == "openrouter"


def test_names_people_write() -> None:
    assert resolve("gpt-4.1").provider == "openai"
    assert resolve("claude-sonnet-4-5").provider == "anthropic"
    assert resolve("ollama/qwen3:8b").base_url == "http://127.0.0.1:11434/v1"
    assert resolve("openrouter/some/model").id == "some/model"
    assert key_for("google", {"GEMINI_API_KEY": "k"}) == "k"
    assert "gpt-4.1-mini" in [model.id for model in list_models("openai mini")]


def test_an_adapter_is_one_for_the_process_unless_a_new_one_is_wanted() -> None:
    assert adapter("openai-completions") is adapter("openai-completions")
    assert new_adapter("openai-completions") is not adapter("openai-completions")
    with pytest.raises(ConfigurationError, match="no adapter for api 'smoke-signals'"):
        adapter("smoke-signals")


def test_importing_the_floor_loads_neither_adapter_nor_http_library() -> None:
    code = (
        "import sys, antiphon.providers as p; p.resolve('gpt-4.1'); "
        "print([m for m in sys.modules if m.split('.')[0] in ('httpx2', 'ssl', 'asyncio') or m.endswith('.client')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": "src"}
    )

    assert "httpx2" not in shown.stdout
    assert "client" not in shown.stdout
