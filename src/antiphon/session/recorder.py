"""Store first, then tell: the listener that writes a conversation down.

It is subscribed before every other listener and is critical: if the log cannot be written the run ends, because going
on would mean acting on what nobody will remember. What could not be written is not forgotten: it is written before
anything else as soon as the log can be, so a failed disk leaves no call without its result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from antiphon.core.content import content_from_wire
from antiphon.core.messages import HostMessage, Message
from antiphon.session_log.log import SessionLog

_MADE_FROM_ENTRIES = frozenset({"branchSummary", "compactionSummary"})
"""Roles that exist in memory only: they are made from entries of other kinds."""


@final
class Recorder:
    """Writes messages to a log. `withheld` says which of them must not be stored."""

    __slots__ = ("_log", "_unwritten", "withheld")

    def __init__(self, log: SessionLog) -> None:
        self._log = log
        self._unwritten: list[Message] = []
        self.withheld: Callable[[Message], bool] = _nothing_withheld

    def record(self, message: Message) -> str | None:
        """Store a message; the id of its entry, or nothing for one that is not stored.

        Raises:
            SessionError: the log cannot be written; the message is kept for the next time.
        """
        if self.withheld(message):
            return None
        self._unwritten.append(message)
        return self.catch_up()

    def catch_up(self) -> str | None:
        """Write what waits; the id of the last entry.

        Raises:
            SessionError: the log still cannot be written.
        """
        entry_id: str | None = None
        while self._unwritten:
            entry_id = self._write(self._unwritten[0])
            del self._unwritten[0]
        return entry_id

    def _write(self, message: Message) -> str | None:
        if type(message) is not HostMessage:
            return self._log.append_message(message)
        if message.role in _MADE_FROM_ENTRIES:
            return None
        if message.role == "custom":
            return self._write_custom(message)
        return self._log.append_message(message)

    def _write_custom(self, message: HostMessage) -> str:
        data = message.data
        content = data.get("content")
        fields = {"details": data["details"]} if "details" in data else {}
        return self._log.append_custom_message(
            str(data.get("customType", "")),
            content if isinstance(content, str) else content_from_wire(content),
            display=bool(data.get("display")),
            **fields,
        )


def _nothing_withheld(_message: Message) -> bool:
    return False
