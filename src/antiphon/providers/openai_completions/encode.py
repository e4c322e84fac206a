"""A question to a model as a Chat Completions request (pure). Source: providers specification 4.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast, final

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.ports import ModelRequest
from antiphon.core.system_state import SystemState
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers.answer_format import chat_fields
from antiphon.providers.constrained import Grammar, NotConvertible
from antiphon.providers.copilot import copilot_headers, is_copilot
from antiphon.providers.dialects import OPENAI_HOST, ChatDialect, chat_dialect, session_headers
from antiphon.providers.estimate import output_cap
from antiphon.providers.failures import RequestRefused, cannot_send
from antiphon.providers.frames import Frame, HistoryCache
from antiphon.providers.handoff import HandOff
from antiphon.providers.history import History, opening_of
from antiphon.providers.http import HttpRequest
from antiphon.providers.openai_completions.messages import ChatFold, cache_marker, marked_text, rewriter, system_role
from antiphon.providers.openai_completions.thinking import Thought, thinking_fields
from antiphon.providers.openai_completions.tools import encode_tools, grammars_of
from antiphon.providers.options import CallOptions, merged_headers, sampling_of
from antiphon.providers.system_text import tool_anchor
from antiphon.providers.wire_json import clean

MAX_CACHE_KEY = 64


def encode(request: ModelRequest, options: CallOptions, cache: HistoryCache) -> tuple[HttpRequest, Mapping[str, str]]:
    """The request, and for each grammar tool the name of its single argument.

    Raises:
        RequestRefused: a tool insists on constrained sampling that it cannot have.
    """
    try:
        history, frame = cache.framed(request, options, _Plan)
    except NotConvertible as error:
        raise RequestRefused(cannot_send(str(error))) from error
    return HttpRequest(frame.url, frame.headers, history.enclosed(frame.opening, frame.mark)), frame.more


@final
class _Plan:
    """How a conversation is put into requests."""

    def __init__(self, request: ModelRequest, options: CallOptions, state: SystemState) -> None:
        self._model = request.model
        self._messages = request.messages
        self._options = options
        self._state = state
        self._flags = flags = chat_dialect(request.model)
        self._grammars = grammars_of(state.tools, flags.supports_open_ai_grammar_tools)
        self._anchor = tool_anchor(request.messages) if _adds_in_place(flags) else None
        self._after = None if self._anchor is None else self._anchor.ordinal
        self._marker = _marker(flags, options)

    @property
    def key(self) -> object:
        return (self._model, self._grammars, self._after, self._marker)

    def history(self) -> History:
        model, flags = self._model, self._flags
        fold = ChatFold(model, flags, self._grammars, self._after, self._marker)
        return History(fold, HandOff(model, rewriter(model)), in_place=flags.supports_mid_convo_system_messages)

    def frame(self, history: History) -> Frame:
        model, options, flags, messages = self._model, self._options, self._flags, self._messages
        cap = _cap(model, options, history)
        marker = self._marker
        tools = self._state.tools if self._anchor is None else self._anchor.tools
        fields = base_fields(model, flags, options, cap)
        if tools or (flags.requires_tools_with_tool_history and _has_tool_history(messages)):
            fields["tools"] = _tools(tools, flags, self._grammars, marker)
        fields.update(_rest(model, flags, options, cap, has_tools=bool(tools)))
        first = [] if flags.supports_mid_convo_system_messages else _leading(self._state, model, flags, marker)
        return Frame(
            url=f"{model.base_url.rstrip('/')}/chat/completions",
            headers=request_headers(messages, model, flags, options),
            opening=opening_of(fields, "messages", first),
            mark=None if marker is None else partial(cache_marker, marker=marker),
            more={name: grammar.argument for name, grammar in self._grammars.items()},
            steady=not flags.requires_tools_with_tool_history and not is_copilot(model),
        )


def _adds_in_place(flags: ChatDialect) -> bool:
    return flags.supports_mid_convo_system_messages and flags.supports_mid_convo_tool_additions


def _cap(model: Model, options: CallOptions, history: History) -> int | None:
    """The output limit. The raw entry sends one only if it is asked to."""
    if options.is_raw:
        return options.max_tokens
    return output_cap(model, options.max_tokens, history.tokens)


def thinking_level(model: Model, options: CallOptions) -> ThinkingLevel | None:
    if not options.is_raw:
        return options.level
    effort = options.raw_get("reasoningEffort")
    return cast("ThinkingLevel", effort) if isinstance(effort, str) and effort != "off" else None


def base_fields(model: Model, flags: ChatDialect, options: CallOptions, cap: int | None) -> JsonObject:
    fields: JsonObject = {"model": model.id, "stream": True}
    if flags.supports_usage_in_streaming:
        fields["stream_options"] = {"include_usage": True}
    if flags.supports_store:
        fields["store"] = False
    fields.update(_cache_fields(model, flags, options))
    if cap is not None:
        fields[flags.max_tokens_field] = cap
    if options.temperature is not None:
        fields["temperature"] = options.temperature
    if flags.vllm_priority is not None:
        fields["priority"] = flags.vllm_priority
    if flags.open_router_routing:
        fields["provider"] = flags.open_router_routing
    if flags.vercel_gateway_routing:
        wanted = {name: flags.vercel_gateway_routing.get(name) for name in ("only", "order")}
        gateway = {name: value for name, value in wanted.items() if value}
        if gateway:
            fields["providerOptions"] = {"gateway": gateway}
    return fields


def _cache_fields(model: Model, flags: ChatDialect, options: CallOptions) -> JsonObject:
    fields: JsonObject = {}
    keeps_long = options.cache_retention == "long" and flags.supports_long_cache_retention
    mode = flags.prompt_cache_key_mode
    wants_key = mode == "enabled" or (mode == "auto" and (OPENAI_HOST in model.base_url or keeps_long))
    if options.session_id and options.caching and wants_key:
        fields["prompt_cache_key"] = clean(options.session_id)[:MAX_CACHE_KEY]
    if keeps_long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _rest(model: Model, flags: ChatDialect, options: CallOptions, cap: int | None, *, has_tools: bool) -> JsonObject:
    """Tool choice, thinking, and what lies over everything."""
    fields: JsonObject = {}
    if has_tools and flags.zai_tool_stream:
        fields["tool_stream"] = True
    if options.tool_choice is not None:
        fields["tool_choice"] = options.tool_choice
    fields.update(chat_fields(options.response_schema))
    thought = Thought(model, flags, thinking_level(model, options), options.thinking_budgets)
    fields.update(thinking_fields(thought, cap))
    fields.update(sampling_of(model, options))
    return fields


def _tools(
    tools: Sequence[ToolDeclaration],
    flags: ChatDialect,
    grammars: dict[str, Grammar],
    marker: JsonObject | None,
) -> list[JsonObject]:
    """The tool list; a cache marker goes on the last one."""
    encoded = encode_tools(tools, flags, grammars)
    if encoded and marker is not None:
        encoded[-1] = {**encoded[-1], "cache_control": marker}
    return encoded


def _has_tool_history(messages: Sequence[Message]) -> bool:
    return any(
        type(message) is ToolResultMessage
        or (type(message) is AssistantMessage and any(block.type == "toolCall" for block in message.content))
        for message in messages
    )


def _marker(flags: ChatDialect, options: CallOptions) -> JsonObject | None:
    """The cache marker of Claude behind a router."""
    if flags.cache_control_format != "anthropic" or not options.caching:
        return None
    if options.cache_retention == "long" and flags.supports_long_cache_retention:
        return {"type": "ephemeral", "ttl": "1h"}
    return {"type": "ephemeral"}


def _leading(state: SystemState, model: Model, flags: ChatDialect, marker: JsonObject | None) -> list[JsonObject]:
    text = clean(state.prompt)
    if not text:
        return []
    content: JsonValue = text
    if marker is not None:
        content = marked_text(text, marker)
    return [{"role": system_role(model, flags), "content": content}]


def request_headers(
    messages: Sequence[Message], model: Model, flags: ChatDialect, options: CallOptions
) -> dict[str, str]:
    defaults: dict[str, str | None] = {"accept": "text/event-stream"}
    if options.api_key:
        defaults["authorization"] = f"Bearer {options.api_key}"
    if flags.send_session_affinity_headers and options.session_id and options.caching:
        defaults.update(session_headers(flags.session_affinity_format, options.session_id))
    defaults.update(copilot_headers(model, messages))
    return merged_headers(defaults, model, options)
