"""Which models exist, who serves them, and which one a person means.

The built-in table (`models.json`; prices and limits as published on models.dev, August 2026) is read when first asked
for. A program or a settings file adds providers and models, or patches them, with a dict in the form of a `models.json`
(`Catalog.with_config`). Looking up is pure: the environment comes in as a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.json import decode

from antiphon.core.model import THINKING_LEVELS, Model, ThinkingLevel
from antiphon.core.wire import JsonObject
from antiphon.errors import ConfigurationError
from antiphon.providers.local.model import PROVIDER, is_installed
from antiphon.providers.model_config import merged
from antiphon.providers.provider_entry import Provider

_DATED = re.compile(r"-(?:20[0-9]{6}|20[0-9]{2}-[0-9]{2}-[0-9]{2})$")
_SHOWN = 8


class Found(Struct, frozen=True):
    """A model, the thinking level that stood behind its name, and what a person should be told about the choice."""

    model: Model
    level: ThinkingLevel | None = None
    warning: str | None = None


class Catalog(Struct, frozen=True):
    """Providers by id, in order of preference."""

    providers: Mapping[str, Provider]

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(model for provider in self.providers.values() for model in provider.models)

    def provider(self, id_: str) -> Provider:
        """The provider with this id.

        Raises:
            ConfigurationError: there is none.
        """
        known = self.providers.get(id_)
        if known is None:
            raise ConfigurationError(f"unknown provider {id_!r}{_nearest(id_, self.providers)}")
        return known

    def search(self, words: str = "") -> tuple[Model, ...]:
        """Models whose `provider/id` or name has every one of the words."""
        wanted = words.lower().split()
        return tuple(
            model
            for model in self.models
            if all(word in f"{model.provider}/{model.id} {model.name}".lower() for word in wanted)
        )

    def find(
        self,
        pattern: str,
        *,
        provider: str | None = None,
        usable: Callable[[str], bool] | None = None,
        levels: bool = True,
    ) -> Found:
        """The model that a person means: an exact id, `provider/id`, or a part of one; perhaps `:level` behind it.

        `provider` narrows the search. `usable` says whether a provider has credentials and breaks ties between
        providers. A model that a known provider may have, though the catalogue does not, gets an entry and a warning.

        Raises:
            ConfigurationError: nothing, or more than one thing, fits; the text names candidates.
        """
        text = pattern.strip()
        if not text:
            raise ConfigurationError("no model given; name one as provider/model")
        if provider is not None:
            self.provider(provider)
        found = self._find(text, provider, usable)
        if found is not None:
            return found
        head, colon, tail = text.rpartition(":")
        if levels and colon and head and tail in THINKING_LEVELS:
            found = self._find(head, provider, usable)
            if found is None:
                found = self._custom(head, provider)
            if found is not None:
                return Found(found.model, tail, found.warning)
        found = self._custom(text, provider)
        if found is None:
            names = [f"{model.provider}/{model.id}" for model in self.models if _is_there(model)]
            raise ConfigurationError(f"no model matches {pattern!r}{_nearest(text, names)}")
        return found

    def _find(self, text: str, provider: str | None, usable: Callable[[str], bool] | None) -> Found | None:
        hint, rest = self._split(text)
        exact = self._exact(text, provider)
        if hint is not None and provider in (None, hint):
            exact = self._exact(rest, hint) or exact
        if exact:
            return Found(_one(text, exact, usable))
        if hint is not None and provider in (None, hint):
            parts = self._part(rest, hint)
            return Found(_best(parts)) if parts else None
        parts = self._part(text, provider)
        if not parts:
            return None
        return Found(_best(_of_one_provider(text, parts, usable)))

    def _split(self, text: str) -> tuple[str | None, str]:
        """`provider/rest`; the longest known provider id wins."""
        lower = text.lower()
        heads = [id_ for id_ in self.providers if lower.startswith(f"{id_.lower()}/")]
        if not heads:
            return None, text
        longest = max(heads, key=len)
        return longest, text[len(longest) + 1 :]

    def _pool(self, provider: str | None) -> Iterable[Model]:
        return self.models if provider is None else self.providers[provider].models

    def _exact(self, text: str, provider: str | None) -> list[Model]:
        return [model for model in self._pool(provider) if model.id.lower() == text.lower()]

    def _part(self, text: str, provider: str | None) -> list[Model]:
        lower = text.lower()
        return [m for m in self._pool(provider) if lower in m.id.lower() or lower in m.name.lower()]

    def _custom(self, text: str, provider: str | None) -> Found | None:
        hint, rest = self._split(text)
        if provider is not None and hint != provider:
            hint, rest = provider, text
        if hint is None or not rest:
            return None
        owner = self.providers[hint]
        warning = (
            None if owner.local or not owner.models else f"{rest} is not a known model of {hint}; trying it anyway"
        )
        return Found(owner.custom_model(rest), None, warning)

    def default_model(self, environ: Mapping[str, str]) -> Model | None:
        """The default model of the first provider whose key is in the environment."""
        for provider in self.providers.values():
            if provider.keys and self.key_for(provider.id, environ):
                if provider.default_model is not None:
                    return provider.model(provider.default_model) or provider.custom_model(provider.default_model)
                if provider.models:
                    return provider.models[-1]
        return None

    def key_for(self, provider: str, environ: Mapping[str, str]) -> str | None:
        """The provider's key in this environment; empty ones do not count."""
        known = self.providers.get(provider)
        names = known.keys if known is not None else (f"{re.sub(r'[^A-Za-z0-9]', '_', provider).upper()}_API_KEY",)
        return next((environ[name] for name in names if environ.get(name)), None)

    def with_config(self, config: JsonObject) -> tuple[Catalog, tuple[str, ...]]:
        """The catalogue with a settings file's `models.json` laid over it, and what is wrong in it, one line each."""
        providers, faults = merged(self.providers, config)
        return Catalog(providers), faults


