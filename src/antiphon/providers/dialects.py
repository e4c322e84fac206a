"""How servers of one protocol differ, as data: one table by provider name or address, and one value of switches.

What a model's `compat` says wins over the table, switch by switch. Nothing else in this floor looks at the name or
address of a server, except where a price or an error text is a server's own.

Source: providers specification 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Struct, field, structs

from antiphon.core.model import Model
from antiphon.core.wire import JsonObject

SessionFormat: TypeAlias = Literal["openai", "openai-nosession", "openrouter"]
CacheKeyMode: TypeAlias = Literal["auto", "enabled", "disabled"]

OPENAI_HOST = "api.openai.com"
ANTHROPIC_HOST = "api.anthropic.com"


class ChatDialect(Struct, frozen=True, kw_only=True):
    """Switches of a Chat Completions server. The defaults are those of an unknown server."""

    supports_store: bool = True
    supports_developer_role: bool = False
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_finish_reason: bool = True
    max_tokens_field: str = "max_completion_tokens"
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_non_null_assistant_content: bool = False
    requires_tools_with_tool_history: bool = False
    requires_thinking_as_text: bool = False
    requires_reasoning_content_on_assistant_messages: bool = False
    thinking_format: str = "openai"
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    chat_template_args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    thinking_token_budget_field: str | None = None
    supports_thinking_token_budget: bool = False
    supports_strict_mode: bool = False
    supports_open_ai_grammar_tools: bool = False
    supports_mid_convo_system_messages: bool = False
    supports_mid_convo_tool_additions: bool = False
    cache_control_format: str | None = None
    send_session_affinity_headers: bool = False
    session_affinity_format: SessionFormat = "openai"
    prompt_cache_key_mode: CacheKeyMode = "auto"
    supports_long_cache_retention: bool = True
    open_router_routing: JsonObject | None = None
    vercel_gateway_routing: JsonObject | None = None
    vllm_priority: int | None = None
    zai_tool_stream: bool = False
    emulated_tools: bool | str = False

    @property
    def budget_field(self) -> str | None:
        """Name of a top-level field for the thinking budget."""
        if self.thinking_token_budget_field:
            return self.thinking_token_budget_field
        return "thinking_token_budget" if self.supports_thinking_token_budget else None


class ResponsesDialect(Struct, frozen=True, kw_only=True):
    """Switches of a Responses server."""

    supports_developer_role: bool = True
    supports_mid_convo_system_messages: bool = False
    supports_strict_mode: bool = False
    supports_open_ai_grammar_tools: bool = False
    supports_additional_tools: bool = False
    supports_tool_search: bool = False
    supports_explicit_prompt_cache_mode: bool = False
    supports_mid_convo_effort: bool = False
    supports_long_cache_retention: bool = True
    supports_max_output_tokens: bool = True
    session_affinity_format: SessionFormat = "openai"
    prompt_cache_key_mode: CacheKeyMode = "auto"


class AnthropicDialect(Struct, frozen=True, kw_only=True):
    """Switches of an Anthropic Messages server."""

    supports_eager_tool_input_streaming: bool = True
    supports_long_cache_retention: bool = True
    supports_cache_control_on_tools: bool = True
    supports_temperature: bool = True
    force_adaptive_thinking: bool = False
    allow_empty_signature: bool = False
    supports_strict_tools: bool = False
    supports_mid_convo_effort: bool = False
    supports_mid_convo_system_messages: bool = False
    supports_mid_convo_tool_changes: bool = False
    send_session_affinity_headers: bool = False
    session_affinity_format: SessionFormat = "openai"
    supports_message_threads: bool = False
    allowed_fallback_models: tuple[Any, ...] = ()


class Server(Struct, frozen=True):
    """A kind of server: known by provider name or by a part of its address, and how its chat dialect differs."""

    name: str
    providers: tuple[str, ...]
    addresses: tuple[str, ...]
    chat: Mapping[str, Any] = field(default_factory=dict[str, Any])


_NO_STORE = {"supports_store": False}
_NO_EFFORT = {"supports_reasoning_effort": False}
_OLD_CAP = {"max_tokens_field": "max_tokens"}
_SHORT_CACHE = {"supports_long_cache_retention": False}

SERVERS: tuple[Server, ...] = (
    Server("OpenAI", ("openai",), (OPENAI_HOST,), {"supports_developer_role": True}),
    Server(
        "DeepSeek",
        ("deepseek",),
        ("deepseek.com",),
        _NO_STORE
        | _OLD_CAP
        | {"thinking_format": "deepseek", "requires_reasoning_content_on_assistant_messages": True},
    ),
    Server("xAI", ("xai",), ("api.x.ai",), _NO_STORE | _NO_EFFORT),
    Server(
        "Z.ai",
        ("zai", "zai-coding-cn"),
        ("api.z.ai", "open.bigmodel.cn"),
        _NO_STORE | _NO_EFFORT | _OLD_CAP | {"thinking_format": "zai"},
    ),
    Server(
        "Together",
        ("together",),
        ("api.together.ai", "api.together.xyz"),
        _NO_STORE | _NO_EFFORT | _OLD_CAP | _SHORT_CACHE | {"thinking_format": "together"},
    ),
    Server("Moonshot", ("moonshotai", "moonshotai-cn"), ("api.moonshot.",), _NO_STORE | _NO_EFFORT | _OLD_CAP),
    Server(
        "OpenRouter",
        ("openrouter",),
        ("openrouter.ai",),
        {
            "thinking_format": "openrouter",
            "send_session_affinity_headers": True,
            "session_affinity_format": "openrouter",
        },
    ),
    Server("Cerebras", ("cerebras",), ("cerebras.ai",), _NO_STORE),
    Server("NVIDIA", ("nvidia",), ("integrate.api.nvidia.com",), _NO_STORE | _NO_EFFORT | _OLD_CAP | _SHORT_CACHE),
    Server("Chutes", (), ("chutes.ai",), _NO_STORE | _OLD_CAP),
    Server("OpenCode", ("opencode",), ("opencode.ai",), _NO_STORE),
    Server("Cloudflare Workers AI", ("cloudflare-workers-ai",), ("api.cloudflare.com",), _NO_STORE | _SHORT_CACHE),
    Server(
        "Cloudflare AI Gateway",
        ("cloudflare-ai-gateway",),
        ("gateway.ai.cloudflare.com",),
        _NO_STORE | _NO_EFFORT | _OLD_CAP | _SHORT_CACHE,
    ),
    Server(
        "Ant Ling",
        ("ant-ling",),
        ("api.ant-ling.com",),
        _NO_STORE | _NO_EFFORT | _OLD_CAP | _SHORT_CACHE | {"thinking_format": "ant-ling"},
    ),
)


def is_server(model: Model, name: str) -> bool:
    """Is the model served by this kind of server?"""
    return any(server.name == name and _matches(server, model) for server in SERVERS)


def is_openrouter(model: Model) -> bool:
    return is_server(model, "OpenRouter")


def _matches(server: Server, model: Model) -> bool:
    return model.provider in server.providers or any(part in model.base_url for part in server.addresses)


D = TypeVar("D", ChatDialect, ResponsesDialect, AnthropicDialect)

_known: dict[int, tuple[Model, ChatDialect | ResponsesDialect | AnthropicDialect]] = {}
_KNOWN_LIMIT = 256


def _remembered(model: Model, make: Any) -> Any:
    """The dialect of a model, worked out once per model value."""
    known = _known.get(id(model))
    if known is not None and known[0] is model:
        return known[1]
    if len(_known) >= _KNOWN_LIMIT:
        _known.clear()
    dialect = make(model)
    _known[id(model)] = (model, dialect)
    return dialect


def chat_dialect(model: Model) -> ChatDialect:
    """Switches of a Chat Completions model."""
    dialect: ChatDialect = _remembered(model, _make_chat)
    return dialect


def _make_chat(model: Model) -> ChatDialect:
    differs: dict[str, Any] = {}
    for server in SERVERS:
        if _matches(server, model):
            differs.update(server.chat)
    if is_openrouter(model) and model.id.startswith("anthropic/"):
        differs["cache_control_format"] = "anthropic"
    return _with_compat(ChatDialect(**differs), model)


def responses_dialect(model: Model) -> ResponsesDialect:
    """Switches of a Responses model."""
    dialect: ResponsesDialect = _remembered(model, _make_responses)
    return dialect


def _make_responses(model: Model) -> ResponsesDialect:
    session: SessionFormat = "openrouter" if is_openrouter(model) else "openai"
    return _with_compat(ResponsesDialect(session_affinity_format=session), model)


def anthropic_dialect(model: Model) -> AnthropicDialect:
    """Switches of an Anthropic Messages model."""
    dialect: AnthropicDialect = _remembered(model, _make_anthropic)
    return dialect


def _make_anthropic(model: Model) -> AnthropicDialect:
    routed = is_openrouter(model)
    dialect = AnthropicDialect(
        send_session_affinity_headers=routed,
        session_affinity_format="openrouter" if routed else "openai",
        supports_message_threads=ANTHROPIC_HOST in model.base_url,
    )
    return _with_compat(dialect, model)


def _with_compat(dialect: D, model: Model) -> D:
    """The dialect with what the model itself says. Unknown switches and null mean nothing."""
    if model.compat is UNSET:
        return dialect
    names = {camel(item.name): item.name for item in structs.fields(dialect)}
    given = {names[name]: value for name, value in model.compat.items() if name in names and value is not None}
    return structs.replace(dialect, **given)


_SPELLED = {"supports_open_ai_grammar_tools": "supportsOpenAIGrammarTools"}


def camel(name: str) -> str:
    """The wire name of a switch."""
    head, *rest = name.split("_")
    return _SPELLED.get(name) or head + "".join(part.title() for part in rest)


def session_headers(format_: SessionFormat, session_id: str) -> dict[str, str]:
    """Headers by which a Chat Completions or Anthropic router keeps a session on one machine."""
    if format_ == "openrouter":
        return {"x-session-id": session_id}
    headers = {"x-client-request-id": session_id, "x-session-affinity": session_id}
    return headers if format_ == "openai-nosession" else {"session_id": session_id, **headers}
