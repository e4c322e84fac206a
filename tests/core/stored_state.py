"""States as bytes and back: what a store would keep of a run. Tools and policy are not stored; they are given again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from antiphon.core import hooks, limits, policy
from antiphon.core import states as c
from antiphon.core.calls import Outcome
from antiphon.core.content import ToolCall, block_from_wire
from antiphon.core.growing import Grown, grown
from antiphon.core.messages import message_from_wire
from antiphon.core.model import Model
from antiphon.core.response import AnswerSoFar, answer_begun
from antiphon.core.toolbox import Toolbox
from antiphon.core.transcript import Transcript
from antiphon.core.wire import Spoken, to_wire

KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *c.State.__args__,
        c.Run,
        c.Batch,
        c.Settled,
        hooks.Turn,
        hooks.Context,
        limits.Tally,
        limits.LimitReached,
        policy.After,
    )
}


def stored(state: c.State) -> bytes:
    """A state as JSON text."""
    return json.dumps(_packed(state)).encode()


def restored(data: bytes, rules: c.Rules, tools: Mapping[str, Any]) -> c.State:
    """The state that was stored, on storage of its own."""
    state: c.State = _unpacked(json.loads(data), rules, tools)
    return state


def _packed(value: Any) -> Any:
    kind = type(value)
    if kind is c.Rules:
        return {"$": "Rules"}
    if kind is Toolbox:
        return {"$": "Toolbox", "names": None if value.tools is None else [tool.name for tool in value.tools]}
    if kind is AnswerSoFar:
        return {"$": "Answer", "message": to_wire(value.freeze())}
    if isinstance(value, Transcript | Grown):
        return {"$": kind.__name__, "items": [_packed(item) for item in value]}
    if isinstance(value, Spoken):
        return {"$": "Message", "message": to_wire(value)}
    if isinstance(value, ToolCall | Outcome | Model):
        return {"$": kind.__name__, "wire": to_wire(value)}
    if kind in KINDS.values():
        names = value.__struct_fields__ if isinstance(value, Struct) else value.__slots__
        return {"$": kind.__name__, "fields": {name: _packed(getattr(value, name)) for name in names}}
    if hasattr(value, "execute"):
        return {"$": "Tool", "name": value.name}
    if isinstance(value, tuple | frozenset):
        return {"$": kind.__name__, "items": sorted(value) if kind is frozenset else [_packed(v) for v in value]}
    if kind is bytes:
        return {"$": "bytes", "text": value.decode()}
    if kind is limits.Usage:
        return {"$": "Usage", "wire": to_wire(value)}
    assert value is None or isinstance(value, str | int | float | bool), value
    return value


def _unpacked(value: Any, rules: c.Rules, tools: Mapping[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    items = [_unpacked(item, rules, tools) for item in value.get("items", ())]
    match value["$"]:
        case "Rules":
            return rules
        case "Toolbox":
            return Toolbox(None if value["names"] is None else [tools[name] for name in value["names"]])
        case "Tool":
            return tools[value["name"]]
        case "Answer":
            return answer_begun(message_from_wire(value["message"]))  # type: ignore[arg-type]
        case "Message":
            return message_from_wire(value["message"])
        case "ToolCall":
            return block_from_wire(value["wire"])
        case "Outcome":
            return msgspec.convert(value["wire"], Outcome)
        case "Model":
            return msgspec.convert(value["wire"], Model)
        case "Usage":
            return msgspec.convert(value["wire"], limits.Usage)
        case "Transcript":
            return Transcript(items)
        case "Grown":
            sequence: Grown[Any] = grown()
            for item in items:
                sequence = sequence.append(item)
            return sequence
        case "tuple":
            return tuple(items)
        case "frozenset":
            return frozenset(items)
        case "bytes":
            return value["text"].encode()
        case kind:
            fields = {name: _unpacked(item, rules, tools) for name, item in value["fields"].items()}
            return KINDS[kind](**fields)


__all__ = ["UNSET", "restored", "stored"]
