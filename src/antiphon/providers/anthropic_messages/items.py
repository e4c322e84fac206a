"""Messages -> items of the `messages` list, as a fold that remembers only what it still holds back.

Held back are a run of tool results (they form one user message) and, where system messages may stand in the middle,
those messages: they go right before the next answer, or at the end. Source: provider specification, 4.6.
"""

from __future__ import annotations

from typing import cast, final

from msgspec import UNSET, Struct

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.wire import JsonObject
from antiphon.providers import house_texts
from antiphon.providers.anthropic_messages.tools import wire_tool
from antiphon.providers.dialects import AnthropicDialect
from antiphon.providers.system_text import text_in_place
from antiphon.providers.wire_json import clean


class ItemRules(Struct, frozen=True):
    """What the items depend on beside the messages. Equal rules, equal items."""

    api: str
    provider: str
    model: str
    dialect: AnthropicDialect
    strict: bool
    tools_in_place: bool
    """System messages carry the tools that they take away and add."""
    efforts: bool
    """Answers are preceded by a marker of the effort that they were made with."""


@final
class MessageItems:
    """The fold. It sees messages that were handed off to the model; system messages only if they stay in place."""

    def __init__(self, rules: ItemRules) -> None:
        self._rules = rules
        self._results: list[ToolResultMessage] = []
        self._system: list[JsonObject] = []
        self._begun = False

    def copy(self) -> MessageItems:
        twin = MessageItems(self._rules)
        twin._begun = self._begun
        twin._results = list(self._results)
        twin._system = list(self._system)
        return twin

    def feed(self, message: Message) -> list[JsonObject]:
        """Items that are final now."""
        kind = type(message)
        begun, self._begun = self._begun, True
        if kind is ToolResultMessage:
            self._results.append(cast("ToolResultMessage", message))
            return []
        if kind is SystemMessage:
            if begun:  # the leading one stands outside of the list
                self._system += system_items(cast("SystemMessage", message), self._rules)
            return []
        items = self._take_results()
        if kind is UserMessage:
            items += user_items(cast("UserMessage", message).content)
        elif kind is AssistantMessage:
            items += self._answer(cast("AssistantMessage", message))
        return items

    def finish(self) -> list[JsonObject]:
        """What is still held back."""
        return [results_item(self._results), *self._system] if self._results else list(self._system)

    def _take_results(self) -> list[JsonObject]:
        results, self._results = self._results, []
        return [results_item(results)] if results else []

    def _answer(self, message: AssistantMessage) -> list[JsonObject]:
        content = answer_content(message.content, keep_unsigned=self._rules.dialect.allow_empty_signature)
        if not content:
            return []
        before, self._system = self._system, []
        rules = self._rules
        own = (message.api, message.provider, message.model) == (rules.api, rules.provider, rules.model)
        if rules.efforts and own and message.provider_thinking_level is not UNSET:
            before.append(effort_item(message.provider_thinking_level))
        return [*before, {"role": "assistant", "content": content}]


def effort_item(effort: str) -> JsonObject:
    """A marker: what follows is made with this effort."""
    return {"role": "system", "content": [], "output_config": {"effort": effort}}


def image_block(image: Image) -> JsonObject:
    source = {"type": "base64", "media_type": image.mime_type, "data": image.data}
    return {"type": "image", "source": source}


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def user_items(content: str | Content) -> list[JsonObject]:
    """The user message, or nothing if it holds nothing that may be sent."""
    if isinstance(content, str):
        text = clean(content)
        return [{"role": "user", "content": text}] if text.strip() else []
    blocks = _text_and_images(content)
    return [{"role": "user", "content": blocks}] if blocks else []


def _text_and_images(content: Content) -> list[JsonObject]:
    """Blocks in their order; blank texts are left out, the server refuses them."""
    blocks: list[JsonObject] = []
    for block in content:
        if type(block) is Text:
            text = clean(block.text)
            if text.strip():
                blocks.append(_text_block(text))
        elif type(block) is Image:
            blocks.append(image_block(block))
    return blocks


