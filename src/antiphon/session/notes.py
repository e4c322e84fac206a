"""Messages of extensions, and output of the user's commands: stored where they do not split anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, final

from msgspec import UNSET, UnsetType

from antiphon.core.content import Content
from antiphon.core.events import MessageEnd, MessageStart
from antiphon.core.messages import (
    HostMessage,
    host_message,
)
from antiphon.core.wire import to_wire
from antiphon.session import phases
from antiphon.session.conversation import Conversation
from antiphon.session.narrator import Narrator
from antiphon.session.refusals import (
    SessionDisposed,
)
from antiphon.session.settlement import Settlement

DeliverAs: TypeAlias = Literal["steer", "followUp", "nextTurn"]


@final
class Notes:
    """Takes notes in. `prompt` begins a run with a message; `next_turn` keeps what goes with the next prompt."""

    def __init__(
        self,
        conversation: Conversation,
        narrator: Narrator,
        next_turn: Callable[[HostMessage], None],
        prompt: Callable[[HostMessage], Awaitable[Settlement]],
    ) -> None:
        self._c = conversation
        self._narrator = narrator
        self._next_turn = next_turn
        self._prompt = prompt

    async def take(
        self,
        custom_type: str,
        content: str | Content,
        *,
        display: bool,
        details: Any | UnsetType,
        trigger_turn: bool | None,
        deliver_as: DeliverAs | None,
    ) -> None:
        """A message of an extension: delivered as asked, or stored where it does not split anything."""
        c = self._c
        message = _note(custom_type, content, display=display, details=details, timestamp=c.clock.now_ms())
        if c.is_in(phases.Disposed):
            raise SessionDisposed
        if deliver_as == "nextTurn":
            self._next_turn(message)
        elif c.life is not None and not c.is_in(phases.Settling):
            self._note_while_running(message, trigger_turn=trigger_turn, deliver_as=deliver_as)
        elif trigger_turn:
            await self._prompt(message)
        else:
            c.emit(MessageStart(message=message))
            entry_id = self._narrator.recorder.record(message)
            c.refresh()
            c.emit(MessageEnd(message=message, entry_id=UNSET if entry_id is None else entry_id))
            await c.told()

    def _note_while_running(
        self, message: HostMessage, *, trigger_turn: bool | None, deliver_as: DeliverAs | None
    ) -> None:
        if trigger_turn is False:
            self._narrator.notes.append(message)
        elif deliver_as == "followUp":
            self._c.agent.follow_up(message)
        else:
            self._c.agent.steer(message)

    def keep_shell_result(self, message: HostMessage) -> None:
        """Store the result of the user's command: now, or once the conversation has settled."""
        if self._c.is_in(phases.Idle, phases.Settling):
            self._narrator.recorder.record(message)
            self._c.refresh()
        elif self._c.is_in(phases.Compacting, phases.Summarizing) and self._c.life is None:
            self._narrator.recorder.record(message)
        else:
            self._narrator.shell.append(message)


def _note(
    custom_type: str, content: str | Content, *, display: bool, details: Any | UnsetType, timestamp: int
) -> HostMessage:
    fields: dict[str, Any] = {"customType": custom_type, "content": to_wire(content), "display": display}
    if details is not UNSET:
        fields["details"] = details
    return host_message("custom", **fields, timestamp=timestamp)
