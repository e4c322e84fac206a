"""What the parts of the course agent are to each other: a request, a model, an executor, a set of tools.

Chapter 04 makes a model, chapter 06 an executor, chapter 07 puts both behind a loop. Nobody needs to know more about
the others than what stands here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, final

from antiphon.core.content import ToolCall
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.ports import AbortSignal
from antiphon.core.response_events import ResponseEvent


class NeverAborted:
    """The signal of a run that nobody can abort."""

    aborted = False
    reason: str | None = None

    async def wait(self) -> None:
        """Nothing will come: whoever waits here has to be cancelled."""
        from asyncio import Event

        await Event().wait()

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


NEVER_ABORTED: AbortSignal = NeverAborted()


@final
@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model. It has three parts: system prompt, messages, tool definitions.

    A model has no memory: what is not in the request does not exist for it. `signal` says that the answer is no longer
    wanted; it is not part of the question.
    """

    system_prompt: str
    messages: tuple[Message, ...]
    tools: tuple[ToolDeclaration, ...]
    signal: AbortSignal = field(default=NEVER_ABORTED, compare=False, repr=False)


class ModelAnswer(Protocol):
    """One answer while it arrives: `async for` over its events, then one final message from `result()`."""

    def __aiter__(self) -> AsyncIterator[ResponseEvent]: ...

    async def result(self) -> AssistantMessage:
        """The final message. The events only tell how it came about."""
        ...


class ChatModel(Protocol):
    """Something that answers requests."""

    def stream(self, request: ModelRequest, /) -> ModelAnswer: ...


class Tools(Protocol):
    """What a loop has to know of tools: how they are described to a model."""

    def definitions(self) -> tuple[ToolDeclaration, ...]: ...


ReportProgress: TypeAlias = Callable[[Any], None]
"""Tell what a tool has got so far. Never waits; what is told after the tool has returned is not heard."""


class Execute(Protocol):
    """Turns one call into the one result with the same id and tool name."""

    def __call__(
        self, call: ToolCall, /, *, signal: AbortSignal, report_progress: ReportProgress
    ) -> Awaitable[ToolResultMessage]: ...
