"""A whole session on a stage: scripted model and tools, a clock that stands, a log, and everything that was told.

Times of messages and entries are all different, because the clock ticks a millisecond with every look.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, final

from msgspec import structs
from msgspec.structs import replace

from antiphon.core.messages import Message
from antiphon.core.model import Model
from antiphon.core.ports import ModelRequest, Tool
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.session_events import RunEnded, SessionEvent
from antiphon.core.usage import Usage
from antiphon.session.agent_session import AgentSession
from antiphon.session.create import Services, Wanted, create_agent_session
from antiphon.session.hooks import NO_HOOKS, SessionHooks
from antiphon.session.ports import GivenModels, Resources
from antiphon.session.retry import RetrySettings
from antiphon.session.settings import SessionSettings
from antiphon.session_log import SessionLog, SessionStore, Sources
from antiphon.session_log.compaction import CompactionSettings
from antiphon.testing import Answer, CallScript, Gate, ScriptedModel, ScriptedTool, VirtualClock, says
from antiphon.testing.model import ScriptItem
from antiphon.testing.script import names_called
from antiphon.tools.port import Workspace

MODEL = Model(id="one", provider="scripted", api="scripted", reasoning=True, context_window=100_000, max_tokens=4_096)
OTHER = structs.replace(MODEL, id="two", reasoning=False, context_window=1_000_000)

SETTINGS = SessionSettings(
    retry=RetrySettings(max_retries=2, base_delay_ms=1_000),
    compaction=CompactionSettings(enabled=True, reserve_tokens=1_000, keep_recent_tokens=50),
)
FULL = Usage(input=99_500, output=5, total_tokens=99_505)
LONG = "word " * 60


@final
class TickingClock:
    """A clock that stands; every look at the time of day is a millisecond later."""

    def __init__(self) -> None:
        self.virtual = VirtualClock()
        self._looks = 0

    def now_ms(self) -> int:
        self._looks += 1
        return self.virtual.now_ms() + self._looks

    def monotonic(self) -> float:
        return self.virtual.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self.virtual.sleep(seconds)

    async def advance(self, seconds: float) -> None:
        await self.virtual.advance(seconds)


@final
class Stamped:
    """The scripted model, with the time at which each answer ended."""

    def __init__(self, model: ScriptedModel, clock: TickingClock) -> None:
        self.model = model
        self._clock = clock

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ResponseEvent]:
        return self._stamped(self.model(request))

    async def _stamped(self, events: AsyncIterator[ResponseEvent]) -> AsyncIterator[ResponseEvent]:
        async for event in events:
            if isinstance(event, Done):
                yield structs.replace(event, message=structs.replace(event.message, timestamp=self._clock.now_ms()))
            elif isinstance(event, Failed):
                yield structs.replace(event, error=structs.replace(event.error, timestamp=self._clock.now_ms()))
            else:
                yield event


@final
class Stage:
    """One session and everything around it. `folder`: sessions are files there; without, they are remembered only.

    `made`: the stages of the test that runs.
    """

    made: ClassVar[list[Stage]] = []

    def __init__(
        self,
        script: Sequence[ScriptItem] = (),
        *,
        folder: Path | None = None,
        settings: SessionSettings = SETTINGS,
        resources: Resources | None = None,
        hooks: SessionHooks = NO_HOOKS,
        results: Mapping[str, Any] | None = None,
        tools: Sequence[Tool] = (),
        models: Sequence[Model] = (MODEL, OTHER),
        history: Sequence[Message] = (),
        log: SessionLog | None = None,
        workspace: Workspace | None = None,
        access: Any = None,
        **wanted: Any,
    ) -> None:
        self.clock = TickingClock()
        self.model = ScriptedModel(script)
        self.calls = CallScript(results)
        self.store = SessionStore(
            folder or Path("/nowhere"), cwd=str(folder or "/nowhere"), sources=Sources(now_ms=self.clock.now_ms)
        )
        if log is None:
            log = self.store.in_memory() if folder is None else self.store.create()
        for message in history:
            log.append_message(message)
        self.services = Services(
            cwd=str(folder or "/nowhere"),
            models=access or GivenModels(Stamped(self.model, self.clock), tuple(models)),
            settings=settings,
            resources=resources or Resources(),
            workspace=workspace,
        )
        given = {tool.name for tool in tools}
        made = [ScriptedTool(name, self.calls) for name in names_called(script) if name not in given]
        wishes = {"model": MODEL if MODEL in models else None, "thinking_level": "off", **wanted}
        self.wanted = replace(Wanted(hooks=hooks, clock=self.clock, custom_tools=(*tools, *made)), **wishes)
        self.created = create_agent_session(self.services, log, self.wanted)
        self.session: AgentSession = self.created.session
        self.events: list[SessionEvent] = []
        self.session.subscribe(self.events.append)
        Stage.made.append(self)

    @property
    def log(self) -> SessionLog:
        return self.session.log

    @property
    def told(self) -> list[str]:
        """The events so far, without the growth of answers, each as one word and what matters of it."""
        return [brief(event) for event in self.events if event.type not in ("message_update",)]

    def of(self, kind: type) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if type(event) is kind]

    @property
    def requests(self) -> list[list[str]]:
        """Each request as roles, without prompts."""
        return [[m.role for m in asked if m.role != "system"] for asked in self.model.asked]

    @property
    def kinds(self) -> list[str]:
        """The entries of the log, messages by their role."""
        return [
            f"message {entry.message.role}" if entry.type == "message" else entry.type  # type: ignore[union-attr]
            for entry in self.log.entries()
        ]

    def hold(self, call_id: str) -> Gate:
        """Make a call wait for the returned gate."""
        return self.calls.hold(call_id)

    async def until(self, *kinds: str) -> None:
        """Returns when events of these kinds have been told, in this order, from now on."""
        for kind in kinds:
            heard = asyncio.Event()
            leave = self.session.subscribe(_setter(kind, heard))
            await asyncio.wait_for(heard.wait(), 10)
            leave()


def _setter(kind: str, heard: asyncio.Event) -> Any:
    def listen(event: SessionEvent) -> None:
        if brief(event).startswith(kind):
            heard.set()

    return listen


def brief(event: SessionEvent) -> str:
    """An event as a few words."""
    match event.type:
        case "message_start" | "message_end":
            return f"{event.type} {event.message.role}"  # type: ignore[union-attr]
        case "agent_end":
            return f"agent_end{' retry' if isinstance(event, RunEnded) and event.will_retry else ''}"
        case "agent_settled":
            return f"agent_settled{' aborted' if event.aborted else ''}"  # type: ignore[union-attr]
        case "queue_update":
            return f"queue_update {[*event.steering, *event.follow_up]}"  # type: ignore[union-attr]
        case "auto_retry_end":
            return f"auto_retry_end {'ok' if event.success else 'failed'}"  # type: ignore[union-attr]
        case _:
            return event.type


def full(answer: Answer) -> Answer:
    """The answer, with a usage that leaves no room."""
    return answer.costing(FULL)


def texts(messages: Sequence[Message]) -> list[str]:
    """Who said what, prompts left out."""
    from antiphon.core.content import text_of

    return [f"{m.role}: {text_of(getattr(m, 'content', ''))}" for m in messages if m.role != "system"]


__all__ = ["FULL", "LONG", "MODEL", "OTHER", "SETTINGS", "Stage", "brief", "full", "says", "texts"]
