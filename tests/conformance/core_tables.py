"""Runs the table packs of the recorded core: small tables for single functions, no loop involved.

`run_pack(name, lines)` executes the lines of one pack and says for each whether it passed. The runner computes what
the product answers, brings it into the JSON form of the record, and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import Message, message_from_wire
from antiphon.core.partial_json import NOTHING, PartialReader, read_arguments
from antiphon.core.system_state import (
    collapse,
    declaration_of,
    initial_system_message,
    normalize_context,
    replay,
    same_declaration,
    tool_changes,
)
from antiphon.core.wire import to_wire

Json = Any


def run_pack(name: str, lines: Iterable[dict[str, Json]]) -> Iterator[tuple[str, str | None]]:
    """Id of each line, and nothing if it passed or else the first difference as text."""
    answer = PACKS[name]
    for line in lines:
        try:
            got = answer(line["scenario"])
        except Exception as fault:
            yield line["id"], f"raised {type(fault).__name__}: {fault}"
        else:
            yield line["id"], difference(line["expected"], got)


# -- comparing -------------------------------------------------------------------------------------------------------


def difference(expected: Json, got: Json, path: str = "$") -> str | None:
    """The first place where two JSON values differ. Numbers compare by value, texts as UTF-16 code units."""
    if isinstance(expected, dict) and expected == {"$any": "string"}:
        return None if isinstance(got, str) and got else f"{path}: expected some text, got {got!r}"
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in [*expected, *(k for k in got if k not in expected)]:
            if key not in got or key not in expected:
                return f"{path}.{key}: only {'expected' if key in expected else 'got'}"
            if found := difference(expected[key], got[key], f"{path}.{key}"):
                return found
        return None
    if isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            return f"{path}: expected {len(expected)} items, got {len(got)}: {expected!r} / {got!r}"
        pairs = enumerate(zip(expected, got, strict=True))
        return next((d for i, (e, g) in pairs if (d := difference(e, g, f"{path}[{i}]"))), None)
    return None if _same_scalar(expected, got) else f"{path}: expected {expected!r}, got {got!r}"


def _same_scalar(a: Json, b: Json) -> bool:
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, str) and isinstance(b, str):
        return a.encode("utf-16-le", "surrogatepass") == b.encode("utf-16-le", "surrogatepass")
    if isinstance(a, int | float) and isinstance(b, int | float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return False


def message(given: dict[str, Json]) -> Message:
    """A message as the record writes it; usage 0 stands for zeros everywhere."""
    return message_from_wire({key: item for key, item in given.items() if (key, item) != ("usage", 0)})


def record(value: Message) -> Json:
    """A message as the record writes it."""
    out = {key: item for key, item in to_wire(value).items() if key not in ("timestamp", "durationMs")}
    if "usage" in out and not any(_numbers(out["usage"])):
        out["usage"] = 0
    return out


def _numbers(usage: dict[str, Json]) -> Iterator[float]:
    for item in usage.values():
        yield from _numbers(item) if isinstance(item, dict) else [item]


# -- transcript ------------------------------------------------------------------------------------------------------


def transcript(scenario: dict[str, Json]) -> Json:
    messages = [message(m) for m in scenario.get("messages", ())]
    prompt = scenario.get("systemPrompt", "")
    match scenario["call"]:
        case "currentTools":
            return {"tools": to_wire(replay(messages).tools)}
        case "currentSystemMessage":
            current = replay(messages).as_message()
            return {"message": current and record(current)}
        case "currentSystemPrompt":
            return {"prompt": replay(messages).prompt}
        case "toolChanges":
            added, removed = tool_changes(_tools(scenario["previous"]), _tools(scenario["current"]))
            return {"toolsAdded": to_wire(added), "toolsRemoved": to_wire(removed)}
        case "sameDeclaration":
            left, right = _tools([scenario["left"], scenario["right"]])
            return {"same": same_declaration(left, right)}
        case "initialSystemMessage":
            first = initial_system_message(prompt, _tools(scenario.get("tools", ())))
            return {"message": first and record(first)}
        case "normalizeContext":
            return {
                "messages": [record(m) for m in normalize_context(prompt, _tools(scenario.get("tools", ())), messages)]
            }
        case "collapse":
            return {"messages": [record(m) for m in collapse(messages)]}
        case other:
            raise ValueError(f"unknown call {other}")


def _tools(given: Iterable[dict[str, Json]]) -> tuple[ToolDeclaration, ...]:
    return tuple(declaration_of(msgspec.convert(tool, ToolDeclaration)) for tool in given)


# -- partial JSON ----------------------------------------------------------------------------------------------------


def partial_json(scenario: dict[str, Json]) -> Json:
    pieces = scenario["chunks"] if "chunks" in scenario else [scenario["text"]]
    reader, steps = PartialReader(), []
    for piece in pieces:
        reader.feed(piece)
        steps.append(_seen(reader))
    arguments, error = read_arguments("".join(pieces))
    answer = {
        "partial": _seen(reader),
        "args": reader.arguments,
        "final": {"arguments": arguments} | ({} if error is UNSET else {"argumentsError": error}),
    }
    return answer | ({"steps": steps} if "chunks" in scenario else {})


def _seen(reader: PartialReader) -> Json:
    value = reader.snapshot()
    return {"$none": True} if value is NOTHING else {"value": value}


PACKS: dict[str, Callable[[dict[str, Json]], Json]] = {
    "partial_json": partial_json,
    "transcript": transcript,
}
