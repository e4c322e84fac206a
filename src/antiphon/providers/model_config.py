"""Providers and models from a dict in the form of a `models.json`, laid over a catalogue.

A known provider id patches that provider, a new one needs `baseUrl` and `api`. Nothing raises: what cannot be used is
left out and told as one line. Source: resources specification 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import structs

from antiphon.core.model import Model
from antiphon.core.wire import JsonObject, to_wire
from antiphon.providers.provider_entry import Provider

DEFAULT_WINDOW: Final = 128_000
DEFAULT_MAX_TOKENS: Final = 16_384

_PLAIN: Final[Mapping[str, tuple[str, type]]] = {
    "name": ("name", str),
    "baseUrl": ("base_url", str),
    "api": ("api", str),
    "apiKey": ("api_key", str),
    "authHeader": ("auth_header", bool),
    "defaultModel": ("default_model", str),
    "local": ("local", bool),
    "headers": ("headers", dict),
    "compat": ("compat", dict),
}


def merged(known: Mapping[str, Provider], config: JsonObject) -> tuple[dict[str, Provider], tuple[str, ...]]:
    """The known providers with the config laid over them, and the faults found."""
    faults: list[str] = []
    given = config.get("providers", {})
    if not isinstance(given, dict):
        return dict(known), ('"providers" must be an object',)
    providers = dict(known)
    for id_, item in cast("JsonObject", given).items():
        if not isinstance(item, dict):
            faults.append(f"provider {id_}: must be an object")
            continue
        provider = _provider(id_, providers.get(id_), cast("JsonObject", item), faults)
        if provider is not None:
            providers[id_] = provider
    return providers, tuple(faults)


def _provider(id_: str, known: Provider | None, given: JsonObject, faults: list[str]) -> Provider | None:
    fields = _plain_fields(id_, given, faults)
    if known is None:
        missing = [name for name in ("baseUrl", "api") if name not in given]
        models = given.get("models")
        each_has_api = isinstance(models, list) and all(_has_api(item) for item in models)
        if missing == ["api"] and models and each_has_api:
            fields["api"] = cast("list[JsonObject]", models)[0]["api"]
        elif missing:
            faults.append(f"provider {id_}: a new provider needs {' and '.join(missing)}")
            return None
        known = Provider(id=id_, name=id_, base_url="", api="")
    keys = given.get("keys")
    if isinstance(keys, list):
        fields["keys"] = tuple(str(name) for name in keys)
    provider = _patched(known, structs.replace(known, **fields))
    provider = structs.replace(provider, models=_models(provider, given.get("models", []), faults))
    return structs.replace(provider, models=_overridden(provider, given.get("modelOverrides", {}), faults))


def _has_api(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(cast("JsonObject", item).get("api"), str)


def _plain_fields(id_: str, given: JsonObject, faults: list[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, (field, kind) in _PLAIN.items():
        value = given.get(name)
        if value is None:
            continue
        if isinstance(value, kind):
            fields[field] = value
        else:
            faults.append(f"provider {id_}: {name} must be a {kind.__name__}, not {type(value).__name__}")
    return fields


def _patched(before: Provider, after: Provider) -> Provider:
    """A changed address, header or switch of the provider also holds for the models it has."""

    def patch(model: Model) -> Model:
        wire: JsonObject = to_wire(model)
        if model.base_url == before.base_url:
            wire["baseUrl"] = after.base_url
        if after.headers is not before.headers:
            wire["headers"] = {**wire.get("headers", {}), **after.headers}
        if after.compat is not before.compat:
            wire["compat"] = {**wire.get("compat", {}), **after.compat}
        return msgspec.convert(wire, Model)

    same = (before.base_url, before.headers, before.compat) == (after.base_url, after.headers, after.compat)
    return after if same else structs.replace(after, models=tuple(map(patch, before.models)))


def _models(provider: Provider, given: Any, faults: list[str]) -> tuple[Model, ...]:
    """The provider's models with these added, or in place of those of the same id."""
    models = {model.id: model for model in provider.models}
    if not isinstance(given, list):
        faults.append(f"provider {provider.id}: models must be a list")
        return provider.models
    for item in given:
        id_ = cast("JsonObject", item).get("id") if isinstance(item, dict) else None
        if not isinstance(id_, str) or not id_:
            faults.append(f"provider {provider.id}: each model needs an id")
            continue
        try:
            models[id_] = msgspec.convert(_complete(provider, cast("JsonObject", item)), Model)
        except msgspec.ValidationError as error:
            faults.append(f"model {provider.id}/{id_}: {error}")
    return tuple(models.values())


def _complete(provider: Provider, given: JsonObject) -> JsonObject:
    """The model as it stands in a request: with what it takes from its provider, and defaults."""
    wire: JsonObject = {
        "name": given["id"],
        "api": provider.api,
        "baseUrl": provider.base_url,
        "contextWindow": DEFAULT_WINDOW,
        "maxTokens": DEFAULT_MAX_TOKENS,
        **{name: value for name, value in given.items() if value is not None},
        "provider": provider.id,
    }
    for name, own in (("headers", provider.headers), ("compat", provider.compat)):
        both = {**own, **(given.get(name) or {})}
        if both:
            wire[name] = both
    return wire


def _overridden(provider: Provider, given: Any, faults: list[str]) -> tuple[Model, ...]:
    """The models with patches by id; objects merge, unknown ids mean nothing."""
    if not isinstance(given, dict):
        faults.append(f"provider {provider.id}: modelOverrides must be an object")
        return provider.models
    patches = cast("JsonObject", given)
    models: list[Model] = []
    for model in provider.models:
        patch = patches.get(model.id)
        if isinstance(patch, dict):
            try:
                model = msgspec.convert(_laid_over(to_wire(model), cast("JsonObject", patch)), Model)
            except msgspec.ValidationError as error:
                faults.append(f"modelOverrides {provider.id}/{model.id}: {error}")
        models.append(model)
    return tuple(models)


def _laid_over(below: JsonObject, above: JsonObject) -> JsonObject:
    out = dict(below)
    for name, value in above.items():
        before = out.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            out[name] = _laid_over(cast("JsonObject", before), cast("JsonObject", value))
        else:
            out[name] = value
    out["id"], out["provider"] = below["id"], below["provider"]
    return out
