"""A conversation and options -> one request to `POST /v1/messages`.

The body has three parts that change at different speeds: settings (per call), system prompt and tools (rarely), and
messages (one turn at a time). Messages are encoded by the shared history, which keeps what it encoded; the rest is put
together here. Source: provider specification, 4.6.
"""

from __future__ import annotations

from typing import cast

from msgspec import UNSET, Struct

from antiphon.core.model import Model
from antiphon.core.wire import JsonObject
from antiphon.providers.answer_format import anthropic_format
from antiphon.providers.copilot import is_copilot
from antiphon.providers.dialects import AnthropicDialect
from antiphon.providers.estimate import output_cap
from antiphon.providers.handoff import RewriteId, plain_id_64
from antiphon.providers.levels import is_switched_off
from antiphon.providers.options import CallOptions
from antiphon.providers.wire_json import clean

VERSION = "2023-06-01"

FINE_GRAINED_TOOLS = "fine-grained-tool-streaming-2025-05-14"
INTERLEAVED_THINKING = "interleaved-thinking-2025-05-14"
FALLBACK = "server-side-fallback-2026-07-01"
EFFORT_IN_PLACE = "mid-conversation-output-config-2026-07-01"
THINKING_BINDING = "thinking-binding-controls-2026-08-01"
INLINE_TOOLS = "inline-tools-2026-09-15"
THREADS = "message-threads-2026-08-12"

