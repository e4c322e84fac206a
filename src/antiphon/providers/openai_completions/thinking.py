"""How a thinking level is spelled on each kind of Chat Completions server.

Every format is a function from a `Thought` to body fields. Source: providers specification 11.1, second table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from antiphon.core.model import Model, ThinkingLevel
from antiphon.core.wire import JsonObject
from antiphon.providers.dialects import ChatDialect
from antiphon.providers.levels import is_switched_off, word_for

DEFAULT_BUDGETS: Final[Mapping[str, int]] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
ANSWER_ROOM_TOKENS: Final = 1024


class Thought(Struct, frozen=True):
    """How hard a reasoning model should think. `level` None: not at all."""

    model: Model
    flags: ChatDialect
    level: ThinkingLevel | None
    budgets: Mapping[str, int]

    @property
    def word(self) -> str:
        """What is sent for the level."""
        return word_for(self.model, self.level or "off")

    @property
    def off_word(self) -> str | None:
        """What is sent for `off`, if the model has a word for it."""
        words = self.model.thinking_level_map
        return words.get("off") if words else None

    @property
    def may_say_off(self) -> bool:
        return not is_switched_off(self.model, "off")

    def effort(self) -> JsonObject:
        """`reasoning_effort` for the level, where the server takes it and the level has a word."""
        if self.level is None or not self.flags.supports_reasoning_effort or is_switched_off(self.model, self.level):
            return {}
        return {"reasoning_effort": self.word}

    def off_effort(self) -> JsonObject:
        if self.off_word is None or not self.flags.supports_reasoning_effort:
            return {}
        return {"reasoning_effort": self.off_word}

    def budget(self) -> int:
        """Tokens to think with. Levels above `high` have the budget of `high`."""
        asked = self.level or "high"
        known = asked if asked in DEFAULT_BUDGETS else "high"
        return self.budgets.get(asked, self.budgets.get(known, DEFAULT_BUDGETS[known]))


def _openai(t: Thought) -> JsonObject:
    return t.effort() if t.level else t.off_effort()


def _openrouter(t: Thought) -> JsonObject:
    if t.level:
        return {"reasoning": {"effort": t.word}}
    return {"reasoning": {"effort": t.off_word or "none"}} if t.may_say_off else {}


def _deepseek(t: Thought) -> JsonObject:
    if t.level:
        return {"thinking": {"type": "enabled"}, **t.effort()}
    return {"thinking": {"type": "disabled"}} if t.may_say_off else {}


def _zai(t: Thought) -> JsonObject:
    if t.level:
        return {"thinking": {"type": "enabled", "clear_thinking": False}, **t.effort()}
    return {"thinking": {"type": "disabled"}}


def _together(t: Thought) -> JsonObject:
    return {"reasoning": {"enabled": t.level is not None}, **t.effort()}


def _qwen(t: Thought) -> JsonObject:
    return {"enable_thinking": t.level is not None, **t.effort()}


def _qwen_chat_template(t: Thought) -> JsonObject:
    return {"chat_template_kwargs": {"enable_thinking": t.level is not None, "preserve_thinking": True}}


def _chat_template(t: Thought) -> JsonObject:
    return {"chat_template_kwargs": _filled(t.flags.chat_template_kwargs, t)}


def _baseten(t: Thought) -> JsonObject:
    return {"chat_template_args": _filled(t.flags.chat_template_args, t), **_openai(t)}


def _string_thinking(t: Thought) -> JsonObject:
    if t.level:
        return {"thinking": t.word}
    return {"thinking": t.off_word or "none"} if t.may_say_off else {}


def _ant_ling(t: Thought) -> JsonObject:
    words = t.model.thinking_level_map
    if t.level and words and words.get(t.level):
        return {"reasoning": {"effort": t.word}}
    return _openai(t)


FORMATS: Final[Mapping[str, Callable[[Thought], JsonObject]]] = {
    "openai": _openai,
    "openrouter": _openrouter,
    "deepseek": _deepseek,
    "zai": _zai,
    "together": _together,
    "qwen": _qwen,
    "qwen-chat-template": _qwen_chat_template,
    "chat-template": _chat_template,
    "baseten": _baseten,
    "string-thinking": _string_thinking,
    "ant-ling": _ant_ling,
}


def _filled(template: Mapping[str, Any], t: Thought) -> JsonObject:
    """The template with its variables filled in; a variable without a value is left out."""
    out: JsonObject = {}
    for name, value in template.items():
        if not isinstance(value, dict) or "$var" not in value:
            out[name] = value
            continue
        variable = cast("JsonObject", value)
        if t.level is None and variable.get("omitWhenOff"):
            continue
        filled = _variable(variable["$var"], t)
        if filled is not None:
            out[name] = filled
    return out


def _variable(name: object, t: Thought) -> JsonObject | str | int | bool | None:
    if name == "thinking.enabled":
        return t.level is not None
    if name == "thinking.effort":
        return t.word if t.level else t.off_word
    if name == "thinking.budget":
        return t.budget() if t.level else None
    return None


def thinking_fields(t: Thought, cap: int | None) -> JsonObject:
    """Body fields for the level. `cap`: the output limit of the request, of which the answer keeps its room."""
    if not t.model.reasoning:
        return {}
    fields = dict(FORMATS.get(t.flags.thinking_format, _openai)(t))
    name = t.flags.budget_field
    if name is not None and t.level is not None:
        budget = t.budget() if cap is None else min(t.budget(), cap - ANSWER_ROOM_TOKENS)
        if budget > 0:
            fields[name] = budget
    return fields
