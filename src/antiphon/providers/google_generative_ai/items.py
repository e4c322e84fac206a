"""Messages -> items of `contents`, as a fold that remembers only the run of tool results that it still holds back.

All results of a run stay in one user turn. Images of results go inside the result where the model takes them there,
else into user turns behind the run. Source: provider specification, 4.5 and 12, row 20.
"""

from __future__ import annotations

import re
from typing import cast, final

from msgspec import UNSET, Struct, UnsetType

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from antiphon.core.wire import JsonObject
from antiphon.providers import house_texts
from antiphon.providers.google_generative_ai.dialect import GeminiDialect
from antiphon.providers.wire_json import clean

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}", re.ASCII)


class ItemRules(Struct, frozen=True):
    """What the items depend on beside the messages. Equal rules, equal items."""

    dialect: GeminiDialect


@final
class ContentItems:
    """The fold. It sees messages that were handed off to the model, and no system messages."""

    def __init__(self, rules: ItemRules) -> None:
        self._rules = rules
        self._results: list[ToolResultMessage] = []

    def copy(self) -> ContentItems:
        twin = ContentItems(self._rules)
        twin._results = list(self._results)
        return twin

    def feed(self, message: Message) -> list[JsonObject]:
        """Items that are final now."""
        kind = type(message)
        if kind is ToolResultMessage:
            self._results.append(cast("ToolResultMessage", message))
            return []
        items = self.finish()
        self._results = []
        if kind is UserMessage:
            items += _turn("user", user_parts(cast("UserMessage", message).content))
        elif kind is AssistantMessage:
            items += _turn("model", answer_parts(cast("AssistantMessage", message).content, self._rules.dialect))
        return items

    def finish(self) -> list[JsonObject]:
        """What is still held back: the results, then their images."""
        results = self._results
        if not results:
            return []
        dialect = self._rules.dialect
        items = _turn("user", [response_part(result, dialect) for result in results])
        if not dialect.images_in_results:
            for result in results:
                if images := _images(result.content):
                    items += _turn("user", [{"text": house_texts.TOOL_IMAGE}, *images])
        return items


def _turn(role: str, parts: list[JsonObject]) -> list[JsonObject]:
    return [{"role": role, "parts": parts}] if parts else []


def user_parts(content: str | Content) -> list[JsonObject]:
    """Texts (blank ones too, the API takes them) and images."""
    if isinstance(content, str):
        return [{"text": clean(content)}]
    parts: list[JsonObject] = []
    for block in content:
        if type(block) is Text:
            parts.append({"text": clean(block.text)})
        elif type(block) is Image:
            parts.append(_image(block))
    return parts


def _image(image: Image) -> JsonObject:
    return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}


def _images(content: Content) -> list[JsonObject]:
    return [_image(block) for block in content if type(block) is Image]


def answer_parts(content: Content, dialect: GeminiDialect) -> list[JsonObject]:
    """The blocks of an answer as parts. Blank text stays only if it carries a signature."""
    parts: list[JsonObject] = []
    for block in content:
        if type(block) is Text:
            signature, text = _signature(block.text_signature), clean(block.text)
            if text.strip() or signature:
                parts.append({"text": text, **signature})
        elif type(block) is Thinking:
            signature, text = _signature(block.thinking_signature), clean(block.thinking)
            if block.redacted is not True and (text.strip() or signature):
                parts.append({"thought": True, "text": text, **signature})
        elif type(block) is ToolCall:
            call: JsonObject = {"name": block.name, "args": block.arguments}
            if dialect.call_ids:
                call["id"] = block.id
            parts.append({"functionCall": call, **_signature(block.thought_signature)})
    return parts


def _signature(given: str | UnsetType) -> JsonObject:
    """The signature as a member, if it is one: the API refuses what is not whole base64."""
    if given is UNSET or len(given) % 4 or _BASE64.fullmatch(given) is None:
        return {}
    return {"thoughtSignature": given}


def response_part(result: ToolResultMessage, dialect: GeminiDialect) -> JsonObject:
    """One result. An error is told apart by the name under which its text stands."""
    images = _images(result.content)
    text = "\n".join(clean(block.text) for block in result.content if type(block) is Text)
    words = text or (house_texts.SEE_IMAGE if images else "")
    response: JsonObject = {"name": result.tool_name, "response": {"error" if result.is_error else "output": words}}
    if dialect.call_ids:
        response["id"] = result.tool_call_id
    if images and dialect.images_in_results:
        response["parts"] = images
    return {"functionResponse": response}