BUDGETS: dict[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
EFFORTS: dict[str, str] = {"minimal": "low", "low": "low", "medium": "medium"}
MIN_ANSWER_TOKENS = 1024


class Thinking(Struct, frozen=True):
    """How hard to think: the `thinking` member, the effort word, and the cap on the answer that goes with them.

    `marks`: the effort is told by markers between the messages, so that a change of effort leaves the prefix as it is.
    """

    member: JsonObject | None
    effort: str | None
    max_tokens: int
    interleaved: bool = False
    marks: bool = False

    @property
    def is_on(self) -> bool:
        return self.member is not None and self.member["type"] != "disabled"


def is_adaptive(dialect: AnthropicDialect) -> bool:
    """Does the server choose the amount of thinking by itself, guided by an effort?"""
    return dialect.force_adaptive_thinking or dialect.supports_mid_convo_effort


def effort_of(model: Model, options: CallOptions, dialect: AnthropicDialect) -> str | None:
    """The effort to ask for; None where thinking is off or goes by budgets."""
    if not model.reasoning or not is_adaptive(dialect):
        return None
    if options.is_raw:
        effort = options.raw_get("effort") if options.raw_get("thinkingEnabled") else None
        return effort if isinstance(effort, str) else None
    return None if options.level is None else effort_word(model, options.level)


def effort_word(model: Model, level: str) -> str:
    """The server's word for a level."""
    word = None if model.thinking_level_map is UNSET else model.thinking_level_map.get(level)
    return word if word is not None else EFFORTS.get(level, "high")


def thinking_of(model: Model, options: CallOptions, dialect: AnthropicDialect, context_tokens: int) -> Thinking:
    """What is asked of a model in the way of thinking, and the output cap."""
    effort = effort_of(model, options, dialect)
    marks = effort is not None and dialect.supports_mid_convo_effort
    if options.is_raw:
        return _raw_thinking(model, options, dialect, effort, marks=marks)
    cap = output_cap(model, options.max_tokens, context_tokens)
    if options.level is None or not model.reasoning:
        return Thinking(_no_thinking(model), None, cap)
    if is_adaptive(dialect):
        return Thinking(_adaptive("summarized", marks=marks), effort, cap, marks=marks)
    word = options.level if options.level in BUDGETS else "high"
    budget = int(options.thinking_budgets.get(word, BUDGETS[word]))
    cap = output_cap(model, min(cap + budget, model.max_tokens), context_tokens)
    budget = min(budget, max(0, cap - MIN_ANSWER_TOKENS))
    return Thinking(_budgeted(budget, "summarized"), None, cap, interleaved=True)


def _raw_thinking(
    model: Model, options: CallOptions, dialect: AnthropicDialect, effort: str | None, *, marks: bool
) -> Thinking:
    cap = model.max_tokens if options.max_tokens is None else options.max_tokens
    enabled = options.raw_get("thinkingEnabled")
    if not model.reasoning or enabled is None:
        return Thinking(None, None, cap)
    if not enabled:
        return Thinking(_no_thinking(model), None, cap)
    display = options.raw_get("thinkingDisplay") or "summarized"
    if is_adaptive(dialect):
        return Thinking(_adaptive(display, marks=marks), effort, cap, marks=marks)
    budget = options.raw_get("thinkingBudgetTokens") or BUDGETS["minimal"]
    interleaved = options.raw_get("interleavedThinking") is not False
    return Thinking(_budgeted(budget, display), None, cap, interleaved)


def _no_thinking(model: Model) -> JsonObject | None:
    return {"type": "disabled"} if model.reasoning and not is_switched_off(model, "off") else None


def _budgeted(budget: int, display: str) -> JsonObject:
    return {"type": "enabled", "budget_tokens": budget, "display": display}


def _adaptive(display: str, *, marks: bool) -> JsonObject:
    member: JsonObject = {"type": "adaptive", "display": display}
    if marks:
        member["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return member


def cache_mark(options: CallOptions, dialect: AnthropicDialect) -> JsonObject | None:
    """The mark on what should be cached; None while caching is off."""
    if not options.caching:
        return None
    if options.cache_retention == "long" and dialect.supports_long_cache_retention:
        return {"type": "ephemeral", "ttl": "1h"}
    return {"type": "ephemeral"}


def settings(model: Model, options: CallOptions, dialect: AnthropicDialect, thinking: Thinking) -> JsonObject:
    """The body without system prompt, tools, messages and thread."""
    fields: JsonObject = {"model": model.id, "max_tokens": thinking.max_tokens, "stream": True}
    if thinking.member is not None:
        fields["thinking"] = thinking.member
    if thinking.effort is not None:
        fields["output_config"] = {"effort": "low" if thinking.marks else thinking.effort}
    if options.response_schema is not None:
        output = cast("JsonObject", fields.setdefault("output_config", {}))
        output["format"] = anthropic_format(options.response_schema)
    if options.temperature is not None and dialect.supports_temperature and not thinking.is_on:
        fields["temperature"] = options.temperature
    if (choice := options.tool_choice) is not None:
        fields["tool_choice"] = {"type": choice} if isinstance(choice, str) else choice
    if isinstance(user := options.metadata.get("user_id"), str):
        fields["metadata"] = {"user_id": clean(user)}
    if fallbacks := fallback_models(dialect):
        fields["fallbacks"] = [{"model": name} for name in fallbacks]
    return fields


def fallback_models(dialect: AnthropicDialect) -> list[str]:
    """Ids of the models that may take over."""
    names = [cast("JsonObject", entry).get("model") for entry in dialect.allowed_fallback_models]
    return [name for name in names if isinstance(name, str)]


def system_blocks(prompt: str, mark: JsonObject | None) -> list[JsonObject]:
    text = clean(prompt)
    if not text:
        return []
    block: JsonObject = {"type": "text", "text": text}
    return [block if mark is None else {**block, "cache_control": mark}]


def betas(
    dialect: AnthropicDialect, thinking: Thinking, *, tools: bool, inline_tools: bool, threads: bool
) -> str | None:
    """Features that must be asked for by name."""
    names = (
        (FINE_GRAINED_TOOLS, tools and not dialect.supports_eager_tool_input_streaming),
        (INTERLEAVED_THINKING, thinking.interleaved),
        (FALLBACK, bool(fallback_models(dialect))),
        (EFFORT_IN_PLACE, thinking.marks),
        (THINKING_BINDING, thinking.marks),
        (INLINE_TOOLS, inline_tools),
        (THREADS, threads),
    )
    return ",".join(name for name, needed in names if needed) or None


def default_headers(
    model: Model, options: CallOptions, dialect: AnthropicDialect, beta: str | None
) -> dict[str, str | None]:
    """Headers that the model's and the caller's own may override."""
    headers: dict[str, str | None] = {"anthropic-version": VERSION, "anthropic-beta": beta}
    if key := options.api_key:
        headers.update({"authorization": f"Bearer {key}"} if is_copilot(model) else {"x-api-key": key})
    if dialect.send_session_affinity_headers and options.session_id and options.caching:
        headers.update(_session_header(dialect, options.session_id))
    return headers


def _session_header(dialect: AnthropicDialect, session_id: str) -> dict[str, str]:
    router = dialect.session_affinity_format == "openrouter"
    return {"x-session-id" if router else "x-session-affinity": session_id}


def tidy_betas(headers: dict[str, str]) -> dict[str, str]:
    """A caller's own list of betas, trimmed and without repetitions."""
    given = headers.get("anthropic-beta")
    if given is None:
        return headers
    names = dict.fromkeys(name.strip() for name in given.split(",") if name.strip())
    out = {**headers, "anthropic-beta": ",".join(names)}
    if not names:
        del out["anthropic-beta"]
    return out


def endpoint(model: Model) -> str:
    return f"{model.base_url.rstrip('/')}/v1/messages"


def rewriter(_model: Model) -> RewriteId:
    """What becomes of call ids that other models made."""
    return plain_id_64
