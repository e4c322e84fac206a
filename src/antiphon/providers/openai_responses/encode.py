"""A question to a model as a Responses request (pure). Source: providers specification 4.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject
from antiphon.providers.constrained import Grammar, NotConvertible
from antiphon.providers.copilot import copilot_headers, is_copilot
from antiphon.providers.dialects import OPENAI_HOST, ResponsesDialect, responses_dialect
from antiphon.providers.estimate import output_cap
from antiphon.providers.failures import RequestRefused, cannot_send
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import Frame, History, HistoryCache, opening_of
from antiphon.providers.http import HttpRequest
from antiphon.providers.levels import is_switched_off, word_for
from antiphon.providers.openai_responses.call_ids import rewriter
from antiphon.providers.openai_responses.items import Placing, ResponsesFold, configuration_update, system_role
from antiphon.providers.openai_responses.tools import encode_tools, grammars_of
from antiphon.providers.options import CallOptions, merged_headers, sampling_of
from antiphon.providers.system_text import folded_state, tool_anchor
from antiphon.providers.wire_json import clean

MAX_CACHE_KEY = 64
MIN_OUTPUT_TOKENS = 16
FIXED_EFFORT = "medium"


@dataclass(frozen=True, slots=True)
class Encoded:
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
        return _encode(request, options, cache)
    except NotConvertible as error:
        raise RequestRefused(cannot_send(str(error))) from error


def _encode(request: ModelRequest, options: CallOptions, cache: HistoryCache) -> Encoded:
    model, messages = request.model, request.messages
    flags = responses_dialect(model)
    state = folded_state(messages)
    grammars = grammars_of(state.tools, flags)
    signed_in = is_sign_in(model, options)
    effort = _effort(model, options)
    in_place_effort = effort if flags.supports_mid_convo_effort and not signed_in and model.reasoning else None
    anchor = tool_anchor(messages) if _searches(flags) else None
    placing = Placing(_changes(flags), None if anchor is None else anchor.ordinal, in_place_effort is not None)
    history = _history(cache, messages, model, flags, grammars, placing)
    cap = _cap(model, flags, options, history, signed_in)
    tools = () if placing.changes else state.tools if anchor is None else anchor.tools

    def frame() -> Frame:
        fields: JsonObject = {"model": model.id, "stream": True, "store": False, **_limits(options, cap, signed_in)}
        fields.update(_cache_fields(flags, options, signed_in))
        if tools:
            fields["tools"] = encode_tools(tools, flags, grammars)
        if options.tool_choice is not None:
            fields["tool_choice"] = options.tool_choice
        fields.update(_reasoning(model, options, effort, FIXED_EFFORT if in_place_effort else effort))
        fields.update(sampling_of(model, options))
        first = [] if flags.supports_mid_convo_system_messages else _leading(state, model, flags)
        return Frame(_headers(messages, model, flags, options), opening_of(fields, "input", first))

    framed = history.framed(state, (options, cap, copilot_headers(model, messages)), frame)
    last = [configuration_update(in_place_effort)] if in_place_effort else []
    url = f"{model.base_url.rstrip('/')}/responses"
    sent = HttpRequest(url, framed.headers, history.enclosed(framed.opening, last=last))
    return Encoded(sent, {name: grammar.argument for name, grammar in grammars.items()}, in_place_effort)


def _changes(flags: ResponsesDialect) -> bool:
    return flags.supports_mid_convo_system_messages and flags.supports_additional_tools


def _searches(flags: ResponsesDialect) -> bool:
    in_place = flags.supports_mid_convo_system_messages
    return in_place and flags.supports_tool_search and not flags.supports_additional_tools


def is_sign_in(model: Model, options: CallOptions) -> bool:
    """Is the key not an API key but a sign-in token, for which the server takes fewer fields?"""
    key = options.api_key
    return bool(key) and model.provider == "openai" and OPENAI_HOST in model.base_url and not str(key).startswith("sk-")


def _history(
    cache: HistoryCache,
    messages: Sequence[Message],
    model: Model,
    flags: ResponsesDialect,
    grammars: dict[str, Grammar],
    placing: Placing,
) -> History:
    def make() -> History:
        fold = ResponsesFold(model, flags, grammars, placing)
        return History(fold, HandOff(model, rewriter(model)), in_place=flags.supports_mid_convo_system_messages)

    return cache.history(messages, (model, grammars, placing), make)


def _cap(model: Model, flags: ResponsesDialect, options: CallOptions, history: History, signed_in: bool) -> int | None:
    """The output limit, if one is sent."""
    if not flags.supports_max_output_tokens or signed_in:
        return None
    if options.is_raw:
        return None if options.max_tokens is None else max(MIN_OUTPUT_TOKENS, options.max_tokens)
    return max(MIN_OUTPUT_TOKENS, output_cap(model, options.max_tokens, history.tokens.tokens))


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
