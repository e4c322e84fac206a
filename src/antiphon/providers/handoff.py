"""A history made by one model, told to another (specification 3.4).

The work is a fold over messages, so that a conversation that grew by a turn costs that turn: `feed` gives the messages
that are certain now, `tail` what has to stand behind them as long as nothing else comes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, final

from msgspec import UNSET, structs

from antiphon.core.content import Block, Content, Image, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, HostMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.model import Model
from antiphon.providers.house_texts import IMAGE_OMITTED, NO_RESULT, TOOL_IMAGE_OMITTED

RewriteId: TypeAlias = Callable[[str, AssistantMessage], str]
"""The id that a call of this (foreign) answer gets in the target's dialect."""

_ODD = re.compile(r"[^A-Za-z0-9_-]")


def same_model(message: AssistantMessage, model: Model) -> bool:
    """Was the answer made by the very model that is asked now?"""
    return message.provider == model.provider and message.api == model.api and message.model == model.id


@final
class HandOff:
    """The transformation as a fold."""

    __slots__ = ("_held", "_ids", "_model", "_open", "_rewrite", "_sees")

    def __init__(self, model: Model, rewrite_id: RewriteId | None = None) -> None:
        self._model = model
        self._rewrite = rewrite_id
        self._sees = "image" in model.input
        self._ids: dict[str, str] = {}
        self._open: dict[str, ToolCall] = {}  # calls without a result yet, in call order
        self._held: list[Message] = []  # system messages inside an open batch

    def feed(self, message: Message) -> list[Message]:
        """The messages that this one adds."""
        kind = type(message)
        if kind is HostMessage:
            return []
        if kind is SystemMessage:
            if self._open:
                self._held.append(message)
                return []
            return [message]
        if kind is ToolResultMessage:
            return self._result(message)  # type: ignore[arg-type]
        closed = self._close_batch()
        if kind is UserMessage:
            return [*closed, self._user(message)]  # type: ignore[arg-type]
        answer = self._assistant(message)  # type: ignore[arg-type]
        return closed if answer is None else [*closed, answer]

    @property
    def is_open(self) -> bool:
        """Is there a tail?"""
        return bool(self._open or self._held)

    def tail(self) -> list[Message]:
        """What stands at the end now. Changes nothing."""
        return [*(_no_result(call) for call in self._open.values()), *self._held]

    def _close_batch(self) -> list[Message]:
        if not self._open and not self._held:
            return []
        closing = self.tail()
        self._open, self._held = {}, []
        return closing

    def _user(self, message: UserMessage) -> UserMessage:
        if self._sees or isinstance(message.content, str):
            return message
        content = _without_images(message.content, IMAGE_OMITTED)
        return message if content is message.content else structs.replace(message, content=content)

    def _result(self, message: ToolResultMessage) -> list[Message]:
        id_ = self._ids.get(message.tool_call_id, message.tool_call_id)
        content = message.content if self._sees else _without_images(message.content, TOOL_IMAGE_OMITTED)
        if id_ != message.tool_call_id or content is not message.content:
            message = structs.replace(message, tool_call_id=id_, content=content)
        was_open = self._open.pop(id_, None) is not None
        if was_open and not self._open and self._held:
            held, self._held = self._held, []
            return [message, *held]
        return [message]

    def _assistant(self, message: AssistantMessage) -> AssistantMessage | None:
        if message.stop_reason in ("error", "aborted"):
            return None
        content = self._own(message) if same_model(message, self._model) else self._foreign(message)
        self._open = {block.id: block for block in content if type(block) is ToolCall}
        if content is message.content or content == message.content:
            return message
        return structs.replace(message, content=content)

    def _own(self, message: AssistantMessage) -> Content:
        for block in message.content:
            if type(block) is Thinking and not _keeps(block):
                return tuple([block for block in message.content if _keeps(block)])
        return message.content

    def _foreign(self, message: AssistantMessage) -> Content:
        blocks: list[Block] = []
        for block in message.content:
            if type(block) is Text:
                blocks.append(block if block.text_signature is UNSET else Text(text=block.text))
            elif type(block) is ToolCall:
                blocks.append(self._foreign_call(block, message))
            elif type(block) is not Thinking:
                blocks.append(block)
        return tuple(blocks)

    def _foreign_call(self, call: ToolCall, message: AssistantMessage) -> ToolCall:
        id_ = call.id if self._rewrite is None else self._rewrite(call.id, message)
        if id_ != call.id:
            self._ids[call.id] = id_
        if id_ == call.id and call.thought_signature is UNSET:
            return call
        return structs.replace(call, id=id_, thought_signature=UNSET)


def _keeps(block: Block) -> bool:
    """Thinking of the same model is kept if it is redacted, signed, or says something."""
    if type(block) is not Thinking:
        return True
    signed = block.thinking_signature is not UNSET and block.thinking_signature != ""
    return bool(block.redacted) or signed or bool(block.thinking.strip())


def _without_images(content: Content, placeholder: str) -> Content:
    """Each run of images as one placeholder; one directly behind a placeholder adds none."""
    if Image not in map(type, content):
        return content
    blocks: list[Block] = []
    for block in content:
        if type(block) is not Image:
            blocks.append(block)
        elif not (blocks and type(last := blocks[-1]) is Text and last.text == placeholder):
            blocks.append(Text(text=placeholder))
    return tuple(blocks)


def _no_result(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(tool_call_id=call.id, tool_name=call.name, content=(Text(text=NO_RESULT),), is_error=True)


def transform(messages: Iterable[Message], model: Model, rewrite_id: RewriteId | None = None) -> list[Message]:
    """The whole history as the model may read it."""
    fold = HandOff(model, rewrite_id)
    out: list[Message] = []
    for message in messages:
        out += fold.feed(message)
    return out + fold.tail()


# -- ids ---------------------------------------------------------------------------------------------------------------


def plain_id(text: str) -> str:
    """The id with every character outside `[A-Za-z0-9_-]` as an underscore."""
    return _ODD.sub("_", text)


def digest(text: str, length: int = 8) -> str:
    """A short name for a long id: the same for the same text, different for others."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def plain_id_64(id_: str, _message: AssistantMessage) -> str:
    """The rule of Anthropic, and of Gemini where ids are sent."""
    return plain_id(id_)[:64]
