"""The models of this machine: what the catalogue lists, whose keys are there, and a stream that puts both together.

Secrets stay unresolved until a request leaves: keys and headers of `models.json` may name variables or commands.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import cast, final

from msgspec import UNSET, structs

from antiphon.core.messages import AssistantMessage
from antiphon.core.model import Model, Prices
from antiphon.core.ports import ModelRequest, ModelStream
from antiphon.core.response_events import Failed, ResponseEvent
from antiphon.providers.catalog import Catalog, builtin
from antiphon.providers.local.model import EMBEDDED, is_installed
from antiphon.providers.registry import adapter
from antiphon.resources.credentials import Answer, CredentialFile, KeyRing, read_credentials
from antiphon.resources.diagnostics import Diagnostic, warning
from antiphon.resources.model_config import read_model_config
from antiphon.resources.paths import Places
from antiphon.resources.secret_values import CommandCache, Secret, Unresolved, resolve

PLAIN_SERVER = {
    "supportsStore": False,
    "supportsDeveloperRole": False,
    "supportsReasoningEffort": False,
    "supportsStrictMode": False,
    "maxTokensField": "max_tokens",
}
"""Switches for a server of which nothing is known but that it speaks chat completions."""


@final
class FileModels:
    """Catalogue and keys from files and environment; implements `ports.ModelAccess`.

    `diagnostics`: what was wrong with the files.
    """

    def __init__(
        self,
        catalog: Catalog,
        credentials: CredentialFile,
        environ: Mapping[str, str],
        diagnostics: tuple[Diagnostic, ...] = (),
    ) -> None:
        self.catalog = catalog
        self.diagnostics = (*diagnostics, *credentials.diagnostics)
        self._environ = environ
        self._commands = CommandCache()
        self.keys = KeyRing(
            credentials,
            environ,
            variables={id_: catalog_keys(catalog, id_) for id_ in catalog.providers},
            configured={p.id: p.api_key for p in catalog.providers.values() if p.api_key is not None},
            run=self._commands,
        )
        self._stream = _Stream(self)

    @property
    def stream(self) -> ModelStream:
        return self._stream

    def available(self) -> tuple[Model, ...]:
        """Models that can be asked: those with a key. The embedded one only if there is nothing else."""
        found = tuple(
            self.placed(m) for m in self.catalog.models if m.provider != EMBEDDED.provider and self._usable(m)
        )
        if not found and is_installed(self._environ):
            return (EMBEDDED,)
        return found

    def find(self, provider: str, model_id: str) -> Model | None:
        """The model with exactly this id, whether it can be asked or not. Of a known provider it may be one that is
        not listed: somebody chose it before."""
        known = self.catalog.providers.get(provider)
        return None if known is None else self.placed(known.model(model_id) or known.custom_model(model_id))

    def has_credentials(self, model: Model) -> bool:
        return self._usable(model)

    def usable(self, provider: str) -> bool:
        """Are there credentials for this provider, or does it need none?"""
        known = self.catalog.providers.get(provider)
        if provider == EMBEDDED.provider:
            return is_installed(self._environ)
        return self.keys.has(provider) or (known is not None and known.local)

    def _usable(self, model: Model) -> bool:
        return self.usable(model.provider) or _has_own_credentials(model)

    def api_key(self, provider: str) -> str | Awaitable[str | None] | None:
        """The key to send. A key that a command gives is asked for in a thread."""
        if self.keys.may_block(provider):
            return asyncio.to_thread(self.keys.key, provider)
        return self.keys.key(provider)

    def default_model(self) -> Model | None:
        """The default model of the first provider with a key, else the embedded one if it is installed."""
        for provider in self.catalog.providers.values():
            if provider.local or not self.keys.has(provider.id):
                continue
            if provider.default_model is not None:
                model = provider.model(provider.default_model)
                return self.placed(model or provider.custom_model(provider.default_model))
            if provider.models:
                return self.placed(provider.models[-1])
        return EMBEDDED if is_installed(self._environ) else None

    def elsewhere(self, provider: str) -> bool:
        """Does the environment name another address for this provider?"""
        return provider in self.catalog.providers and self._address(provider) != ""

    def _address(self, provider: str) -> str:
        environ = self.keys.environment_of(provider)
        return environ.get(f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_BASE_URL", "").rstrip("/")

    def placed(self, model: Model) -> Model:
        """The model at another address, if the environment names one: `OPENAI_BASE_URL` for openai, and so on.

        A server that stands in for OpenAI speaks its older protocol, chat completions; a model that the catalogue
        does not know is asked in its plainest form.
        """
        address = self._address(model.provider)
        if not address:
            return model
        if model.provider != "openai" or "//api.openai.com" in address:
            return structs.replace(model, base_url=address)
        placed = structs.replace(model, base_url=address, api="openai-completions")
        if self.catalog.provider("openai").model(model.id) is not None:
            return placed
        return structs.replace(
            placed, reasoning=False, compat=PLAIN_SERVER, context_window=32_768, max_tokens=8_192, cost=Prices()
        )

    async def completed(self, request: ModelRequest) -> ModelRequest | Unresolved:
        """The request with its key and its resolved headers, or why it has none."""
        model = request.model
        headers = {} if model.headers is UNSET else dict(model.headers)
        for name, value in headers.items():
            if value is not None and ("$" in value or value.startswith("!")):
                found = await self._resolved(value, model.provider)
                if isinstance(found, Unresolved):
                    return Unresolved(f"the header {name} of {model.provider} has no value: {found.reason}")
                headers[name] = found.reveal()
        key = request.api_key
        if key is None and not {"api_key", "apiKey"} & request.options.keys():
            answer = await self._asked(model.provider)
            key = answer.key
            if isinstance(answer.found, Unresolved) and not headers and self._needs_key(model.provider, answer):
                return Unresolved(f"no key for {model.provider}: {answer.found.reason}")
        known = self.catalog.providers.get(model.provider)
        if known is not None and known.auth_header and key is not None:
            headers["authorization"] = f"Bearer {key}"
        if headers and headers != model.headers:
            model = structs.replace(model, headers=headers)
        return structs.replace(request, model=model, api_key=key)

    async def _asked(self, provider: str) -> Answer:
        if self.keys.may_block(provider):
            return await asyncio.to_thread(self.keys.ask, provider)
        return self.keys.ask(provider)

    def _needs_key(self, provider: str, answer: Answer) -> bool:
        """Is it of no use to ask without a key? A key that was named but has no value is always a mistake."""
        known = self.catalog.providers.get(provider)
        return answer.place != "nowhere" or (known is not None and bool(known.keys))

    async def _resolved(self, value: str, provider: str) -> Secret | Unresolved:
        environ = self.keys.environment_of(provider)
        if value.startswith("!"):
            return await asyncio.to_thread(resolve, value, environ, self._commands)
        return resolve(value, environ, self._commands)


@final
class _Stream:
    """Asks the adapter of each request's model, with what the request still lacks."""

    def __init__(self, models: FileModels) -> None:
        self._models = models

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        ready = await self._models.completed(request)
        if isinstance(ready, Unresolved):
            return _refused(request.model, ready.reason)
        return cast("AsyncIterator[ResponseEvent]", adapter(ready.model.api)(ready))


