"""How many tokens a context has: what the provider said, and estimates for what it has not yet seen.

A length is a number of UTF-16 units, as the reference counts. Four units are a token; an image counts 4800 units.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, cast, final

from msgspec import UNSET, Struct

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.json_numbers import json_text
from antiphon.core.messages import AssistantMessage, HostMessage, Message, SystemMessage
from antiphon.core.usage import total_tokens
from antiphon.core.wire import JsonValue, to_wire
from antiphon.session_log.projection import Contribution, Projected
from antiphon.session_log.projection import has_usage as has_usage

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
                count += units(name) + units(json_text(arguments))
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
        count += units(json_text([to_wire(tool) for tool in message.tools_added]))
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


@final
class RunningSum:
    """The estimate of a context that grows, without looking at the same entry twice. Prompts are left out.

    What an edit changes is counted again; another branch is counted anew.
    """

    __slots__ = ("_changes", "_each", "_items", "_tokens")

    def __init__(self) -> None:
        self._begin(())

    def _begin(self, items: Sequence[Contribution]) -> None:
        self._items = items
        self._each = array("q")
        self._changes = self._tokens = 0

    def of(self, view: Projected) -> int:
        """Estimated tokens of all messages that are no prompts."""
        items, each = view.items, self._each
        if items is not self._items:
            self._begin(items)
            each = self._each
        for at in range(len(each), len(items)):
            each.append(_without_prompts(items[at]))
            self._tokens += each[at]
        for place in view.changed[self._changes :]:
            self._tokens += _without_prompts(items[place]) - each[place]
            each[place] = _without_prompts(items[place])
        self._changes = len(view.changed)
        return self._tokens


def _without_prompts(item: Contribution) -> int:
    return sum([estimated_tokens(message) for message in item.messages if type(message) is not SystemMessage])


def projected_tokens(view: Projected, known: RunningSum | None = None) -> ContextTokens:
    """Tokens of a projection. `known`: what was counted before, to be kept by who asks after every turn.

    Usage from before the last edit or compaction is not believed (`view.usage_at`); then all is estimated, and prompt
    and tools count once, as they stand.
    """
    if view.usage_at is not None:
        return _since(view, view.usage_at)
    system = view.messages.system.as_message()
    tokens = (known or RunningSum()).of(view) + (0 if system is None else estimated_tokens(system))
    return ContextTokens(tokens=tokens, usage_tokens=0, trailing_tokens=tokens, last_usage_index=None)


def _since(view: Projected, usage_at: int) -> ContextTokens:
    """Reported usage of the answer at this place, and estimates of what came after it."""
    behind = [message for item in view.items[usage_at + 1 :] for message in item.messages]
    trailing = sum(map(estimated_tokens, behind))
    answer = view.items[usage_at].messages[-1]
    used = total_tokens(cast("AssistantMessage", answer).usage)
    return ContextTokens(
        tokens=used + trailing,
        usage_tokens=used,
        trailing_tokens=trailing,
        last_usage_index=len(view.messages) - len(behind) - 1,
    )
