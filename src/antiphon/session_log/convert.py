"""From the messages of a session to those a model understands. Pure; the words around summaries are ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from antiphon.core.content import Content, Image, Text, content_from_wire
from antiphon.core.messages import HostMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.wire import JsonObject

COMPACTION_PREFIX = "What was said before this point is no longer shown. This summary stands for it:\n\n<summary>\n"
COMPACTION_SUFFIX = "\n</summary>"
BRANCH_PREFIX = (
    "Another way was tried from this point before coming back to it. This summary tells what came of it:\n\n<summary>\n"
)
BRANCH_SUFFIX = "</summary>"
NO_IMAGE = "(an image was left out: images are switched off)"


def to_model_messages(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with those of host roles turned into user messages, or left out.

    The same sequence if there is nothing to convert.
    """
    if not any(type(message) is HostMessage for message in messages):
        return messages
    return tuple(converted for message in messages for converted in converted_message(message))


def converted_message(message: Message) -> tuple[Message, ...]:
    """What a model is told instead of one message: one, itself or none."""
    if type(message) is not HostMessage:
        return (message,)
    data = message.data
    content = _content_of(data)
    return () if content is None else (UserMessage(content=content, timestamp=data.get("timestamp", 0)),)


def _content_of(data: JsonObject) -> Content | None:
    match data.get("role"):
        case "custom":
            content = data.get("content")
            return content_from_wire(content if isinstance(content, str | list) else None)
        case "bashExecution" if not data.get("excludeFromContext"):
            return (Text(text=shell_text(data)),)
        case "branchSummary":
            return (Text(text=f"{BRANCH_PREFIX}{data.get('summary', '')}{BRANCH_SUFFIX}"),)
        case "compactionSummary":
            return (Text(text=f"{COMPACTION_PREFIX}{data.get('summary', '')}{COMPACTION_SUFFIX}"),)
        case _:
            return None


def shell_text(data: JsonObject) -> str:
    """How a model reads of a command that the user ran."""
    output = data.get("output") or ""
    shown = f"```\n{output}\n```" if output else "(no output)"
    parts = [f"Ran `{data.get('command', '')}`\n{shown}"]
    code = data.get("exitCode")
    if data.get("cancelled"):
        parts.append("(command cancelled)")
    elif code:
        parts.append(f"Command exited with code {code}")
    if data.get("truncated") and data.get("fullOutputPath"):
        parts.append(f"[Output truncated. Full output: {data['fullOutputPath']}]")
    return "\n\n".join(parts)


def without_images(messages: Iterable[Message]) -> list[Message]:
    """The messages with a short text in place of each image; neighbouring ones are merged."""
    return [_without_images(message) for message in messages]


def _without_images(message: Message) -> Message:
    if not isinstance(message, UserMessage | ToolResultMessage) or isinstance(message.content, str):
        return message
    if not any(type(block) is Image for block in message.content):
        return message
    blocks: list[Any] = []
    for block in message.content:
        if type(block) is not Image:
            blocks.append(block)
        elif not (blocks and blocks[-1] is _STAND_IN):
            blocks.append(_STAND_IN)
    return cast("Message", msgspec.structs.replace(message, content=tuple(blocks)))


_STAND_IN = Text(text=NO_IMAGE)
