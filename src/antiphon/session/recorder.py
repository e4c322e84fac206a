"""Store first, then tell: the listener that writes a conversation down.

It is subscribed before every other listener and is critical: if the log cannot be written, the run ends, because going
on would mean acting on what nobody will remember.
"""

from __future__ import annotations

from typing import Any, final

from antiphon.core.events import AgentEvent, MessageEnd
from antiphon.core.messages import HostMessage, Message
from antiphon.session_log.log import SessionLog


@final
class Recorder:
    """Writes each message at its end."""

    __slots__ = ("_log",)

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    def __call__(self, event: AgentEvent, _signal: Any) -> None:
        if type(event) is MessageEnd:
            self._write(event.message)

    def _write(self, message: Message) -> None:
        if type(message) is HostMessage and message.role in _NOT_STORED:
            return
        self._log.append_message(message)


_NOT_STORED = frozenset({"branchSummary", "compactionSummary"})
"""Roles that exist in memory only: they are made from entries of other kinds."""
