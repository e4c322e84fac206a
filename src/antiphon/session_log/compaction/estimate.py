"""How many tokens a context has: what the provider said, and estimates for what it has not yet seen.

A length is a number of UTF-16 units, as the reference counts. Four units are a token; an image counts 4800 units.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast, final

import msgspec
from msgspec import UNSET, Struct

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.json_numbers import number_text
from antiphon.core.messages import AssistantMessage, HostMessage, Message, SystemMessage
from antiphon.core.system_state import SystemState
from antiphon.core.usage import total_tokens
from antiphon.core.wire import JsonValue, to_wire
from antiphon.session_log.projection import Projected

UNITS_PER_TOKEN = 4
IMAGE_UNITS = 4_800


@final
class ContextTokens(Struct, frozen=True, kw_only=True, gc=False):
    """`tokens` = reported `usage_tokens` + estimated `trailing_tokens`. `last_usage_index`: whose usage it is."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def units(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def stringify(value: JsonValue) -> str:
    """Compact JSON as JavaScript writes it: non-ASCII kept, numbers in their shortest form."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bool() | None:
            return json.dumps(value)
        case int() | float():
            return number_text(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "{" + ",".join([f"{stringify(key)}:{stringify(item)}" for key, item in items]) + "}"
        case _:
            return "[" + ",".join([stringify(item) for item in value]) + "]"


def estimated_tokens(message: Message) -> int:
    """Tokens of one message by its length; 0 for roles we do not know."""
    return -(-message_units(message) // UNITS_PER_TOKEN)


def message_units(message: Message) -> int:
    """What of a message counts, in UTF-16 units."""
    if type(message) is SystemMessage:
        return _system_units(message)
    if type(message) is HostMessage:
        return _host_units(message)
    return content_units(message.content)


def content_units(content: str | Content) -> int:
    """Texts, thinking, names and arguments of calls, and a fixed amount for each image."""
    if isinstance(content, str):
        return units(content)
    count = 0
    for block in content:
        match block:
            case Text(text=text) | Thinking(thinking=text):
                count += units(text)
            case ToolCall(name=name, arguments=arguments):
                count += units(name) + units(stringify(arguments))
            case Image():
                count += IMAGE_UNITS
            case _:
                pass
    return count


def _system_units(message: SystemMessage) -> int:
    count = content_units(message.content)
    if message.sections is not UNSET:
        count += sum(units(text) for text in message.sections.values() if text)
    if message.tools_added is not UNSET and message.tools_added:
        count += units(stringify([to_wire(tool) for tool in message.tools_added]))
    return count


def _host_units(message: HostMessage) -> int:
    data = message.data
    match message.role:
        case "custom":
            return _wire_content_units(data.get("content"))
        case "bashExecution":
            return units(str(data.get("command") or "")) + units(str(data.get("output") or ""))
        case "branchSummary" | "compactionSummary":
            return units(str(data.get("summary") or ""))
        case _:
            return 0


def _wire_content_units(content: JsonValue) -> int:
    if isinstance(content, str):
        return units(content)
    count = 0
    for block in cast("list[Any]", content or ()):
        match block:
            case {"type": "text", "text": str(text)}:
                count += units(text)
            case {"type": "image"}:
                count += IMAGE_UNITS
            case _:
                pass
    return count


def has_usage(message: Message) -> bool:
    """Is this an answer whose reported usage says how large the context was?"""
    return (
        type(message) is AssistantMessage
        and message.stop_reason not in ("error", "aborted")
        and total_tokens(message.usage) > 0
    )


def context_tokens(messages: Sequence[Message], *, trusted_from: int = 0) -> ContextTokens:
    """Usage of the last answer that reports one, plus estimates of what follows; without one, estimates of all.

    Usage before the message number `trusted_from` is not believed.
    """
    trailing = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if index >= trusted_from and has_usage(message):
            used = total_tokens(cast("AssistantMessage", message).usage)
            return ContextTokens(
                tokens=used + trailing, usage_tokens=used, trailing_tokens=trailing, last_usage_index=index
            )
        trailing += estimated_tokens(message)
    return ContextTokens(tokens=trailing, usage_tokens=0, trailing_tokens=trailing, last_usage_index=None)


def projected_tokens(view: Projected) -> ContextTokens:
    """Tokens of a projection.

    Usage from before the last edit or compaction is not believed, since the context has changed; then prompt and tools
    count once, as they stand.
    """
    before = sum(len(item.messages) for item in view.items[: view.trusted_from])
    messages = [message for item in view.items for message in item.messages]
    found = context_tokens(messages, trusted_from=before)
    if found.last_usage_index is not None:
        return found
    system = replayed_system(messages)
    tokens = sum(estimated_tokens(message) for message in messages if type(message) is not SystemMessage)
    tokens += 0 if system is None else estimated_tokens(system)
    return msgspec.structs.replace(found, tokens=tokens, trailing_tokens=tokens)


def replayed_system(messages: Iterable[Message]) -> SystemMessage | None:
    """Prompt and tools in force, as one message."""
    state = SystemState()
    for message in messages:
        if type(message) is SystemMessage:
            state = state.apply(message)
    return state.as_message()
