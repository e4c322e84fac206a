"""How many tokens a conversation takes, roughly, and how much room that leaves for the answer.

The estimate is a fold, so a conversation that grew by a turn costs that turn. What a provider reported wins over
guesses: the total of the last answer is taken, and only what came behind it is estimated.

Source: providers specification 3.5.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, final

from msgspec import UNSET, Struct

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, HostMessage, Message, SystemMessage
from antiphon.core.model import Model
from antiphon.core.usage import total_tokens
from antiphon.providers import wire_json

UNITS_PER_TOKEN = 3.5
UNITS_PER_IMAGE = 4800
_SAFETY_TOKENS = 4096
_SAFETY_SHARE_PERCENT = 15
_SMALL_ROOM_TOKENS = 32_768


class ContextTokens(Struct, frozen=True):
    """`usage_tokens` were reported with the message at `last_usage_index`, `trailing_tokens` are guessed behind it."""

    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None

    @property
    def tokens(self) -> int:
        return self.usage_tokens + self.trailing_tokens


@final
class TokenEstimate:
    """The fold. `now` is the estimate after the messages fed so far."""

    __slots__ = ("_count", "_latest", "_reported", "_reported_at", "_trailing")

    def __init__(self) -> None:
        self._count = 0
        self._latest: float = float("-inf")
        self._reported = 0
        self._reported_at: int | None = None
        self._trailing = 0

    def feed(self, message: Message) -> None:
        stamp = 0 if type(message) is HostMessage else message.timestamp
        is_latest = stamp >= self._latest
        if is_latest:
            self._latest = stamp
        reported = _reported(message) if is_latest and type(message) is AssistantMessage else 0
        if reported:
            self._reported, self._reported_at, self._trailing = reported, self._count, 0
        else:
            self._trailing += message_tokens(message)
        self._count += 1

    @property
    def tokens(self) -> int:
        """The sum of `now`."""
        return self._reported + self._trailing

    @property
    def now(self) -> ContextTokens:
        return ContextTokens(self._reported, self._trailing, self._reported_at)


def estimate_context(messages: Iterable[Message]) -> ContextTokens:
    """The estimate of a whole conversation."""
    fold = TokenEstimate()
    for message in messages:
        fold.feed(message)
    return fold.now


def _reported(message: AssistantMessage) -> int:
    if message.stop_reason in ("error", "aborted"):
        return 0
    return total_tokens(message.usage)


def message_tokens(message: Message) -> int:
    """A guess for one message."""
    if type(message) is HostMessage:
        return 0
    if type(message) is SystemMessage:
        return _system_tokens(message)
    content: str | Content = message.content
    if isinstance(content, str):
        return _tokens(units(content))
    amount = 0
    for block in content:
        amount += units(block.text) if type(block) is Text else _block_units(block)
    return _tokens(amount)


def _system_tokens(message: SystemMessage) -> int:
    text = (
        message.content
        if isinstance(message.content, str)
        else "\n".join(block.text for block in message.content if type(block) is Text)
    )
    sections = () if message.sections is UNSET else message.sections.values()
    prompt = "\n\n".join(part for part in (text, *sections) if part)
    added = 0 if not message.tools_added else _tokens(json_units(message.tools_added))
    removed = 0 if not message.tools_removed else _tokens(json_units(message.tools_removed))
    return _tokens(units(prompt)) + added + removed


def _block_units(block: Any) -> int:
    """Of a block that is no text."""
    kind = type(block)
    if kind is Thinking:
        return units(block.thinking)
    if kind is ToolCall:
        return units(block.name) + json_units(block.arguments)
    return UNITS_PER_IMAGE if kind is Image else 0


def _tokens(amount: int) -> int:
    """Rounded up."""
    return -(-amount * 2 // 7)


def units(text: str) -> int:
    """UTF-16 code units, in which the reference counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def json_units(value: Any) -> int:
    """UTF-16 code units of the value's compact JSON."""
    data = wire_json.encode(value)
    return len(data) if data.isascii() else units(data.decode())


def output_cap(model: Model, asked: int | None, context_tokens: int) -> int:
    """How many tokens the answer may take: what was asked for, or what the window still holds beside the context."""
    wanted = model.max_tokens if asked is None else asked
    if model.context_window <= 0:
        return max(1, wanted)
    return min(wanted, room_for(model, context_tokens))


def room_for(model: Model, context_tokens: int) -> int:
    """How many tokens the window still holds beside the context; without end if its size is not known."""
    window = model.context_window
    if window <= 0:
        return sys.maxsize
    margin = max(_SAFETY_TOKENS, -(-context_tokens * _SAFETY_SHARE_PERCENT // 100))
    room = window - context_tokens - margin
    if room < _SMALL_ROOM_TOKENS:
        room = min(_SMALL_ROOM_TOKENS, window - context_tokens - _SAFETY_TOKENS)
    return max(1, room)
