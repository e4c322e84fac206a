"""The hooks and polls of a scenario: each records its call, then answers as the scenario says."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from tests.conformance.core_recorder import Recorder
from tests.conformance.core_tools import Catalogue
from tests.conformance.core_values import (
    JsonDict,
    ScriptedError,
    cut,
    message,
    messages,
    model_of,
    plain,
    plain_message,
    plain_messages,
    usage,
)

from antiphon.core.content import content_from_wire, text_of
from antiphon.core.hooks import (
    AfterOverride,
    AfterToolCall,
    BeforeDecision,
    BeforeToolCall,
    Context,
    NextTurn,
    RequestInfo,
    RequestUpdate,
    Turn,
)
from antiphon.core.messages import HostMessage, Message
from antiphon.core.ports import AbortSignal

Entry = Mapping[str, Any]


class Hooks:
    """The hooks that a scenario configures. `installed` gives those, by the name of the option that takes them."""

    def __init__(self, given: Mapping[str, Any], catalogue: Catalogue, recorder: Recorder) -> None:
        self._given = given
        self._catalogue = catalogue
        self._recorder = recorder
        self._calls: Counter[str] = Counter()
        self._plain_form = given.get("prepareNextTurnForm") == "plain"

    def installed(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Only hooks with an entry are installed."""
        hooks: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
            "transformContext": ("transform_context", self.transform_context),
            "convertToLlm": ("convert_to_llm", self.convert_to_llm),
            "getApiKey": ("get_api_key", self.get_api_key),
            "prepareRequest": ("prepare_request", self.prepare_request),
            "prepareNextTurn": ("prepare_next_turn", self.prepare_next_turn),
            "finishTurn": ("finish_turn", self.finish_turn),
            "beforeToolCall": ("before_tool_call", self.before_tool_call),
            "afterToolCall": ("after_tool_call", self.after_tool_call),
        }
        return dict(hooks[name] for name in self._given if name in hooks)

    async def transform_context(self, given: Sequence[Message], signal: AbortSignal) -> Sequence[Message]:
        self._note("transformContext", {"messages": plain_messages(given)}, signal)
        entry = self._entry("transformContext")
        return list(given) if entry is None else cut(list(given), entry)

    async def convert_to_llm(self, given: Sequence[Message]) -> Sequence[Message]:
        self._note("convertToLlm", {"messages": plain_messages(given)})
        self._calls["convertToLlm"] += 1
        entry = self._given["convertToLlm"]
        if "throw" in entry and self._calls["convertToLlm"] == entry.get("throwAt", 1):
            raise ScriptedError(entry["throw"])
        kept = [item for item in given if item.role not in entry.get("drop", ())]
        return [_as_user(item) if item.role in entry.get("asUser", ()) else item for item in kept]

    async def get_api_key(self, provider: str) -> str | None:
        self._note("getApiKey", {"provider": provider})
        given = self._given["getApiKey"]
        if isinstance(given, list) or "each" in given:
            key = self._entry("getApiKey")
        else:
            key = raised_if_scripted(given.get(provider))
        return key

    async def prepare_request(self, info: RequestInfo, signal: AbortSignal) -> RequestUpdate | None:
        item: JsonDict = {
            "context": plain_messages(info.context.messages),
            "model": info.model.id,
            "thinking": info.thinking_level or "off",
        }
        self._note("prepareRequest", item, signal)
        entry = self._entry("prepareRequest")
        return None if entry is None else RequestUpdate(**self._update(entry, info.context))

    async def prepare_next_turn(self, turn: Turn, _signal: AbortSignal | None = None) -> NextTurn | None:
        self._note("prepareNextTurn", {} if self._plain_form else turn_item(turn))
        entry = self._entry("prepareNextTurn")
        if entry is None:
            return None
        return NextTurn(messages=messages(entry.get("messages")), **self._update(entry, turn.context))

    async def finish_turn(self, turn: Turn, signal: AbortSignal) -> Any:
        self._note("finishTurn", turn_item(turn), signal)
        entry = self._entry("finishTurn")
        return None if entry is None else entry.get("action")

    async def before_tool_call(self, told: BeforeToolCall, signal: AbortSignal) -> BeforeDecision | None:
        item: JsonDict = {
            "call": told.tool_call.id,
            "args": plain(told.args),
            "assistant": plain_message(told.assistant_message),
            "context": plain_messages(told.context.messages),
        }
        self._note("beforeToolCall", item, signal)
        entry = self._call_entry("beforeToolCall", told.tool_call.id)
        if entry is None:
            return None
        told.args.update(copy.deepcopy(entry.get("assignArgs", {})))
        decision = {name: entry[name] for name in ("block", "reason", "terminate") if name in entry}
        return BeforeDecision(**decision) if decision else None

    async def after_tool_call(self, told: AfterToolCall, signal: AbortSignal) -> AfterOverride | None:
        item: JsonDict = {
            "call": told.tool_call.id,
            "args": plain(told.args),
            "result": plain(told.result),
            "isError": told.is_error,
            "context": plain_messages(told.context.messages),
        }
        self._note("afterToolCall", item, signal)
        entry = self._call_entry("afterToolCall", told.tool_call.id)
        return None if entry is None else override(entry)

    def _note(self, name: str, fields: JsonDict, signal: AbortSignal | None = None) -> None:
        item: JsonDict = {"hook": name, **fields}
        if signal is not None and signal.aborted:
            item["aborted"] = True
        mark: JsonDict = {"hook": name}
        if "call" in fields:
            mark["call"] = fields["call"]
        self._recorder.note(item, mark)

    def _entry(self, name: str) -> Any:
        """The entry for this call of a hook; None: it returns nothing."""
        table = self._given[name]
        self._calls[name] += 1
        if isinstance(table, dict):
            return raised_if_scripted(table["each"])
        number = self._calls[name]
        return raised_if_scripted(table[number - 1] if number <= len(table) else None)

    def _call_entry(self, name: str, call_id: str) -> Entry | None:
        """The entry for this call of a tool hook, by call id or `*`."""
        table = self._given[name]
        given = table[call_id] if call_id in table else table.get("*")
        self._calls[f"{name} {call_id}"] += 1
        if isinstance(given, list):
            number = self._calls[f"{name} {call_id}"]
            given = given[number - 1] if number <= len(given) else None
        return raised_if_scripted(given)

    def _update(self, entry: Entry, current: Context) -> dict[str, Any]:
        update: dict[str, Any] = {}
        if entry.get("context") is not None:
            given = entry["context"]
            tools = self._catalogue.named(given["tools"]) if "tools" in given else current.tools
            update["context"] = Context(messages=cut(list(current.messages), given), tools=tools)
        if entry.get("model") is not None:
            update["model"] = model_of(entry["model"])
        if entry.get("thinking") is not None:
            update["thinking_level"] = entry["thinking"]
        return update


