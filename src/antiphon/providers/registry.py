"""Which adapter speaks which protocol. An adapter is loaded when it is first used."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from importlib import import_module
from typing import Any, Final, cast, final

from msgspec import structs

from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest, ModelStream
from antiphon.core.response_events import ResponseEvent
from antiphon.errors import ConfigurationError
from antiphon.providers.catalog import Catalog, key_for

ADAPTERS: Final[Mapping[str, tuple[str, str]]] = {
    "openai-completions": ("openai_completions", "OpenAICompletions"),
    "openai-responses": ("openai_responses", "OpenAIResponses"),
    "anthropic-messages": ("anthropic_messages", "AnthropicMessages"),
    "google-generative-ai": ("google_generative_ai", "GoogleGenerativeAi"),
    "local-llama": ("local", "LocalLlama"),
}
"""api → package and class."""

_loaded: dict[str, ModelStream] = {}


def adapter(api: str) -> ModelStream:
    """The adapter of a protocol; one for the whole process, so that what it has encoded is kept.

    Raises:
        ConfigurationError: no adapter speaks it.
    """
    known = _loaded.get(api)
    if known is None:
        known = _loaded[api] = new_adapter(api)
    return known


def new_adapter(api: str) -> ModelStream:
    """A fresh adapter that shares nothing with others."""
    if api not in ADAPTERS:
        raise ConfigurationError(f"no adapter for api {api!r}; known are {', '.join(ADAPTERS)}")
    package, name = ADAPTERS[api]
    module: Any = import_module(f"antiphon.providers.{package}.client")
    return cast("ModelStream", getattr(module, name)())


def stream_for(
    model: Model | None = None, *, environ: Mapping[str, str] | None = None, catalog: Catalog | None = None
) -> ModelStream:
    """A stream function for this model, and for any other: it goes by the model of each request.

    A request without a key gets the one of its provider's environment variable (`environ`, or the process's, read at
    each request); `catalog` knows which variable that is.

    Raises:
        ConfigurationError: no adapter speaks the protocol of `model`.
    """
    if model is not None:
        adapter(model.api)
    return _Switchboard(environ, catalog)


@final
class _Switchboard:
    def __init__(self, environ: Mapping[str, str] | None, catalog: Catalog | None) -> None:
        self._environ = environ
        self._catalog = catalog

    def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        if request.api_key is None and not {"api_key", "apiKey"} & request.options.keys():
            environ = os.environ if self._environ is None else self._environ
            request = structs.replace(request, api_key=key_for(request.model.provider, environ, catalog=self._catalog))
        return cast("AsyncIterator[ResponseEvent]", adapter(request.model.api)(request))
