"""A question to a model as a Responses request (pure). Source: providers specification 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from msgspec import Struct

from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers.answer_format import responses_fields
from antiphon.providers.constrained import NotConvertible
from antiphon.providers.copilot import copilot_headers, is_copilot
from antiphon.providers.dialects import OPENAI_HOST, ResponsesDialect, responses_dialect
from antiphon.providers.estimate import output_cap
from antiphon.providers.failures import RequestRefused, cannot_send
from antiphon.providers.frames import Frame, HistoryCache
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, opening_of
from antiphon.providers.http import HttpRequest
from antiphon.providers.levels import is_switched_off, word_for
from antiphon.providers.openai_responses.call_ids import rewriter
from antiphon.providers.openai_responses.items import Placing, ResponsesFold, configuration_update, system_role
from antiphon.providers.openai_responses.tools import encode_tools, grammars_of
from antiphon.providers.options import CallOptions, merged_headers, sampling_of
from antiphon.providers.system_text import tool_anchor
from antiphon.providers.wire_json import clean

MAX_CACHE_KEY = 64
MIN_OUTPUT_TOKENS = 16
FIXED_EFFORT = "medium"


@final
class Encoded(Struct, frozen=True):
    """The request, what its grammar tools call their argument, and the level that was told in place."""

    request: HttpRequest
    custom_arguments: dict[str, str]
    provider_level: str | None


def encode(request: ModelRequest, options: CallOptions, cache: HistoryCache) -> Encoded:
    """The request.

    Raises:
        RequestRefused: a tool insists on constrained sampling that it cannot have.
    """
    try:
        history, frame = cache.framed(request, options, _Plan)
    except NotConvertible as error:
        raise RequestRefused(cannot_send(str(error))) from error
    body = history.enclosed(frame.opening, last=frame.last)
    custom_arguments, level = frame.more
    return Encoded(HttpRequest(frame.url, frame.headers, body), custom_arguments, level)


@final
class _Plan:
    """How a conversation is put into requests."""

    def __init__(self, request: ModelRequest, options: CallOptions, state: SystemState) -> None:
        self._model = model = request.model
        self._messages = request.messages
        self._options = options
        self._state = state
        self._flags = flags = responses_dialect(model)
        self._grammars = grammars_of(state.tools, flags)
        self._signed_in = is_sign_in(model, options)
        self._effort = effort = _effort(model, options)
        in_place = flags.supports_mid_convo_effort and not self._signed_in and model.reasoning
        self._in_place_effort = effort if in_place else None
        self._anchor = tool_anchor(request.messages) if _searches(flags) else None
        after = None if self._anchor is None else self._anchor.ordinal
        self._placing = Placing(_changes(flags), after, self._in_place_effort is not None)

    @property
    def key(self) -> object:
        return (self._model, self._grammars, self._placing)

    def history(self) -> History:
        model, flags = self._model, self._flags
        fold = ResponsesFold(model, flags, self._grammars, self._placing)
        return History(fold, HandOff(model, rewriter(model)), in_place=flags.supports_mid_convo_system_messages)

    def frame(self, history: History) -> Frame:
        model, options, flags = self._model, self._options, self._flags
        told = self._in_place_effort
        return Frame(
            url=f"{model.base_url.rstrip('/')}/responses",
            headers=_headers(self._messages, model, flags, options),
            opening=self._opening(history),
            last=[configuration_update(told)] if told else [],
            more=({name: grammar.argument for name, grammar in self._grammars.items()}, told),
            steady=not is_copilot(model),
        )

    def _opening(self, history: History) -> bytes:
        model, options, flags, signed_in = self._model, self._options, self._flags, self._signed_in
        cap = _cap(model, flags, options, history, signed_in)
        fields: JsonObject = {"model": model.id, "stream": True, "store": False, **_limits(options, cap, signed_in)}
        fields.update(_cache_fields(flags, options, signed_in))
        tools = self._state.tools if self._anchor is None else self._anchor.tools
        if tools and not self._placing.changes:
            fields["tools"] = encode_tools(tools, flags, self._grammars)
        if options.tool_choice is not None:
            fields["tool_choice"] = options.tool_choice
        fields.update(responses_fields(options.response_schema))
        effort = self._effort
        fields.update(_reasoning(model, options, effort, FIXED_EFFORT if self._in_place_effort else effort))
        fields.update(sampling_of(model, options))
        first = [] if flags.supports_mid_convo_system_messages else _leading(self._state, model, flags)
        return opening_of(fields, "input", first)


def _changes(flags: ResponsesDialect) -> bool:
    return flags.supports_mid_convo_system_messages and flags.supports_additional_tools


def _searches(flags: ResponsesDialect) -> bool:
    in_place = flags.supports_mid_convo_system_messages
    return in_place and flags.supports_tool_search and not flags.supports_additional_tools


def is_sign_in(model: Model, options: CallOptions) -> bool:
    """Is the key not an API key but a sign-in token, for which the server takes fewer fields?"""
    key = options.api_key
    return bool(key) and model.provider == "openai" and OPENAI_HOST in model.base_url and not str(key).startswith("sk-")


def _cap(model: Model, flags: ResponsesDialect, options: CallOptions, history: History, signed_in: bool) -> int | None:
    """The output limit, if one is sent."""
    if not flags.supports_max_output_tokens or signed_in:
        return None
    if options.is_raw:
        return None if options.max_tokens is None else max(MIN_OUTPUT_TOKENS, options.max_tokens)
    return max(MIN_OUTPUT_TOKENS, output_cap(model, options.max_tokens, history.tokens))


def _limits(options: CallOptions, cap: int | None, signed_in: bool) -> JsonObject:
    fields: JsonObject = {}
    if cap is not None:
        fields["max_output_tokens"] = cap
    if options.temperature is not None and not signed_in:
        fields["temperature"] = options.temperature
    tier = options.raw_get("serviceTier")
    if tier is not None:
        fields["service_tier"] = tier
    return fields


def _cache_fields(flags: ResponsesDialect, options: CallOptions, signed_in: bool) -> JsonObject:
    fields: JsonObject = {}
    if options.session_id and options.caching and flags.prompt_cache_key_mode != "disabled":
        fields["prompt_cache_key"] = clean(options.session_id)[:MAX_CACHE_KEY]
    if signed_in:
        return fields
    keeps_long = options.cache_retention == "long" and flags.supports_long_cache_retention
    if flags.supports_explicit_prompt_cache_mode:
        if not options.caching:
            fields["prompt_cache_options"] = {"mode": "explicit"}
        elif options.cache_retention == "long":
            fields["prompt_cache_options"] = {"ttl": "30m"}
    elif keeps_long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _effort(model: Model, options: CallOptions) -> str | None:
    """The word for the level in use; None for no level."""
    if not options.is_raw:
        return None if options.level is None else word_for(model, options.level)
    effort = options.raw_get("reasoningEffort")
    return word_for(model, effort) if isinstance(effort, str) and effort not in ("off", "") else None


def _reasoning(model: Model, options: CallOptions, effort: str | None, told: str | None) -> JsonObject:
    """The `reasoning` field: `told` is the effort it carries while `effort` is the one in use."""
    if not model.reasoning:
        return {}
    style = options.raw_get("reasoningSummary")
    encrypted: JsonObject = {"include": ["reasoning.encrypted_content"]}
    if effort is not None or style is not None:
        return {"reasoning": {"effort": told or FIXED_EFFORT, "summary": style or "auto"}, **encrypted}
    fields: JsonObject = {}
    if not is_switched_off(model, "off") and not is_copilot(model):
        word = word_for(model, "off")
        fields["reasoning"] = {"effort": "none" if word == "off" else word}
    return {**fields, **encrypted} if model.provider == "xai" else fields


def _leading(state: SystemState, model: Model, flags: ResponsesDialect) -> list[JsonObject]:
    text = clean(state.prompt)
    return [{"role": system_role(model, flags), "content": text}] if text else []


def _headers(
    messages: Sequence[Message], model: Model, flags: ResponsesDialect, options: CallOptions
) -> dict[str, str]:
    defaults: dict[str, str | None] = {"accept": "text/event-stream"}
    if options.api_key:
        defaults["authorization"] = f"Bearer {options.api_key}"
    if options.session_id and options.caching:
        names = _SESSION_HEADERS[flags.session_affinity_format]
        defaults.update(dict.fromkeys(names, options.session_id))
    defaults.update(copilot_headers(model, messages))
    return merged_headers(defaults, model, options)


_SESSION_HEADERS = {
    "openai": ("session-id", "x-client-request-id"),
    "openai-nosession": ("x-client-request-id",),
    "openrouter": ("x-session-id",),
}

__all__ = ["Encoded", "encode", "rewriter"]