def _one(text: str, models: list[Model], usable: Callable[[str], bool] | None) -> Model:
    """The only one of models of one id, by credentials if need be."""
    if len(models) > 1 and usable is not None:
        models = [model for model in models if usable(model.provider)] or models
    if len(models) > 1:
        names = ", ".join(f"{model.provider}/{model.id}" for model in models)
        raise ConfigurationError(f"{text!r} is ambiguous: {names}; write provider/model or give --provider")
    return models[0]


def _of_one_provider(text: str, models: list[Model], usable: Callable[[str], bool] | None) -> list[Model]:
    if usable is not None:
        models = [model for model in models if usable(model.provider)] or models
    if any("/" not in model.id for model in models):  # who makes a model comes before who passes it on
        models = [model for model in models if "/" not in model.id]
    owners = dict.fromkeys(model.provider for model in models)
    if len(owners) > 1:
        names = [f"{model.provider}/{model.id}" for model in models]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        raise ConfigurationError(
            f"{text!r} is ambiguous: {', '.join(names[:_SHOWN])}{more}; write provider/model or give --provider"
        )
    return models


def _best(models: list[Model]) -> Model:
    """Aliases before dated ids, then the greatest id."""
    undated = [model for model in models if not _DATED.search(model.id)]
    return max(undated or models, key=lambda model: model.id)


def _is_there(model: Model) -> bool:
    """Could it be asked, given a key?"""
    return model.provider != PROVIDER.id or is_installed()


def _nearest(text: str, names: Iterable[str]) -> str:
    import difflib  # only for an error

    known = list(names)
    near = difflib.get_close_matches(text, known, n=4, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; known are {', '.join(known[:_SHOWN])}{', …' if len(known) > _SHOWN else ''}" if known else ""


_DATA: Final = Path(__file__).with_name("models.json")


@cache
def builtin() -> Catalog:
    """The built-in catalogue, read once."""
    providers, faults = merged({}, decode(_DATA.read_bytes()))
    if faults:
        raise ConfigurationError(f"{_DATA.name}: {faults[0]}")
    return Catalog({**providers, PROVIDER.id: PROVIDER})


def resolve(pattern: str, *, catalog: Catalog | None = None, provider: str | None = None) -> Model:
    """The model that a name means (`Catalog.find`, without level and warning).

    Raises:
        ConfigurationError: nothing, or more than one thing, fits; the text names candidates.
    """
    return (catalog or builtin()).find(pattern, provider=provider).model


def list_models(search: str = "", *, catalog: Catalog | None = None) -> tuple[Model, ...]:
    """Models whose `provider/id` or name has every word of `search`."""
    return (catalog or builtin()).search(search)


def key_for(provider: str, environ: Mapping[str, str], *, catalog: Catalog | None = None) -> str | None:
    """The key of a provider in an environment, or None."""
    return (catalog or builtin()).key_for(provider, environ)
