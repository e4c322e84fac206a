"""Recorded session data brought into values, and values back into recorded form.

Ids and paths of a run are its own; the data uses names for them. `Names` learns which name stands for what.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from antiphon.core.messages import message_to_wire
from antiphon.session_log import SessionLog, Sources
from antiphon.session_log.entries import entry_to_wire, header_from_wire
from antiphon.session_log.stamps import iso
from antiphon.session_log.tree import TreeNode

T0 = 1767225600000
DAY_MS = 86_400_000
HEAD_UNITS, TAIL_UNITS = 160, 320
LONG_UNITS = 2000

Json = Any


class Clock:
    """A clock set by hand, and dice that count."""

    def __init__(self, now_ms: int = T0) -> None:
        self.now_ms = now_ms
        self._rolled = 0

    def sources(self) -> Sources:
        return Sources(now_ms=lambda: self.now_ms, random_bytes=self._random)

    def _random(self, count: int) -> bytes:
        self._rolled += 1
        return (0x5A000000 + self._rolled).to_bytes(max(count, 4), "little")[:count]


def text_bytes(expression: Json) -> bytes:
    """The bytes that a text expression of the format describes."""
    if isinstance(expression, str):
        return expression.encode("utf-8", "surrogatepass")
    if isinstance(expression, list):
        return b"".join(map(text_bytes, expression))
    if "base64" in expression:
        return base64.b64decode(expression["base64"])
    if "repeat" in expression:
        return text_bytes(expression["repeat"]) * expression["times"]
    first, sep, end = expression.get("from", 1), expression.get("sep", "\n"), expression.get("end", "\n")
    rows = [
        expression["lines"].replace("{i4}", f"{i:04d}").replace("{i}", str(i))
        for i in range(first, first + expression["count"])
    ]
    return (sep.join(rows) + end).encode()


def expanded(value: Json) -> Json:
    """The value with every `$repeat` written out."""
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$repeat"}:
        unit, count = value["$repeat"]
        return unit * count
    return {key: expanded(item) for key, item in value.items()}


def shortened(value: Json) -> Json:
    """The value with every long text as its digest and length; the ends are for reading and are not compared."""
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        return {"$long": hashlib.sha256(data).hexdigest(), "bytes": len(data)} if len(value) > LONG_UNITS else value
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$long"}:
        return {"$long": value["$long"]["sha256"], "bytes": value["$long"]["bytes"]}
    return {key: shortened(item) for key, item in value.items()}


def without_false_totals(value: Json) -> Json:
    """The value without `totalFromProvider: false`, which says no more than its absence."""
    if isinstance(value, list):
        return [without_false_totals(item) for item in value]
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not (key == "totalFromProvider" and item is False)}
        return {key: without_false_totals(item) for key, item in kept.items()}
    return value


class Names:
    """What stands for what: pairs of a real text and its name. Longer texts are replaced first."""

    def __init__(self) -> None:
        self._pairs: dict[str, str] = {}

    def learn(self, real: str, name: str) -> None:
        self._pairs.setdefault(real, name)

    def known(self, real: str) -> bool:
        return real in self._pairs

    def real(self, name: Json) -> Json:
        """What a name stands for; anything else stands for itself."""
        return next((real for real, given in self._pairs.items() if given == name), name)

    def named(self, value: Json) -> Json:
        """The value with everything known called by its name."""
        if isinstance(value, str):
            for real in sorted(self._pairs, key=len, reverse=True):
                if real in value:
                    value = value.replace(real, self._pairs[real])
            return value
        if isinstance(value, list):
            return [self.named(item) for item in value]
        if isinstance(value, dict):
            return {self.named(key): self.named(item) for key, item in value.items()}
        return value


def header_data(log: SessionLog) -> Json:
    """The header as plain data."""
    out: Json = {"type": "session"}
    for name, wire in zip(log.header.__struct_fields__, log.header.__struct_encode_fields__, strict=True):
        item = getattr(log.header, name)
        if type(item).__name__ != "UnsetType":
            out.update(item if wire.startswith("$") else {wire: item})
    assert header_from_wire(out) is not None
    return out


def context_data(log: SessionLog) -> Json:
    """Messages, level and model of the projection."""
    model = log.settings.model
    return {
        "messages": [message_to_wire(message) for message in log.messages()],
        "thinkingLevel": log.settings.thinking_level,
        "model": None if model is None else {"provider": model.provider, "modelId": model.model_id},
    }


def tree_data(roots: Iterable[TreeNode], *, kinds: bool) -> Json:
    """The tree view as nested data."""
    out: Json = []
    stack: list[tuple[Json, TreeNode]] = [(out, root) for root in reversed(list(roots))]
    while stack:
        siblings, node = stack.pop()
        item: Json = {"id": node.id}
        if kinds:
            item["type"] = node.kind
        if node.label is not None:
            item.update(label=node.label, labelTime=node.label_time)
        if node.children:
            item["children"] = []
            stack.extend((item["children"], child) for child in reversed(node.children))
        siblings.append(item)
    return out


def entries_data(log: SessionLog) -> Json:
    return [entry_to_wire(entry) for entry in log.entries()]


def file_lines(path: Path) -> list[Json]:
    """The lines of a file, parsed; one that cannot be is `$raw`."""
    out: list[Json] = []
    for line in path.read_bytes().decode("utf-8", "replace").split("\n"):
        if not line.strip():
            continue
        try:
            out.append(json.loads(line))
        except ValueError:
            out.append({"$raw": line})
    return out


def recipe_lines(recipe: Json) -> Iterable[bytes]:
    """The large file that a recipe describes."""
    yield json.dumps({"type": "session", "version": 3, "id": "sess-big", "timestamp": iso(T0), "cwd": "/proj"}).encode()
    every, back = recipe.get("branchEvery"), recipe.get("branchBack", 0)
    compact, keep = recipe.get("compactEvery"), recipe.get("keep", 0)
    for i in range(1, recipe["count"] + 1):
        parent = i - 1
        if every and i > 1 and (i - 1) % every == 0:
            parent = max(0, i - 1 - back)
        stamp = T0 + i * 1000
        entry: Json = {"id": f"{i:08x}", "parentId": f"{parent:08x}" if parent else None, "timestamp": iso(stamp)}
        if compact and i % compact == 0:
            entry.update(type="compaction", summary=f"summary {i}", firstKeptEntryId=f"{i - keep:08x}")
            entry.update(tokensBefore=10 * i)
        elif i % 2:
            entry.update(type="message", message={"role": "user", "content": f"question {i}", "timestamp": stamp})
        else:
            entry.update(type="message", message=_answer(i, stamp))
        yield json.dumps(entry).encode()


def _answer(i: int, stamp: int) -> Json:
    cost = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0, "cost": cost}
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": f"answer {i}"}],
        "api": "faux",
        "provider": "faux",
        "model": "faux-1",
        "usage": usage,
        "stopReason": "stop",
        "timestamp": stamp,
    }


def context_digest(log: SessionLog) -> str:
    """SHA-256 of the projected messages, each as `role:text`."""
    return hashlib.sha256("\n".join(map(_role_and_text, log.messages())).encode()).hexdigest()


def _role_and_text(message: Any) -> str:
    data = message_to_wire(message)
    if "summary" in data:
        text = data["summary"]
    elif isinstance(data["content"], str):
        text = data["content"]
    else:
        text = "\n".join(block["text"] for block in data["content"] if block["type"] == "text")
    return f"{data['role']}:{text}"