async def _refused(model: Model, why: str) -> AsyncIterator[ResponseEvent]:
    message = AssistantMessage(
        content=(), api=model.api, provider=model.provider, model=model.id, stop_reason="error", error_message=why
    )
    yield Failed(reason="error", error=message)


def _has_own_credentials(model: Model) -> bool:
    """Does a model bring a header that takes the place of a key?"""
    if model.headers is UNSET:
        return False
    names = {name.lower() for name, value in model.headers.items() if value}
    return bool(names & {"authorization", "x-api-key", "x-goog-api-key", "api-key", "cf-aig-authorization"})


def catalog_keys(catalog: Catalog, provider: str) -> tuple[str, ...]:
    """Variables that may hold a provider's key: those it names, else one made of its id."""
    known = catalog.providers[provider]
    if known.keys or known.local:
        return known.keys
    return (f"{re.sub(r'[^A-Za-z0-9]', '_', provider).upper()}_API_KEY",)


def load_models(where: Places, environ: Mapping[str, str] | None = None) -> FileModels:
    """The models of this machine for work in a folder."""
    environ = os.environ if environ is None else environ
    config, faults = read_model_config(where.models)
    catalog, more = builtin().with_config(config)
    found = (*faults, *(f"{where.models}: {text}" for text in more))
    return FileModels(catalog, read_credentials(where), environ, tuple(map(warning, found)))
