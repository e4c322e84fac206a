"""Which models a command line and the settings ask for. Source: modes specification 2.4.

`--model` is strict: what stands behind a colon is a level only if the whole is no model. Patterns of a scope
(`--models`, the setting `enabledModels`) are lenient: what fits nothing is a warning.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

from msgspec import UNSET, Struct

from antiphon.core.model import THINKING_LEVELS, Model, ThinkingLevel
from antiphon.errors import ConfigurationError
from antiphon.modes.arguments import Plan, tool_names
from antiphon.providers.local.model import EMBEDDED
from antiphon.resources.settings import Settings
from antiphon.session.choices import ScopedModel
from antiphon.session.model_access import FileModels

LOCAL_NOTICE = (
    "no key found, so {provider}/{id} answers: a tiny model inside this program, good for trying the loop and for "
    "nothing else. For a real model set its key (OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY, ...) and, if you "
    "like, --model provider/id\n"
)


class ModelWish(Struct, frozen=True):
    """`model`: asked for; `default`: if nobody asked and the session does not say. `warnings`: one line each."""

    model: Model | None
    level: ThinkingLevel | None
    default: Model | None
    scope: tuple[ScopedModel, ...]
    warnings: tuple[str, ...]


def model_wish(plan: Plan, models: FileModels, settings: Settings) -> ModelWish:
    """What command line and settings ask for. A key of the command line is given to its provider.

    Raises:
        ConfigurationError: the model asked for does not exist or is ambiguous; a key without a model.
    """
    warnings: list[str] = []
    patterns = tool_names(plan.models) if plan.models is not None else settings.enabled_models
    scope = model_scope(() if patterns is UNSET else patterns, models, warnings)
    model, level = _asked(plan, models, warnings)
    default = scope[0].model if scope else _default(models, settings, warnings)
    if model is None and scope and plan.models is not None:
        model, level = scope[0].model, scope[0].thinking_level
    if plan.api_key is not None:
        chosen = model or default
        if chosen is None or (model is None and chosen is EMBEDDED):
            raise ConfigurationError("--api-key needs --model: whose key is it?")
        models.keys.give(chosen.provider, plan.api_key)
    return ModelWish(model, _level(plan.thinking, level, warnings), default, scope, tuple(warnings))


def _asked(plan: Plan, models: FileModels, warnings: list[str]) -> tuple[Model | None, ThinkingLevel | None]:
    if plan.model is None:
        return None, None
    own = _at_an_address_of_ones_own(plan.model, plan.provider, models)
    if own is not None:
        return own
    usable = models.usable if plan.api_key is None else None  # a given key is for whatever is meant, stored or not
    try:
        found = models.catalog.find(plan.model, provider=plan.provider, usable=usable)
    except ConfigurationError as error:
        told = str(error)
        raise ConfigurationError(f"{told}{'' if told.endswith('?') else ';'} --list-models lists all") from None
    if found.warning is not None:
        warnings.append(found.warning)
    elif not _is_named(found.model, plan.model):
        warnings.append(f"{plan.model!r} is taken for {found.model.provider}/{found.model.id}")
    return models.placed(found.model), found.level


def _is_named(model: Model, text: str) -> bool:
    """Does the text name this model in full?"""
    plain = text.strip().lower()
    return any(plain in (name, f"{name}:{level}") for name in _names(model) for level in THINKING_LEVELS)


def _at_an_address_of_ones_own(
    text: str, provider: str | None, models: FileModels
) -> tuple[Model, ThinkingLevel | None] | None:
    """The model of a server that the environment names (`OPENAI_BASE_URL`): that server knows its models, so a name
    that is not listed is not guessed at.

    Raises:
        ConfigurationError: only the provider was named.
    """
    head, slash, rest = text.strip().partition("/")
    owner, name = (head, rest) if slash and provider in (None, head) else (provider, text.strip())
    if owner is None or owner not in models.catalog.providers:
        return None
    if not name:
        raise ConfigurationError(f"--model {text!r} names a provider, but no model; --list-models lists all")
    if not models.elsewhere(owner):
        return None
    known = models.catalog.provider(owner)
    plain, colon, level = name.rpartition(":")
    if colon and plain and known.model(name) is None and level in THINKING_LEVELS:
        return models.placed(known.model(plain) or known.custom_model(plain)), level
    return models.placed(known.model(name) or known.custom_model(name)), None


def _default(models: FileModels, settings: Settings, warnings: list[str]) -> Model | None:
    """The model of the settings, else the default one of the first provider with a key."""
    if settings.default_model is UNSET:
        if settings.default_provider is not UNSET:
            return _default_of(settings.default_provider, models, warnings) or models.default_model()
        return models.default_model()
    provider = None if settings.default_provider is UNSET else settings.default_provider
    try:
        found = models.catalog.find(settings.default_model, provider=provider, usable=models.usable)
    except ConfigurationError as error:
        warnings.append(f"the setting defaultModel is ignored: {error}")
        return models.default_model()
    return models.placed(found.model) if models.has_credentials(found.model) else models.default_model()


def _default_of(provider: str, models: FileModels, warnings: list[str]) -> Model | None:
    try:
        known = models.catalog.provider(provider)
    except ConfigurationError as error:
        warnings.append(f"the setting defaultProvider is ignored: {error}")
        return None
    if not models.usable(provider) or known.default_model is None:
        return None
    return models.placed(known.model(known.default_model) or known.custom_model(known.default_model))


def _level(asked: str | None, suffix: ThinkingLevel | None, warnings: list[str]) -> ThinkingLevel | None:
    if asked is None or asked in THINKING_LEVELS:
        return suffix if asked is None else asked
    warnings.append(f"unknown thinking level {asked!r} is ignored; there are {' '.join(THINKING_LEVELS)}")
    return suffix


def model_scope(patterns: Iterable[str], models: FileModels, warnings: list[str]) -> tuple[ScopedModel, ...]:
    """The usable models that patterns name, in their order: ids, parts of ids, globs, each with `:level` or without."""
    usable = models.available()
    scope: dict[tuple[str, str], ScopedModel] = {}
    for pattern in patterns:
        found, level = _matching(pattern, usable)
        if not found:
            warnings.append(f"no usable model matches {pattern!r}; it is left out")
        for model in found:
            scope.setdefault((model.provider, model.id), ScopedModel(model, level))
    return tuple(scope.values())


def _matching(pattern: str, usable: tuple[Model, ...]) -> tuple[list[Model], ThinkingLevel | None]:
    found = _of_pattern(pattern, usable)
    head, colon, tail = pattern.rpartition(":")
    if not found and colon and tail in THINKING_LEVELS:
        return _of_pattern(head, usable), tail
    return found, None


def _of_pattern(pattern: str, usable: tuple[Model, ...]) -> list[Model]:
    """Models that a pattern names: all that fit a glob; else the one that fits exactly, or best in part."""
    text = pattern.lower()
    if any(letter in text for letter in "*?["):
        return [m for m in usable if any(fnmatch.fnmatchcase(name, text) for name in _names(m))]
    exact = [model for model in usable if text in _names(model)]
    parts = exact or [m for m in usable if text in f"{m.provider}/{m.id}".lower() or text in m.name.lower()]
    return [max(parts, key=lambda model: model.id)] if parts and not exact else exact[:1]


def _names(model: Model) -> tuple[str, str]:
    return model.id.lower(), f"{model.provider}/{model.id}".lower()
