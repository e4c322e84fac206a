"""The world of a recorded conversation: a model and tools that give what they gave, a clock that stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, final

from antiphon.core.calls import SkipReason, ToolResult
from antiphon.core.declarations import ToolDeclaration
from antiphon.core.messages import AssistantMessage, Message, ToolResultMessage
from antiphon.core.model import THINKING_LEVELS, Model, ThinkingLevel
from antiphon.core.ports import AbortSignal, OnUpdate
from antiphon.core.response_events import Done, Failed, ResponseEvent
from antiphon.core.wire import JsonObject

NOTHING_MORE = "nothing more was recorded"
REFUSALS: frozenset[SkipReason] = frozenset({"length", "error", "unexpected-stop", "duplicate-id"})
"""Why a call was refused for what the answer was; aborts and limits are no part of a record."""


def model_of(answer: AssistantMessage | None) -> Model:
    """Who gave this answer, as far as it says."""
    if answer is None:
        return Model(id="recorded", provider="recorded", api="recorded")
    return Model(id=answer.model, provider=answer.provider, api=answer.api)


def level_of(answer: AssistantMessage | None) -> ThinkingLevel:
    """How hard it thought."""
    named = None if answer is None else answer.thinking_level
    found: list[ThinkingLevel] = [level for level in THINKING_LEVELS if level == named]
    return found[0] if found else "off"


def behind(record: Sequence[Message], at: int) -> Iterator[Message]:
    """The messages from this place on. Nothing is copied: a record may be long, and most look at its next part only."""
    return (record[place] for place in range(at, len(record)))


def results_behind(record: Sequence[Message], at: int) -> list[ToolResultMessage]:
    """The results of the answer that ends at this place."""
    found: list[ToolResultMessage] = []
    for message in behind(record, at):
        if not isinstance(message, ToolResultMessage):
            break
        found.append(message)
    return found


def was_refused(result: ToolResultMessage) -> bool:
    """Did the loop itself refuse this call for what the answer was? (Aborts and limits are no part of a record.)"""
    details: Any = result.details
    return isinstance(details, dict) and details.get("skipped") is True and details.get("reason") in REFUSALS


async def answered(message: AssistantMessage | None) -> AsyncIterator[ResponseEvent]:
    """The answer as a model says it; without one, a failure."""
    if message is None:
        failed = AssistantMessage(content=(), stop_reason="error", error_message=NOTHING_MORE)
        yield Failed(reason="error", error=failed)
    elif message.stop_reason in ("error", "aborted"):
        yield Failed(reason=message.stop_reason, error=message)
    else:
        yield Done(reason=message.stop_reason, message=message)


@final
class RecordedTool:
    """A declared tool that gives what it gave."""

    def __init__(self, declaration: ToolDeclaration, result_of: Callable[[str], ToolResultMessage | None]) -> None:
        self.name = declaration.name
        self.description = declaration.description
        self.parameters = declaration.parameters
        self._result_of = result_of

    async def execute(
        self, call_id: str, _arguments: JsonObject, _signal: AbortSignal, _update: OnUpdate
    ) -> ToolResult:
        found = self._result_of(call_id)
        if found is None:
            return ToolResult(content=(), is_error=True)
        return ToolResult(
            content=found.content,
            details=found.details,
            usage=found.usage,
            is_error=found.is_error,
        )


@final
class StandingClock:
    """Time as it stands in the record; sleeping takes none."""

    def __init__(self, moment_ms: Callable[[], int]) -> None:
        self._moment_ms = moment_ms

    def now_ms(self) -> int:
        return self._moment_ms()

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        del seconds
