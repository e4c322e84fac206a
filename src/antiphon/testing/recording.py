"""Listening in: a listener that keeps what it hears, and short words for events and messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TypeVar, final

from antiphon.core.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from antiphon.core.messages import Message, ToolResultMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.response import AnswerSoFar

E = TypeVar("E")


@final
class Recording:
    """A listener that keeps every event, in order. Subscribe it: `agent.subscribe(recording)`."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []
        self._waiting: list[tuple[Callable[[AgentEvent], bool], asyncio.Future[AgentEvent]]] = []

    def __call__(self, event: AgentEvent, signal: AbortSignal | None = None) -> None:
        """Keep an event and wake who waited for it."""
        self.events.append(event)
        still: list[tuple[Callable[[AgentEvent], bool], asyncio.Future[AgentEvent]]] = []
        for wanted, found in self._waiting:
            if found.done():
                continue
            if wanted(event):
                found.set_result(event)
            else:
                still.append((wanted, found))
        self._waiting = still

    def __iter__(self) -> Iterator[AgentEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @property
    def types(self) -> list[str]:
        """The types of all events, in order."""
        return [event.type for event in self.events]

    @property
    def log(self) -> list[str]:
        """All events in short words (see `brief`), without the updates of growing answers."""
        return [brief(event) for event in self.events if not isinstance(event, MessageUpdate)]

    def of(self, kind: type[E]) -> list[E]:
        """The events of one type, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    def runs(self) -> list[list[AgentEvent]]:
        """The events cut into runs, each from its `agent_start` on."""
        runs: list[list[AgentEvent]] = []
        for event in self.events:
            if event.type == "agent_start" or not runs:
                runs.append([])
            runs[-1].append(event)
        return runs

    async def heard(self, wanted: str | Callable[[AgentEvent], bool]) -> AgentEvent:
        """Returns the first event that fits, waiting for it if it has not come yet.

        A text is compared with the event's type and with its short words: `"turn_end"`, `"tool_execution_start A"`.
        """
        fits = _says(wanted) if isinstance(wanted, str) else wanted
        for event in self.events:
            if fits(event):
                return event
        found: asyncio.Future[AgentEvent] = asyncio.get_running_loop().create_future()
        self._waiting.append((fits, found))
        return await found

    def clear(self) -> None:
        """Forget what was heard."""
        self.events.clear()


def _says(words: str) -> Callable[[AgentEvent], bool]:
    return lambda event: words in (event.type, brief(event))


def brief(event: AgentEvent) -> str:
    """An event in short words: its type, and who or which call it is about."""
    if isinstance(event, MessageStart | MessageUpdate | MessageEnd):
        return f"{event.type} {who(event.message)}"
    if isinstance(event, ToolExecutionStart | ToolExecutionUpdate | ToolExecutionEnd):
        return f"{event.type} {event.tool_call_id}"
    return event.type


def who(message: Message | AnswerSoFar) -> str:
    """Who speaks: the role, or `result ID` for the result of a call."""
    return f"result {message.tool_call_id}" if isinstance(message, ToolResultMessage) else message.role
