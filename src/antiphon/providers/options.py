"""What a caller may ask of one call, read from a `ModelRequest` into typed values.

Names may be spelled as in Python (`max_retries`) or as on the wire (`maxRetries`). The unified entry takes a thinking
level; the raw entry (`entry="raw"`) takes the options of the protocol instead, reachable through `raw`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Literal, TypeAlias, cast, final

from msgspec import UNSET, Struct, field

from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.ports import ModelRequest
from antiphon.core.wire import JsonObject
from antiphon.providers.failures import RequestRefused, cannot_send
from antiphon.providers.http import Transport
from antiphon.providers.levels import clamp_level

CacheRetention: TypeAlias = Literal["none", "short", "long"]
Callback: TypeAlias = Callable[[Any, Model], Any | Awaitable[Any]]

AUTH_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key", "cf-aig-authorization")
USER_AGENT = "antiphon"


@final
class CallOptions(Struct, frozen=True, kw_only=True):
    """Times are milliseconds. `level` is the thinking level in use, already clamped to the model; None is off.

    `timeout_ms` bounds the wait for the first byte, `silence_ms` the pause between two pieces of the stream,
    `max_retry_delay_ms` a wait that the server asks for (0: any). A header of value None removes a default.
    `response_schema` is a JSON Schema that the answer's text must be an instance of.
    """

    entry: Literal["unified", "raw"] = "unified"
    level: ThinkingLevel | None = None
    api_key: str | None = None
    headers: Mapping[str, str | None] = field(default_factory=dict)
    timeout_ms: float = 600_000
    connect_timeout_ms: float = 30_000
    silence_ms: float = 600_000
    max_retries: int = 0
    max_retry_delay_ms: float = 60_000
    temperature: float | None = None
    max_tokens: int | None = None
    sampling_params: JsonObject = field(default_factory=dict)
    cache_retention: CacheRetention = "short"
    session_id: str | None = None
    disable_continuation: bool = False
    metadata: JsonObject = field(default_factory=dict)
    thinking_budgets: Mapping[str, int] = field(default_factory=dict)
    tool_choice: Any = None
    response_schema: Mapping[str, Any] | None = None
    on_payload: Callback | None = None
    on_response: Callback | None = None
    on_provider_stream_event: Callback | None = None
    transport: Transport | None = None
    raw: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Without any value: some of them are secret."""
        return f"<{self.entry} options>"

    @property
    def is_raw(self) -> bool:
        return self.entry == "raw"

    @property
    def caching(self) -> bool:
        return self.cache_retention != "none"

    def fingerprint(self) -> tuple[object, ...]:
        """Equal for options that lead to the same request, even if a mapping among them was changed in place."""
        nested = (self.headers, self.sampling_params, self.metadata, self.thinking_budgets, self.raw)
        choices = (self.tool_choice, self.response_schema)
        details = repr((choices, *nested)) if choices != (None, None) or any(nested) else ""
        return (
            self.entry, self.level, self.api_key, self.temperature, self.max_tokens, self.cache_retention,
            self.session_id, self.disable_continuation, details,
        )  # fmt: skip

    def raw_get(self, name: str) -> Any:
        """A protocol option of the raw entry by its camelCase or snake_case name; None if absent."""
        return self.raw.get(_snake(name))


def read_options(request: ModelRequest) -> CallOptions:
    """The options of a request. Unknown ones are kept in `raw`; None means not given.

    Raises:
        ValueError: an option has a value that cannot be used; the text says which.
    """
    given = {_snake(name): value for name, value in request.options.items() if value is not None}
    entry: Literal["unified", "raw"] = "raw" if given.pop("entry", "unified") in ("raw", "stream") else "unified"
    known = {name: given.pop(name) for name in _KNOWN if name in given}
    _check(known)
    level = request.thinking_level
    return CallOptions(
        **known,
        entry=entry,
        level=None if entry == "raw" or level == "off" else _level(request.model, level),
        api_key=_key(given.pop("api_key", None) if request.api_key is None else request.api_key),
        session_id=given.pop("session_id", None) if request.session_id is None else request.session_id,
        raw=given,
    )


def _key(given: str | None) -> str | None:
    """The key without the line end of the file it may come from.

    Raises:
        RequestRefused: it has characters that no key has; the text does not show it.
    """
    if given is None:
        return None
    key = given.strip()
    if key.isascii() and key.isprintable():
        return key
    raise RequestRefused(cannot_send("the API key contains a line break, or a character that is not plain ASCII"))


_KNOWN = tuple(
    name for name in CallOptions.__struct_fields__ if name not in ("entry", "level", "api_key", "session_id", "raw")
)
_NUMBERS = ("timeout_ms", "connect_timeout_ms", "silence_ms", "max_retries", "max_retry_delay_ms", "max_tokens")
_MAPPINGS = ("headers", "sampling_params", "metadata", "thinking_budgets", "response_schema")


def _check(known: dict[str, Any]) -> None:
    for name in _NUMBERS:
        value = known.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise ValueError(f"option {name} must be a number that is not negative, not {value!r}")
    for name in _MAPPINGS:
        value = known.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise ValueError(f"option {name} must be a mapping, not {type(value).__name__}")
    retention = known.get("cache_retention", "short")
    if retention not in ("none", "short", "long"):
        raise ValueError(f"option cache_retention must be none, short or long, not {retention!r}")


def _level(model: Model, level: str) -> ThinkingLevel | None:
    used = clamp_level(model, level)
    return None if used == "off" else used


@lru_cache(maxsize=256)
def _snake(name: str) -> str:
    return name if name.islower() else re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def merged_headers(defaults: Mapping[str, str | None], model: Model, options: CallOptions) -> dict[str, str]:
    """Headers of a request with lower-case names: the model's over the defaults, the call's over both, None removes."""
    merged: dict[str, str | None] = {"content-type": "application/json", "user-agent": USER_AGENT}
    own = {} if model.headers is UNSET else model.headers
    for layer in (defaults, own, options.headers):
        merged.update({name.lower(): value for name, value in layer.items()})
    return {name: value for name, value in merged.items() if value is not None}


def sampling_of(model: Model, options: CallOptions) -> JsonObject:
    """Sampling parameters: the model's, then those of the level in use, then the call's, key by key.

    The raw entry's level is its `reasoningEffort`.
    """
    out: JsonObject = {} if model.sampling_params is UNSET else dict(model.sampling_params)
    by_level = {} if model.sampling_params_by_thinking_level is UNSET else model.sampling_params_by_thinking_level
    effort = options.raw_get("reasoningEffort") if options.is_raw else options.level
    out.update(by_level.get(effort if isinstance(effort, str) else "off", {}))
    out.update(options.sampling_params)
    return out


def has_credential(model: Model, options: CallOptions) -> bool:
    """Is there a key, or a header that takes its place?"""
    if options.api_key:
        return True
    own = {} if model.headers is UNSET else model.headers
    layers = (cast("Mapping[str, str | None]", own), options.headers)
    return any(name.lower() in AUTH_HEADERS and value for layer in layers for name, value in layer.items())
