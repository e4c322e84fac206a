"""Messages in the shape of Chat Completions: the fold that makes wire messages out of a handed-off history."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, cast, final

from msgspec import UNSET

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall, text_of
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.model import Model
from antiphon.core.wire import JsonObject, JsonValue
from antiphon.providers import wire_json
from antiphon.providers.constrained import Grammar
from antiphon.providers.dialects import ChatDialect
from antiphon.providers.handoff import digest, plain_id
from antiphon.providers.house_texts import BRIDGE, IMAGES_FOLLOW, NO_OUTPUT, SEE_IMAGE
from antiphon.providers.openai_completions.tools import encode_tools
from antiphon.providers.system_text import leading_text, text_in_place
from antiphon.providers.wire_json import clean

_REASONING_FIELDS = ("reasoning", "reasoning_content", "reasoning_text")
_MAX_ID = 40


@final
class ChatFold:
    """Holds back the images of a run of tool results: they follow the run in one user message.

    `additions_after`: system messages after this many declare the tools they add where they stand; None: none does.
    `marker`: the cache marker of the first system message with a text.
    """

    def __init__(
        self,
        model: Model,
        flags: ChatDialect,
        grammars: Mapping[str, Grammar],
        additions_after: int | None = None,
        marker: JsonObject | None = None,
    ) -> None:
        self._model = model
        self._flags = flags
        self._grammars = grammars
        self._additions_after = additions_after
        self._marker = marker
        self._systems = 0
        self._count = 0
        self._images: list[Image] = []
        self._after_result = False

    def copy(self) -> ChatFold:
        other = copy.copy(self)
        other._images = list(self._images)
        return other

    def feed(self, message: Message) -> list[JsonObject]:
        kind = type(message)
        if kind is ToolResultMessage:
            items = [self._result(cast("ToolResultMessage", message))]
        else:
            items = self._run_ends()
            if kind is UserMessage:
                items += self._user(cast("UserMessage", message))
            elif kind is AssistantMessage:
                items += self._assistant(cast("AssistantMessage", message))
            elif kind is SystemMessage:
                items += self._system(cast("SystemMessage", message))
        self._count += 1
        return items

    def finish(self) -> list[JsonObject]:
        return self._images_of_run() if self._images else []

    # -- one kind of message each

    def _system(self, message: SystemMessage) -> list[JsonObject]:
        self._systems += 1
        items: list[JsonObject] = []
        is_leading = self._count == 0
        after = self._additions_after
        if not is_leading and after is not None and self._systems > after and message.tools_added:
            tools = encode_tools(message.tools_added, self._flags, self._grammars)
            items.append({"role": "system", "tools": tools})
        text = leading_text(message) if is_leading else text_in_place(message)
        if text:
            marker, self._marker = self._marker, None
            content = text if marker is None else marked_text(text, marker)
            items.append({"role": system_role(self._model, self._flags), "content": content})
        return items

    def _user(self, message: UserMessage) -> list[JsonObject]:
        content = _user_content(message.content)
        if content is None:
            return []
        bridge = self._bridge() if self._after_result else []
        self._after_result = False
        return [*bridge, {"role": "user", "content": content}]

    def _assistant(self, message: AssistantMessage) -> list[JsonObject]:
        item = self._assistant_item(message)
        if item is None:
            return []
        self._after_result = False
        return [item]

    def _assistant_item(self, message: AssistantMessage) -> JsonObject | None:
        flags = self._flags
        texts: list[str] = []
        thoughts: list[Thinking] = []
        calls: list[ToolCall] = []
        for block in message.content:
            if type(block) is Text:
                if block.text.strip():
                    texts.append(clean(block.text))
            elif type(block) is ToolCall:
                calls.append(block)
            elif type(block) is Thinking and block.thinking.strip():
                thoughts.append(block)
        content: JsonValue = "".join(texts) or None
        if flags.requires_thinking_as_text and thoughts:
            thought = "\n\n".join(clean(block.thinking) for block in thoughts)
            content = [{"type": "text", "text": text} for text in (thought, *texts)]
        if content is None and not calls:
            return None
        if content is None and (
            flags.requires_non_null_assistant_content or flags.requires_assistant_after_tool_result
        ):
            content = ""
        item: JsonObject = {"role": "assistant", "content": content}
        if calls:
            item["tool_calls"] = [self._call(call) for call in calls]
        if not flags.requires_thinking_as_text:
            item.update(_reasoning(message, thoughts))
        if flags.requires_reasoning_content_on_assistant_messages and self._model.reasoning:
            item.setdefault("reasoning_content", "")
        return item

    def _call(self, call: ToolCall) -> JsonObject:
        grammar = self._grammars.get(call.name)
        if grammar is not None:
            given = call.arguments.get(grammar.argument)
            text = clean(given) if isinstance(given, str) else ""
            return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": text}}
        function = {"name": call.name, "arguments": wire_json.encode_text(call.arguments)}
        return {"id": call.id, "type": "function", "function": function}

    def _result(self, message: ToolResultMessage) -> JsonObject:
        text = clean(text_of(message.content))
        images = [block for block in message.content if type(block) is Image]
        if not text.strip():
            text = SEE_IMAGE if images else NO_OUTPUT
        if images:
            self._images += images
        self._after_result = True
        item: JsonObject = {"role": "tool", "content": text, "tool_call_id": message.tool_call_id}
        if self._flags.requires_tool_result_name:
            item["name"] = message.tool_name
        return item

    def _run_ends(self) -> list[JsonObject]:
        """The images of the results so far, which are told with that."""
        if not self._images:
            return []
        items = self._images_of_run()
        self._images = []
        self._after_result = False
        return items

    def _images_of_run(self) -> list[JsonObject]:
        content = [{"type": "text", "text": IMAGES_FOLLOW}, *map(_image, self._images)]
        return [*self._bridge(), {"role": "user", "content": content}]

    def _bridge(self) -> list[JsonObject]:
        if not self._flags.requires_assistant_after_tool_result:
            return []
        return [{"role": "assistant", "content": BRIDGE}]


def system_role(model: Model, flags: ChatDialect) -> str:
    return "developer" if model.reasoning and flags.supports_developer_role else "system"


def _user_content(content: str | Content) -> JsonValue:
    """Text as it is; blocks without empty ones; None if nothing is left."""
    if isinstance(content, str):
        return clean(content)
    parts: list[JsonObject] = []
    for block in content:
        if type(block) is Text and (text := clean(block.text)):
            parts.append({"type": "text", "text": text})
        elif type(block) is Image:
            parts.append(_image(block))
    return parts or None


def _image(image: Image) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"}}


def _reasoning(message: AssistantMessage, thoughts: Sequence[Thinking]) -> JsonObject:
    """The reasoning of the same model, in the field it came in."""
    details = _details(message)
    if details:
        return {"reasoning_details": details}
    if thoughts and thoughts[0].thinking_signature in _REASONING_FIELDS:
        field = str(thoughts[0].thinking_signature)
        return {field: "\n".join(clean(block.thinking) for block in thoughts)}
    return {}


def _details(message: AssistantMessage) -> list[Any]:
    """Structured reasoning, kept in a thinking signature or, in old histories, with a call."""
    for block in message.content:
        if type(block) is Thinking and block.thinking_signature is not UNSET:
            signature = block.thinking_signature
            found = _json_list(signature) if signature.startswith("[") else []
            if found:
                return found
    old: list[Any] = []
    for block in message.content:
        if type(block) is ToolCall and block.thought_signature is not UNSET:
            detail = wire_json.read_object(block.thought_signature)
            if detail and detail.get("type") == "reasoning.encrypted" and detail.get("id") and detail.get("data"):
                old.append(detail)
    return old


def _json_list(text: str) -> list[Any]:
    try:
        value = wire_json.read(text)
    except ValueError:
        return []
    if not isinstance(value, list):
        return []
    return value if all(isinstance(item, dict) for item in value) else []


def rewriter(model: Model) -> Any:
    """How foreign call ids are spelled for this model."""
    short = model.provider == "openai"

    def rewrite(id_: str, _message: AssistantMessage) -> str:
        if "|" not in id_:
            return id_[:_MAX_ID] if short else id_
        call, _, item = id_.partition("|")
        whole = f"{plain_id(call)}_{plain_id(item)}"
        if len(whole) <= _MAX_ID:
            return whole
        name = digest(id_)
        return f"{plain_id(call)[: _MAX_ID - len(name) - 1]}_{name}"

    return rewrite


def marked_text(text: str, marker: JsonObject) -> list[JsonObject]:
    """A text that carries a cache marker."""
    return [{"type": "text", "text": text, "cache_control": marker}]


def cache_marker(item: JsonValue, marker: JsonObject) -> JsonValue | None:
    """The message with the marker on its last text; None if it has no text or is of another role."""
    message = cast("JsonObject", item)
    if message.get("role") not in ("user", "assistant", "tool"):
        return None
    content = message.get("content")
    if isinstance(content, str) and content:
        return {**message, "content": marked_text(content, marker)}
    if isinstance(content, list):
        parts = list(cast("list[JsonObject]", content))
        for index in range(len(parts) - 1, -1, -1):
            if parts[index].get("type") == "text":
                parts[index] = {**parts[index], "cache_control": marker}
                return {**message, "content": parts}
    return None