def raised_if_scripted(entry: Any) -> Any:
    """The entry, unless it says that the hook raises."""
    if isinstance(entry, dict) and "throw" in entry:
        raise ScriptedError(entry["throw"])
    return entry


def turn_item(turn: Turn) -> JsonDict:
    return {
        "message": plain_message(turn.message),
        "toolResults": plain_messages(turn.tool_results),
        "context": plain_messages(turn.context.messages),
        "newMessages": plain_messages(turn.new_messages),
    }


def override(entry: Entry) -> AfterOverride:
    """Fields of a result to replace; null means that nothing is given."""
    names = {
        "details": "details",
        "structuredContent": "structured_content",
        "isError": "is_error",
        "terminate": "terminate",
    }
    given: dict[str, Any] = {name: copy.deepcopy(entry[wire]) for wire, name in names.items() if wire in entry}
    if "content" in entry:
        given["content"] = None if entry["content"] is None else content_from_wire(copy.deepcopy(entry["content"]))
    if "usage" in entry:
        given["usage"] = None if entry["usage"] is None else usage(entry["usage"])
    return AfterOverride(**given)


def _as_user(item: Message) -> Message:
    """A message of any role as a user message with its text."""
    data = item.data if type(item) is HostMessage else plain_message(item)
    text = data["text"] if "text" in data else text_of(content_from_wire(data.get("content")))
    return message({"role": "user", "content": text})


class Queue:
    """Messages for a low-level run, and the poll callback that takes them."""

    def __init__(self, hook: str, given: Mapping[str, Any], recorder: Recorder) -> None:
        self._hook = hook
        self._takes_all = given.get("mode", "one-at-a-time") == "all"
        self._waiting = messages(given.get("initial"))
        self._nothing_is_none = given.get("nothing") == "null"
        self._recorder = recorder

    def add(self, item: Message) -> None:
        self._waiting.append(item)

    async def poll(self) -> Sequence[Message] | None:
        """Take all messages or the oldest one, then record what was taken."""
        count = len(self._waiting) if self._takes_all else 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._recorder.note({"hook": self._hook, "messages": plain_messages(taken)}, {"hook": self._hook})
        return None if not taken and self._nothing_is_none else taken
