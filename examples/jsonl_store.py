"""A conversation as a file: a header line, then one line per message. What the loop never touches, somebody has to.

A crash may leave a torn last line: it is not read, and cut off before the next append. It may also leave calls without
results: they get one when the messages are loaded, since a provider refuses a conversation with unpaired calls.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from antiphon.core.calls import result_message, skipped
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage, calls_of, message_from_wire
from antiphon.core.wire import encode


class JsonlSessionStore:
    """Sessions in a folder, one file each. `fsync`: an append returns only when the disk has it."""

    def __init__(self, folder: Path, *, fsync: bool = False) -> None:
        self.folder = folder
        self.fsync = fsync

    def load(self, session_id: str) -> list[Message]:
        """All messages, every call with its result. A session that nobody has written to is empty."""
        try:
            lines = self._file(session_id).read_bytes().split(b"\n")[1:-1]  # behind the last newline: torn, or nothing
        except FileNotFoundError:
            return []
        return paired([message_from_wire(json.loads(line)) for line in lines])

    def append(self, session_id: str, messages: Iterable[Message]) -> None:
        """Add messages at the end."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self._file(session_id), "a+b") as file:
            self._cut_torn_line(file)
            if file.tell() == 0:
                file.write(encode({"type": "session", "version": 1, "id": session_id}) + b"\n")
            for message in messages:
                file.write(encode(message) + b"\n")
            file.flush()
            if self.fsync:
                os.fsync(file.fileno())

    def _file(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.jsonl"

    def _cut_torn_line(self, file: Any) -> None:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.seek(0, os.SEEK_END)


def paired(messages: list[Message]) -> list[Message]:
    """The messages, with an error result for every call that has none."""
    out: list[Message] = []
    waiting: list[Any] = []
    for message in [*messages, None]:
        if isinstance(message, ToolResultMessage):
            answered = next((call for call in waiting if call.id == message.tool_call_id), None)
            waiting = [call for call in waiting if call is not answered]
        else:
            out += [result_message(call, skipped(call, "fault", typed=True), 0) for call in waiting]
            waiting = list(calls_of(message)) if isinstance(message, AssistantMessage) else []
        if message is not None:
            out.append(message)
    return out
