"""One provider of models, as the catalogue knows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, field, structs

from antiphon.core.model import Model, Prices
from antiphon.core.wire import JsonObject


class Provider(Struct, frozen=True):
    """A place to ask models. `keys`: environment variables that may hold its key, the first one set counts.

    `api_key` and header values come from a settings file and are unresolved: they may name variables or commands.
    """

    id: str
    name: str
    base_url: str
    api: str
    keys: tuple[str, ...] = ()
    default_model: str | None = None
    local: bool = False
    models: tuple[Model, ...] = ()
    headers: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    compat: JsonObject = field(default_factory=dict[str, Any])
    api_key: str | None = None
    auth_header: bool = False

    def __repr__(self) -> str:
        """All but the key, which is a secret."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name != "api_key")
        return f"Provider({', '.join(shown)})"

    def model(self, id_: str) -> Model | None:
        """The model with exactly this id."""
        return next((model for model in self.models if model.id == id_), None)

    def custom_model(self, id_: str) -> Model:
        """An entry for a model that the catalogue does not list: like the provider's default one, without prices."""
        like = self.model(self.default_model) if self.default_model else None
        if like is not None:
            return structs.replace(like, id=id_, name=id_, cost=Prices())
        window = (32_768, 8_192) if self.local else (128_000, 16_384)
        return Model(
            id=id_,
            name=id_,
            provider=self.id,
            api=self.api,
            base_url=self.base_url,
            headers=dict(self.headers) or UNSET,
            compat=dict(self.compat) or UNSET,
            context_window=window[0],
            max_tokens=window[1],
        )
