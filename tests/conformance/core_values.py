"""Plain scenario data to values of the core, and values back to plain data."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from antiphon.core.calls import ToolResult
from antiphon.core.content import content_from_wire
from antiphon.core.messages import Message, StopReason, message_from_wire
from antiphon.core.model import Model
from antiphon.core.usage import Usage
from antiphon.core.wire import to_wire

API = "scripted"
DEFAULT_PROVIDER = "p1"
DEFAULT_MODEL = "m1"
_NOT_COMPARED = ("timestamp", "durationMs")

JsonDict = dict[str, Any]


class ScriptedError(Exception):
    """What a scenario tells a tool, hook, listener or model to raise. Its text is scenario data."""


def model_of(given: Mapping[str, Any] | None) -> Model:
    """The model that `{id, provider?}` names; the default one for nothing."""
    data = given or {"id": DEFAULT_MODEL}
    return Model(id=data["id"], provider=data.get("provider", DEFAULT_PROVIDER), api=API)


def message(given: JsonDict) -> Message:
    """The message that scenario data describes; a usage of 0 is a usage of zeros."""
    data = copy.deepcopy(given)
    if "usage" in data:
        data["usage"] = usage_data(data["usage"])
    if data.get("role") != "assistant" or data.get("stopReason") in get_args(StopReason):
        return message_from_wire(data)
    odd = message_from_wire({**data, "stopReason": "stop"})  # a model may say what no type allows
    return msgspec.structs.replace(odd, stop_reason=data.get("stopReason"))


def messages(given: Iterable[JsonDict] | None) -> list[Message]:
    return [message(item) for item in given or ()]


def usage_data(given: Any) -> Any:
    """Usage as a JSON object: the number 0 stands for zeros everywhere."""
    return to_wire(Usage()) if given == 0 else copy.deepcopy(given)


def usage(given: Any) -> Usage:
    carrier = message({"role": "assistant", "content": [], "stopReason": "stop", "usage": given})
    return carrier.usage  # type: ignore[union-attr]


def tool_result(given: JsonDict) -> ToolResult:
    """What a tool of the scenario gives back; fields that we do not know travel in `extra`."""
    data = copy.deepcopy(given)
    known: JsonDict = {"content": content_from_wire(data.pop("content", None))}
    names = {
        "details": "details",
        "structuredContent": "structured_content",
        "isError": "is_error",
        "terminate": "terminate",
    }
    for wire_name, name in names.items():
        if wire_name in data:
            known[name] = data.pop(wire_name)
    if "usage" in data:
        known["usage"] = usage(data.pop("usage"))
    if data:
        known["extra"] = data
    return ToolResult(**known)


def cut(items: Sequence[Any], entry: Mapping[str, Any]) -> list[Any]:
    """Messages cut by `slice`, with those of `prepend` before and of `append` behind."""
    start, end = entry.get("slice") or (None, None)
    return [*messages(entry.get("prepend")), *items[start:end], *messages(entry.get("append"))]


def plain(value: Any) -> Any:
    """The JSON form of a value, as a copy that later changes of the value do not reach."""
    return copy.deepcopy(to_wire(value))


def plain_message(value: Any) -> JsonDict:
    """A message, finished or still growing, without the fields that are not compared."""
    frozen = value.freeze() if hasattr(value, "freeze") else value
    data = plain(frozen)
    return {key: item for key, item in data.items() if key not in _NOT_COMPARED}


def plain_messages(values: Iterable[Any]) -> list[JsonDict]:
    return [plain_message(value) for value in values]