def answer_content(content: Content, *, keep_unsigned: bool) -> list[JsonObject]:
    """The blocks of an answer as the server wants them back. `keep_unsigned`: it takes thinking without a signature."""
    blocks: list[JsonObject] = []
    for block in content:
        if type(block) is Text:
            text = clean(block.text)
            if text.strip():
                blocks.append(_text_block(text))
        elif type(block) is Thinking:
            blocks += _thinking(block, keep_unsigned)
        elif type(block) is ToolCall:
            blocks.append({"type": "tool_use", "id": block.id, "name": block.name, "input": block.arguments})
    return blocks


def _thinking(block: Thinking, keep_unsigned: bool) -> list[JsonObject]:
    signature = "" if block.thinking_signature is UNSET else block.thinking_signature
    if block.redacted is True:
        return [{"type": "redacted_thinking", "data": signature}]
    text = clean(block.thinking)
    if signature.strip():
        return [{"type": "thinking", "thinking": text, "signature": signature}]
    if not text.strip():
        return []
    return [{"type": "thinking", "thinking": text, "signature": ""} if keep_unsigned else _text_block(text)]


def results_item(results: list[ToolResultMessage]) -> JsonObject:
    """One user message of all results of a batch. An error may hold only text, so its images come behind them all."""
    blocks: list[JsonObject] = []
    later: list[JsonObject] = []
    for result in results:
        images = [image_block(block) for block in result.content if type(block) is Image]
        if result.is_error and images:
            caption = house_texts.error_image_caption(result.tool_call_id, result.tool_name)
            later += [_text_block(caption), *images]
        body = {"type": "tool_result", "tool_use_id": result.tool_call_id, "content": _result_content(result, images)}
        blocks.append({**body, "is_error": result.is_error})
    return {"role": "user", "content": blocks + later}


def _result_content(result: ToolResultMessage, images: list[JsonObject]) -> str | list[JsonObject]:
    texts = [clean(block.text) for block in result.content if type(block) is Text]
    if not images:
        return "\n".join(texts)
    if result.is_error:
        return "\n".join([*(text for text in texts if text), house_texts.ERROR_IMAGE_LATER])
    blocks = _text_and_images(result.content)
    if all(block["type"] == "image" for block in blocks):
        blocks.insert(0, _text_block(house_texts.SEE_IMAGE))
    return blocks


def system_items(message: SystemMessage, rules: ItemRules) -> list[JsonObject]:
    """A system message in its place: its text, and the tools that it takes away and adds."""
    text = text_in_place(message)
    content: list[JsonObject] = [_text_block(text)] if text else []
    if rules.tools_in_place:
        content += _tool_changes(message, rules)
    return [{"role": "system", "content": content}] if content else []


def _tool_changes(message: SystemMessage, rules: ItemRules) -> list[JsonObject]:
    added: tuple[ToolDeclaration, ...] = () if message.tools_added is UNSET else message.tools_added
    again = {tool.name for tool in added}
    removed = [tool.name for tool in message.tools_removed or () if tool.name not in again]
    return [
        *({"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}} for name in removed),
        *(
            {
                "type": "tool_addition",
                "tool": {"type": "tool_definition", "definition": wire_tool(tool, rules.dialect, strict=rules.strict)},
            }
            for tool in added
        ),
    ]


def marked(item: JsonObject, mark: JsonObject) -> JsonObject | None:
    """The item with a cache mark on its last block; unchanged if it is an answer, None if it has no block."""
    if item["role"] == "assistant":
        return item
    content = item["content"]
    blocks = [_text_block(content)] if isinstance(content, str) else cast("list[JsonObject]", content)
    if not blocks:
        return None
    return {**item, "content": [*blocks[:-1], {**blocks[-1], "cache_control": mark}]}
