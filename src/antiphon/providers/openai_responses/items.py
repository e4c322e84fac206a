"""Messages as Responses input items: the fold over a handed-off history."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Final, cast, final

from msgspec import UNSET, Struct

from antiphon.core.content import Content, Image, Text, Thinking, ToolCall, text_of
from antiphon.core.messages import AssistantMessage, Message, SystemMessage, ToolResultMessage, UserMessage
from antiphon.core.model import Model
from antiphon.core.wire import JsonObject
from antiphon.providers import wire_json
from antiphon.providers.constrained import Grammar
from antiphon.providers.dialects import ResponsesDialect
from antiphon.providers.handoff import digest, same_model
from antiphon.providers.house_texts import (
    NO_OUTPUT,
    SEE_IMAGE,
    TOOLS_UPDATE,
    tools_removed,
    tools_still_unavailable,
)
from antiphon.providers.openai_responses.tools import encode_tools
from antiphon.providers.system_text import leading_text, text_in_place
from antiphon.providers.wire_json import clean

MAX_ITEM_ID: Final = 64


class Placing(Struct, frozen=True):
    """How in-place system messages tell about tools.

    `changes`: every system message declares its tools in place. `additions_after`: those after this many declare the
    tools they add. `effort`: the thinking level is told in place, too.
    """

    changes: bool = False
    additions_after: int | None = None
    effort: bool = False


@final
class ResponsesFold:
    """Holds nothing back: every message becomes its items at once."""

    def __init__(
        self, model: Model, flags: ResponsesDialect, grammars: Mapping[str, Grammar], placing: Placing
    ) -> None:
        self._model = model
        self._flags = flags
        self._grammars = grammars
        self._placing = placing
        self._count = 0
        self._systems = 0
        self._made_up = 0
        self._declared = False
        self._used: set[str] = set()  # item ids; shared by copies, which see no answers
        self._gone: dict[str, None] = {}  # tools that were removed and are not back, in order

    def copy(self) -> ResponsesFold:
        other = copy.copy(self)
        other._gone = dict(self._gone)
        return other

    def feed(self, message: Message) -> list[JsonObject]:
        kind = type(message)
        if kind is UserMessage:
            items = _user(cast("UserMessage", message))
        elif kind is AssistantMessage:
            items = self._assistant(cast("AssistantMessage", message))
        elif kind is ToolResultMessage:
            items = [self._result(cast("ToolResultMessage", message))]
        elif kind is SystemMessage:
            items = self._system(cast("SystemMessage", message))
        else:
            items = []
        self._count += 1
        return items

    def finish(self) -> list[JsonObject]:
        return []

    # -- answers

    def _assistant(self, message: AssistantMessage) -> list[JsonObject]:
        own = same_model(message, self._model)
        items: list[JsonObject] = []
        if own and self._placing.effort and message.provider_thinking_level is not UNSET:
            items.append(configuration_update(message.provider_thinking_level))
        for block in message.content:
            if type(block) is Text:
                items.append(self._text(block))
            elif type(block) is Thinking:
                items += _reasoning(block)
            elif type(block) is ToolCall:
                items.append(self._call(block, message, own))
        while items and items[-1].get("type") == "reasoning":
            items.pop()  # servers refuse reasoning without the item it led to, as an answer cut while thinking has it
        return items

    def _text(self, block: Text) -> JsonObject:
        id_, phase = _identity(block)
        if len(id_) > MAX_ITEM_ID:
            id_ = f"msg_{digest(id_, 24)}"
        if not id_ or id_ in self._used:
            id_ = self._new_name("msg_")
        self._used.add(id_)
        content = [{"type": "output_text", "text": clean(block.text), "annotations": []}]
        item: JsonObject = {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": id_,
            "content": content,
        }
        if phase:
            item["phase"] = phase
        return item

    def _new_name(self, prefix: str) -> str:
        """A name that is unique in the request and the same in the next one, so that prompt caches still match."""
        self._made_up += 1
        return prefix + digest(f"item {self._made_up}", 24)

    def _call(self, call: ToolCall, message: AssistantMessage, own: bool) -> JsonObject:
        call_id, _, item_id = call.id.partition("|")
        grammar = self._grammars.get(call.name)
        sibling = not own and message.provider == self._model.provider and message.api == self._model.api
        item: JsonObject = {"type": "custom_tool_call" if grammar else "function_call", "call_id": call_id}
        if not sibling and item_id.startswith("ctc_" if grammar else "fc_") and item_id not in self._used:
            self._used.add(item_id)
            item["id"] = item_id
        item["name"] = call.name
        if grammar:
            given = call.arguments.get(grammar.argument)
            item["input"] = clean(given) if isinstance(given, str) else ""
        else:
            item["arguments"] = wire_json.encode_text(call.arguments)
        if own and call.namespace is not UNSET:
            item["namespace"] = call.namespace
        return item

    # -- results

    def _result(self, message: ToolResultMessage) -> JsonObject:
        kind = "custom_tool_call_output" if message.tool_name in self._grammars else "function_call_output"
        text = clean(text_of(message.content))
        images = [_image(block) for block in message.content if type(block) is Image]
        output: str | list[JsonObject]
        if images:
            output = [*([{"type": "input_text", "text": text}] if text.strip() else []), *images]
        else:
            output = text if text.strip() else NO_OUTPUT
        return {"type": kind, "call_id": message.tool_call_id.partition("|")[0], "output": output or SEE_IMAGE}

    # -- system messages in place

    def _system(self, message: SystemMessage) -> list[JsonObject]:
        self._systems += 1
        leading = self._count == 0
        placing = self._placing
        items: list[JsonObject] = []
        text = leading_text(message) if leading else text_in_place(message)
        if placing.changes:
            items, text = self._changes(message, text)
        elif placing.additions_after is not None and not leading and self._systems > placing.additions_after:
            items = self._additions(message)
        if text:
            items.append(self._say(text))
        return items

    def _say(self, text: str) -> JsonObject:
        return {"role": system_role(self._model, self._flags), "content": text}

    def _changes(self, message: SystemMessage, text: str) -> tuple[list[JsonObject], str]:
        """Items that declare the tools of a message, and its text with the removals behind it."""
        added = message.tools_added or ()
        names = {tool.name for tool in added}
        still_gone = [name for name in self._gone if name not in names]
        removed = [tool.name for tool in message.tools_removed or () if tool.name not in names]
        self._gone = dict.fromkeys([*still_gone, *removed])
        items: list[JsonObject] = []
        if added:
            if self._declared:
                gone = f"\n{tools_still_unavailable(', '.join(still_gone))}" if still_gone else ""
                items.append(self._say(TOOLS_UPDATE + gone))
            self._declared = True
            tools = encode_tools(added, self._flags, self._grammars)
            items.append({"type": "additional_tools", "role": "developer", "tools": tools})
        if removed:
            text = "\n\n".join(part for part in (text, tools_removed(", ".join(removed))) if part)
        return items, text

    def _additions(self, message: SystemMessage) -> list[JsonObject]:
        """A made-up tool search that finds the added tools."""
        if not message.tools_added:
            return []
        found = encode_tools(message.tools_added, self._flags, self._grammars)
        frame: JsonObject = {
            "call_id": self._new_name("call_"),
            "execution": "client",
            "status": "completed",
        }
        query = {"query": " ".join(tool.name for tool in message.tools_added), "limit": len(found)}
        return [
            {"type": "tool_search_call", **frame, "arguments": query},
            {"type": "tool_search_output", **frame, "tools": [{**tool, "defer_loading": True} for tool in found]},
        ]


def system_role(model: Model, flags: ResponsesDialect) -> str:
    return "developer" if model.reasoning and flags.supports_developer_role else "system"


def configuration_update(effort: str) -> JsonObject:
    """An item that says how hard to think from here on."""
    return {"type": "configuration_update", "reasoning": {"effort": effort}}


def _user(message: UserMessage) -> list[JsonObject]:
    content = _user_content(message.content)
    return [{"role": "user", "content": content}] if content else []


def _user_content(content: str | Content) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": clean(content)}]
    return list(_parts(content))


def _parts(content: Content) -> Iterable[JsonObject]:
    for block in content:
        if type(block) is Text:
            yield {"type": "input_text", "text": clean(block.text)}
        elif type(block) is Image:
            yield _image(block)


def _image(image: Image) -> JsonObject:
    return {
        "type": "input_image",
        "detail": "auto",
        "image_url": f"data:{image.mime_type};base64,{image.data}",
    }


def _reasoning(block: Thinking) -> list[JsonObject]:
    """The stored item as it came; nothing for thinking without one."""
    if block.thinking_signature is UNSET:
        return []
    item = wire_json.read_object(block.thinking_signature)
    return [item] if item else []


def _identity(block: Text) -> tuple[str, str | None]:
    """Item id and phase of a text, from its signature: JSON, or in old histories the bare id."""
    signature = block.text_signature
    if signature is UNSET or not signature:
        return "", None
    if not signature.startswith("{"):
        return signature, None
    found = wire_json.read_object(signature) or {}
    id_, phase = found.get("id"), found.get("phase")
    known = phase if phase in ("commentary", "final_answer") else None
    return (id_ if isinstance(id_, str) else ""), known
