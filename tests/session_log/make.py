"""Small sessions to play with: entries of every kind, and the history that a reader of a log sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from antiphon.core.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    message_from_wire,
    message_to_wire,
    user,
)
from antiphon.session_log import SessionLog, SessionStore, Sources

T0 = 1767225600000


def counting_sources() -> Sources:
    """A clock that ticks once a second and dice that count."""
    rolled = iter(range(1, 1_000_000))
    moments = iter(range(T0, T0 + 10**12, 1000))
    return Sources(
        now_ms=lambda: next(moments), random_bytes=lambda count: next(rolled).to_bytes(max(count, 4), "big")[:count]
    )


def says(text: str, **more: Any) -> AssistantMessage:
    """An answer of one text block."""
    wire = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "stop", **more}
    message = message_from_wire(wire)
    assert isinstance(message, AssistantMessage)
    return message


def calls(*names: str) -> AssistantMessage:
    """An answer that asks for tools; the calls have the ids `c0`, `c1` and so on."""
    blocks = [{"type": "toolCall", "id": f"c{n}", "name": name, "arguments": {}} for n, name in enumerate(names)]
    message = message_from_wire({"role": "assistant", "content": blocks, "stopReason": "toolUse"})
    assert isinstance(message, AssistantMessage)
    return message


def result(call_id: str, text: str) -> ToolResultMessage:
    """The result of a call."""
    blocks = [{"type": "text", "text": text}]
    wire = {"role": "toolResult", "toolCallId": call_id, "toolName": "t", "content": blocks, "isError": False}
    message = message_from_wire(wire)
    assert isinstance(message, ToolResultMessage)
    return message


def forty_entries(store: SessionStore) -> SessionLog:
    """A session of 40 entries: prompt, talk, calls, an edit, labels, a name, a compaction; no side branches."""
    log = store.create(session_id="forty")
    log.append_model_change("p", "m")
    log.append_thinking_level_change("high")
    log.append_message(message_from_wire({"role": "system", "content": "be kind", "sections": {"a": "1"}}))
    for turn in range(7):
        asked = log.append_message(user(f"question {turn}"))
        log.append_message(calls("t"))
        log.append_message(result("c0", f"result {turn} \u00e9\u2028\U0001f600"))
        answer = log.append_message(says(f"answer {turn}", provider="p", model="m"))
        if turn == 2:
            log.set_label(asked, "third")
            log.append_context_edit(answer, "edited")
        if turn == 3:
            log.append_compaction("what was before", asked, 1000)
            log.set_name("A session")
            log.append_custom("ext", {"n": 1})
        if turn == 5:
            log.append_custom_message("ext", "a note", display=True)
            log.append_call_started(calls("t").content[0], 0)  # type: ignore[arg-type]
    while log.entry_count < 40:
        log.append_message(says(f"more {log.entry_count}", provider="p", model="m"))
    return log


def history(log: SessionLog) -> Any:
    """Everything that a reader sees of the active branch, as plain data."""
    return {
        "session": log.session_id,
        "cwd": log.cwd,
        "name": log.name,
        "path": log.path_ids(),
        "labels": {entry_id: log.label(entry_id) for entry_id in log.path_ids() if log.label(entry_id)},
        "told": [message_to_wire(message) for message in log.messages()],
        "level": log.settings.thinking_level,
        "model": log.settings.model,
    }


def told_texts(log: SessionLog) -> list[str]:
    """The words of what the model is told, message by message."""
    return [text_of_message(message) for message in log.messages()]


def text_of_message(message: Message) -> str:
    data = message_to_wire(message)
    content = data.get("content", data.get("summary", ""))
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def ids_on_disk(path: Path) -> list[str]:
    """Ids of the entries that a fresh reader finds in a file."""
    with SessionStore(path.parent, cwd="/proj").open(path, access="read") as log:
        return [entry.id for entry in log.entries()]
